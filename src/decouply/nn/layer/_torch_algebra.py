"""The arithmetic in which a basis writes itself for PyTorch.

Coefficients are parameters, one tensor (r,) per basis function, so that gradients flow through what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import add, mul
from typing import Any

import torch
from torch import Tensor, nn

from ...bases import AbstractAlgebra, AbstractBasis
from ...bases._algebra import Piece, at_origins

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {  # of `dc.Activation`
    "relu": torch.relu,
    "gelu": partial(nn.functional.gelu, approximate="tanh"),
    "silu": nn.functional.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": nn.functional.softplus,
}


def values_on_window(basis: AbstractBasis, t: Tensor, C: Tensor) -> Tensor:
    """g_j(t_j), for coefficients (r, 1 + d) and arguments (..., r) on the window."""
    value: Tensor = basis.expression(TensorAlgebra(t), t, C)
    return value


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


class TensorAlgebra(AbstractAlgebra[Any]):
    """Expressions are tensors of the kind of `like`, or plain numbers."""

    def __init__(self, like: Tensor) -> None:
        self._like = like

    def number(self, value: Any) -> Any:
        return value if isinstance(value, Tensor | float) else self._like.new_tensor(value)

    def sum(self, terms: Sequence[Any]) -> Any:
        return reduce(add, terms)

    def product(self, factors: Sequence[Any]) -> Any:
        return reduce(mul, factors)

    def apply(self, function: str, argument: Any) -> Any:
        return getattr(torch, function)(argument)

    def clip(self, argument: Any, low: float, high: float) -> Any:
        return argument.clamp(low, high)

    def activation(self, name: str, argument: Any) -> Any:
        return ACTIVATIONS[name](argument)

    def pieces(self, start: Any, pieces: Sequence[Piece], argument: Any) -> Any:
        """The polynomial of the piece in which each argument is: fast, and with one slope at a knot."""
        index = torch.bucketize(argument.detach(), argument.new_tensor([piece.high for piece in pieces[:-1]]))
        most = max(len(piece.powers) for piece in pieces)
        zero = torch.zeros_like(start)
        rows = [[value, *piece.powers] for value, piece in zip(at_origins(start, pieces), pieces, strict=True)]
        table = torch.stack([torch.stack([*row, *[zero] * (1 + most - len(row))]) for row in rows])  # (p, powers, r)
        function = torch.arange(argument.shape[-1], device=argument.device).expand_as(argument)
        v = argument - argument.new_tensor([piece.origin for piece in pieces])[index]
        return reduce(lambda value, k: value * v + table[:, k][index, function], range(most, -1, -1), 0.0)
