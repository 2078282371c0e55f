r"""Whether a model runs away, and forms of it that do so less: functions with tails.

A model that fits its record may still diverge on the next one. Polynomials are the usual reason: beyond the data they
grow faster than the linear dynamics can hold. Tails end that. With constant tails g is bounded, and then

    x(t+1) = A x(t) + B u(t) + W_x g(V x(t) + V_u u(t)),      rho(A) < 1,

is a stable linear system with the bounded inputs u and g. Every bounded input has a bounded response, whatever the
functions are (Khalil, Nonlinear Systems, 3rd ed., 2002, chapter 5). Jiang and Wang (Automatica 37, 2001) have the
theory in discrete time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis, Spline
from ...model._functions import Functions
from ..free_run._recursion import Recursion
from ..free_run._simulation import simulate
from ..free_run._step import StepArrays
from ..signals._records import Range, RecordBatch, Signals, SignalUnits
from ._initial_models import in_other_bases
from ._structure import Tails, ended

LARGER = 1.5  # how many times the training input a model is tried on
_ROOM = 0.1  # of the range that polynomials have visited: they go on a little before they end in straight lines
_LONG, _MOST_COPIES = 10_000, 8  # samples of random input, made of so many copies of a record at most


def trial_inputs(
    signals: Signals, rng: np.random.Generator, *, long: bool = True
) -> Iterator[tuple[str, Float[ndarray, "T inputs"]]]:
    """Inputs that a model must survive: those of training, larger ones, and long random ones of the same spectrum."""
    u = max(signals.u, key=len)
    mean = u.mean(axis=0)
    for record in signals.u:
        yield "the training input", record
        yield f"{LARGER:g} times the training input", mean + LARGER * (record - mean)
    if not long:
        return
    spectrum, copies = np.fft.rfft(u - mean, axis=0), []
    for _ in range(min(_MOST_COPIES, -(-_LONG // len(u)))):
        # All channels get the same phases, so that what they have in common stays.
        phases = np.exp(2j * np.pi * rng.uniform(size=(len(spectrum), 1)))
        copies.append(np.fft.irfft(spectrum * phases, len(u), axis=0))
    yield "long random input of the same spectrum", mean + np.concatenate(copies)


def escape(
    step: StepArrays,
    n: int,
    x0: Float[ndarray, " n"],
    units: SignalUnits,
    signals: Signals,
    rng: np.random.Generator,
    *,
    long: bool = True,
) -> str | None:
    """The first of the `trial_inputs` on which a model in standard units leaves ten times the range of the records."""
    limits: Range = Range.of("y", signals.y).believable
    low, high = units.outputs(limits.low), units.outputs(limits.high)
    recursion = Recursion(step, n, {})
    for name, u in trial_inputs(signals, rng, long=long):
        fine = units.inputs(u)
        rows = (fine[:, 0] if fine.shape[1] == 1 else fine).tolist()
        states = recursion.states(step, rows, x0.tolist())
        if len(states) < len(fine) or not np.isfinite(states).all():
            return name
        y = step.values(np.concatenate([states, fine], axis=1))[:, n:]
        if not np.all((y >= low) & (y <= high)):
            return name
    return None


def larger_response(
    step: StepArrays, x0: Float[ndarray, " n"], units: SignalUnits, signals: Signals
) -> Float[ndarray, "T outputs"] | None:
    """The outputs for `LARGER` times the first training input, in standard units; None if the run leaves all bounds."""
    u, n = LARGER * units.inputs(signals.u[0]), len(x0)
    run = simulate(step, RecordBatch((u,), (np.zeros((len(u), step.n_outputs - n)),)), x0[None])
    return None if run is None else run.y


def with_tails(step: StepArrays, points: Float[ndarray, "T m"], tails: Tails) -> StepArrays:
    """The same model along these points, with polynomials and splines that end there in straight lines.

    Functions of a layer share what they do outside their domains, and curves such as tanh keep their formula
    everywhere. Beside them a polynomial is written as a spline of one piece.
    """
    layers = tuple(
        LayerBasis(tuple(ended(basis, tails) if layer.free_domain.any() else basis for basis in layer.bases))
        for layer in step.layers
    )
    g = []
    for functions, u in zip(in_other_bases(step, layers, points).g, step.arguments(points), strict=True):
        if functions.layer.free_domain.any():
            g.append(functions)
            continue
        polynomial = np.array([basis.polynomial_degree is not None for basis in functions.layer.bases])
        room = _ROOM * np.ptp(u, axis=0)
        visited = np.stack([u.min(axis=0) - room, u.max(axis=0) + room], axis=1)
        domain = np.where((polynomial & (room > 0.0))[:, None], visited, functions.domain)
        moved = Functions(functions.layer.bases, functions.C, functions.domain).on_domain(domain)
        bases = tuple(
            replace(basis, tails=tails) if isinstance(basis, Spline) else basis for basis in moved.layer.bases
        )
        g.append(Functions.unchecked(LayerBasis(bases), moved.C, moved.domain, tails))
    return replace(step, g=tuple(g))
