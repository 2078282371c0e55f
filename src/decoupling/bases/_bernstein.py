"""Bernstein polynomials on [-radius, radius], shifted to vanish at 0."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._checks import as_count, as_number
from ._abstract import AbstractPolynomialBasis
from ._monomial import powers


@dataclass(frozen=True)
class Bernstein(AbstractPolynomialBasis):
    """phi_k(u) = B_k(t) - B_k(1/2), with t = (u / radius + 1) / 2 and B_k(t) = binom(d, k) t^k (1 - t)^(d - k).

    B_0 is left out: the B_k add up to 1, so the constant and B_1, ..., B_d span all polynomials of degree d.
    """

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
        return (self._table(u, self.degree) - self._table(np.zeros(1), self.degree))[..., 1:]

    def derivative(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return _difference(self._table(u, self.degree - 1), self.degree)[..., 1:] / (2.0 * self.radius)

    def second_derivative(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        if self.degree == 1:
            return np.zeros((*u.shape, 1))
        slope = _difference(self._table(u, self.degree - 2), self.degree - 1)
        return _difference(slope, self.degree)[..., 1:] / (2.0 * self.radius) ** 2

    def _table(self, u: ndarray, d: int) -> ndarray:
        """All d + 1 Bernstein polynomials of degree d."""
        t = (u / self.radius + 1.0) / 2.0
        return np.array([comb(d, k) for k in range(d + 1)]) * powers(t, d) * powers(1.0 - t, d)[..., ::-1]

    def to_monomials(self) -> Float[ndarray, "d d"]:
        d = self.degree
        rising = np.polynomial.Polynomial([0.5, 0.5])  # t as a polynomial in v = u / radius
        falling = np.polynomial.Polynomial([0.5, -0.5])  # 1 - t
        rows = [(comb(d, k) * rising**k * falling ** (d - k)).coef[1:] for k in range(1, d + 1)]
        return np.asarray(np.stack(rows), dtype=float) * self.radius ** -np.arange(1.0, d + 1)


def _difference(table: ndarray, d: int) -> ndarray:
    """Derivatives in t of the polynomials of degree d from those of degree d - 1: d (B_(k-1) - B_k)."""
    zero = np.zeros((*table.shape[:-1], 1))
    padded = np.concatenate([zero, table, zero], axis=-1)
    return d * (padded[..., :-1] - padded[..., 1:])
