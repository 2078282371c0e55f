r"""VarPro: Gauss-Newton on the true constrained problem, with the last layer eliminated.

Alternating schemes ignore that the inputs of later layers depend on earlier factors, and stall. Here all of it is
differentiated. Candidates that can be read from the data come first; where none of them is exact, random starts are
searched; the best of both are polished with all parameters free.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from .._support._checks import as_count, as_number
from .._support._errors import InputError
from ..model._decoupling import Decoupling
from ._abstract import AbstractWeightedSolver, ProgressCallback, Solution
from ._equations import Equations
from ._parameters import Fixed, parameters_of
from ._problem import Problem
from ._search import Search, SearchOptions
from ._starts import AbstractStart, Orthonormal


@dataclass(frozen=True, kw_only=True)
class VarPro(AbstractWeightedSolver):
    """Variable projection: finds exact decouplings where alternating solvers stall. Takes values, Jacobians or both.

    Parameters
    ----------
    lam
        Weight of the values. Scale-free: both terms are divided by the size of their data. Without Jacobians, or
        without values, it has no effect.
    ridge
        Penalty on the squared size of all weights and coefficients.
    max_steps, polish_steps
        Steps of a batch with the last layer eliminated, and of its best starts with all parameters free.
    batch_size
        Starts that are run side by side.
    max_seconds
        The search ends after about so long. A result that was cut off by it depends on the speed of the machine.
    start
        Distribution of the random start values, or a `Decoupling` to start from: it comes first in the first batch, and
        is polished as it is besides. With a single start it is polished only.
    fixed
        Parts that are given and stay as they are: matrices by the names "W0", "W1", ..., `Functions` by "g1", "g2", ...
    """

    lam: float = 1.0
    ridge: float = 0.0
    max_steps: int = 150
    polish_steps: int = 200
    batch_size: int = 32
    max_seconds: float = 60.0
    start: AbstractStart | Decoupling = field(default_factory=Orthonormal)
    fixed: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False)

    def __post_init__(self) -> None:
        as_number("lam", self.lam, above=True)
        as_number("ridge", self.ridge)
        as_count("max_steps", self.max_steps)
        as_count("polish_steps", self.polish_steps)
        as_count("batch_size", self.batch_size)
        as_number("max_seconds", self.max_seconds, above=True)
        if not isinstance(self.fixed, Mapping):
            raise InputError(f"`fixed` must be a dictionary such as {{'W0': W0}}. Got {self.fixed!r}.")
        if not isinstance(self.start, AbstractStart | Decoupling):
            raise InputError(f"`start` must be a distribution such as dc.Normal() or a Decoupling. Got {self.start!r}.")

    @property
    def default_n_starts(self) -> int:
        return 1024

    def check(self, problem: Problem) -> None:
        problem.needs_arrays("VarPro")
        Fixed.of(self.fixed, problem.as_given())
        if isinstance(self.start, Decoupling):
            parameters_of(problem, self.start)

    @property
    def stops_by_itself(self) -> bool:
        return True

    def with_lam(self, lam: float) -> VarPro:
        return dataclasses.replace(self, lam=lam)

    @property
    def given_start(self) -> Decoupling | None:
        return self.start if isinstance(self.start, Decoupling) else None

    def started_at(self, model: Decoupling, *, max_steps: int | None = None) -> VarPro:
        steps = self.polish_steps if max_steps is None else min(max_steps, self.polish_steps)
        return dataclasses.replace(self, start=model, polish_steps=steps)

    def within(self, seconds: float) -> VarPro:
        return dataclasses.replace(self, max_seconds=min(self.max_seconds, seconds))

    def solve(
        self, problem: Problem, *, n_starts: int, rng: np.random.Generator, progress: ProgressCallback
    ) -> Solution:
        equations = Equations(problem, lam=self.lam, ridge=self.ridge, fixed=self.fixed)
        options = SearchOptions(
            self.lam, self.max_steps, self.polish_steps, self.batch_size, self.max_seconds, self.start
        )
        search = Search(options, equations, n_starts, rng, progress)
        search.try_candidates()
        while search.go_on():
            search.run_batch()
        return search.solution()
