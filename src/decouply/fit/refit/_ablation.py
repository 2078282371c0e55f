"""What each internal function is worth: the error of the model without it.

Contributions can cancel each other, so their sizes mislead: functions that add up to little may each be large, and one
that looks small may be needed. So a function is left out, and what can make up for it is fitted again: the other
functions of its layer and all that follows. Their arguments stay as they are; free to turn, the rest of two functions
would be the best single one, whichever of them is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..._support._arguments import as_number
from ..._support._errors import InputError, SolverError, silenced
from ..._support._progress import progress_callback
from ...model._decoupling import Decoupling
from ...samples._samples import Samples
from .._fit_one_shape import fit_one_shape
from .._relative_errors import Measure
from .._settings import Settings
from ._simplify import without_functions

_STEPS = 20  # for the rest, which starts near the end


@dataclass(frozen=True)
class AblationRow:
    """What one function is worth: the error of the model with and without it.

    Attributes
    ----------
    layer, index : int
        Its place, from 1.
    error : float
        The error of the whole model: root of the relative squared error of values and Jacobians, in percent.
    error_without : float
        The error without it, after the rest of its layer and all that follows was fitted again.
    refitted : bool
        Whether there was time for that; otherwise the function was only replaced by its mean.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    >>> result = dc.decouple(samples, ranks=2, degrees=3)
    >>> [(row.layer, row.index) for row in result.ablation()]
    [(1, 1), (1, 2)]
    """

    layer: int
    index: int
    error: float
    error_without: float
    refitted: bool


def ablation(
    model: Decoupling,
    samples: object,
    *,
    max_seconds: float = 20.0,
    progress: bool | Callable[..., None] = True,
) -> tuple[AblationRow, ...]:
    """One row per function, layer by layer; see `Decoupling.ablation`."""
    if not isinstance(samples, Samples) or not samples.in_memory or not (samples.has_values or samples.has_jacobians):
        raise InputError("`samples` must be dc.Samples in memory, with values or Jacobians: `samples.pilot(10_000)`.")
    as_number("max_seconds", max_seconds, above=True)
    measure = Measure.of(samples)
    error = 100.0 * measure.error(model, samples)
    until = time.perf_counter() + max_seconds
    n = sum(model.ranks)
    rows: list[AblationRow] = []
    with progress_callback(progress, "Weighing functions") as report:
        for l, rank in enumerate(model.ranks):
            for j in range(rank):
                lost, again = _error_without(measure, model, samples, l, j, until - time.perf_counter())
                rows.append(AblationRow(l + 1, j + 1, error, max(lost, error) if again else lost, again))
                report(done=len(rows), total=n)
    return tuple(rows)


def _error_without(
    measure: Measure, model: Decoupling, samples: Samples, l: int, j: int, seconds: float
) -> tuple[float, bool]:
    """The error without a function, and whether the rest was fitted again."""
    if model.ranks[l] == 1:  # nothing passes the layer any more
        return _error_of_the_rest(measure, model, samples), True
    smaller = without_functions(model, l, [j], samples.X).without_inner_constants()
    if seconds > 0.0:
        with silenced():
            try:
                before = {f"W{k}": smaller.W[k] for k in range(l + 1)} | {f"g{k + 1}": smaller.g[k] for k in range(l)}
                settings = Settings.of_model(smaller, max_seconds=seconds, max_steps=_STEPS, fixed=before)
                found = fit_one_shape(samples, settings, progress=lambda **_: None)
                return min(100.0 * measure.error(m, samples) for m in (found.decoupling, smaller)), True
            except SolverError:
                pass
    return 100.0 * measure.error(smaller, samples), False


def _error_of_the_rest(measure: Measure, model: Decoupling, samples: Samples) -> float:
    """The error of the best linear part alone, or of the best constant if the model has none."""
    S = len(samples.X)
    straight = model.linear is not None
    squares = []
    if samples.J is not None:
        J = measure.units.jacobians(samples.J)
        squares.append(float(np.sum((J - straight * J.mean(axis=0)) ** 2)) / measure.sizes[0])
    if samples.F is not None:
        F = samples.F / measure.units.y_scale
        Z = np.column_stack([np.ones(S), samples.X] if straight else [np.ones(S)])
        left = F - Z @ np.linalg.lstsq(Z, F, rcond=None)[0]
        squares.append(float(np.sum(left**2)) / measure.sizes[-1])
    return 100.0 * float(np.sqrt(np.mean(squares)))
