"""Polynomials of several variables: products of Chebyshev polynomials over a box, up to a total degree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray


def n_products(n_variables: int, degree: int) -> int:
    """Polynomials of this many variables up to a total degree have this many coefficients."""
    return comb(n_variables + degree, degree)


@dataclass(frozen=True)
class Polynomials:
    """Products of Chebyshev polynomials of z up to a total degree, the constant first."""

    n_variables: int
    degree: int

    @cached_property
    def exponents(self) -> Int[ndarray, "p r"]:
        r = self.n_variables
        chosen = (c for k in range(self.degree + 1) for c in combinations_with_replacement(range(r), k))
        return np.array([[c.count(j) for j in range(r)] for c in chosen])

    def tables(self, z: Float[ndarray, "B r S"], box: tuple[ndarray, ndarray]) -> list[list[ndarray]]:
        """Values, first and second derivatives of the factor of every product in z_1, in z_2, ...: (B, p, S) each."""
        middle, half = box
        t = (z - middle[..., None]) / half[..., None]
        T, dT, ddT = (np.zeros((self.degree + 1, *t.shape)) for _ in range(3))
        T[0] = 1.0
        for k in range(1, self.degree + 1):
            first = k == 1
            T[k] = t if first else 2.0 * t * T[k - 1] - T[k - 2]
            dT[k] = 1.0 if first else 2.0 * T[k - 1] + 2.0 * t * dT[k - 1] - dT[k - 2]
            ddT[k] = 0.0 if first else 4.0 * dT[k - 1] + 2.0 * t * ddT[k - 1] - ddT[k - 2]
        scale = 1.0 / half[..., None]
        tables = (T, dT * scale, ddT * scale**2)
        return [[table[e, :, j].swapaxes(0, 1) for j, e in enumerate(self.exponents.T)] for table in tables]

    def values(self, tables: list[list[ndarray]]) -> Float[ndarray, "B p S"]:
        return _multiply(tables[0])

    def slopes(self, tables: list[list[ndarray]]) -> Float[ndarray, "B p r S"]:
        T, dT, _ = tables
        return np.stack([_multiply([*T[:k], dT[k], *T[k + 1 :]]) for k in range(self.n_variables)], axis=2)

    def bends(self, tables: list[list[ndarray]], A: Float[ndarray, "B p n"]) -> Float[ndarray, "B r r n S"]:
        """Second derivatives of h."""
        T, dT, ddT = tables
        r, (B, _, S) = self.n_variables, T[0].shape
        out = np.empty((B, r, r, A.shape[-1], S))
        for k in range(r):
            for l in range(k, r):
                others = [T[j] for j in range(r) if j not in (k, l)]
                out[:, k, l] = A.mT @ _multiply([*others, *([ddT[k]] if k == l else [dT[k], dT[l]])])
                out[:, l, k] = out[:, k, l]
        return out


def box_of(z: Float[ndarray, "B r S"]) -> tuple[Float[ndarray, "B r"], Float[ndarray, "B r"]]:
    """Middle and half width of the range of z."""
    low, high = z.min(axis=-1), z.max(axis=-1)
    return (low + high) / 2.0, np.where(high > low, (high - low) / 2.0, 1.0)


def _multiply(factors: Sequence[ndarray]) -> ndarray:
    out = factors[0]
    for factor in factors[1:]:
        out = out * factor
    return out
