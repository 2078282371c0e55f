"""What a solver takes and what it gives back."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..model._decoupling import Decoupling
from ._problem import Problem
from ._status import Status

# Called with named values now and then: stage (text), done and total (numbers of iterations), objective.
ProgressCallback = Callable[..., None]
Metric = Callable[[Decoupling], float]


@dataclass(frozen=True)
class History:
    """What happened to the returned start, one entry per iteration over all values of lam in turn.

    For `VarPro` it is the best cost of the batch that the result comes from, first with the last layer eliminated and
    then with all parameters; it does not look at the two errors on the way (NaN).
    """

    lam: Float[ndarray, " t"]
    objective: Float[ndarray, " t"]
    error_jacobian: Float[ndarray, " t"]
    error_values: Float[ndarray, " t"]

    def __len__(self) -> int:
        return len(self.objective)


@dataclass(frozen=True)
class StartRow:
    """One start: the objective and errors of its best iterate, weighted like the samples, and how it ended.

    NaN stands for what is not known: values that a solver does not look at, starts that were dropped early.
    """

    start: int
    lam: float
    objective: float
    error_jacobian: float
    error_values: float
    iterations: int
    status: Status
    seconds: float


@dataclass(frozen=True)
class LamRow:
    """One value of lam that was tried by `TwoStage`."""

    lam: float
    metric: float
    objective: float
    error_jacobian: float
    error_values: float
    iterations: int
    chosen: bool


@dataclass(frozen=True)
class Solution:
    """A solver's answer, in the user's coordinates."""

    decoupling: Decoupling
    status: Status
    lam: float
    history: History
    starts: tuple[StartRow, ...]
    path: tuple[LamRow, ...] = ()
    notes: tuple[str, ...] = ()
    as_is: bool = False  # parts were given by the user, so the model must not be rewritten in canonical form


class AbstractSolver(abc.ABC):
    """A method that finds a decoupling of given shape for given samples."""

    @abc.abstractmethod
    def check(self, problem: Problem) -> None:
        """Raise `InputError` when the method cannot be used on this problem."""

    @abc.abstractmethod
    def solve(
        self,
        problem: Problem,
        *,
        n_starts: int,
        rng: np.random.Generator,
        progress: ProgressCallback,
    ) -> Solution:
        """Run all starts and return the best."""

    @property
    @abc.abstractmethod
    def default_n_starts(self) -> int:
        """How many starts are run when the user does not say."""

    @abc.abstractmethod
    def with_lam(self, lam: float) -> AbstractSolver:
        """The same solver with another weight of the value term."""
