"""What the page of a dynamic model shows of it on one record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Complex, Float
from numpy import ndarray

from .._support._arguments import as_count
from .._support._errors import InputError, silenced
from .._support._messages import pluralised
from ..model._decoupling import Decoupling
from .free_run._free_parameters import StepJacobians
from .free_run._linear import LinearStateSpace
from .free_run._step_arrays import StepArrays
from .narx._linear_baseline import linear_model, linear_run
from .signals._records import Signals
from .signals._residual_tests import noise_floor, percent_fit, residual_tests

if TYPE_CHECKING:
    from ..report import Dynamics

_INIT = 50  # outputs from which the initial state is found
_OPERATING_POINTS = 300
Row = tuple[str, float, float, int, bool]


def dynamics(model: Any, u: Any = None, y: Any = None, n_init: int | None = None) -> Dynamics:
    """A `DecoupledStateSpace` on a record, by default on the first it was fitted to."""
    fitted, n = model.fitted, model.n_states
    counts = f"{model.n_canonical} in canonical form, {model.fitted.n_free} free in the fit"
    rows = [(r.start, 100.0 * r.training, 100.0 * r.validation, r.steps, r.chosen) for r in fitted.starts]
    return _shown(
        _record(model, u, y),
        n_init,
        model.simulate,
        model.linear_twin().simulate,
        fitted.step,
        fitted.points,
        facts=[("states", f"{n}"), ("parameters", counts)],
        beside=f"the linear model with {pluralised(n, 'state')}",
        rows=rows,
        init="The initial state was found from the {first} not count in the errors.",
        how="Every start is fitted to the beginning of the training record and judged on data that are held back; the "
        "chosen one is finished on all training data.",
    )


def narx_dynamics(model: Any, u: Any, y: Any, n_init: int | None = None) -> Dynamics:
    """A `DecoupledNARX` on a record, beside a linear model with the same lags that is fitted to it one step ahead."""
    lags, X, signals = model.lags, model.training.X, Signals.read(u, y)
    linear = linear_model(lags, signals)
    m, order = lags.n_inputs, f"{pluralised(lags.n_u, 'past input')} and {pluralised(lags.n_y, 'past output')}"
    points = np.concatenate([X[:, m:], X[:, :m]], axis=1)
    return _shown(
        signals,
        n_init,
        model.simulate,
        lambda a, b: linear_run(linear, lags, a, b, model.training.believable),
        model.step.net_of_linear(points) if model.step.n_layers == 1 else model.step,
        points,
        facts=[("looks back on", order), ("parameters", f"{model.n_parameters}")],
        beside=f"a linear model with {order}, fitted to this record,",
        rows=[],
        init="The run begins with the {first} not count in the errors.",
        how="A polynomial was fitted one step ahead and decoupled"
        + (", and the decoupling was refined on the records." if model.refinement else "."),
    )


def usual_n_init(n_samples: int, n_states: int) -> int:
    """How many outputs a free run begins with unless it is said: 50, or a quarter of a shorter record."""
    return min(_INIT, max(n_states, n_samples // 4))


def _shown(
    signals: Signals,
    n_init: int | None,
    simulate: Callable[[ndarray, ndarray], ndarray],
    simulate_linear: Callable[[ndarray, ndarray], ndarray],
    step: Decoupling,
    points: Float[ndarray, "k m"],
    *,
    facts: list[tuple[str, str]],
    beside: str,
    rows: list[Row],
    init: str,
    how: str,
) -> Dynamics:
    from ..report import Dynamics

    inputs, outputs = signals.u[0], signals.y[0]
    n, p = step.n_outputs - outputs.shape[1], outputs.shape[1]
    k = usual_n_init(len(outputs), n) if n_init is None else as_count("n_init", n_init)
    if k + 2 > len(outputs):
        raise InputError(f"`n_init` must leave at least two outputs to score. Got {k} of {len(outputs)}.")
    with silenced():  # an escape is told in the verdict
        simulated, linear = (_two_dimensional(some(inputs, outputs[:k])) for some in (simulate, simulate_linear))
    e = np.nan_to_num(outputs - simulated)
    tests = residual_tests(inputs, e, min(25, len(e) // 3))
    rmse, rmse_linear = (
        np.sqrt(np.mean(np.nan_to_num(outputs - some)[k:] ** 2, axis=0)) for some in (simulated, linear)
    )
    spread, floor = outputs[k:].std(axis=0), noise_floor(inputs, outputs)
    names = step.outputs[n:] if step.outputs is not None else tuple(f"y{i + 1}" if p > 1 else "y" for i in range(p))
    verdict = f"The error of the free run is {100.0 * float(np.max(rmse / spread)):.2g} % of the signal"
    if floor is not None:
        verdict += f", {float(np.max(rmse / np.maximum(floor, 1e-300))):.2g} times the noise floor"
    verdict += f"; {beside} leaves {100.0 * float(np.max(rmse_linear / spread)):.2g} %."
    if not np.isfinite(simulated).all():
        verdict = "The free run escapes on this record: errors below count only until then. " + verdict
    fit = percent_fit(outputs[k:], np.where(np.isfinite(simulated[k:]), simulated[k:], 0.0))
    facts = [
        *facts,
        *((f"error of {name} (RMSE)", f"{value:.4g}") for name, value in zip(names, rmse, strict=True)),
        *((f"error of {name}, linear model", f"{value:.4g}") for name, value in zip(names, rmse_linear, strict=True)),
        *((f"fit of {name}", f"{value:.4g} %") for name, value in zip(names, fit, strict=True)),
    ]
    if floor is not None:
        facts += [(f"noise floor of {name}", f"{value:.3g}") for name, value in zip(names, floor, strict=True)]
    first = "first output, which does" if k == 1 else f"first {k} outputs, which do"
    poles, moving = _poles(step, n, points)
    return Dynamics(
        tuple(names), outputs, simulated, linear, step, points, poles, moving, tests.auto, tests.cross, tests.band,
        facts, rows, verdict, [init.format(first=first), tests.in_words()], how,
    )  # fmt: skip


def _poles(
    step: Decoupling, n: int, points: Float[ndarray, "k m"]
) -> tuple[Complex[ndarray, " n"], Complex[ndarray, "places n"]]:
    """Poles of the linear part, and of the model linearised at many points of its run."""
    some = points[:: max(1, len(points) // _OPERATING_POINTS)]
    J = np.moveaxis(StepJacobians(StepArrays.of(step), some).state_jacobian(n)[:n], 2, 0)
    return LinearStateSpace.of(step, n).poles, np.linalg.eigvals(J).astype(complex)


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
