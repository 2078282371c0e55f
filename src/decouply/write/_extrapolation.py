r"""An internal function in any algebra, with what it does beyond its domain.

With t_c = clip(t, -1, 1) the tangents go on by

    g(t_c) + g'(1) max(t - 1, 0) + g'(-1) min(t + 1, 0),

in which the slopes are numbers; functions that are held are g(t_c).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..bases import AbstractAlgebra, AbstractBasis
from ..model._functions import Outside


def function(
    algebra: AbstractAlgebra[Any], basis: AbstractBasis, t: Any, c: Float[ndarray, "*functions e"], outside: Outside
) -> Any:
    """g(t), for the coefficients of one function or of several that share a basis."""
    if outside == "extend":
        return basis.expression(algebra, t, c)
    value = basis.expression(algebra, algebra.clip(t, -1.0, 1.0), c)
    if outside == "constant":
        return value
    first, last = np.moveaxis(c[..., 1:] @ basis.derivative(np.array([-1.0, 1.0])).T, -1, 0)
    above = algebra.clip(algebra.sum([t, algebra.number(-1.0)]), 0.0, np.inf)
    below = algebra.clip(algebra.sum([t, algebra.number(1.0)]), -np.inf, 0.0)
    tails = [algebra.product([algebra.number(slope), part]) for slope, part in ((last, above), (first, below))]
    return algebra.sum([value, *tails])
