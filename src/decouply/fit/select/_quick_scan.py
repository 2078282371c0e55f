"""A scan in about the time of one fit: one layer, few starts for each shape, errors on left-out samples by leverages.

The full scan looks at several layers, gives every shape its best chance and fits all folds again. Here ranks grow only
as long as that pays, and the best rank is then tried with other degrees. Of the shapes that are nearly the best, the
smallest is chosen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from ..._support._arguments import as_generator
from ..._support._errors import silenced
from ..._support._time_limit import now
from ...model._canonical_form import resize_model
from ...samples._duplicates import n_distinct_numbers
from ...samples._samples import Samples
from ...solvers import VarPro
from ...solvers.inference._identifiability import is_quick
from ...solvers.inference._leave_one_out import leave_one_out
from ...solvers.problem._prepared_samples import PreparedSamples
from ...solvers.problem._solver import with_start
from ...solvers.varpro._search import GIVEN
from .._fit_one_shape import fit_one_shape
from .._relative_errors import Measure
from .._result import Result
from .._settings import Settings
from ._candidates import Candidate, Limits, Shape
from ._multilinear_ranks import hints_of
from ._scan import OutOfTimeError

FIRST_DEGREE = 3  # of all ranks
N_STARTS = 8  # of each shape
MIN_SECONDS = 1e-3  # of a fit
_LOWER_DEGREE = 2  # tried if the highest does not pay
_PAYS = 0.98  # times the error on left-out samples: a larger shape must get below
_RISE_POWER = 1.4  # of the rise of the error on left-out samples in the choice: leverages see too little of it
_ROUNDING = 1e-9  # relative errors below are rounding
_NUMBERS_PER_PARAMETER = 1.5  # at least


@runtime_checkable
class Tried(Protocol):
    """A shape that was tried: its error on left-out samples, what it is chosen by, and its size."""

    @property
    def error(self) -> float: ...
    @property
    def score(self) -> float: ...
    @property
    def n_parameters(self) -> int: ...


T = TypeVar("T", bound=Tried)


def grow_ranks(attempt: Callable[[int], T | None], max_rank: int) -> T:
    """The last rank that paid: from 1 on, each must predict left-out samples better than the one before."""
    best, rank = attempt(1), 1
    assert best is not None  # the first shape is always tried
    while rank < max_rank and best.error > _ROUNDING:
        larger = attempt(rank + 1)
        if larger is None or not pays(larger, best):
            break
        best, rank = larger, rank + 1
    return best


def pays(larger: Tried, smaller: Tried) -> bool:
    """Whether a larger shape predicts left-out samples better by more than chance."""
    return larger.error < _PAYS * smaller.error


def smallest_of_best(tried: Sequence[T]) -> T:
    """The shape with the fewest parameters of those that are nearly the best."""
    allowed = max(min(one.score for one in tried) / _PAYS, _ROUNDING)
    return min((one for one in tried if one.score <= allowed), key=lambda one: one.n_parameters)


class QuickScan:
    """All shapes that were fitted so far, as a `Scan` has them, from ranks of one layer that grow."""

    folds = ()

    def __init__(self, samples: Samples, settings: Settings, limits: Limits, *, report: Callable[..., None]) -> None:
        # All fits begin with the same random numbers.
        seed = settings.rng if isinstance(settings.rng, int) else int(as_generator(settings.rng).integers(2**31))
        self.samples, self.limits, self.report = samples, limits, report
        self.settings = dataclasses.replace(settings, rng=seed)
        self.solver = VarPro() if settings.solver is None else settings.solver
        self.deadline = now() + settings.seconds
        self.prepared = PreparedSamples.of(samples)  # held here, so that all fits of the scan share it
        self.measure, self.hints, self.rounding = Measure.of(samples), hints_of(samples), self.prepared.rounding_floor
        self.found: dict[Shape, Candidate] = {}
        self._draws = np.random.default_rng(seed)
        self._n_numbers = n_distinct_numbers(samples)

    def run(self) -> None:
        """Grow ranks, then try other degrees of the best one."""
        top, basis = self.limits.degrees(1)[0], self.settings.basis
        first = None if not isinstance(basis, type) else top if self.limits.fixed_degrees else min(FIRST_DEGREE, top)
        best = grow_ranks(lambda rank: self._fit(rank, first), self.limits.ranks(1)[0])
        if self.limits.fixed_degrees or best.error <= _ROUNDING:
            return
        higher = self._fit(best.ranks[0], top, near=best) if first != top else None
        if (higher is None or not pays(higher, best)) and first != _LOWER_DEGREE:
            self._fit(best.ranks[0], min(_LOWER_DEGREE, top), near=best)

    def choice(self) -> Candidate:
        return smallest_of_best(list(self.found.values()))

    def allowed_error(self) -> float:
        """No shape is refused for its error on left-out samples alone."""
        return np.inf

    def _fit(self, rank: int, degree: int | None, near: Candidate | None = None) -> Candidate | None:
        """Fit one shape, from a model of the same rank if there is one; None if there are too few samples for it."""
        settings = dataclasses.replace(self.settings, ranks=rank, degrees=degree)
        free, seconds = settings.n_free(self.samples), self.deadline - now()
        if self.found and seconds <= 0.0:
            raise OutOfTimeError
        if self.found and _NUMBERS_PER_PARAMETER * free > self._n_numbers:
            return None
        count, method = N_STARTS if settings.n_starts is None else settings.n_starts, self.solver
        if near is not None:  # a model that is nearly right is worth many random starts
            start = resize_model(near.result.decoupling, settings.layers, self.samples.X, self._draws)
            started = with_start(self.solver, start)
            count, method = (count, method) if started is None else (max(count // 2, 1), started)
        limit = None if settings.max_seconds is None else max(seconds, MIN_SECONDS)
        settings = dataclasses.replace(settings, solver=method, n_starts=count, max_seconds=limit)
        with silenced() if self.found else nullcontext():  # what is to be said of the samples is said once
            result = fit_one_shape(self.samples, settings, progress=self.report)
        asked = dataclasses.replace(result.settings, solver=self.solver)
        by = result.found_by if near is None or result.found_by != GIVEN else f"the fit of degree {near.degrees[0]}"
        result = dataclasses.replace(result, settings=asked, found_by=by)
        squares = self.measure.squares(result.decoupling, self.samples)
        error, rise = float(np.sqrt(np.mean(squares))), _rise(result)
        if np.isnan(rise):
            error, rise = np.inf, 1.0  # nothing is known about left-out samples
        found = Candidate(
            (rank,),
            result.decoupling.degrees,
            result,
            squares,
            self.measure.counts,
            free,
            np.array([error * rise]),
            self.rounding,
            result.seconds,
            judged=error * rise**_RISE_POWER,
        )
        self.found[found.shape] = found
        return found


def _rise(result: Result) -> float:
    """How many times larger the error is on left-out samples; NaN if they tell nothing."""
    model, samples = result.decoupling, result.samples
    if not is_quick(model, samples):  # so many samples hardly feel one that is left out
        return 1.0 / max(1.0 - model.n_parameters / samples.n_numbers, _ROUNDING)
    rise = leave_one_out(result.linearisation).rise
    return float(np.sqrt(np.mean(rise**2)))
