"""Charts of the page: measured against modelled outputs with their residuals, starts by objective, and the history."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..fit._result import Result
from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from ..solvers import StartRow
from ..solvers.problem._solution import Status
from ..write._curves import Curve
from ._svg_frame import Frame

_PLACE = (52.0, 10.0, 258.0, 150.0)  # left, top, width and height within a drawing of 320 by 200 ...
SQUARE = (90.0, 10.0, 150.0, 150.0)  # ... and of a square in it
_MOST_OUTPUTS = 4
_MOST_DOTS = 400


@dataclass(frozen=True)
class FitChart:
    """One output: frames, dots as paths of strokes without a length, and a band of two deviations to either side."""

    name: str
    fit: Frame
    fit_dots: str
    diagonal: str
    residuals: Frame
    residual_dots: str
    band: str


def fit_charts(
    model: Decoupling, samples: Samples, names: Sequence[str], errors: Sequence[float]
) -> tuple[FitChart, ...]:
    """The outputs with the largest errors, in their order; none without values."""
    if samples.F is None:
        return ()
    step = -(-len(samples) // _MOST_DOTS)
    truth, fitted = samples.F[::step], model(samples.X[::step])
    worst = np.sort(np.argsort(-np.asarray(errors), kind="stable")[:_MOST_OUTPUTS])
    return tuple(_chart(names[i], truth[:, i], fitted[:, i]) for i in worst.tolist())


def _chart(name: str, truth: Float[ndarray, " s"], fitted: Float[ndarray, " s"]) -> FitChart:
    left = truth - fitted
    u = _ends(fitted)
    both = _ends(np.concatenate([truth, fitted]))
    fit, residuals = Frame(*SQUARE, *both, *both), Frame(*_PLACE, *u, *_ends(np.append(left, 0.0)))
    line = fit.lines([(np.array(both), np.array(both))])
    spread = np.full(2, 2.0 * float(np.std(left)))
    band = residuals.band(Curve(np.array(u), np.zeros(2), spread))
    return FitChart(name, fit, _dots(fit, fitted, truth), line, residuals, _dots(residuals, fitted, left), band)


def _ends(values: Float[ndarray, " s"]) -> tuple[float, float]:
    """The range with a little room, never empty."""
    low, high = float(np.min(values)), float(np.max(values))
    room = 0.05 * (high - low) or max(0.05 * abs(high), 0.5)
    return low - room, high + room


def _dots(frame: Frame, u: Float[ndarray, " s"], v: Float[ndarray, " s"]) -> str:
    return "".join(f"M{x:.1f} {y:.1f}h0" for x, y in zip(frame.x(u), frame.y(v), strict=True))


_LEAST_OBJECTIVE = 1e-20  # of the largest objective
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
        floor = _LEAST_OBJECTIVE * max(largest, 1.0)
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
    """The objective of the chosen start over the steps; None if there is nothing to draw."""
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
