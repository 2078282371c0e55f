r"""A ridge chosen from the misfit: what keeps a model from following noise.

If data are noisy, the lowest minimum lies below the truth: it follows the noise, with large weights that cancel each
other at the samples and nowhere else. The ridge is 30 c / N, with c the cost without a ridge and N the numbers that are
fitted. It was the best of those compared (docs/benchmarks/exact-recovery.md). Restricted maximum likelihood and
generalised cross-validation look at one minimum at a time, and choose too little. The more numbers, the smaller it is.
It is taken only if the data allow it: the true model has N / (N - p) times the misfit of a fit of p parameters. A ridge
that raises the misfit much above that distorts the model, and a third of it is tried.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..problem._solution import Solution
from ._search import GIVEN, Search

_RIDGE_PER_COST = 30.0  # of the cost per number
_ALLOWED_RISE = 2.5  # times the rise p / (N - p) of the misfit that the truth would show
_RIDGE_SHRINKAGE, _MAX_TRIES = 3.0, 4
_LEAST_RIDGE = 1e-13  # changes no digit that counts


@dataclass(frozen=True)
class RidgeChoice:
    """Which ridges to try, and which of them the data allow.

    Attributes
    ----------
    cost
        Of the best model without a ridge.
    n_numbers, n_free
        Numbers that are fitted, and free parameters.
    zero_cost
        Of the model 0.
    """

    cost: float
    n_numbers: int
    n_free: int
    zero_cost: float

    def candidates(self) -> Iterator[float]:
        """Ridges to try, largest first; take the first that is allowed."""
        for k in range(_MAX_TRIES):
            ridge = _RIDGE_PER_COST * self.cost / self.n_numbers / _RIDGE_SHRINKAGE**k
            if ridge > _LEAST_RIDGE:
                yield ridge

    @property
    def max_misfit(self) -> float:
        """The misfit up to which a model with a ridge may be as good as the truth.

        At least half of what was explained stays explained, so that no ridge leads to the model 0.
        """
        as_the_truth = self.cost * (1.0 + _ALLOWED_RISE * self.n_free / max(self.n_numbers - self.n_free, 1))
        return min(as_the_truth, (self.cost + self.zero_cost) / 2.0)


def ridge_note(ridge: float) -> str:
    """What the user reads of the ridge that was chosen."""
    return f"A small penalty (ridge {ridge:.1e}, chosen from the misfit) keeps the weights moderate."


def solution_with_ridge(plain: Solution, search: Search, search_with: Callable[[float, float], Search]) -> Solution:
    """The answer with the largest ridge that the data allow; the plain one, of `search`, if they allow none.

    `search_with` searches with a given ridge for this many seconds.
    """
    problem, rows = search.problem, search.equations.rows
    zero_cost = problem.prepared.zero_cost(problem.prepared.row_scaling(plain.lam))
    choice = RidgeChoice(search.table.best.cost, rows.n_numbers, problem.n_free, zero_cost)
    for ridge in choice.candidates():
        left = search.schedule.max_seconds - search.seconds
        if left <= 0.0:
            note = "There was no time left to choose a ridge: raise `max_seconds`."
            return dataclasses.replace(plain, notes=(*plain.notes, note))
        ridged = search_with(ridge, left)
        if not ridged.table.minima:
            continue
        best = ridged.table.best
        misfit = best.cost - ridge * float(np.sum(ridged.equations.unknowns.flatten(best.theta) ** 2))
        if misfit <= choice.max_misfit:
            found = ridged.solution()
            return dataclasses.replace(
                found,
                starts=plain.starts,
                history=plain.history,
                notes=(*plain.notes, ridge_note(ridge)),
                found_by=found.found_by if found.found_by != GIVEN else plain.found_by,
                ridge=ridge,
            )
    return plain
