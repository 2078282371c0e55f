"""The polynomially constrained single-layer algorithm of Hollander (2017): Jacobians only, then a bias correction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ...model._decoupling import Decoupling
from ..problem._problem import Problem
from ..problem._solution import Solution
from ..problem._solver import Feature, ProgressCallback
from ..problem._start_distributions import AbstractStart, Uniform, draw_factors
from ._coefficient_updates import constrained
from ._loop import WhichIterate, solution_of
from ._options import AbstractStartedSolver
from ._proj_constr import check_options, run_cmpt


@dataclass(frozen=True, kw_only=True)
class Hollander(AbstractStartedSolver):
    """Single layer, Jacobians only, direct update of the coefficients; then b = mean of F - W_1 g(W_0 x) is added.

    Parameters
    ----------
    min_steps, max_steps, patience
        A start ends after `max_steps`, or, past `min_steps`, after `patience` steps without a decrease.
    max_seconds
        All starts end after so many seconds, with the best so far; None is no limit.
    iterate
        Which iterate of a start is the answer: the "best" by the objective, or the "last", where the paper's rule of
        stopping ends. Updates that are not exact may raise the objective, so the two differ.
    start
        Distribution of the random start values, or a `Decoupling` to start from.
    """

    min_steps: int = 10
    max_steps: int = 500
    patience: int = 50
    max_seconds: float | None = None
    iterate: WhichIterate = "best"
    start: AbstractStart | Decoupling = field(default_factory=Uniform)

    def __post_init__(self) -> None:
        check_options(0.0, self.min_steps, self.max_steps, self.patience, self.iterate, self.start, self.max_seconds)

    supports: ClassVar[frozenset[Feature]] = frozenset({"linear", "weights", "Jacobians only"})

    def solve(
        self,
        problem: Problem,
        *,
        n_starts: int,
        rng: np.random.Generator,
        progress: ProgressCallback,
    ) -> Solution:
        start = draw_factors(problem, self.start, n_starts, rng)
        run = run_cmpt(problem, start, 0.0, constrained, self.stopping, progress)
        return solution_of(problem, run, uses_values=False, corrected=True)
