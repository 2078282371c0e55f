"""Functions as steps that a script carries out one after the other, on numbers alone.

An expression is the place of a number in a list that begins with the argument t. Every operation adds a number to the
list, so what is used twice is computed once. A step is the name of the operation, then places or numbers:

    ["number", 2.0]   ["sum", 1, 3]   ["product", 0, 1]   ["cos", 2]   ["clip", 0, -1.0, 1.0]
    ["polynomial", 0, a_0, a_1, ...]
    ["table", 0, first, last, v_0, ...]: straight lines between values at equal distances, from `first` to `last`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..bases import AbstractAlgebra, AbstractBasis

Step = list[Any]
_FAR = 1e300  # in place of infinite ends, which JSON does not know
_TABLE = 400  # points of a function that cannot be written


class StepsAlgebra(AbstractAlgebra[int]):
    """Places are whole numbers and everything else is a float."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def number(self, value: Any) -> int:
        return self._add("number", float(value))

    def sum(self, terms: Sequence[int]) -> int:
        return self._add("sum", *terms)

    def product(self, factors: Sequence[int]) -> int:
        return self._add("product", *factors)

    def apply(self, function: str, argument: int) -> int:
        return self._add(function, argument)

    def clip(self, argument: int, low: float, high: float) -> int:
        return self._add("clip", argument, *np.clip([low, high], -_FAR, _FAR).tolist())

    def polynomial(self, coefficients: Sequence[Any], argument: int) -> int:
        return self._add("polynomial", argument, *(float(a) for a in coefficients))

    def _add(self, *step: Any) -> int:
        self.steps.append(list(step))
        return len(self.steps)


def written_steps(basis: AbstractBasis, c: Float[ndarray, " e"]) -> list[Step]:
    """c_0 + sum_k c_k phi_k(t): the last step gives the value."""
    algebra = StepsAlgebra()
    place = basis.expression(algebra, 0, c)
    if place != len(algebra.steps):
        algebra.sum([place])
    return algebra.steps


def tabled_steps(basis: AbstractBasis, c: Float[ndarray, " e"], low: float, high: float, room: float) -> list[Step]:
    """The same for a basis that cannot write itself: values from `low` to `high`, and `room` beyond if they exist."""
    for extra in (room, 0.0 if high > low else 1e-6):
        grid = np.linspace(low - extra, high + extra, _TABLE)
        with np.errstate(all="ignore"):
            values = c[0] + basis.evaluate(grid) @ c[1:]
        if np.all(np.isfinite(values)):
            break
    return [["table", 0, float(grid[0]), float(grid[-1]), *values.tolist()]]
