r"""VarPro: Gauss-Newton on the true constrained problem, with the last layer eliminated.

Alternating schemes ignore that the inputs of later layers depend on earlier factors, and stall. Here all of it is
differentiated. Candidates that can be read from the data come first; if none of them is exact, random starts are
searched; the best of both are polished with all parameters free.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from ..._support._arguments import as_count, as_number, is_word, settle_numbers
from ..._support._errors import InputError, short_repr
from ..._support._machine import budget
from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...samples._samples import Samples
from ..least_squares._fitting_problem import FittingProblem
from ..least_squares._parameters import Fixed, parameters_of
from ..least_squares._roughness_penalty import FIRST_WEIGHT, Penalty
from ..problem._problem import ModelShape, Problem
from ..problem._solution import Solution
from ..problem._solver import AbstractSolver, Feature, ProgressCallback, check_smoothing
from ..problem._start_distributions import AbstractStart, Orthonormal
from ._penalty_choice import smoothed_solution, solution_with_ridge
from ._refine_on_all_samples import Refinement, RefinementOptions, refined_solution
from ._search import Search, SearchSchedule
from ._streamed_gauss_newton import importance_sample

# Samples in memory are searched all at once up to so many times a pilot, and up to so many numbers.
_PILOTS_AT_ONCE, _NUMBERS_AT_ONCE = 8, 40_000


@dataclass(frozen=True, kw_only=True)
class VarPro(AbstractSolver):
    """Variable projection: finds exact decouplings if alternating solvers stall. Takes values, Jacobians or both.

    Parameters
    ----------
    lam : float or "auto"
        Weight of the values. Scale-free: both terms are divided by the size of their data. Without Jacobians, or
        without values, it has no effect. "auto" is 1. If functions are smoothed, it is then chosen such that
        values and Jacobians count by how well each of them can be met.
    ridge : float or "auto"
        Penalty on the squared size of all weights and coefficients. "auto" chooses it from the misfit if the fit is not
        exact, and the result says so. 0 switches it off. It is off for data as given and for fixed parts, whose
        units a penalty would depend on.
    smoothing : float or "auto", optional
        Weight of the roughness of the functions. "auto" chooses one for each function by restricted maximum likelihood,
        for bases that ask for it (`dc.Spline`). A number is the same for all functions of any basis. None is none.
    max_steps, polish_steps : int
        Steps of a batch with the last layer eliminated, and of its best starts with all parameters free.
    batch_size : int
        Starts that are run side by side.
    max_seconds : float
        All of it ends after about so long: two thirds are for the search, the rest for polishing and for the choice of
        a ridge or of smoothing. A result that was cut off by it depends on the speed of the machine. With a subsample,
        half is for the search there. Passes over all samples are limited by `polish_steps`.
    pilot : int or "auto", optional
        How many samples are searched. With "auto" all are, unless they are stored or there are many more than a search
        needs. Then some are drawn at random, and what they lead to is refined by Gauss-Newton steps over all. The
        result says so. None searches all samples, which must be in memory.
    memory : float, optional
        Bytes that a search may use besides the samples. By default half of what is free. Fewer starts run side by side
        where it is short, and a subsample is taken if one start alone would need more.
    start : start or Decoupling
        Distribution of the random start values, or a `Decoupling` to start from: it comes first in the first batch, and
        is polished as it is besides. With a single start it is polished only.
    fixed : dict
        Parts that are given and stay as they are: matrices by the names "W0", "W1", ..., `Functions` by "g1", "g2", ...

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3)
    >>> result = dc.decouple(samples, ranks=1, degrees=3, solver=dc.VarPro(ridge=0.0))
    >>> result.verdict.word
    'exact'
    """

    lam: float | Literal["auto"] = "auto"
    ridge: float | Literal["auto"] = "auto"
    smoothing: float | Literal["auto"] | None = "auto"
    max_steps: int = 150
    polish_steps: int = 200
    batch_size: int = 32
    max_seconds: float = 60.0
    pilot: int | Literal["auto"] | None = "auto"
    memory: float | None = None
    start: AbstractStart | Decoupling = field(default_factory=Orthonormal)
    fixed: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False)

    def __post_init__(self) -> None:
        if not is_word(self.lam, ("auto",)):
            as_number("lam", self.lam, above=True)
        if not is_word(self.ridge, ("auto",)):
            as_number("ridge", self.ridge)
        check_smoothing(self.smoothing)
        as_count("max_steps", self.max_steps)
        as_count("polish_steps", self.polish_steps)
        as_count("batch_size", self.batch_size)
        as_number("max_seconds", self.max_seconds, above=True)
        if self.pilot is not None and not is_word(self.pilot, ("auto",)):
            as_count("pilot", self.pilot)
        if self.memory is not None:
            as_number("memory", self.memory, above=True)
        settle_numbers(self, "lam", "ridge", "smoothing", "max_seconds", "memory")
        if not isinstance(self.fixed, Mapping):
            raise InputError(f"`fixed` must be a dictionary such as {{'W0': W0}}. Got {short_repr(self.fixed)}.")
        if not isinstance(self.start, AbstractStart | Decoupling):
            raise InputError(
                "`start` must be a distribution such as dc.solvers.Normal() or a Decoupling. "
                f"Got {short_repr(self.start)}."
            )

    supports: ClassVar[frozenset[Feature]] = frozenset(
        {"layers", "linear", "weights", "values only", "Jacobians only", "many starts"}
    )
    default_n_starts: ClassVar[int] = 1024

    def check(self, problem: Problem) -> None:
        if not problem.samples.in_memory:
            raise InputError(
                f"`samples` must be in memory to be searched at once. Got {len(problem.samples)} samples in a store: "
                "take some, `samples.pilot(10_000)`."
            )
        if self.fixed:
            Fixed.of(self.fixed, problem.as_given())
        if isinstance(self.start, Decoupling):
            parameters_of(problem, self.start)

    def with_lam(self, lam: float) -> VarPro:
        return dataclasses.replace(self, lam=lam)

    @property
    def given_start(self) -> Decoupling | None:
        return self.start if isinstance(self.start, Decoupling) else None

    def with_start(self, model: Decoupling, *, max_steps: int | None = None) -> VarPro:
        steps = self.polish_steps if max_steps is None else min(max_steps, self.polish_steps)
        return dataclasses.replace(self, start=model, polish_steps=steps)

    def without_ridge(self) -> VarPro:
        return dataclasses.replace(self, ridge=0.0) if self.ridge == "auto" else self

    def with_time_limit(self, seconds: float) -> VarPro:
        return dataclasses.replace(self, max_seconds=min(self.max_seconds, seconds))

    def solve(
        self, problem: Problem, *, n_starts: int, rng: np.random.Generator, progress: ProgressCallback
    ) -> Solution:
        search, solution = self._search_and_smooth(problem, n_starts, rng, progress)
        ridge_is_due = self._chooses_ridge(problem) and solution.smoothing is None
        if not ridge_is_due or search.table.has_exact_minimum or search.interrupted:
            return solution
        # One batch for every ridge that is tried, from the answer without one and from random starts.
        count = max(n_starts // 2, 2) if search.schedule.is_hurried else min(n_starts, self.batch_size)

        def search_with(ridge: float, seconds: float) -> Search:
            again = dataclasses.replace(self, ridge=ridge, start=solution.decoupling, max_seconds=seconds)
            return again._run_search(problem, count, rng, progress)

        return solution_with_ridge(solution, search, search_with)

    def _search_and_smooth(
        self,
        problem: Problem,
        n_starts: int,
        rng: np.random.Generator,
        progress: ProgressCallback,
        *,
        of_pilot: bool = False,
    ) -> tuple[Search, Solution]:
        """The search and its answer, smooth if that is asked for."""
        # Functions with many pieces are searched with few of them.
        fine, coarse = None, dataclasses.replace(problem, layers=tuple(layer.coarser() for layer in problem.layers))
        if self.smoothing == "auto" and self.given_start is None and coarse.layers != problem.layers:
            fine = self._equations(problem)
            fine = fine if fine.penalty is not None else None
        search = self._run_search(problem if fine is None else coarse, n_starts, rng, progress, of_pilot=of_pilot)
        if search.equations.penalty is None:
            return search, search.solution()
        by_data = {"chooses_weights": self.smoothing == "auto", "chooses_lam": self.lam == "auto"}
        return search, smoothed_solution(search, fine, **by_data)

    def _run_search(
        self,
        problem: Problem,
        n_starts: int,
        rng: np.random.Generator,
        progress: ProgressCallback,
        *,
        of_pilot: bool = False,
    ) -> Search:
        """Candidates, then random starts, until one is exact or more are not worth their time."""
        memory = budget(self.memory)
        equations = self._equations(problem, memory)
        schedule = SearchSchedule(
            n_starts,
            self.batch_size,
            self.max_steps,
            self.polish_steps,
            self.max_seconds,
            stops_at_noise=self._chooses_ridge(problem) or equations.penalty is not None,
            of_pilot=of_pilot,
        )
        search = Search(equations, schedule, self.start, self._first_lam, rng, progress, memory)
        search.run()
        return search

    # What the options mean

    @property
    def _first_lam(self) -> float:
        return 1.0 if self.lam == "auto" else self.lam

    @property
    def _first_ridge(self) -> float:
        return 0.0 if self.ridge == "auto" else self.ridge

    def _equations(self, problem: Problem, memory: float = np.inf) -> FittingProblem:
        """The problem with the ridge and the penalty on roughness that the search begins with."""
        penalty = None
        # Parts that are given, and data as given, have no penalty.
        if self.smoothing is not None and self._smooths(problem.layers) and not self.fixed and problem.standard:
            weight = FIRST_WEIGHT if self.smoothing == "auto" else self.smoothing
            penalty = Penalty.of(problem.layers, weight, everything=self.smoothing != "auto")
        lam, ridge = self._first_lam, self._first_ridge
        return FittingProblem(problem, lam=lam, ridge=ridge, fixed=self.fixed, penalty=penalty, memory=memory)

    def _chooses_ridge(self, problem: Problem) -> bool:
        return self.ridge == "auto" and problem.standard and not self.fixed

    def _smooths(self, layers: tuple[LayerBasis, ...]) -> bool:
        if self.smoothing == "auto":
            return any(basis.smooths for layer in layers for basis in layer.bases)
        return self.smoothing is not None and self.smoothing > 0.0

    # Samples of any size: a pilot is searched, and its answer is refined on all

    def pilot_size(self, samples: Samples, layers: tuple[LayerBasis, ...], *, linear: bool) -> int | None:
        shape = ModelShape.of(samples, layers, linear=linear)
        if self.pilot is None and samples.in_memory:
            wanted, there = shape.search_bytes(samples), budget(self.memory)
            if wanted > there:
                raise InputError(
                    f"`memory` must be at least {wanted / 1024**3:.3g} GiB to search {samples.n_samples} samples at "
                    f'once. Got {there / 1024**3:.3g} GiB: leave `pilot="auto"`, or take fewer samples.'
                )
            return None
        if self.pilot is None:
            raise InputError(
                f"`pilot` must not be None for stored samples, {samples.n_samples} here: leave it out, or take some "
                "samples, `samples.pilot(10_000)`."
            )
        size = shape.pilot_size(samples) if self.pilot == "auto" else self.pilot
        if not samples.in_memory:
            return size
        if self.pilot != "auto":
            return size if size < samples.n_samples else None
        # Weights of roughness are chosen with all samples.
        many = (
            samples.n_samples > _PILOTS_AT_ONCE * size
            and samples.n_numbers > _NUMBERS_AT_ONCE
            and not self._smooths(layers)
        )
        too_large = shape.search_bytes(samples) > budget(self.memory)
        return size if many or too_large else None

    def draw_pilot(self, whole: Problem, size: int, rng: np.random.Generator) -> Samples:
        """Large samples more often, since most of the cost is theirs."""
        samples = whole.samples
        if size >= samples.n_samples or self._smooths(whole.layers):  # weights of roughness take noise for even
            return samples.pilot(size, rng=rng)
        key = int(rng.integers(2**62))
        return importance_sample(whole.prepared, whole.prepared.row_scaling(self._first_lam), size, key=key)

    def solve_pilot(
        self, problem: Problem, *, n_starts: int, rng: np.random.Generator, progress: ProgressCallback
    ) -> Solution:
        """The search without a ridge, which depends on how many samples there are."""
        return self._search_and_smooth(problem, n_starts, rng, progress, of_pilot=True)[1]

    def improve_on_subsample(
        self, whole: Problem, problem: Problem, found: Solution, progress: ProgressCallback
    ) -> Solution:
        if self.fixed or found.smoothing is not None:
            return found
        return Refinement(whole, problem, found, self._refinement_options(problem, found), progress).on_subsample()

    def refine_on_all(self, whole: Problem, problem: Problem, found: Solution, progress: ProgressCallback) -> Solution:
        return refined_solution(whole, problem, found, self._refinement_options(problem, found), progress)

    def _refinement_options(self, problem: Problem, found: Solution) -> RefinementOptions:
        return RefinementOptions(
            self.fixed,
            self.polish_steps,
            ridge=self._first_ridge,
            chooses_ridge=self._chooses_ridge(problem) and found.smoothing is None,
            chooses_weights=self.smoothing == "auto",
        )
