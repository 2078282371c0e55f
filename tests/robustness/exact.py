"""Models in arithmetic of many digits: what their errors are, whatever double precision makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np

import decouply as dc
from decouply.bases import ArrayAlgebra

_DIGITS = 400
_STEP = 10.0**-45  # of differences, relative to the size of the inputs: they lose that many digits


def _exact(value: Any) -> Any:
    """Numbers as they are, in many digits."""
    return np.vectorize(mpmath.mpf, otypes=[object])(np.asarray(value, dtype=object))


class ManyDigits(ArrayAlgebra):
    """The arithmetic of `ArrayAlgebra` on arrays of mpmath's numbers."""

    def number(self, value: Any) -> Any:
        return _exact(value)

    def apply(self, function: str, argument: Any) -> Any:
        known = {"abs": abs, "reciprocal": lambda t: 1 / t}
        return np.vectorize(known.get(function) or getattr(mpmath, function), otypes=[object])(argument)


def values(model: dc.Decoupling, X: Any) -> Any:
    """Values of the model whose numbers are those of `model` to the last digit, at points (S, m)."""
    u = X = X if X.dtype == object else _exact(X)
    for W, g in zip(model.W, model.g, strict=False):
        u = u @ _exact(W).T
        low, high = _exact(g.domain).T
        t = (2 * u - low - high) / (high - low)
        columns = [
            basis.expression(ManyDigits(), t[:, j], _exact(g.C[j, : 1 + basis.size]))
            for j, basis in enumerate(g.layer.bases)
        ]
        u = np.stack([np.broadcast_to(column, len(X)) for column in columns], axis=1)
    F = u @ _exact(model.W[-1]).T
    if model.linear is not None:
        F = F + X @ _exact(model.linear).T
    return F if model.offset is None else F + _exact(model.offset)


def jacobians(model: dc.Decoupling, X: Any) -> Any:
    """Jacobians by differences of so small a step that many digits are left."""
    points = _exact(X)
    columns = []
    for j in range(points.shape[1]):
        step = np.zeros(points.shape, dtype=object)
        h = step[:, j] = mpmath.mpf(_STEP) * (np.max(np.abs(X[:, j])) or 1.0)
        columns.append((values(model, points + step) - values(model, points - step)) / (2 * h))
    return np.stack(columns, axis=2)


def product(table: Any, matrix: Any) -> Any:
    """table @ matrix."""
    return (_exact(table) if table.dtype != object else table) @ _exact(matrix)


def relative(given: Any, fitted: Any, scale: Sequence[float] | None = None, centre: Any = 0.0) -> float:
    """||given - fitted||^2 / ||given - centre||^2 with outputs divided by `scale`; a mean square where that is 0."""
    exact = given if given.dtype == object else _exact(given)
    by = _exact(np.ones(exact.shape[1]) if scale is None else scale)
    by = by.reshape(1, -1, *([1] * (exact.ndim - 2)))
    off, size = (sum(((part / by) ** 2).ravel()) for part in (exact - fitted, exact - _exact(centre)))
    return float(off / (size if size > 0 else exact.size))


def workdps() -> Any:
    """The precision in which all of this is meant."""
    return mpmath.workdps(_DIGITS)
