"""Monomials divided by a factor each, so that their derivatives have like size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._checks import as_count, as_number
from ._abstract import AbstractPolynomialBasis
from ._monomial import Monomial


@dataclass(frozen=True)
class ScaledMonomial(AbstractPolynomialBasis):
    """phi_k(u) = (u / scale)^k * scale / k, with derivatives (u / scale)^(k-1) of like size."""

    degree: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", as_count("degree", self.degree))
        object.__setattr__(self, "scale", as_number("scale", self.scale, above=True))

    @property
    def size(self) -> int:
        return self.degree

    @property
    def scale_invariant(self) -> bool:
        return True

    def evaluate(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return Monomial(self.degree).evaluate(u) * self._factors()

    def derivative(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return Monomial(self.degree).derivative(u) * self._factors()

    def second_derivative(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return Monomial(self.degree).second_derivative(u) * self._factors()

    def to_monomials(self) -> Float[ndarray, "d d"]:
        return np.diag(self._factors())

    def _factors(self) -> Float[ndarray, " d"]:
        k = np.arange(1.0, self.degree + 1)
        return self.scale ** (1.0 - k) / k
