"""What a solver gives back: the model, why it stopped, and a record of its starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._optional_packages import needed
from ...model._decoupling import Decoupling


class Status(Enum):
    """Why a solver stopped. The value of each member is the sentence that the user reads.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3)
    >>> result = dc.decouple(samples, ranks=1, degrees=3)
    >>> result.status.name
    'EXACT'
    >>> result.status.value
    'The model meets the samples to machine precision: there is nothing left to improve.'
    """

    EXACT = "The model meets the samples to machine precision: there is nothing left to improve."
    JACOBIANS_EXACT = (
        "The model meets the Jacobians to machine precision, but not the values, which this method does not fit."
    )
    FITTED = "The tensor was decomposed, and the nearest function of the basis was fitted to each component."
    STALLED = "The objective did not decrease for `patience` steps."
    CONVERGED = (
        "A local minimum was reached: the objective no longer decreases. More starts may find a lower one, and a model "
        "with more functions or degrees may fit better."
    )
    DROPPED = "This start was given up: others of its batch were better."
    OUT_OF_STEPS = (
        "All steps were used while the objective still decreased now and then; the best that was found is returned. "
        "Raise `max_steps` (for VarPro also `polish_steps`) to go on."
    )
    OUT_OF_TIME = (
        "`max_seconds` was reached before the search was over; the best found so far is returned. Raise it to go on."
    )
    INTERRUPTED = "The search was stopped by Ctrl-C; the best found so far is returned."
    NONFINITE = "A factor became NaN or infinite, and this start was given up."


def when_late(status: Status) -> Status:
    """The status of a search that has no time left: what is exact would not get better."""
    kept = (Status.EXACT, Status.JACOBIANS_EXACT, Status.INTERRUPTED)
    return status if status in kept else Status.OUT_OF_TIME


@dataclass(frozen=True)
class History:
    """What happened to the returned start, one entry per iteration over all values of lam in turn.

    For `VarPro` it is the best cost of the batch that the result comes from, first with the last layer eliminated and
    then with all parameters. It does not look at the two errors on the way (NaN).

    Attributes
    ----------
    lam, objective, error_jacobian, error_values : array (t,)
        Weight of the value term, objective, Error(J) and Error(F) after each iteration.

    Examples
    --------
    >>> import decouply as dc
    >>> history = dc.solvers.History.of([1.0, 0.1, 0.01])
    >>> len(history), float(history.objective[-1])
    (3, 0.01)
    """

    lam: Float[ndarray, " t"]
    objective: Float[ndarray, " t"]
    error_jacobian: Float[ndarray, " t"]
    error_values: Float[ndarray, " t"]

    @classmethod
    def of(cls, objective: Sequence[float]) -> History:
        """A history of which only the objective is known."""
        values = np.asarray(objective, dtype=float)
        unknown = np.full(len(values), np.nan)
        return cls(unknown, values, unknown, unknown)

    def __len__(self) -> int:
        return len(self.objective)

    def to_frame(self) -> Any:
        """The history as a pandas DataFrame, one row per iteration, counted from 1."""
        pandas = needed("pandas", "pandas", "History.to_frame")
        columns = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return pandas.DataFrame(columns, index=pandas.RangeIndex(1, len(self) + 1, name="iteration"))


@dataclass(frozen=True)
class StartRow:
    """One start: the objective and errors of the iterate that was kept, in the units of the solver, and how it ended.

    Errors are weighted like the samples and measured in standard units, unless the data were taken as given.
    NaN stands for what is not known: values that a solver does not look at, starts that were dropped early. `build`
    makes the model of the start, if the solver kept its factors.

    Attributes
    ----------
    start : int
        Its number, from 0.
    lam, objective, error_jacobian, error_values : float
        Weight of the value term, objective, Error(J) and Error(F) at the end.
    steps : int
        Iterations.
    status : Status
        Why it ended.
    seconds : float
        Time that it took.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3)
    >>> result = dc.decouple(samples, ranks=1, degrees=3)
    >>> row = result.starts[0]
    >>> row.start, row.lam
    (0, 1.0)
    """

    start: int
    lam: float
    objective: float
    error_jacobian: float
    error_values: float
    steps: int
    status: Status
    seconds: float
    build: Callable[[], Decoupling] | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def decoupling(self) -> Decoupling | None:
        """The model that this start ended with, built when asked for; None if it was not kept, as in `VarPro`."""
        return None if self.build is None else self.build()

    def record(self) -> dict[str, Any]:
        """What is known of the start by name, without the model: plain values for tables and files."""
        known = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "build"}
        return known | {"status": self.status.name}


@dataclass(frozen=True)
class LamRow:
    """One value of lam that was tried by `TwoStage`.

    Attributes
    ----------
    lam, loss : float
        The value, and its loss, by which `TwoStage` chooses.
    objective, error_jacobian, error_values : float
        As in `StartRow`, of the best start.
    steps : int
        Iterations.
    chosen : bool
        Whether the result has this value.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    >>> solver = dc.TwoStage(dc.Proj(), max_runs=2)
    >>> result = dc.decouple(samples, ranks=2, degrees=3, solver=solver, n_starts=2)
    >>> sum(row.chosen for row in result.path)
    1
    """

    lam: float
    loss: float
    objective: float
    error_jacobian: float
    error_values: float
    steps: int
    chosen: bool


@dataclass(frozen=True)
class Solution:
    """A solver's answer, in the user's coordinates.

    Attributes
    ----------
    decoupling : Decoupling
        The model.
    status : Status
        Why the search ended.
    lam, ridge : float
        Weight of the value term, and the penalty on parameters.
    history : History
        The iterations of the start that was kept.
    starts, path : tuple of StartRow, tuple of LamRow
        All starts, and all values of lam.
    notes : tuple of str
        What the user should know, in sentences.
    found_by : str
        The method that led to the answer, if the solver knows several.
    n_effective : float, optional
        Effective parameters after smoothing.

    Examples
    --------
    >>> import decouply as dc
    >>> model = dc.systems.f1()
    >>> history = dc.solvers.History.of([1.0, 0.1])
    >>> solution = dc.solvers.Solution(model, dc.solvers.Status.CONVERGED, 1.0, history, ())
    >>> solution.decoupling.n_parameters, len(solution.history)
    (28, 2)
    """

    decoupling: Decoupling
    status: Status
    lam: float
    history: History
    starts: tuple[StartRow, ...]
    path: tuple[LamRow, ...] = ()
    notes: tuple[str, ...] = ()
    as_is: bool = False  # parts were given by the user, so the model must not be rewritten in canonical form
    found_by: str = ""  # the way that led to the answer, where a method knows several
    ridge: float = 0.0  # the penalty on parameters that the method chose
    n_effective: float | None = None  # effective parameters, where a method smooths
    smoothing: object | None = None  # what held its functions smooth; only the solver that made it looks inside
