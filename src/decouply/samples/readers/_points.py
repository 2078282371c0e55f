"""What all functions of other libraries have in common: points go in, real and finite numbers must come out."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ..._support._checks import as_array
from ..._support._errors import InputError


def as_filled_points(X: object) -> Float[ndarray, "S m"]:
    points = as_array("X", X, ("S", "m"))
    if points.size == 0:
        raise InputError(f"`X` must hold at least one point with at least one coordinate. Got shape {points.shape}.")
    return points


def check_finite_at(name: str, what: str, values: ndarray, points: Float[ndarray, "S m"]) -> None:
    """Name the first point where a value or derivative is NaN or infinite."""
    bad = ~np.isfinite(values.reshape(len(points), -1)).all(axis=1)
    if bad.any():
        raise InputError(
            f"`{name}` must have finite {what} at all points. NaN or infinity at {first_of(bad, points)}: leave such "
            "points out."
        )


def first_of(bad: Bool[ndarray, " S"], points: Float[ndarray, "S m"]) -> str:
    """How many points are bad, and which is the first."""
    s = int(np.argmax(bad))
    first = np.array2string(points[s], precision=6, threshold=8)
    return f"{int(np.count_nonzero(bad))} of {len(points)} points, the first is X[{s}] = {first}"
