"""Expressions as trees, and their derivatives.

A tree may share parts: Clenshaw's recurrence uses each of its steps twice. Derivatives share the parts of what they are
derivatives of, so that a source with both computes everything once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..bases import AbstractAlgebra, AbstractBasis
from ..bases._algebra import Piece, at_origins
from ..model._functions import Outside
from ._equations import finite


@dataclass(frozen=True, eq=False)
class Number:
    """A number, or an array with one per function."""

    value: Any
    parts: ClassVar[tuple[Node, ...]] = ()


@dataclass(frozen=True, eq=False)
class Variable:
    text: str
    parts: ClassVar[tuple[Node, ...]] = ()


@dataclass(frozen=True, eq=False)
class Sum:
    parts: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Product:
    parts: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Call:
    """A function of `bases._algebra.FUNCTIONS`."""

    function: str
    parts: tuple[Node]


@dataclass(frozen=True, eq=False)
class Clip:
    """One of `low` and `high` may be infinite."""

    parts: tuple[Node]
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Within:
    """1 for low <= argument < high, and 0 elsewhere: the slope of a `Clip`, half open since pieces meet."""

    parts: tuple[Node]
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Pieces:
    """Polynomials a_0 + a_1 v + a_2 v^2 + ... in v = argument - origin, the first below ends[0], and so on."""

    parts: tuple[Node]
    ends: tuple[float, ...]
    polynomials: tuple[tuple[float, tuple[float, ...]], ...]  # origin, and a_0, a_1, ...

    def slopes(self) -> Pieces:
        """The derivatives of all pieces."""
        lowered = ((origin, tuple(k * a for k, a in enumerate(c))[1:] or (0.0,)) for origin, c in self.polynomials)
        return Pieces(self.parts, self.ends, tuple(lowered))


Node = Number | Variable | Sum | Product | Call | Clip | Within | Pieces


class TreeAlgebra(AbstractAlgebra[Node]):
    """Trees without terms that are 0 and factors that are 1.

    With `in_branches` functions in pieces are a node, for a language that computes one piece alone.
    """

    def __init__(self, *, in_branches: bool = False) -> None:
        self._in_branches = in_branches

    def number(self, value: Any) -> Node:
        if np.ndim(value) == 0:
            return Number(finite(value))
        return Number(np.array([finite(one) for one in np.ravel(value)]).reshape(np.shape(value)))

    def sum(self, terms: Sequence[Node]) -> Node:
        kept = tuple(term for term in terms if not _is(term, 0.0))
        return Sum(kept) if len(kept) > 1 else (kept or (Number(0.0),))[0]

    def product(self, factors: Sequence[Node]) -> Node:
        if any(_is(factor, 0.0) for factor in factors):
            return Number(0.0)
        kept = tuple(factor for factor in factors if not _is(factor, 1.0))
        return Product(kept) if len(kept) > 1 else (kept or (Number(1.0),))[0]

    def apply(self, function: str, argument: Node) -> Node:
        return Call(function, (argument,))

    def clip(self, argument: Node, low: float, high: float) -> Node:
        return Clip((argument,), float(low), float(high))

    def pieces(self, start: Any, pieces: Sequence[Piece], argument: Node) -> Node:
        if not self._in_branches:
            return super().pieces(start, pieces, argument)
        values = at_origins(start, pieces)
        polynomials = (
            (piece.origin, tuple(finite(a) for a in (value, *piece.powers)))
            for value, piece in zip(values, pieces, strict=True)
        )
        return Pieces((argument,), tuple(piece.high for piece in pieces[:-1]), tuple(polynomials))


TREES = TreeAlgebra()


def _is(node: Node, value: float) -> bool:
    return isinstance(node, Number) and np.ndim(node.value) == 0 and bool(node.value == value)


def in_order(root: Node) -> list[Node]:
    """All nodes, each once, parts before what they are parts of."""
    found: dict[int, Node] = {}
    waiting = [(root, False)]
    while waiting:  # no recursion: polynomials of high degree are deep
        node, ready = waiting.pop()
        if ready:
            found[id(node)] = node
        elif id(node) not in found:
            waiting.append((node, True))
            waiting += [(part, False) for part in reversed(node.parts)]
    return list(found.values())


def slope(basis: AbstractBasis, t: Node, c: Any, outside: Outside, trees: TreeAlgebra = TREES) -> Node:
    """g'(t), for the coefficients of one function or of several that share a basis."""
    if outside == "extend":
        return derivative(basis.expression(trees, t, c), t)
    clipped = trees.clip(t, -1.0, 1.0)  # beyond the domain tangents have the slope of its end
    inside = derivative(basis.expression(trees, clipped, c), clipped)
    if outside == "linear":
        return inside
    return TREES.product([Within((t,), -1.0, float(np.nextafter(1.0, 2.0))), inside])  # both ends belong to it


def derivative(root: Node, variable: Node) -> Node:
    """The derivative of a tree by one of its nodes, by the chain rule from the leaves on."""
    found: dict[int, Node] = {}
    for node in in_order(root):
        if node is variable:
            found[id(node)] = Number(1.0)
        elif isinstance(node, Sum):
            found[id(node)] = TREES.sum([found[id(part)] for part in node.parts])
        elif isinstance(node, Product):
            terms = [(*node.parts[:i], *node.parts[i + 1 :], found[id(part)]) for i, part in enumerate(node.parts)]
            found[id(node)] = TREES.sum([TREES.product(factors) for factors in terms])
        elif isinstance(node, Call | Clip | Pieces):
            inner = found[id(node.parts[0])]
            found[id(node)] = inner if _is(inner, 0.0) else TREES.product([_outer_slope(node), inner])
        else:
            found[id(node)] = Number(0.0)
    return found[id(root)]


def _outer_slope(node: Call | Clip | Pieces) -> Node:
    """The slope of a function of one argument, at that argument."""
    (argument,), minus = node.parts, Number(-1.0)
    if isinstance(node, Pieces):
        return node.slopes()
    if isinstance(node, Clip):
        return Within((argument,), node.low, node.high)
    if node.function == "abs":
        return TREES.sum([TREES.product([Number(2.0), Within((argument,), 0.0, np.inf)]), minus])
    slopes: dict[str, Node] = {
        "sin": TREES.apply("cos", argument),
        "cos": TREES.product([minus, TREES.apply("sin", argument)]),
        "tanh": TREES.sum([Number(1.0), TREES.product([minus, node, node])]),
        "exp": node,
        "log": TREES.apply("reciprocal", argument),
        "reciprocal": TREES.product([minus, node, node]),
    }
    return slopes[node.function]
