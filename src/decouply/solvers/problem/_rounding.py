"""What "exact" means: errors that rounding explains, of the data or of the model."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...samples._samples import Samples

_EXACT = 1e-20  # a relative squared error: ten digits, for data that fill their range
_ROUNDINGS = 30.0  # so many roundings of the numbers given, where these are far from 0 compared with their spread


def exact_below(samples: Samples) -> float:
    """Relative squared errors up to this are rounding.

    Numbers far from 0 have few digits left for what varies: values of 1e6 +- 1 are known to 1e-10 of their spread.
    """
    worst = 1.0
    for table in (samples.X, samples.F):
        if table is not None:
            largest, width = np.max(np.abs(table), axis=0), np.ptp(table, axis=0)
            worst = max(worst, float(np.max(np.divide(largest, width, out=np.ones_like(width), where=width > 0.0))))
    return exact_above(worst)


def exact_above(worst: float) -> float:
    """The same for numbers whose largest entry is so many times the range of their column."""
    return max(_EXACT, (_ROUNDINGS * worst * float(np.finfo(float).eps)) ** 2)


def rounding_of(diagonal: Float[ndarray, " N"], parameters: Float[ndarray, " N"]) -> float:
    """The cost that rounding of the parameters alone can cause, by the diagonal of the normal matrix.

    Where large terms cancel each other, a model cannot meet its data better than this.
    """
    with np.errstate(over="ignore"):
        return float((_ROUNDINGS * np.finfo(float).eps) ** 2 * (diagonal @ parameters**2))
