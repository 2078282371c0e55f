r"""Expressions as trees, from which source code is written, and an internal function in any algebra.

Parts of a tree may be shared: Clenshaw's recurrence uses each of its steps twice, and the source names what it uses
twice. Beyond its domain a function goes on by its tangents: with t_c = clip(t, -1, 1),

    g(t_c) + g'(1) max(t - 1, 0) + g'(-1) min(t + 1, 0),

in which the slopes are numbers; functions that are held are g(t_c).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..bases import AbstractAlgebra, AbstractBasis
from ..model._functions import Outside
from ._equations import finite


def function(
    algebra: AbstractAlgebra[Any], basis: AbstractBasis, t: Any, c: Float[ndarray, "*functions e"], outside: Outside
) -> Any:
    """g(t), for the coefficients of one function or of several that share a basis."""
    if outside == "extend":
        return basis.expression(algebra, t, c)
    value = basis.expression(algebra, algebra.clip(t, -1.0, 1.0), c)
    if outside == "constant":
        return value
    first, last = np.moveaxis(c[..., 1:] @ basis.derivative(np.array([-1.0, 1.0])).T, -1, 0)
    above = algebra.clip(algebra.sum([t, algebra.number(-1.0)]), 0.0, np.inf)
    below = algebra.clip(algebra.sum([t, algebra.number(1.0)]), -np.inf, 0.0)
    tails = [algebra.product([algebra.number(slope), part]) for slope, part in ((last, above), (first, below))]
    return algebra.sum([value, *tails])


@dataclass(frozen=True, eq=False)
class Number:
    value: float


@dataclass(frozen=True, eq=False)
class Variable:
    text: str


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


Node = Number | Variable | Sum | Product | Call | Clip


class TreeAlgebra(AbstractAlgebra[Node]):
    """Trees without terms that are 0 and factors that are 1."""

    def number(self, value: Any) -> Node:
        return Number(finite(value))

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


def parts(node: Node) -> tuple[Node, ...]:
    return () if isinstance(node, Number | Variable) else node.parts


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
            waiting += [(part, False) for part in reversed(parts(node))]
    return list(found.values())


def _is(node: Node, value: float) -> bool:
    return isinstance(node, Number) and node.value == value
