"""What the page of a dynamic model shows of it on one record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_count
from ..._support._errors import InputError, silenced
from ...model._decoupling import Decoupling
from ..signals._records import Signals
from ..signals._residual_tests import noise_floor, percent_fit, residual_tests
from ._free_parameters import StepJacobians
from ._linear import LinearStateSpace
from ._step_arrays import StepArrays

if TYPE_CHECKING:
    from ...report import Dynamics

_INITIAL_OUTPUTS = 50  # that a free run begins with, as is common for benchmarks
_OPERATING_POINTS = 300  # at which the model is linearised
_MOST_LAGS = 25  # of the correlations of residuals
Simulation = Callable[[ndarray, ndarray], ndarray]  # (u, y_init) -> y


@dataclass(frozen=True, eq=False)
class PageContent:
    """What a model says of itself.

    Attributes
    ----------
    step, points
        One step (x, u) -> (x+, y), and points (x, u) along the training records.
    simulate, simulate_linear
        The model, and the linear model that it is compared with.
    facts
        (label, value) at the top of the table of numbers.
    linear_name
        What the linear model is called in a sentence.
    starts
        (name, training error in percent, validation error in percent, steps, whether it was chosen).
    init_sentence
        How a run begins, with the place {first} for the outputs that do not count.
    how
        How the model was found.
    """

    step: Decoupling
    points: Float[ndarray, "k m"]
    simulate: Simulation
    simulate_linear: Simulation
    facts: list[tuple[str, str]]
    linear_name: str
    starts: list[tuple[str, float, float, int, bool]]
    init_sentence: str
    how: str


def default_n_init(n_samples: int, n_states: int) -> int:
    """How many outputs a free run begins with unless it is said: 50, or a quarter of a shorter record."""
    return min(_INITIAL_OUTPUTS, max(n_states, n_samples // 4))


def dynamics(content: PageContent, signals: Signals, n_init: int | None = None) -> Dynamics:
    """The free run of a model over a record, its errors, residuals and poles, beside those of a linear model."""
    from ...report import Dynamics

    step, inputs, outputs = content.step, signals.u[0], signals.y[0]
    n, p = step.n_outputs - outputs.shape[1], outputs.shape[1]
    k = default_n_init(len(outputs), n) if n_init is None else as_count("n_init", n_init)
    if k + 2 > len(outputs):
        raise InputError(f"`n_init` must leave at least two outputs to score. Got {k} of {len(outputs)}.")
    with silenced():  # the verdict says if a run escapes
        simulated, linear = (
            run(inputs, outputs[:k]).reshape(len(inputs), -1) for run in (content.simulate, content.simulate_linear)
        )
    e = np.nan_to_num(outputs - simulated)
    tests = residual_tests(inputs, e, min(_MOST_LAGS, len(e) // 3))
    rmse, rmse_linear = (np.sqrt(np.mean(np.nan_to_num(outputs - y)[k:] ** 2, axis=0)) for y in (simulated, linear))
    spread, floor = outputs[k:].std(axis=0), noise_floor(inputs, outputs)
    names = step.outputs[n:] if step.outputs is not None else tuple(f"y{i + 1}" if p > 1 else "y" for i in range(p))
    verdict = f"The error of the free run is {100.0 * float(np.max(rmse / spread)):.2g} % of the signal"
    if floor is not None:
        verdict += f", {float(np.max(rmse / np.maximum(floor, 1e-300))):.2g} times the noise floor"
    verdict += f"; {content.linear_name} leaves {100.0 * float(np.max(rmse_linear / spread)):.2g} %."
    if not np.isfinite(simulated).all():
        verdict = "The free run escapes on this record: errors below count only until then. " + verdict
    fit = percent_fit(outputs[k:], np.where(np.isfinite(simulated[k:]), simulated[k:], 0.0))
    facts = [
        *content.facts,
        *((f"error of {name} (RMSE)", f"{value:.4g}") for name, value in zip(names, rmse, strict=True)),
        *((f"error of {name}, linear model", f"{value:.4g}") for name, value in zip(names, rmse_linear, strict=True)),
        *((f"fit of {name}", f"{value:.4g} %") for name, value in zip(names, fit, strict=True)),
    ]
    if floor is not None:
        facts += [(f"noise floor of {name}", f"{value:.3g}") for name, value in zip(names, floor, strict=True)]
    first = "first output, which does" if k == 1 else f"first {k} outputs, which do"
    # Poles of the linear part, and of the model linearised at many points of its run.
    some = content.points[:: max(1, len(content.points) // _OPERATING_POINTS)]
    J = np.moveaxis(StepJacobians(StepArrays.of(step), some).state_jacobian(n)[:n], 2, 0)
    return Dynamics(
        names=tuple(names),
        y=outputs,
        y_hat=simulated,
        y_linear=linear,
        step=step,
        points=content.points,
        poles=LinearStateSpace.of(step, n).poles,
        moving=np.linalg.eigvals(J).astype(complex),
        auto=tests.auto,
        cross=tests.cross,
        band=tests.band,
        facts=facts,
        starts=content.starts,
        verdict=verdict,
        sentences=[content.init_sentence.format(first=first), tests.in_words()],
        how=content.how,
    )
