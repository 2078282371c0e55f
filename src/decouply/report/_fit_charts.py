"""Two small charts per output for the page: what was measured against the model, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from ._svg_frame import Frame

_PLACE = (52.0, 10.0, 258.0, 150.0)  # left, top, width and height within a drawing of 320 by 200
_MOST_OUTPUTS = 4
_MOST_DOTS = 400


@dataclass(frozen=True)
class FitChart:
    """One output: frames, and dots as paths of strokes without a length."""

    name: str
    fit: Frame
    fit_dots: str
    diagonal: str
    residuals: Frame
    residual_dots: str


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
    fit, residuals = Frame(*_PLACE, *both, *both), Frame(*_PLACE, *u, *_ends(np.append(left, 0.0)))
    line = fit.lines([(np.array(both), np.array(both))])
    return FitChart(name, fit, _dots(fit, fitted, truth), line, residuals, _dots(residuals, fitted, left))


def _ends(values: Float[ndarray, " s"]) -> tuple[float, float]:
    """The range with a little room, never empty."""
    low, high = float(np.min(values)), float(np.max(values))
    room = 0.05 * (high - low) or max(0.05 * abs(high), 0.5)
    return low - room, high + room


def _dots(frame: Frame, u: Float[ndarray, " s"], v: Float[ndarray, " s"]) -> str:
    return "".join(f"M{x:.1f} {y:.1f}h0" for x, y in zip(frame.x(u), frame.y(v), strict=True))
