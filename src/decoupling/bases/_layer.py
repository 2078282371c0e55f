"""The bases of one layer: the same for all its functions, or one per function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from .._support._errors import InputError
from ._abstract import AbstractBasis, AbstractPolynomialBasis


@dataclass(frozen=True)
class Rescaling:
    """Coefficients of polynomials after u = alpha v is replaced by v."""

    to_monomials: Float[ndarray, "d d"]
    back: Float[ndarray, "d d"]

    def __call__(self, C: Float[ndarray, "B r d"], alpha: Float[ndarray, "B r"]) -> Float[ndarray, "B r d"]:
        powers = np.arange(1, len(self.back) + 1)
        return ((C @ self.to_monomials) * alpha[..., None] ** powers) @ self.back


@dataclass(frozen=True)
class LayerBasis:
    """One basis for each of the r functions of a layer, evaluated together.

    Functions with a smaller basis than their neighbours are padded with zeros up to the largest size d.
    """

    bases: tuple[AbstractBasis, ...]

    @classmethod
    def of(cls, basis: AbstractBasis | tuple[AbstractBasis, ...] | list[AbstractBasis], rank: int) -> LayerBasis:
        """Spread one basis over `rank` functions, or check that there is one for each."""
        given = basis if isinstance(basis, tuple | list | AbstractBasis) else [basis]
        bases = (given,) * rank if isinstance(given, AbstractBasis) else tuple(given)
        for item in bases:
            if not isinstance(item, AbstractBasis):
                raise InputError(
                    "`basis` must be a basis such as dc.Monomial(3), or one basis per internal function. "
                    f"Got {item!r}; your own class must derive from dc.AbstractBasis."
                )
        if len(bases) != rank:
            raise InputError(f"`basis` must hold one basis per internal function, {rank} here. Got {len(bases)}.")
        return cls(bases)

    @cached_property
    def shared(self) -> AbstractBasis | None:
        """The basis that all functions have in common, if they have."""
        first = self.bases[0]
        return first if all(b is first or _equal(b, first) for b in self.bases[1:]) else None

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(b.size for b in self.bases)

    @cached_property
    def size(self) -> int:
        """The largest number d of basis functions in the layer."""
        return max(self.sizes)

    @cached_property
    def scale_invariant(self) -> Bool[ndarray, " r"]:
        return np.array([b.scale_invariant for b in self.bases])

    def evaluate(self, u: Float[ndarray, "*batch r"]) -> Float[ndarray, "*batch r d"]:
        return self._each("evaluate", u)

    def derivative(self, u: Float[ndarray, "*batch r"]) -> Float[ndarray, "*batch r d"]:
        return self._each("derivative", u)

    def second_derivative(self, u: Float[ndarray, "*batch r"]) -> Float[ndarray, "*batch r d"]:
        return self._each("second_derivative", u)

    @cached_property
    def rescaling(self) -> Rescaling | None:
        """What scaling the arguments does to the coefficients, if that is known in closed form."""
        shared = self.shared
        if not isinstance(shared, AbstractPolynomialBasis):
            return None
        T = shared.to_monomials()
        return Rescaling(T, np.linalg.inv(T))

    def _each(self, method: str, u: ndarray) -> ndarray:
        if (shared := self.shared) is not None:
            table: ndarray = getattr(shared, method)(u)
            return table
        padded = np.zeros((*u.shape, self.size))
        for j, basis in enumerate(self.bases):
            padded[..., j, : basis.size] = getattr(basis, method)(u[..., j])
        return padded


def _equal(a: AbstractBasis, b: AbstractBasis) -> bool:
    """Whether two bases are the same; fields that cannot be compared, such as arrays, count as different."""
    try:
        return bool(a == b)
    except ValueError:
        return False
