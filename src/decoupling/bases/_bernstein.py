"""Bernstein polynomials on [-radius, radius], shifted to vanish at 0."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._checks import as_count, as_number
from ._combined import AbstractMonomialCombination


@dataclass(frozen=True)
class Bernstein(AbstractMonomialCombination):
    """phi_k(u) = B_k(t) - B_k(1/2), with t = (u / radius + 1) / 2 and B_k(t) = binom(d, k) t^k (1 - t)^(d - k).

    B_0 is left out: the B_k add up to 1, so the constant and B_1, ..., B_d span all polynomials of degree d.
    """

    degree: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        as_count("degree", self.degree)
        as_number("radius", self.radius, above=True)

    @property
    def size(self) -> int:
        return self.degree

    def to_monomials(self) -> Float[ndarray, "d d"]:
        d = self.degree
        rising = np.polynomial.Polynomial([0.5, 0.5])  # t as a polynomial in v = u / radius
        falling = np.polynomial.Polynomial([0.5, -0.5])  # 1 - t
        rows = [(comb(d, k) * rising**k * falling ** (d - k)).coef[1:] for k in range(1, d + 1)]
        return np.asarray(np.stack(rows), dtype=float) * self.radius ** -np.arange(1.0, d + 1)
