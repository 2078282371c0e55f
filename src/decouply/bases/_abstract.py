r"""What a basis is: the functions that internal functions are combined from, one by one and layer by layer.

A basis lives on the window [-1, 1]. An internal function has a domain [a, b], which is mapped to the window,

    g(u) = c_0 + \sum_{k=1}^{d} c_k \phi_k(t),      t = (2 u - a - b) / (b - a),

and a basis supplies :math:`\phi_1, \dots, \phi_d`, never the constant. Scaling and shifting an argument is a change of
the domain, for every basis.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from .._support._arguments import is_word
from .._support._errors import InputError, short_repr
from ._algebra import AbstractAlgebra

SHAPES = ("increasing", "decreasing", "convex", "concave")
SYMMETRIES = ("odd", "even")
ALL_SHAPES = (*SHAPES, *SYMMETRIES, "nonnegative")
MOST_FUNCTIONS = 100_000  # of a basis, and of a layer: more is a slip that would fill the memory
_DISTANCE_OF_SAME = 1e-9  # functions that differ by less, on the window, are the same
_MORE_NODES = 20  # of quadrature, for functions that are no polynomials
_NODES_PER_FUNCTION = 8  # where functions are fitted by others of the same basis


class AbstractBasis(abc.ABC):
    """The functions phi_1, ..., phi_d. All methods work elementwise on an array of any shape and add a last axis.

    Write your own by giving the four members that are abstract; `decouply.testing.check_basis` tells whether they
    agree with each other. Give `expression` too and models that use it can be written as formulas, source code, ONNX
    and PyTorch. Make it a frozen dataclass with simple fields and they can be saved and loaded.

    Examples
    --------
    >>> import decouply as dc
    >>> isinstance(dc.Spline(8), dc.bases.AbstractBasis)
    True
    >>> [kind.__name__ for kind in dc.bases.OWN_BASES[:3]]
    ['Monomial', 'ScaledMonomial', 'Bernstein']
    """

    window: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number d of functions."""

    @abc.abstractmethod
    def evaluate(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        """Values phi_k(t)."""

    @abc.abstractmethod
    def derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        """First derivatives phi_k'(t)."""

    @abc.abstractmethod
    def second_derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        """Second derivatives phi_k''(t)."""

    @property
    def free_domain(self) -> bool:
        """Whether the domain is a parameter to be found, because scaled and shifted functions leave the span.

        False means that solvers keep the domain at the range that the samples visit.
        """
        return False

    @property
    def polynomial_degree(self) -> int | None:
        """d if the functions and the constant span all polynomials of degree d; None if they do not."""
        return None

    def expression(self, algebra: AbstractAlgebra[Any], t: Any, c: Any) -> Any:  # noqa: ARG002
        """c_0 + sum_k c_k phi_k(t), written with the arithmetic of `algebra`.

        The coefficients of one function, or of several with one row each; take `c[..., k]` and give it to the algebra.
        """
        raise InputError(
            f"`{type(self).__name__}` must have a method `expression` for its models to be written as formulas, source "
            "code, ONNX or PyTorch. It has none: see dc.bases.AbstractBasis.expression."
        )

    @property
    def writable(self) -> bool:
        """Whether the basis can write itself."""
        return type(self).expression is not AbstractBasis.expression

    @property
    def in_words(self) -> str:
        """What functions of this basis are, for people: "polynomials of degree 3"."""
        if self.size == 1:
            return f"multiples of the one function of the basis {type(self).__name__}"
        return f"combinations of {self.size} functions of the basis {type(self).__name__}"

    def moved(
        self, C: Float[ndarray, "*batch e"], scale: Float[ndarray, "*batch"], shift: Float[ndarray, "*batch"]
    ) -> Float[ndarray, "*batch e"]:
        """Coefficients, constant first, of t -> g(scale t + shift): exact if the span allows it, else the nearest.

        The functions are compared at Chebyshev points of the window.
        """
        nodes, table = self.comparison()
        at = scale[..., None] * nodes + shift[..., None]
        values = C[..., :1] + np.einsum("...kd,...d->...k", self.evaluate(at), C[..., 1:])
        if len(nodes) == table.shape[1]:
            return np.linalg.solve(table, values[..., None])[..., 0]
        flat = np.linalg.lstsq(table, values.reshape(-1, len(nodes)).T, rcond=None)[0].T
        return flat.reshape(C.shape)

    def comparison(self) -> tuple[Float[ndarray, " k"], Float[ndarray, "k e"]]:
        """Points of the window at which functions are compared, and the constant with the basis there."""
        try:
            return _known_comparison(self)
        except TypeError:  # a basis of somebody's own that cannot be hashed
            return _comparison(self)

    def line(self) -> Float[ndarray, " e"] | None:
        """Coefficients, constant first, of the function t; None if the basis has no straight line."""
        nodes, table = self.comparison()
        fitted = np.linalg.lstsq(table, nodes, rcond=None)[0]
        return fitted if np.max(np.abs(table @ fitted - nodes)) <= _DISTANCE_OF_SAME else None

    @property
    def knots(self) -> Float[ndarray, " k"]:
        """The places where the pieces of a basis meet, on the window; none for other bases. Drawings mark them."""
        return np.zeros(0)

    @property
    def smooths(self) -> bool:
        """Whether functions of this basis follow noise unless their roughness is held down."""
        return False

    @property
    def is_activation(self) -> bool:
        """Whether functions of this basis begin as an activation, so that they can be trained like a network."""
        return False

    @property
    def is_open(self) -> bool:
        """Whether the data choose how many pieces functions of this basis have."""
        return False

    def with_pieces(self, pieces: int) -> AbstractBasis:  # noqa: ARG002
        """The basis with this many pieces, if their number is open; itself otherwise."""
        return self

    def with_fewer_pieces(self, pieces: int) -> AbstractBasis:  # noqa: ARG002
        """The basis with at most this many pieces, to be read; itself if it has no pieces."""
        return self

    def coarser(self) -> AbstractBasis:
        """A basis of fewer functions to search with before this one takes over; itself if none is better."""
        return self

    @property
    def orders(self) -> tuple[int, ...]:
        """Orders of derivatives that `roughness` can be made of; the data choose between them."""
        return (2,)

    def roughness(self, order: int = 2) -> Float[ndarray, "k d"]:
        """A root L of the penalty c -> ||L c||^2, the integral of g''(t)^2 over the window, or another of `orders`."""
        assert order == 2
        nodes, weights = np.polynomial.legendre.leggauss(2 * self.size + _MORE_NODES)
        return np.sqrt(weights)[:, None] * self.second_derivative(nodes)

    def shape_rows(self, shape: str) -> Float[ndarray, "k d"]:
        """Independent rows: if none is negative times c, g has this shape on the whole window."""
        raise InputError(_no_shapes(self, shape))

    def least_value(self, c: Float[ndarray, " d"]) -> float:  # noqa: ARG002
        """A number that sum_k c_k phi_k(t) is not below on the window."""
        raise InputError(_no_shapes(self, "nonnegative"))

    def shaped(self, shape: str) -> tuple[Float[ndarray, "d q"], Bool[ndarray, " q"]]:
        """All functions of a shape: T and a mask, such that c = T s with s >= 0 if the mask is True.

        "odd" and "even" are meant about the middle of the domain, and up to the constant. "nonnegative" is a matter of
        the constant alone.
        """
        if shape in SYMMETRIES:
            nodes, sign = self.comparison()[0], 1.0 if shape == "odd" else -1.0
            rows = self.evaluate(nodes) + sign * self.evaluate(-nodes)
            _, sizes, Vt = np.linalg.svd(rows)
            rank = int(np.count_nonzero(sizes > _DISTANCE_OF_SAME * max(float(sizes[0]), 1.0)))
            if rank == self.size:
                raise InputError(f'`shapes` must be possible: the basis {self!r} has no functions that are "{shape}".')
            return Vt[rank:].T, np.zeros(self.size - rank, dtype=bool)
        if shape == "nonnegative":
            self.least_value(np.zeros(self.size))
            return np.eye(self.size), np.zeros(self.size, dtype=bool)
        rows = self.shape_rows(shape)
        rest = np.linalg.svd(rows)[2][len(rows) :] if len(rows) else np.eye(self.size)
        return np.linalg.inv(np.concatenate([rows, rest])), np.arange(self.size) < len(rows)


def differences(size: int, shape: str) -> Float[ndarray, "k d"]:
    """Rows of a shape for functions whose coefficients follow the curve; the first one is left out, and 0."""
    if not is_word(shape, SHAPES):
        raise InputError(f"`shape` must be one of {', '.join(SHAPES)}. Got {short_repr(shape)}.")
    order = 1 if shape in ("increasing", "decreasing") else 2
    sign = -1.0 if shape in ("decreasing", "concave") else 1.0
    return sign * np.diff(np.eye(1 + size), n=order, axis=0)[:, 1:]


def _no_shapes(basis: AbstractBasis, shape: str) -> str:
    return (
        "`shapes` must be asked of a basis that can guarantee them: dc.Spline or dc.bases.Bernstein. "
        f'Got "{shape}" for {basis!r}.'
    )


def _comparison(basis: AbstractBasis) -> tuple[Float[ndarray, " k"], Float[ndarray, "k e"]]:
    """Chebyshev points of the window at which functions are compared, and the constant with the basis there."""
    count = 1 + basis.size if basis.polynomial_degree == basis.size else _NODES_PER_FUNCTION * (1 + basis.size)
    nodes = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    return nodes, np.insert(basis.evaluate(nodes), 0, 1.0, axis=1)


_known_comparison = cache(_comparison)


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
                    f"Got {short_repr(item)}; your own class must derive from dc.bases.AbstractBasis."
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
        """Coefficients, constant first, of the same functions in other bases: exact if their span allows it."""
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
