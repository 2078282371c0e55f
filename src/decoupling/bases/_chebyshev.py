"""Chebyshev polynomials on [-radius, radius], shifted to vanish at 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._checks import as_count, as_number
from ._combined import AbstractMonomialCombination


@dataclass(frozen=True)
class Chebyshev(AbstractMonomialCombination):
    """phi_k(u) = T_k(u / radius) - T_k(0): the constant is left to the model, where there is one place for it."""

    degree: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        as_count("degree", self.degree)
        as_number("radius", self.radius, above=True)

    @property
    def size(self) -> int:
        return self.degree

    def to_monomials(self) -> Float[ndarray, "d d"]:
        T = np.zeros((self.degree + 1, self.degree + 1))  # T[k, p]: coefficient of t^p in T_k
        T[0, 0] = T[1, 1] = 1.0
        for k in range(2, self.degree + 1):
            T[k, 1:] = 2.0 * T[k - 1, :-1]
            T[k] -= T[k - 2]
        return T[1:, 1:] * self.radius ** -np.arange(1.0, self.degree + 1)
