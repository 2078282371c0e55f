"""Numbers that are too large for a float: told, and never returned in silence."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy import ndarray

from ._warnings import warn

Array = TypeVar("Array", bound=ndarray)


def warn_nonfinite(what: str, array: Array, way_out: str, *, stacklevel: int = 3) -> Array:
    """The same array, one row per point; a warning if some of it is not finite."""
    if not np.isfinite(array).all():
        bad = np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))
        warn(
            f"{what} are too large for a float, and infinite or NaN, in {len(bad)} of {len(array)} rows, the first of "
            f"them {bad[0]}: {way_out}.",
            stacklevel=stacklevel,
        )
    return array
