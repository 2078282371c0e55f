"""Monomials divided by their degree, so that their derivatives have like size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_count
from ._abstract import MOST_FUNCTIONS, AbstractPolynomialBasis
from ._monomial import Monomial


@dataclass(frozen=True)
class ScaledMonomial(AbstractPolynomialBasis):
    """phi_k(t) = t^k / k, with derivatives t^(k-1) of like size on the window."""

    degree: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", as_count("degree", self.degree, most=MOST_FUNCTIONS))

    @property
    def size(self) -> int:
        return self.degree

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
