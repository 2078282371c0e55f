"""Chebyshev polynomials, shifted to vanish at the middle of the window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_count
from ._abstract import MOST_FUNCTIONS, AbstractPolynomialBasis
from ._algebra import AbstractAlgebra


@dataclass(frozen=True)
class Chebyshev(AbstractPolynomialBasis):
    """phi_k(t) = T_k(t) - T_k(0): the constant is left to the model, where there is one place for it."""

    degree: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", as_count("degree", self.degree, most=MOST_FUNCTIONS))

    @property
    def size(self) -> int:
        return self.degree

    def evaluate(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        table = np.empty((*t.shape, self.degree))
        before, now, twice = np.ones_like(t), np.array(t), 2.0 * t
        for k in range(1, self.degree + 1):
            np.subtract(now, self._at_zero(k), out=table[..., k - 1])
            if k < self.degree:  # T_(k+1) = 2 t T_k - T_(k-1), in the room of T_(k-1)
                np.subtract(twice * now, before, out=before)
                before, now = now, before
        return table

    def derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        """T_k' = k U_(k-1), with U_k = 2 t U_(k-1) - U_(k-2)."""
        table = np.empty((*t.shape, self.degree))
        before, now, twice = np.zeros_like(t), np.ones_like(t), 2.0 * t
        for k in range(1, self.degree + 1):
            np.multiply(now, float(k), out=table[..., k - 1])
            if k < self.degree:
                np.subtract(twice * now, before, out=before)
                before, now = now, before
        return table

    def second_derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        """T_k'' = 2 k C_(k-2), with the Gegenbauer polynomials n C_n = 2 (n + 1) t C_(n-1) - (n + 2) C_(n-2)."""
        table = np.zeros((*t.shape, self.degree))
        before, now, twice = np.zeros_like(t), np.ones_like(t), 2.0 * t
        for k in range(2, self.degree + 1):
            np.multiply(now, 2.0 * k, out=table[..., k - 1])
            n = k - 1
            after = ((n + 1) / n) * (twice * now) - ((n + 2) / n) * before
            before, now = now, after
        return table

    def recurrence(self, algebra: AbstractAlgebra[Any], t: Any, c: Any) -> Any:
        """By Clenshaw's recurrence b_k = c_k + 2 t b_(k+1) - b_(k+2); sums of powers would lose digits."""
        d = self.degree
        constant = c[..., 0] - sum(c[..., k] * self._at_zero(k) for k in range(2, d + 1, 2))
        if d == 1:
            return algebra.polynomial([constant, c[..., 1]], t)
        twice = algebra.product([algebra.number(2.0), t])
        above, b = algebra.number(c[..., d]), None
        minus = algebra.number(-1.0)
        for k in range(d - 1, 0, -1):
            terms = [algebra.number(c[..., k]), algebra.product([twice, b if b is not None else above])]
            if b is None:
                b = algebra.sum(terms)
            else:
                above, b = b, algebra.sum([*terms, algebra.product([minus, above])])
        return algebra.sum([algebra.number(constant), algebra.product([t, b]), algebra.product([minus, above])])

    def to_monomials(self) -> Float[ndarray, "d d"]:
        T = np.zeros((self.degree + 1, self.degree + 1))  # T[k, p]: coefficient of t^p in T_k
        T[0, 0] = T[1, 1] = 1.0
        for k in range(2, self.degree + 1):
            T[k, 1:] = 2.0 * T[k - 1, :-1]
            T[k] -= T[k - 2]
        return T[1:, 1:]

    @staticmethod
    def _at_zero(k: int) -> float:
        """T_k(0): 0 for odd k, and 1, -1, 1, ... for even k."""
        return 0.0 if k % 2 else float(1 - k % 4)
