"""Chebyshev polynomials on [-radius, radius], shifted to vanish at 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._checks import as_count, as_number
from ._abstract import AbstractPolynomialBasis


@dataclass(frozen=True)
class Chebyshev(AbstractPolynomialBasis):
    """phi_k(u) = T_k(u / radius) - T_k(0): the constant is left to the model, where there is one place for it."""

    degree: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", as_count("degree", self.degree))
        object.__setattr__(self, "radius", as_number("radius", self.radius, above=True))

    @property
    def size(self) -> int:
        return self.degree

    @property
    def scale_invariant(self) -> bool:
        return True

    def evaluate(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return self._recurrence(u)[0] - self._recurrence(np.zeros(1))[0]

    def derivative(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return self._recurrence(u)[1] / self.radius

    def second_derivative(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return self._recurrence(u)[2] / self.radius**2

    def _recurrence(self, u: ndarray) -> ndarray:
        """T_k and its first two derivatives at t = u / radius, for k = 1, ..., d: shape (3, ..., d)."""
        t = u / self.radius
        table = np.zeros((3, *u.shape, self.degree + 1))
        table[0, ..., 0] = 1.0
        table[0, ..., 1], table[1, ..., 1] = t, 1.0
        for k in range(1, self.degree):  # T_(k+1) = 2 t T_k - T_(k-1), differentiated twice
            table[..., k + 1] = 2.0 * t * table[..., k] - table[..., k - 1]
            table[1, ..., k + 1] += 2.0 * table[0, ..., k]
            table[2, ..., k + 1] += 4.0 * table[1, ..., k]
        return table[..., 1:]

    def to_monomials(self) -> Float[ndarray, "d d"]:
        T = np.zeros((self.degree + 1, self.degree + 1))  # T[k, p]: coefficient of t^p in T_k
        T[0, 0] = T[1, 1] = 1.0
        for k in range(2, self.degree + 1):
            T[k, 1:] = 2.0 * T[k - 1, :-1]
            T[k] -= T[k - 2]
        return T[1:, 1:] * self.radius ** -np.arange(1.0, self.degree + 1)
