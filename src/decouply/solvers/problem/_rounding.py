"""What "exact" means: errors that rounding explains, of the data or of the model."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

_EXACT = 1e-20  # a relative squared error: ten digits, for data that fill their range
_ROUNDINGS = 30.0  # errors of this many roundings of one number are expected


def data_rounding(stretch: float) -> float:
    """The relative squared error that rounding of the data explains.

    `stretch` is the largest entry of a column over its range: numbers far from 0 have few digits left for what varies.
    """
    return max(_EXACT, (_ROUNDINGS * stretch * float(np.finfo(float).eps)) ** 2)


def parameter_rounding(diagonal: Float[ndarray, " N"], parameters: Float[ndarray, " N"]) -> float:
    """The cost that rounding of the parameters alone can cause, by the diagonal of the normal matrix.

    If large terms cancel each other, a model cannot meet its data better than this.
    """
    with np.errstate(over="ignore"):
        return float((_ROUNDINGS * np.finfo(float).eps) ** 2 * (diagonal @ parameters**2))
