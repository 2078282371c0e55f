"""Internal functions as curves: what every drawing of them starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..model._decoupling import Decoupling

Grids = list[Float[ndarray, "k _"]]
# Standard errors of all functions on one grid per layer, such as `_inference.standard_errors` computes them.
Errors = Callable[[Grids], tuple[Float[ndarray, "k _"], ...]]


_WIDEST_BAND = 1.0  # heights of the curve, above and below it: a wider band would leave nothing of the curve to see


@dataclass(frozen=True, eq=False)
class Curve:
    """One internal function over the range that its arguments visit.

    `band` is two standard errors, to be added to and taken from `values`; None where they are not known.
    """

    u: Float[ndarray, " k"]
    values: Float[ndarray, " k"]
    band: Float[ndarray, " k"] | None

    @property
    def lowest(self) -> float:
        """The lower end of what is drawn, band included."""
        return float(np.min(self.values if self.band is None else self.values - self.band))

    @property
    def highest(self) -> float:
        return float(np.max(self.values if self.band is None else self.values + self.band))

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of what a drawing shows: the curve with its band, where that is not too wide; never the same."""
        low, high = float(np.min(self.values)), float(np.max(self.values))
        room = _WIDEST_BAND * (high - low)
        if room <= 1e-9 * max(abs(low), abs(high)):  # a constant, whatever its rounding does
            room = max(0.5 * abs(high), 0.5)
            return low - room, high + room
        return max(self.lowest, low - room), min(self.highest, high + room)


Curves = tuple[tuple[Curve, ...], ...]  # layer by layer


def curves(model: Decoupling, X: object, *, n_points: int = 60, errors: Errors | None = None) -> Curves:
    """The curves of all functions, each over the range that the points X visit.

    A range that is a single number is widened a little, so that there is something to see.
    """
    grids: Grids = []
    for u in model.inner_inputs(X):
        low, high = u.min(axis=0), u.max(axis=0)
        wider = np.where(high - low > 1e-12 * np.maximum(np.abs(low), np.abs(high)), 0.0, np.maximum(np.abs(low), 1.0))
        grids.append(np.linspace(low - wider / 2, high + wider / 2, n_points))
    return _on_grids(model, grids, errors)


def curves_between(model: Decoupling, low: float, high: float, *, n_points: int = 60) -> Curves:
    """The curves of all functions over one range, for a model of which no points are known."""
    grid = np.linspace(low, high, n_points)
    return _on_grids(model, [np.repeat(grid[:, None], r, axis=1) for r in model.ranks], None)


def _on_grids(model: Decoupling, grids: Grids, errors: Errors | None) -> Curves:
    known = None if errors is None else errors(grids)
    found = []
    for l, (functions, grid) in enumerate(zip(model.g, grids, strict=True)):
        values = functions(grid)
        bands = [None if known is None else 2 * known[l][:, j] for j in range(functions.rank)]
        found.append(
            tuple(
                Curve(grid[:, j], values[:, j], band if band is not None and np.all(np.isfinite(band)) else None)
                for j, band in enumerate(bands)
            )
        )
    return tuple(found)
