"""A shape of one layer in about the time of one fit: few starts for each rank, compared by errors on left-out samples.

`select` looks at two layers, gives every shape its best chance and refits all folds. Here errors on left-out samples
come from leverages, one number of starts is shared by all shapes, and ranks grow only as long as that pays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._support._errors import silenced
from ..._support._time_limit import OUT_OF_TIME, deadline_after, now
from ...model._other_shape import resized
from ...samples._duplicates import n_distinct_numbers
from ...samples._samples import Samples
from ...solvers import AbstractSolver
from ...solvers.inference._identifiability import is_quick
from ...solvers.inference._leave_one_out import left_out
from ...solvers.problem._model_shape import ModelShape
from ...solvers.problem._solution import when_late
from ...solvers.problem._solver import with_start
from ...solvers.varpro._search import GIVEN
from .._fit_one_shape import fit_one_shape
from .._relative_errors import Measure
from .._result import Result
from .._settings import Settings, layer_bases
from ._candidates import in_words, percent

_MOST = 4  # functions
_DEGREE, _HIGHER, _LOWER = 3, 5, 2  # of all ranks; of the best one, and if that does not pay, a lower one
_STARTS = 8  # of each shape
_PAYS = 0.98  # times the error on left-out samples: a larger shape must get below
_TOO_LITTLE = 1.4  # the power to which the rise of the error on left-out samples counts: leverages see too little of it
_ROUNDING = 1e-9
_LEAST_SECONDS = 1e-3  # of a fit
_PER_PARAMETER = 1.5  # numbers, at least


@dataclass(frozen=True)
class _Tried:
    """A shape that was fitted.

    `error` is the relative one on left-out samples, from leverages: it says whether larger shapes are tried. Of several
    shapes, the one with the lowest has often followed the noise by chance, so the choice is by `judged`, in which the
    rise of the error counts more.
    """

    rank: int
    degree: int | None
    result: Result
    error: float
    judged: float


def quick_decouple(
    samples: Samples,
    degrees: int | None,
    *,
    basis: Any,
    linear: bool,
    solver: AbstractSolver,
    n_starts: int | None,
    rng: int,
    progress: bool | Callable[..., None],
    max_seconds: float | None = None,
) -> Result:
    """The best of a few shapes with one layer; the first note says why. Out of time, it is the best so far."""
    deadline = deadline_after(max_seconds)
    known = degrees if isinstance(basis, type) else None
    first = known or (_DEGREE if isinstance(basis, type) else None)
    tried: list[_Tried] = []
    draws = np.random.default_rng(rng)
    n_numbers = n_distinct_numbers(samples)

    def attempt(rank: int, degree: int | None, near: Result | None = None) -> float:
        layers = layer_bases(rank, degree, basis)
        free = ModelShape.of(samples, layers, linear=linear).n_free(values=samples.has_values)
        left = deadline - now()
        if tried and (_PER_PARAMETER * free > n_numbers or left <= 0.0):
            return np.inf
        count, method = _STARTS if n_starts is None else n_starts, solver
        if near is not None and (started := with_start(solver, resized(near.decoupling, layers, samples.X, draws))):
            count, method = max(count // 2, 1), started  # a model that is nearly right is worth many random starts
        with silenced() if tried else nullcontext():  # what is to be said of the samples is said once
            seconds = None if max_seconds is None else max(left, _LEAST_SECONDS)
            settings = Settings(rank, degree, basis, linear, method, n_starts=count, rng=rng, max_seconds=seconds)
            result = fit_one_shape(samples, settings, progress=progress)
        fitted, rise = _error_and_rise(result, Measure.of(samples))
        by = f"the fit of degree {first}" if near is not None and result.found_by == GIVEN else result.found_by
        as_asked = dataclasses.replace(
            result, settings=dataclasses.replace(result.settings, solver=solver), found_by=by
        )
        tried.append(_Tried(rank, degree, as_asked, fitted * rise, fitted * rise**_TOO_LITTLE))
        return tried[-1].error

    best, rank = attempt(1, first), 1
    while rank < _MOST and best > _ROUNDING and attempt(rank + 1, first) < _PAYS * best:
        rank, best = rank + 1, tried[-1].error
    if known is None and first is not None and best > _ROUNDING:
        near = next(one.result for one in tried if one.rank == rank)
        if attempt(rank, _HIGHER, near) >= _PAYS * best:
            attempt(rank, _LOWER, near)
    best_one = _smallest(tried)
    result = best_one.result
    shape = f"Ranks {best_one.rank} with degrees {in_words(result.decoupling.degrees)}"
    others = ", ".join(
        f"{one.rank} with {one.degree}: {percent(one.error)}"
        for one in tried
        if one is not best_one and one.degree and np.isfinite(one.error)
    )
    reason = f"{shape} predict left-out samples to {percent(best_one.error)}" + (f" ({others})." if others else ".")
    if not np.isfinite(best_one.error):
        reason = f"{shape}: there are too few samples to choose by those that are left out."
    if now() > deadline:
        return dataclasses.replace(result, status=when_late(result.status), notes=(reason, OUT_OF_TIME, *result.notes))
    return dataclasses.replace(result, notes=(reason, *result.notes))


def _smallest(tried: list[_Tried]) -> _Tried:
    """The one with the fewest parameters of those that are nearly the best."""
    allowed = max(min(one.judged for one in tried) / _PAYS, _ROUNDING)
    return min((one for one in tried if one.judged <= allowed), key=lambda one: one.result.decoupling.n_parameters)


def _error_and_rise(result: Result, measure: Measure) -> tuple[float, float]:
    """Relative, on the samples that were fitted, and how many times larger on left-out ones."""
    model, samples = result.decoupling, result.samples
    fitted = float(np.sqrt(np.mean(measure.squares(model, samples))))
    if not is_quick(model, samples):  # so many samples hardly feel one that is left out
        return fitted, 1.0 / max(1.0 - model.n_parameters / samples.n_numbers, _ROUNDING)
    rise = left_out(result.linearisation).rise
    if np.any(np.isnan(rise)):
        return np.inf, 1.0  # nothing is known about left-out samples
    return fitted, float(np.sqrt(np.mean(rise**2)))
