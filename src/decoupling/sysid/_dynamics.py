"""What the page of a state-space model shows of it on one record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from .._support._errors import InputError
from .._support._warnings import silenced
from ._judgement import noise_floor, percent_fit, residual_tests
from ._movable import Along
from ._signals import Signals

if TYPE_CHECKING:
    from ..report import Dynamics

_INIT = 50  # outputs from which the initial state is found
_OPERATING_POINTS = 300


def dynamics(model: Any, u: Any = None, y: Any = None) -> Dynamics:
    """A `DecoupledStateSpace` on a record, by default on the first it was fitted to."""
    from ..report import Dynamics

    signals = _record(model, u, y)
    inputs, outputs = signals.u[0], signals.y[0]
    n, fitted = model.n_states, model.fitted
    k = min(_INIT, max(n, len(outputs) // 4))
    with silenced():  # an escape is told in the verdict
        simulated, linear = (
            _two_dimensional(some.simulate(inputs, outputs[:k])) for some in (model, model.linear_twin())
        )
    whole = np.isfinite(simulated).all()
    e = np.nan_to_num(outputs - simulated)
    tests = residual_tests(inputs, e, min(25, len(e) // 3))
    rmse = np.sqrt(np.mean(e[k:] ** 2, axis=0))
    rmse_linear = np.sqrt(np.mean(np.nan_to_num(outputs - linear)[k:] ** 2, axis=0))
    spread = outputs[k:].std(axis=0)
    floor = noise_floor(inputs, outputs)
    names = fitted.step.outputs[n:] if fitted.step.outputs is not None else ("y",)
    share = 100.0 * float(np.max(rmse / spread))
    verdict = f"The error of the free run is {share:.2g} % of the signal"
    if floor is not None:
        verdict += f", {float(np.max(rmse / np.maximum(floor, 1e-300))):.2g} times the noise floor"
    verdict += f"; the linear model with {n} states leaves {100.0 * float(np.max(rmse_linear / spread)):.2g} %."
    if not whole:
        verdict = "The free run escapes on this record: errors below count only until then. " + verdict
    fit = percent_fit(outputs[k:], np.where(np.isfinite(simulated[k:]), simulated[k:], 0.0))
    facts = [
        ("states", f"{n}"),
        ("parameters", f"{model.canonical().n_parameters} in canonical form, {model.n_parameters} free in the fit"),
        *((f"error of {name} (RMSE)", f"{value:.4g}") for name, value in zip(names, rmse, strict=True)),
        *((f"error of {name}, linear model", f"{value:.4g}") for name, value in zip(names, rmse_linear, strict=True)),
        *((f"fit of {name}", f"{value:.4g} %") for name, value in zip(names, fit, strict=True)),
    ]
    if floor is not None:
        facts += [(f"noise floor of {name}", f"{value:.3g}") for name, value in zip(names, floor, strict=True)]
    sentences = [
        f"The initial state was found from the first {k} outputs, which do not count in the errors.",
        tests.in_words(),
    ]
    points = fitted.points[:: max(1, len(fitted.points) // _OPERATING_POINTS)]
    J = np.moveaxis(Along(fitted.step, points).state_jacobian(n)[:n], 2, 0)
    rows = [(r.start, 100.0 * r.training, 100.0 * r.validation, r.steps, r.chosen) for r in fitted.starts]
    return Dynamics(
        tuple(names), outputs, simulated, linear, fitted.step, fitted.points, model.linear().poles,
        np.linalg.eigvals(J).astype(complex), tests.auto, tests.cross, tests.band, facts, rows, verdict, sentences,
    )  # fmt: skip


def _record(model: Any, u: Any, y: Any) -> Signals:
    if (u is None) != (y is None):
        raise InputError("`u` and `y` must be given together, or both left out.")
    if u is not None:
        return Signals.read(u, y)
    records = model.fitted.records
    if records is None:
        raise InputError("`u` and `y` must be given for a model that was read from a file: records are not kept there.")
    return records


def _two_dimensional(y: ndarray) -> ndarray:
    return y[:, None] if y.ndim == 1 else y
