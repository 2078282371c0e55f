"""How the search went: starts by the objective that they reached, and the objective from step to step."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..fit._result import Result
from ..solvers import StartRow
from ..solvers.problem._solution import Status
from ..write._curves import Curve
from ._svg_frame import Frame

_ROUNDING = 1e-20  # of the largest objective
_ALIKE = 0.01  # relative difference
_LONGEST_HISTORY = 400


@dataclass(frozen=True)
class Level:
    """Starts that reached the same objective, up to `_ALIKE`."""

    objective: float
    rounding: bool
    count: int
    best: StartRow
    endings: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Starts:
    """The starts with one value of lam."""

    lam: float
    levels: tuple[Level, ...]
    count: int
    lost: tuple[tuple[str, int], ...]  # how those that left no objective ended


def starts_by_lam(rows: Sequence[StartRow]) -> list[Starts]:
    """The starts of each value of lam, in the order in which they were tried."""
    found = []
    for lam in dict.fromkeys(row.lam for row in rows):
        here = [row for row in rows if row.lam == lam]
        good = sorted((row for row in here if math.isfinite(row.objective)), key=lambda row: row.objective)
        lost = [row for row in here if not math.isfinite(row.objective)]
        largest = max((row.objective for row in good), default=1.0)
        floor = _ROUNDING * max(largest, 1.0)
        groups: list[list[StartRow]] = []
        for row in good:
            if groups and row.objective <= max(floor, (1.0 + _ALIKE) * groups[-1][0].objective):
                groups[-1].append(row)
            else:
                groups.append([row])
        levels = (
            Level(group[0].objective, group[0].objective <= floor, len(group), group[0], _endings(group))
            for group in groups
        )
        found.append(Starts(lam, tuple(levels), len(here), _endings(lost)))
    return found


def _endings(rows: Sequence[StartRow]) -> tuple[tuple[str, int], ...]:
    return tuple((_SHORT[status], count) for status, count in Counter(row.status for row in rows).most_common())


_SHORT = {
    Status.EXACT: "met the samples",
    Status.JACOBIANS_EXACT: "met the Jacobians",
    Status.FITTED: "was fitted",
    Status.STALLED: "stalled",
    Status.OUT_OF_STEPS: "ran out of steps",
    Status.CONVERGED: "reached a minimum",
    Status.DROPPED: "given up for better ones",
    Status.OUT_OF_TIME: "ran out of time",
    Status.INTERRUPTED: "stopped by Ctrl-C",
    Status.NONFINITE: "broke down",
}


@dataclass(frozen=True)
class HistoryChart:
    """The objective on a logarithmic scale."""

    frame: Frame
    line: str
    changes: tuple[float, ...]  # where lam was raised


def history_chart(result: Result, left: float, top: float, width: float, height: float) -> HistoryChart | None:
    """The objective of the chosen start over the steps; None where there is nothing to draw."""
    history = result.history
    good = np.isfinite(history.objective) & (history.objective > 0.0)
    iteration = np.flatnonzero(good)
    if len(iteration) < 2:
        return None
    kept = iteration[np.unique(np.linspace(0, len(iteration) - 1, _LONGEST_HISTORY).round().astype(int))]
    curve = Curve(kept + 1.0, np.log10(history.objective[kept]), None)
    frame = Frame.of(curve, left, top, width, height)
    frame = dataclasses.replace(frame, v_low=math.floor(frame.v_low), v_high=math.ceil(frame.v_high))  # whole powers
    changes = np.flatnonzero(np.diff(history.lam)) + 1.5
    return HistoryChart(frame, frame.line(curve), tuple(frame.x(changes).tolist()))
