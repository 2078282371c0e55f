r"""Polynomials of degree <= d that vanish at the middle of the window, in four bases of the same span.

Monomials t, t^2, ..., t^d are the basis of the paper; divided by their degrees, their derivatives have like size.
Chebyshev and Bernstein polynomials are shifted to vanish at t = 0: the constant has one place, in the model.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import reduce
from math import comb
from operator import add
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_count
from ._abstract import MOST_FUNCTIONS, AbstractBasis, differences
from ._algebra import AbstractAlgebra


class AbstractPolynomialBasis(AbstractBasis):
    """A basis of the polynomials of degree <= d that vanish at t = 0, so that the constant of g is its value there.

    Examples
    --------
    >>> import decouply as dc
    >>> basis = dc.bases.Bernstein(2)
    >>> isinstance(basis, dc.bases.AbstractPolynomialBasis), basis.polynomial_degree
    (True, 2)
    >>> basis.to_monomials()
    array([[ 0.  , -0.5 ],
           [ 0.5 ,  0.25]])
    """

    @property
    def in_words(self) -> str:
        return f"polynomials of degree {self.size}"

    @property
    def polynomial_degree(self) -> int | None:
        return self.size

    @abc.abstractmethod
    def to_monomials(self) -> Float[ndarray, "d d"]:
        """Matrix T with phi_k(t) = sum_p T[k-1, p-1] t^p."""

    def recurrence(self, algebra: AbstractAlgebra[Any], t: Any, c: Any) -> Any:
        """The expression that computers get: Horner's rule, unless a basis has one that keeps more digits."""
        return algebra.polynomial(self._powers(c), t)

    def expression(self, algebra: AbstractAlgebra[Any], t: Any, c: Any) -> Any:
        """Powers of t for people, and the recurrence of the basis for computers."""
        return algebra.polynomial(self._powers(c), t) if algebra.for_reading else self.recurrence(algebra, t, c)

    def _powers(self, c: Any) -> list[Any]:
        """Coefficients of 1, t, t^2, ...; entry by entry, so that `c` may be an array of any library."""
        columns = self.to_monomials().T.tolist()
        terms = ((c[..., k] if a == 1.0 else c[..., k] * a for k, a in enumerate(column, 1) if a) for column in columns)
        return [c[..., 0], *(reduce(add, some) for some in terms)]


@dataclass(frozen=True)
class AbstractPolynomialsOfDegree(AbstractPolynomialBasis):
    """Polynomials whose only field is their degree, which is the number of functions too."""

    largest_degree: ClassVar[int] = MOST_FUNCTIONS

    degree: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", as_count("degree", self.degree, most=self.largest_degree))

    @property
    def size(self) -> int:
        return self.degree


def powers(t: Float[ndarray, "*shape"], degree: int) -> Float[ndarray, "*shape powers"]:
    """t^0, ..., t^degree by recurrence: three times faster than `t ** k`."""
    table = np.empty((*t.shape, degree + 1))
    table[..., 0] = 1.0
    for k in range(degree):
        np.multiply(table[..., k], t, out=table[..., k + 1])
    return table


