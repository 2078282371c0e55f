"""The bases of one layer: the same for all its functions, or one per function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from .._support._errors import InputError, short_repr
from ._abstract import AbstractBasis


@dataclass(frozen=True)
class LayerBasis:
    """One basis for each of the r functions of a layer, evaluated together on the window.

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
                    f"Got {short_repr(item)}; your own class must derive from dc.AbstractBasis."
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
    def free_domain(self) -> Bool[ndarray, " r"]:
        """Which functions have a domain that has to be found."""
        return np.array([b.free_domain for b in self.bases])

    def evaluate(self, t: Float[ndarray, "*batch r"]) -> Float[ndarray, "*batch r d"]:
        return self._each("evaluate", t)

    def derivative(self, t: Float[ndarray, "*batch r"]) -> Float[ndarray, "*batch r d"]:
        return self._each("derivative", t)

    def second_derivative(self, t: Float[ndarray, "*batch r"]) -> Float[ndarray, "*batch r d"]:
        return self._each("second_derivative", t)

    def moved(
        self, C: Float[ndarray, "*batch r e"], scale: Float[ndarray, "*batch r"], shift: Float[ndarray, "*batch r"]
    ) -> Float[ndarray, "*batch r e"]:
        """Coefficients of t -> g(scale t + shift), see `AbstractBasis.moved`."""
        if (shared := self.shared) is not None:
            return shared.moved(C, scale, shift)
        out = np.zeros_like(C)
        for j, basis in enumerate(self.bases):
            own = slice(1 + basis.size)
            out[..., j, own] = basis.moved(C[..., j, own], scale[..., j], shift[..., j])
        return out

    def coarser(self) -> LayerBasis:
        """The bases to search with before these take over, see `AbstractBasis.coarser`."""
        return LayerBasis(tuple(basis.coarser() for basis in self.bases))

    def rewritten(self, C: Float[ndarray, "*batch r e"], other: LayerBasis) -> Float[ndarray, "*batch r k"]:
        """Coefficients, constant first, of the same functions in other bases: exact where their span allows it."""
        out = np.zeros((*C.shape[:-1], 1 + other.size))
        for j, (old, new) in enumerate(zip(self.bases, other.bases, strict=True)):
            nodes, table = new.comparison()
            values = C[..., j, :1] + C[..., j, 1 : 1 + old.size] @ old.evaluate(nodes).T
            flat = np.linalg.lstsq(table, values.reshape(-1, len(nodes)).T, rcond=None)[0].T
            out[..., j, : 1 + new.size] = flat.reshape(*C.shape[:-2], 1 + new.size)
        return out

    def _each(self, method: str, t: ndarray) -> ndarray:
        if (shared := self.shared) is not None:
            table: ndarray = getattr(shared, method)(t)
            return table
        padded = np.zeros((*t.shape, self.size))
        for j, basis in enumerate(self.bases):
            padded[..., j, : basis.size] = getattr(basis, method)(t[..., j])
        return padded


def _equal(a: AbstractBasis, b: AbstractBasis) -> bool:
    """Whether two bases are the same; fields that cannot be compared, such as arrays, count as different."""
    try:
        return bool(a == b)
    except ValueError:
        return False
