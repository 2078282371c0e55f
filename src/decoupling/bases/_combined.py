"""Polynomial bases given by a constant matrix over the monomials."""

from __future__ import annotations

from jaxtyping import Float
from numpy import ndarray

from ._abstract import AbstractPolynomialBasis
from ._monomial import Monomial


class AbstractMonomialCombination(AbstractPolynomialBasis):
    """phi = T (u, ..., u^d): everything follows from `to_monomials`.

    Degrees stay small here (the paper uses at most 5), where the detour over monomials loses no accuracy that counts.
    """

    @property
    def scale_invariant(self) -> bool:
        return True

    def evaluate(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return Monomial(self.size).evaluate(u) @ self.to_monomials().T

    def derivative(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return Monomial(self.size).derivative(u) @ self.to_monomials().T

    def second_derivative(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return Monomial(self.size).second_derivative(u) @ self.to_monomials().T
