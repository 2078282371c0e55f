"""What a search has found so far: a row for every start, and the minima of those that were polished."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from ..least_squares._levenberg_marquardt import Descent
from ..least_squares._parameters import Parameters
from ..problem._solution import History, StartRow, Status
from ._search_schedule import SearchSchedule


@dataclass(frozen=True)
class Minimum:
    """The place where a polished start ended."""

    cost: float
    theta: Parameters
    record: list[float]
    status: Status
    found_by: str


@dataclass
class StartTable:
    """All starts so far, one row each, and the minima that the polished ones reached."""

    lam: float
    floor: float  # costs up to this are rounding
    schedule: SearchSchedule
    rows: list[StartRow] = field(default_factory=list)
    minima: list[Minimum] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def has_exact_minimum(self) -> bool:
        """Whether a start meets the data to machine precision."""
        return any(minimum.status is Status.EXACT for minimum in self.minima)

    @property
    def best(self) -> Minimum:
        return min(self.minima, key=lambda minimum: minimum.cost)

    @property
    def lowest_cost(self) -> float:
        return min((minimum.cost for minimum in self.minima), default=np.inf)

    @property
    def n_agreeing(self) -> int:
        """How many polished starts reached the lowest cost, up to machine precision."""
        highest = self.lowest_cost * (1.0 + self.schedule.same_minimum) + self.floor
        return sum(minimum.cost <= highest for minimum in self.minima)

    def add_batch(self, descent: Descent[Parameters], size: int, seconds: float) -> None:
        """Rows for a batch of starts, most of which were dropped on the way."""
        position = {int(i): k for k, i in enumerate(descent.index)}
        for b in range(size):
            broken = b in position and not np.isfinite(descent.cost[position[b]])
            status = Status.NONFINITE if broken else Status.DROPPED
            # Costs are known once a start has a last layer of its own, that is, when it is polished.
            nan = float("nan")
            self.rows.append(StartRow(len(self.rows), self.lam, nan, nan, nan, descent.steps, status, seconds))

    def before(self, first: int) -> StartTable:
        """An empty table for a batch whose first start has this number; the rows before it are never looked at."""
        return dataclasses.replace(self, rows=self.rows[:1] * first, minima=[])

    def notes(self) -> tuple[str, ...]:
        """How sure it is that the best minimum is the lowest."""
        reached, n = self.n_agreeing, len(self.rows)
        if self.best.status is Status.EXACT:
            return ()
        if reached >= self.schedule.n_agreeing:
            return (f"{reached} of {n} starts agree on this minimum.",)
        return (
            f"{reached} of {n} starts reached this minimum: too few to rule out a lower one. Raise `n_starts` or "
            "`max_seconds` to look for it.",
        )


def history_of(record: list[float], lam: float) -> History:
    """The costs of one start on its way, all with the same lam."""
    return dataclasses.replace(History.of(record), lam=np.full(len(record), lam))
