"""The arithmetic that a basis writes itself with: one formula, many languages.

A basis says once how its functions are computed (`AbstractBasis.expression`). Text, LaTeX, Python, C, SymPy, ONNX and
PyTorch are algebras: each gives these operations its own meaning. Numbers may be arrays with one entry per
function if the algebra computes all functions of a layer at once.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

E = TypeVar("E")
FUNCTIONS = ("cos", "sin", "tanh", "exp", "log", "abs", "reciprocal")  # what `AbstractAlgebra.apply` knows


@dataclass(frozen=True)
class Piece:
    """A polynomial without constant, powers[0] v + powers[1] v^2 + ..., in v = t - origin, for low <= t <= high.

    Attributes
    ----------
    low, high
        Ends of the piece; the first low and the last high may be infinite.
    origin
        The end at which the pieces before or behind are met: low, or high if low is infinite.
    powers
        Numbers, or arrays with one per function.
    """

    low: float
    high: float
    origin: float
    powers: tuple[Any, ...]


def at_origins(start: Any, pieces: Sequence[Piece]) -> list[Any]:
    """The value of a continuous function at the origin of each piece, if it has the value `start` at the first."""
    values, reached = [], start
    for piece in pieces:
        values.append(reached)
        if math.isfinite(piece.high) and piece.origin != piece.high:
            v = piece.high - piece.origin
            reached = reached + sum(a * v ** (k + 1) for k, a in enumerate(piece.powers))
    return values


class AbstractAlgebra(abc.ABC, Generic[E]):
    """What can be done with expressions.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> algebra = dc.bases.ArrayAlgebra()
    >>> algebra.polynomial([1.0, 0.0, 2.0], np.array([0.0, 3.0]))
    array([ 1., 19.])
    """

    for_reading: ClassVar[bool] = False  # whether people read the outcome, who expect powers of a variable

    @abc.abstractmethod
    def number(self, value: Any) -> E:
        """A constant: a number, or an array with one per function."""

    @abc.abstractmethod
    def sum(self, terms: Sequence[E]) -> E:
        """a + b + ... of at least one term."""

    @abc.abstractmethod
    def product(self, factors: Sequence[E]) -> E:
        """a b ... of at least one factor."""

    @abc.abstractmethod
    def apply(self, function: str, argument: E) -> E:
        """One of `FUNCTIONS`, by name."""

    @abc.abstractmethod
    def clip(self, argument: E, low: float, high: float) -> E:
        """The argument, moved into [low, high]."""

    def activation(self, name: str, argument: E) -> E | None:  # noqa: ARG002
        """An activation of neural networks, in the language's own way; None if it has none."""
        return None

    def pieces(self, start: Any, pieces: Sequence[Piece], argument: E) -> E:
        """A continuous function piece by piece, with the value `start` at the first finite end.

        Each piece adds what it rises by up to the argument, which is exact wherever the argument is.
        """
        terms = [self.number(start)]
        for piece in pieces:
            v = self.sum([self.clip(argument, piece.low, piece.high), self.number(-piece.origin)])
            terms.append(self.product([v, self.polynomial(piece.powers, v)]))
        return self.sum(terms)

    def polynomial(self, coefficients: Sequence[Any], argument: E) -> E:
        """a_0 + a_1 x + a_2 x^2 + ..., by Horner's rule; algebras for reading write powers instead."""
        value = self.number(coefficients[-1])
        for a in reversed(coefficients[:-1]):
            value = self.sum([self.number(a), self.product([argument, value])])
        return value


class ArrayAlgebra(AbstractAlgebra[Any]):
    """Expressions are arrays: what every other algebra is compared with."""

    def number(self, value: Any) -> Any:
        return np.asarray(value, dtype=float)

    def sum(self, terms: Sequence[Any]) -> Any:
        return reduce(np.add, terms)

    def product(self, factors: Sequence[Any]) -> Any:
        return reduce(np.multiply, factors)

    def apply(self, function: str, argument: Any) -> Any:
        return getattr(np, function)(argument)

    def clip(self, argument: Any, low: float, high: float) -> Any:
        return np.clip(argument, low, high)
