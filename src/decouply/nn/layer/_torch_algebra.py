"""The arithmetic in which a basis writes itself for PyTorch: tensors, with or without their derivatives.

Coefficients are parameters, one tensor (r,) per basis function, so that gradients flow through what is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add, mul
from typing import Any

import torch
from torch import Tensor

from ...bases import AbstractAlgebra, AbstractBasis
from ...bases._algebra import FUNCTIONS, Piece, at_origins


def values_on_window(basis: AbstractBasis, t: Tensor, C: Tensor) -> Tensor:
    """g_j(t_j), for coefficients (r, 1 + d) and arguments (..., r) on the window."""
    value: Tensor = basis.expression(_Tensors(t), t, C)
    return value


def slopes_on_window(basis: AbstractBasis, t: Tensor, C: Tensor) -> Tensor:
    """g_j'(t_j)."""
    _, slope = basis.expression(_Duals(t), (t, torch.ones_like(t)), C)
    return slope if isinstance(slope, Tensor) else torch.zeros_like(t)


def horner(t: Tensor, A: Tensor) -> Tensor:
    """A[j, 0] + A[j, 1] t_j + A[j, 2] t_j^2 + ..., of degree 1 at least."""
    a = A.unbind(-1)
    value = torch.addcmul(a[-2], a[-1], t)
    for coefficient in a[-3::-1]:
        value = torch.addcmul(coefficient, value, t)
    return value


def table_of(rows: Tensor, C: Tensor) -> Tensor:
    """Powers (p r, q) of all pieces of all functions, function by function within a piece."""
    return torch.einsum("pqe,re->prq", rows, C).flatten(0, 1)


def look_up(t: Tensor, ends: Tensor, origins: Tensor, table: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Arguments less the origin of the piece they are in, and the powers of its polynomial there."""
    index = torch.bucketize(t.detach().contiguous(), ends)
    own = torch.arange(t.shape[-1], device=t.device)
    powers = torch.nn.functional.embedding(index * t.shape[-1] + own, table).unbind(-1)
    return t - origins[index], powers


def horner_in_pieces(v: Tensor, powers: tuple[Tensor, ...]) -> Tensor:
    value = powers[-1]
    for a in powers[-2::-1]:
        value = torch.addcmul(a, value, v)
    return value


def slopes_in_pieces(v: Tensor, powers: tuple[Tensor, ...]) -> Tensor:
    return horner_in_pieces(v, tuple(k * a for k, a in enumerate(powers))[1:])


class _Tensors(AbstractAlgebra[Any]):
    """Expressions are tensors of the kind of `like`, or plain numbers."""

    def __init__(self, like: Tensor) -> None:
        self._like = like

    def number(self, value: Any) -> Any:
        return _number(value, self._like)

    def sum(self, terms: Sequence[Any]) -> Any:
        return reduce(add, terms)

    def product(self, factors: Sequence[Any]) -> Any:
        return reduce(mul, factors)

    def apply(self, function: str, argument: Any) -> Any:
        return getattr(torch, function)(argument)

    def clip(self, argument: Any, low: float, high: float) -> Any:
        return argument.clamp(low, high)

    def pieces(self, start: Any, pieces: Sequence[Piece], argument: Any) -> Any:
        """The polynomial of the piece in which each argument is: fast, and with one slope at a knot."""
        origin, powers = _pieces_at(start, pieces, argument)
        v = argument - origin
        return reduce(lambda value, a: value * v + a, powers[::-1])


class _Duals(AbstractAlgebra[tuple[Any, Any]]):
    """Expressions are pairs: a value and its derivative in t. A derivative that is the number 0.0 costs nothing."""

    def __init__(self, like: Tensor) -> None:
        self._like = like

    def number(self, value: Any) -> tuple[Any, Any]:
        return _number(value, self._like), 0.0

    def sum(self, terms: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
        return reduce(add, [v for v, _ in terms]), _total([s for _, s in terms])

    def product(self, factors: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
        return reduce(_product, factors)

    def apply(self, function: str, argument: tuple[Any, Any]) -> tuple[Any, Any]:
        x, slope = argument
        value = getattr(torch, function)(x)
        return value, _times(_slope(function, x, value), slope)

    def clip(self, argument: tuple[Any, Any], low: float, high: float) -> tuple[Any, Any]:
        x, slope = argument
        return x.clamp(low, high), _times((x >= low) & (x <= high), slope)

    def pieces(self, start: Any, pieces: Sequence[Piece], argument: tuple[Any, Any]) -> tuple[Any, Any]:
        t, slope = argument
        origin, powers = _pieces_at(start, pieces, t)
        v, value, rise = t - origin, powers[-1], torch.zeros_like(t)
        for a in powers[-2::-1]:
            value, rise = value * v + a, rise * v + value
        return value, _times(rise, slope)


def _pieces_at(start: Any, pieces: Sequence[Piece], t: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The origin of the piece in which each argument (..., r) is, and the coefficients of its polynomial there."""
    ends = t.new_tensor([piece.high for piece in pieces[:-1]])
    index = torch.bucketize(t.detach(), ends)
    most = max(len(piece.powers) for piece in pieces)
    zero = torch.zeros_like(start)
    rows = [[value, *piece.powers] for value, piece in zip(at_origins(start, pieces), pieces, strict=True)]
    table = torch.stack([torch.stack([*row, *[zero] * (1 + most - len(row))]) for row in rows])  # (pieces, powers, r)
    function = torch.arange(t.shape[-1], device=t.device).expand_as(t)
    return t.new_tensor([piece.origin for piece in pieces])[index], [
        table[:, k][index, function] for k in range(1 + most)
    ]


def _product(x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
    return x[0] * y[0], _total([_times(x[0], y[1]), _times(y[0], x[1])])


def _slope(function: str, x: Tensor, value: Tensor) -> Tensor:
    """The derivative of one of `FUNCTIONS` at x, where it has this value."""
    match function:
        case "cos":
            return -torch.sin(x)
        case "sin":
            return torch.cos(x)
        case "tanh":
            return 1.0 - value * value
        case "exp":
            return value
        case "log":
            return 1.0 / x
        case "abs":
            return torch.sign(x)
        case "reciprocal":
            return -value * value
    raise ValueError(f"`function` must be one of {', '.join(FUNCTIONS)}. Got {function!r}.")


def _times(factor: Any, slope: Any) -> Any:
    return slope if isinstance(slope, float) else factor * slope


def _total(slopes: list[Any]) -> Any:
    some = [s for s in slopes if not isinstance(s, float)]
    return reduce(add, some) if some else 0.0


def _number(value: Any, like: Tensor) -> Any:
    return value if isinstance(value, Tensor | float) else like.new_tensor(value)