@dataclass(frozen=True)
class Monomial(AbstractPolynomialsOfDegree):
    """phi_k(t) = t^k for k = 1, ..., degree.

    Parameters
    ----------
    degree : int
        The degree d.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> dc.Monomial(3).evaluate(np.array([2.0]))
    array([[2., 4., 8.]])
    """

    def evaluate(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return powers(t, self.degree)[..., 1:]

    def derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return powers(t, self.degree - 1) * np.arange(1.0, self.degree + 1)

    def second_derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        k = np.arange(1.0, self.degree + 1)
        lower = powers(t, max(self.degree - 2, 0))  # t^0, ..., t^(degree - 2)
        padded = np.concatenate([np.zeros((*t.shape, 1)), lower[..., : self.degree - 1]], axis=-1)
        return padded * (k * (k - 1))

    def to_monomials(self) -> Float[ndarray, "d d"]:
        return np.eye(self.degree)


@dataclass(frozen=True)
class ScaledMonomial(AbstractPolynomialsOfDegree):
    """phi_k(t) = t^k / k, with derivatives t^(k-1) of like size on the window.

    Parameters
    ----------
    degree : int
        The degree d.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> dc.bases.ScaledMonomial(3).evaluate(np.array([0.5, 1.0])).round(3)
    array([[0.5  , 0.125, 0.042],
           [1.   , 0.5  , 0.333]])
    """

    def evaluate(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return Monomial(self.degree).evaluate(t) * self._factors()

    def derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return Monomial(self.degree).derivative(t) * self._factors()

    def second_derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return Monomial(self.degree).second_derivative(t) * self._factors()

    def to_monomials(self) -> Float[ndarray, "d d"]:
        return np.diag(self._factors())

    def _factors(self) -> Float[ndarray, " d"]:
        return 1.0 / np.arange(1.0, self.degree + 1)


@dataclass(frozen=True)
class Chebyshev(AbstractPolynomialsOfDegree):
    """phi_k(t) = T_k(t) - T_k(0): the constant is left to the model, which has one place for it.

    Parameters
    ----------
    degree : int
        The degree d.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> dc.Chebyshev(3).evaluate(np.array([-1.0, 0.5]))
    array([[-1. ,  2. , -1. ],
           [ 0.5,  0.5, -1. ]])
    """

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


@dataclass(frozen=True)
class Bernstein(AbstractPolynomialsOfDegree):
    """phi_k(t) = B_k(s) - B_k(1/2), with s = (t + 1) / 2 and B_k(s) = binom(d, k) s^k (1 - s)^(d - k).

    B_0 is left out: the B_k add up to 1, so the constant and B_1, ..., B_d span all polynomials of degree d.

    Parameters
    ----------
    degree : int
        The degree d.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> dc.bases.Bernstein(2).evaluate(np.array([-1.0, 0.0, 1.0]))
    array([[-0.5 , -0.25],
           [ 0.  ,  0.  ],
           [-0.5 ,  0.75]])
    """

    largest_degree: ClassVar[int] = 1000  # beyond, binomials are no floats

    def evaluate(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return (_bernstein_table(t, self.degree) - _bernstein_table(np.zeros(1), self.degree))[..., 1:]

    def derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return _difference(_bernstein_table(t, self.degree - 1), self.degree)[..., 1:] / 2.0

    def second_derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        if self.degree == 1:
            return np.zeros((*t.shape, 1))
        slope = _difference(_bernstein_table(t, self.degree - 2), self.degree - 1)
        return _difference(slope, self.degree)[..., 1:] / 4.0

    def shape_rows(self, shape: str) -> Float[ndarray, "k d"]:
        """Differences of the coefficients: if none is negative, no slope (or bend) is, on the window."""
        return differences(self.degree, shape)

    def least_value(self, c: Float[ndarray, " d"]) -> float:
        """The least coefficient: a polynomial runs between the least and the largest of its Bernstein coefficients."""
        return float(min(0.0, c.min()) - _bernstein_table(np.zeros(1), self.degree)[0, 1:] @ c)

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


def _bernstein_table(t: ndarray, d: int) -> ndarray:
    """All d + 1 Bernstein polynomials of degree d."""
    s = (t + 1.0) / 2.0
    return np.array([float(comb(d, k)) for k in range(d + 1)]) * powers(s, d) * powers(1.0 - s, d)[..., ::-1]


def _difference(table: ndarray, d: int) -> ndarray:
    """Derivatives in s of the polynomials of degree d from those of degree d - 1: d (B_(k-1) - B_k)."""
    zero = np.zeros((*table.shape[:-1], 1))
    padded = np.concatenate([zero, table, zero], axis=-1)
    return d * (padded[..., :-1] - padded[..., 1:])
