"""Fits of many shapes of a model, one leading to the next.

A shape is ranks and degrees. Each is fitted to all samples and, from there, to all but one fold at a time; the residual
out gives the cross-validated error. The choice is the smallest shape within 6 of the lowest criterion (see
`_candidate`), a difference that is commonly called strong evidence.

The search starts at the ranks that singular values suggest. For these, degrees grow until one shape is exact or the
limit is reached, and those of the best one shrink as far as that is better. Then every rank is tried one larger and one
smaller, and the best neighbour is the next place to stand. Fits start from the neighbour they come from, and from
random values besides.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from ..._support._arguments import as_generator
from ..._support._errors import SolverError, silenced
from ..._support._machine import one_thread
from ..._support._parallel import run_each
from ..._support._progress import silent
from ..._support._time_limit import now
from ...model._canonical_form import resize_model
from ...model._decoupling import Decoupling
from ...samples._duplicates import originals
from ...samples._samples import Samples
from ...solvers import AbstractSolver, Problem, VarPro
from ...solvers.problem._prepared_samples import PreparedSamples
from ...solvers.problem._problem import ModelShape
from ...solvers.problem._solver import smoothing_of, with_start, with_time_limit, without_ridge
from ...solvers.varpro._search import GIVEN
from .._fit_one_shape import fit_one_shape
from .._relative_errors import Measure
from .._result import Result
from .._settings import Settings, layer_bases
from ._candidates import STRONG_EVIDENCE, Candidate, Limits, Shape, better, criterion, in_words, percent
from ._rank_hints import hints_of

_N_STARTS, _N_STARTS_SMALLER, _N_STARTS_CHOICE = 16, 8, 32  # in general, from a larger shape, and of the best shape

_VETO_RATIO = 10.0  # times the smallest left-out error: more tells of too many parameters for the samples ...
_POOR_ERROR, _GOOD_RATIO = 0.3, 2.0  # ... and so does more than this, unless it is less than twice the smallest
_SHARE_PER_FIT = 0.1  # of the time for the scan that one fit may take
_FOLD_STEPS = 60  # of a fold, which starts at the fit to all samples


class OutOfTimeError(Exception):
    """The time for the scan is over."""


class Scan:
    """All shapes that were fitted so far, and the strategy that says which is next."""

    def __init__(
        self, samples: Samples, settings: Settings, limits: Limits, *, n_folds: int, report: Callable[..., None]
    ) -> None:
        self.samples, self.settings, self.limits, self.report = samples, settings, limits, report
        # The criterion compares misfits, and counts parameters itself.
        self.solver = without_ridge(VarPro() if settings.solver is None else settings.solver)
        self.prepared = PreparedSamples.of(samples)  # held here, so that all fits of the scan share it
        self.rounding, self.hints = self.prepared.rounding_floor, hints_of(samples)
        self.deadline, self.share = now() + settings.seconds, _SHARE_PER_FIT * settings.seconds
        rng = as_generator(settings.rng)
        self.seed = int(rng.integers(2**63))
        which = originals(samples)  # copies are left out together
        order = rng.permutation(which.max() + 1)
        self.folds = [np.flatnonzero(np.isin(which, order[k::n_folds])) for k in range(n_folds)]
        self.measure = Measure.of(samples)
        once = len(order) / len(which)
        self.counts = tuple(once * count for count in self.measure.counts)  # a copy is no evidence
        self.found: dict[Shape, Candidate] = {}
        self.tried: set[tuple[Candidate | None, Shape]] = set()

    # Strategy

    def run(self) -> None:
        """Try shapes until no neighbour of the best one is better."""
        # 1. For every number of layers: degrees of the ranks that singular values suggest, then neighbouring ranks.
        best: Candidate | None = None
        for L in self.limits.n_layers():
            first = self.first_ranks(L)
            if best is not None and best.exact and self.n_free(first, self.limits.least_degrees(L)) >= best.n_free:
                break  # more layers cannot be smaller
            best = better(best, self.climb(self.ladder(first)))
        # 2. Around the choice: more starts, and smaller shapes, until the choice stays.
        settled = set()
        while self.found:
            choice = self.choice()
            if choice.shape in settled:
                break
            settled.add(choice.shape)
            if not choice.exact:
                self.climb(self.fit(*choice.shape, start=choice, n_starts=_N_STARTS_CHOICE, once_more=True))
            self.narrow(self.trim(self.found[choice.shape]))
        # 3. Every shape is given the fits of those it contains: a larger one must not look worse for want of luck.
        for c in sorted(self.found.values(), key=lambda c: c.n_free):
            inner = self.inside(c.ranks, c.degrees)
            if inner is not None and not c.exact and inner.training_error < c.training_error:
                self.fit(c.ranks, c.degrees, start=inner, n_starts=1)

    def choice(self) -> Candidate:
        """The smallest shape that predicts validation samples well and that none is strongly better than."""
        eligible = self.eligible()
        lowest = min(c.score for c in eligible)
        return min(
            (c for c in eligible if c.score <= lowest + STRONG_EVIDENCE), key=lambda c: (c.n_parameters, c.score)
        )

    def eligible(self) -> list[Candidate]:
        """Shapes that predict validation samples well enough, and have fewer parameters than there are numbers."""
        allowed = self.allowed_error()
        good = [c for c in self.found.values() if c.error <= allowed]
        return [c for c in good if c.n_free < sum(self.counts)] or good

    def allowed_error(self) -> float:
        """Validation errors above this tell of too many parameters for the samples."""
        best = max(min(c.error for c in self.found.values()), float(np.sqrt(self.rounding)))
        return max(min(_VETO_RATIO * best, _POOR_ERROR), _GOOD_RATIO * best)

    def first_ranks(self, L: int) -> tuple[int, ...]:
        """Ranks that the singular values suggest, as far as the samples determine this many parameters.

        Two functions per layer where there are no singular values.
        """
        least = self.hints.least_ranks(L) or (2,) * L
        ranks = tuple(min(r, top) for r, top in zip(least, self.limits.ranks(L), strict=True))
        while max(ranks) > 1 and not self.is_determined(ranks, self.limits.least_degrees(L)):
            ranks = one_off(ranks, ranks.index(max(ranks)), -1)
        return ranks

    def ladder(self, ranks: tuple[int, ...]) -> Candidate | None:
        """The best degrees for these ranks."""
        best: Candidate | None = None
        steps = [degrees for degrees in self.limits.ladder(len(ranks)) if self.is_determined(ranks, degrees)]
        for degrees in steps[:1] if len(ranks) == 1 else steps:
            found = self.fit(ranks, degrees, start=self.inside(ranks, degrees), n_starts=_N_STARTS)
            best = better(best, found)
            if found is not None and found.exact:
                break
        return self.trim(best)

    def inside(self, ranks: tuple[int, ...], degrees: tuple[int, ...]) -> Candidate | None:
        """The best fit so far that a shape contains."""
        contained = [
            c
            for c in self.found.values()
            if len(c.ranks) == len(ranks)
            and all(a <= b for a, b in zip((*c.ranks, *c.degrees), (*ranks, *degrees), strict=True))
        ]
        return min(contained, key=lambda c: c.training_error, default=None)

    def trim(self, best: Candidate | None) -> Candidate | None:
        """Lower degrees as long as that is not strongly worse; the best of all."""
        here = best
        while best is not None and here is not None:
            least = self.limits.least_degrees(len(here.ranks))
            lower = [
                self.fit(
                    here.ranks,
                    one_off(here.degrees, l, -1),
                    start=here,
                    n_starts=1 if here.exact else _N_STARTS_SMALLER,
                )
                for l, d in enumerate(here.degrees)
                if d > least[l]
            ]
            here = None
            for c in lower:
                best = better(best, c)
                if c is not None and c.score <= best.score + STRONG_EVIDENCE:
                    here = better(c, here)
        return best

    def climb(self, best: Candidate | None) -> Candidate | None:
        """Go from ranks to neighbouring ranks as long as that is better."""
        while best is not None:
            larger = best
            if not best.exact:
                for l, top in enumerate(self.limits.ranks(len(best.ranks))):
                    ranks = one_off(best.ranks, l, 1)
                    if ranks[l] <= top and self.is_determined(ranks, best.degrees):
                        larger = better(larger, self.fit(ranks, best.degrees, start=best, n_starts=_N_STARTS))
            if larger is not best:
                best = self.trim(larger)
                if best is not None and not best.exact:
                    best = better(best, self.ladder(larger.ranks))
                continue
            smaller = self.narrow(best)
            if smaller is best:
                break
            best = self.trim(smaller)
        return best

    def narrow(self, here: Candidate | None) -> Candidate | None:
        """The best of a shape and those with one function less in one layer."""
        best = here
        for l, r in enumerate(() if here is None else here.ranks):
            if here is not None and r > 1:
                ranks = one_off(here.ranks, l, -1)
                best = better(best, self.fit(ranks, here.degrees, start=here, n_starts=_N_STARTS_SMALLER))
        return best

    # One shape

    def n_free(self, ranks: tuple[int, ...], degrees: tuple[int, ...]) -> int:
        """How many parameters of a shape scalings leave free; of functions that are smoothed, those of the search."""
        layers = layer_bases(ranks, degrees, self.settings.basis)
        if smoothing_of(self.solver) == "auto":
            layers = tuple(layer.coarser() for layer in layers)
        shape = ModelShape.of(self.samples, layers, linear=self.settings.linear)
        return shape.n_free(values=self.samples.has_values)

    def is_determined(self, ranks: tuple[int, ...], degrees: tuple[int, ...]) -> bool:
        """Whether the samples of all folds but one hold as many numbers as there are parameters, without copies."""
        K = len(self.folds)
        return self.n_free(ranks, degrees) <= sum(self.counts) * (K - 1) / K

    def fit(
        self,
        ranks: tuple[int, ...],
        degrees: tuple[int, ...],
        *,
        start: Candidate | None,
        n_starts: int,
        once_more: bool = False,
    ) -> Candidate | None:
        """Fit one shape, from a model of a neighbouring one if given, and from random values the first time.

        What is known already is kept if it is better.
        """
        known = self.found.get((ranks, degrees))
        if known is not None:
            if known.exact or start is None or "many starts" not in self.solver.supports:
                return known
            if not once_more and (start is known or (start, (ranks, degrees)) in self.tried):
                return known
        elif self._hopeless(ranks, degrees):
            return None
        self.tried.add((start, (ranks, degrees)))
        if known is not None and not once_more:
            n_starts = 1
        if self.found and now() > self.deadline:
            raise OutOfTimeError
        self.report(stage=self._stage(ranks, degrees), done=len(self.found), total=None)
        began = time.perf_counter()
        rng = np.random.default_rng([self.seed, *ranks, *degrees, 0 if known is None else n_starts])
        try:
            result = self._fit_model(ranks, degrees, start, n_starts, rng)
        except SolverError:
            return known
        squares = self.measure.squares(result.decoupling, self.samples)
        before = np.inf if known is None else float(np.mean(known.squares))
        spent = 0.0 if known is None else known.seconds
        if known is not None and before <= 1.001 * np.mean(squares):
            newer = result if np.mean(squares) <= 1.000001 * before else known.result
            found = dataclasses.replace(known, result=newer, seconds=spent + time.perf_counter() - began)
        else:
            found = Candidate(
                ranks,
                degrees,
                result,
                squares,
                self.counts,
                self.n_free(ranks, degrees),
                self._left_out(result.decoupling, rng),
                self.rounding,
                spent + time.perf_counter() - began,
            )
        self.found[ranks, degrees] = found
        return found

    def _hopeless(self, ranks: tuple[int, ...], degrees: tuple[int, ...]) -> bool:
        """Whether a shape would be strongly worse than the best even with the misfit of a larger one that contains it.

        If functions are smoothed, larger shapes do not use all of their parameters, and tell nothing.
        """
        around = [
            c
            for c in self.found.values()
            if len(c.ranks) == len(ranks)
            and c.result.n_effective is None
            and all(a >= b for a, b in zip((*c.ranks, *c.degrees), (*ranks, *degrees), strict=True))
        ]
        if not around:
            return False
        n_free, lowest = self.n_free(ranks, degrees), min(c.score for c in self.eligible())
        return min(criterion(c.squares, c.counts, n_free, self.rounding) for c in around) > lowest + STRONG_EVIDENCE

    def _stage(self, ranks: tuple[int, ...], degrees: tuple[int, ...]) -> str:
        """What is tried, and the best so far."""
        best = ""
        if self.found:
            c = self.choice()
            best = f" (best so far: {percent(c.error)} with ranks {in_words(c.ranks)})"
        return f"ranks {in_words(ranks)}, degrees {in_words(degrees)}{best}"

    def _fit_model(
        self,
        ranks: tuple[int, ...],
        degrees: tuple[int, ...],
        start: Candidate | None,
        n_starts: int,
        rng: np.random.Generator,
    ) -> Result:
        solver = with_time_limit(self.solver, self._seconds_per_fit())
        if "many starts" in solver.supports and start is not None:
            layers = layer_bases(ranks, degrees, self.settings.basis)
            solver = with_start(solver, resize_model(start.result.decoupling, layers, self.samples.X, rng)) or solver
        with silenced():  # a scan tells what it found at its end
            count = n_starts if "many starts" in solver.supports else None
            settings = dataclasses.replace(
                self.settings, ranks=ranks, degrees=degrees, solver=solver, n_starts=count, rng=rng, max_seconds=None
            )
            result = fit_one_shape(self.samples, settings, progress=False)
        if start is None or result.found_by != GIVEN:
            return result
        same = start.shape == (ranks, degrees)
        by = f"the fit of {start.in_words}"
        return dataclasses.replace(result, found_by=start.result.found_by if same else by)

    def _left_out(self, model: Decoupling, rng: np.random.Generator) -> ndarray:
        """Relative errors at the samples of every fold of fits to all others, side by side where others can help."""
        within = with_time_limit(self.solver, self._seconds_per_fit() / len(self.folds))
        seeds = rng.integers(2**63, size=len(self.folds))
        tasks = [
            Fold(self.samples, rows, within, model, self.measure, int(seed))
            for rows, seed in zip(self.folds, seeds, strict=True)
        ]
        return np.array(run_each(left_out_error, tasks))

    def _seconds_per_fit(self) -> float:
        """Seconds that one fit may take: a share of all, so that there are several, and not more than are left."""
        return max(min(self.share, self.deadline - now()), 0.1)


@dataclass(frozen=True)
class Fold:
    """Samples `rows` that a fit of all others is judged by."""

    samples: Samples
    rows: ndarray
    solver: AbstractSolver
    model: Decoupling
    measure: Measure
    seed: int


def left_out_error(fold: Fold) -> float:
    """Relative error at the samples of a fold of a fit to all others, from the fit to all samples."""
    S, rows, model = fold.samples.n_samples, fold.rows, fold.model
    known, unknown = fold.samples.take(np.setdiff1d(np.arange(S), rows)), fold.samples.take(rows)
    steps = _FOLD_STEPS if "many starts" in fold.solver.supports else None
    started = with_start(fold.solver, model, max_steps=steps)
    solver, n_starts = (fold.solver, fold.solver.default_n_starts) if started is None else (started, 1)
    problem = Problem.build(known, tuple(g.layer for g in model.g), linear=model.linear is not None)
    try:
        with one_thread():
            found = solver.solve(problem, n_starts=n_starts, rng=np.random.default_rng(fold.seed), progress=silent)
    except SolverError:
        return float("inf")
    return float(np.sqrt(np.mean(fold.measure.squares(found.decoupling, unknown)) * S / len(rows)))


def one_off(numbers: tuple[int, ...], position: int, step: int) -> tuple[int, ...]:
    """The numbers with one of them changed by `step`."""
    return tuple(n + step * (i == position) for i, n in enumerate(numbers))
