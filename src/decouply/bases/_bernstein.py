"""Bernstein polynomials, shifted to vanish at the middle of the window."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_count
from ._abstract import AbstractPolynomialBasis, differences
from ._algebra import AbstractAlgebra
from ._monomial import powers

_MOST = 1000  # beyond, binomials are no floats


@dataclass(frozen=True)
class Bernstein(AbstractPolynomialBasis):
    """phi_k(t) = B_k(s) - B_k(1/2), with s = (t + 1) / 2 and B_k(s) = binom(d, k) s^k (1 - s)^(d - k).

    B_0 is left out: the B_k add up to 1, so the constant and B_1, ..., B_d span all polynomials of degree d.
    """

    degree: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", as_count("degree", self.degree, most=_MOST))

    @property
    def size(self) -> int:
        return self.degree

    def evaluate(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return (_table(t, self.degree) - _table(np.zeros(1), self.degree))[..., 1:]

    def derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return _difference(_table(t, self.degree - 1), self.degree)[..., 1:] / 2.0

    def second_derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        if self.degree == 1:
            return np.zeros((*t.shape, 1))
        slope = _difference(_table(t, self.degree - 2), self.degree - 1)
        return _difference(slope, self.degree)[..., 1:] / 4.0

    def shape_rows(self, shape: str) -> Float[ndarray, "k d"]:
        """Differences of the coefficients: where none is negative, no slope (or bend) is, on the window."""
        return differences(self.degree, shape)

    @property
    def guarantees_shapes(self) -> bool:
        return True

    def least_value(self, c: Float[ndarray, " d"]) -> float:
        """The least coefficient: a polynomial runs between the least and the largest of its Bernstein coefficients."""
        return float(min(0.0, c.min()) - _table(np.zeros(1), self.degree)[0, 1:] @ c)

    def recurrence(self, algebra: AbstractAlgebra[Any], t: Any, c: Any) -> Any:
        """Products of powers of s and 1 - s: on the window all are positive, so that no digits are lost."""
        d = self.degree
        half = algebra.number(0.5)
        s = algebra.sum([half, algebra.product([half, t])])
        rest = algebra.sum([half, algebra.product([algebra.number(-0.5), t])])
        rising, falling = [s], [rest]
        for _ in range(d - 1):
            rising.append(algebra.product([rising[-1], s]))
            falling.append(algebra.product([falling[-1], rest]))
        constant = c[..., 0] - sum(c[..., k] * (comb(d, k) / 2**d) for k in range(1, d + 1))
        terms = [algebra.number(constant)]
        for k in range(1, d + 1):
            factors = [algebra.number(comb(d, k) * c[..., k]), rising[k - 1]]
            terms.append(algebra.product(factors if k == d else [*factors, falling[d - k - 1]]))
        return algebra.sum(terms)

    def to_monomials(self) -> Float[ndarray, "d d"]:
        d = self.degree
        rising, falling = np.polynomial.Polynomial([0.5, 0.5]), np.polynomial.Polynomial([0.5, -0.5])
        rows = [(comb(d, k) * rising**k * falling ** (d - k)).coef[1:] for k in range(1, d + 1)]
        return np.asarray(np.stack(rows), dtype=float)


def _table(t: ndarray, d: int) -> ndarray:
    """All d + 1 Bernstein polynomials of degree d."""
    s = (t + 1.0) / 2.0
    return np.array([float(comb(d, k)) for k in range(d + 1)]) * powers(s, d) * powers(1.0 - s, d)[..., ::-1]


def _difference(table: ndarray, d: int) -> ndarray:
    """Derivatives in s of the polynomials of degree d from those of degree d - 1: d (B_(k-1) - B_k)."""
    zero = np.zeros((*table.shape[:-1], 1))
    padded = np.concatenate([zero, table, zero], axis=-1)
    return d * (padded[..., :-1] - padded[..., 1:])
