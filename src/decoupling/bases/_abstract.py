r"""What a basis is: the functions that a layer's internal functions are combined from.

An internal function is :math:`g(u) = c_0 + \sum_{k=1}^{d} c_k \phi_k(u)`; a basis supplies
:math:`\phi_1, \dots, \phi_d`, never the constant.
"""

from __future__ import annotations

import abc

from jaxtyping import Float
from numpy import ndarray


class AbstractBasis(abc.ABC):
    """The functions phi_1, ..., phi_d. All methods work elementwise on an array of any shape and add a last axis.

    Write your own by giving the five members below; `decoupling.testing.check_basis` tells whether they agree with
    each other. Make it a frozen dataclass with simple fields and models that use it can be saved and loaded too.
    """

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number d of functions."""

    @property
    @abc.abstractmethod
    def scale_invariant(self) -> bool:
        """Whether span{phi_k(a u)} = span{phi_k(u)} for every a != 0 (Definition of scale invariance)."""

    @abc.abstractmethod
    def evaluate(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        """Values phi_k(u)."""

    @abc.abstractmethod
    def derivative(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        """First derivatives phi_k'(u)."""

    @abc.abstractmethod
    def second_derivative(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        """Second derivatives phi_k''(u)."""


class AbstractPolynomialBasis(AbstractBasis):
    """A basis of the polynomials of degree <= d that vanish at 0, so that the constant of g is g(0).

    Vanishing at 0 makes the span scale-invariant, lets every basis of this kind be exchanged for another without
    touching the constants, and keeps inner constants 0 under rescaling.
    """

    @abc.abstractmethod
    def to_monomials(self) -> Float[ndarray, "d d"]:
        """Matrix T with phi_k(u) = sum_p T[k-1, p-1] u^p."""
