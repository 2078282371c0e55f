r"""Domains that have to be found, read from the slopes of a function at its arguments.

A curve such as tanh sits somewhere on its arguments and has some width there. Where slopes are known, sums of its basis
functions are fitted to them with many places and widths, and the best ones are refined: one function of one variable at
a time, so that a grid will do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import AbstractBasis

_WIDTHS, _PLACES = np.geomspace(0.05, 8.0, 40), np.linspace(-1.5, 1.5, 25)  # of the half range of the arguments
_REFINED = 10  # cells of the grid, the best ones
_AT_MOST = 400  # arguments that are looked at
_TIGHT = 1e-15
_RIDGE = 1e-9  # of a table with unit columns


class Placed(NamedTuple):
    """g(t) = sum_k c_k phi_k((t - middle) / half)."""

    middle: float
    half: float
    c: Float[ndarray, " d"]


def placed(basis: AbstractBasis, t: Float[ndarray, " S"], slopes: Float[ndarray, " S"]) -> Placed | None:
    """The place and width at which the slopes of the basis functions meet these best; None where nothing is known."""
    low, high = t.min(), t.max()
    if not np.all(np.isfinite(slopes)) or not high > low or not slopes.any():
        return None
    some = np.unique(np.linspace(0, len(t) - 1, min(len(t), _AT_MOST)).astype(int))
    size = float(np.abs(slopes[some]).max()) or 1.0
    t, slopes = t[some], slopes[some] / size
    place, width = (low + high) / 2.0, (high - low) / 2.0
    scaled = (t - place) / width

    def misfit(p: Float[ndarray, "K 2"]) -> Float[ndarray, "K S"]:
        return slopes - _fitted(basis, scaled, slopes, p)[0]

    grid = np.stack(np.meshgrid(_PLACES, np.log(_WIDTHS), indexing="ij"), axis=-1).reshape(-1, 2)
    order = np.argsort(np.sum(misfit(grid) ** 2, axis=1), kind="stable")[:_REFINED]
    ends = [_refined(misfit, grid[i]) for i in order]
    best = min(ends, key=lambda end: float(np.sum(misfit(end[None]) ** 2)))
    half = width * float(np.exp(best[1]))
    c = _fitted(basis, scaled, slopes, best[None])[1][0]
    return Placed(place + width * float(best[0]), half, c * half * size)


def _refined(misfit: Callable[[ndarray], ndarray], p: Float[ndarray, " 2"]) -> Float[ndarray, " 2"]:
    from scipy.optimize import least_squares

    def residual(p: ndarray) -> ndarray:
        return misfit(p[None])[0]

    end: ndarray = least_squares(residual, p, xtol=_TIGHT, ftol=_TIGHT, gtol=_TIGHT).x
    return end


def _fitted(
    basis: AbstractBasis, t: Float[ndarray, " S"], slopes: Float[ndarray, " S"], p: Float[ndarray, "K 2"]
) -> tuple[ndarray, ndarray]:
    """Slopes of the best sums at every place and log width, and their coefficients."""
    table = basis.derivative((t - p[:, :1]) / np.exp(p[:, 1:]))  # (K, S, d)
    size = np.linalg.norm(table, axis=1, keepdims=True)
    table = table / np.where(size > 0.0, size, 1.0)
    normal = table.mT @ table + _RIDGE * np.eye(basis.size)
    c = np.linalg.solve(normal, table.mT @ slopes[:, None])
    c = c + np.linalg.solve(normal, table.mT @ (slopes[:, None] - table @ c))  # what the ridge took
    return (table @ c)[..., 0], c[..., 0] / np.where(size > 0.0, size, 1.0)[:, 0]
