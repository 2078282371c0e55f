"""The polynomially constrained single-layer algorithm of Hollander (2017): Jacobians only, then a bias correction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..problem._problem import Problem
from ..problem._solution import Solution
from ..problem._solver import Feature, ProgressCallback
from ._best_start import solution_of
from ._coefficient_updates import constrained
from ._iterate import Iterate
from ._loop import AbstractAlternatingSolver
from ._proj_constr import run_cmpt


@dataclass(frozen=True, kw_only=True)
class Hollander(AbstractAlternatingSolver):
    """Single layer, Jacobians only, direct update of the coefficients; then b = mean of F - W_1 g(W_0 x) is added.

    Parameters
    ----------
    start
        Distribution of the random start values, or a `Decoupling` to start from.
    stopping
        When a start ends, and with which of its iterates, see `Stopping`.
    """

    supports: ClassVar[frozenset[Feature]] = frozenset({"linear", "weights", "Jacobians only"})

    def solve_from(self, problem: Problem, start: Iterate, progress: ProgressCallback) -> Solution:
        run = run_cmpt(problem, start, 0.0, constrained, None, self.stopping, progress)
        return solution_of(problem, run, jacobians_only=True)
