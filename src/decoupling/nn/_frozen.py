r"""Layers for use, not for training: everything that does not depend on the input is computed beforehand.

Domains go into the matrices before the functions and constants into the bias behind them, so that a layer is a matrix,
a few operations for its functions, and a matrix. Powers are summed by Horner's rule, and beyond the domain

    g(t) = g(s) + low (t - s) + (high - low) max(t - s, 0),      s = t clamped to [-1, 1],

needs no comparison. Splines are looked up in a table.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from ._algebra import horner_in_pieces
from ._convolution import OnPatches
from ._layer import DecoupledLayer


def freeze(model: nn.Module) -> nn.Module:
    """A copy of a network in evaluation mode whose decoupled layers are made for use: faster, and not to be trained.

    Layers within convolutions, and those of bases that are neither polynomials nor in equal pieces, stay as they are.

    Examples
    --------
    >>> import decoupling as dc, torch  # doctest: +SKIP
    >>> fast = dc.nn.freeze(out.model)  # doctest: +SKIP
    """
    if isinstance(model, DecoupledLayer):
        return _frozen(model)
    own = copy.deepcopy(model).eval()
    for module in list(own.modules()):
        if not isinstance(module, OnPatches):
            for name, child in module.named_children():
                if isinstance(child, DecoupledLayer):
                    setattr(module, name, _frozen(child))
    return own


class FrozenLayer(nn.Module):
    """What a `DecoupledLayer` computes, with fewer operations."""

    def __init__(self, maps: list[tuple[Tensor, Tensor]], functions: list[nn.Module], A: Tensor | None) -> None:
        super().__init__()
        self.functions = nn.ModuleList(functions)
        for l, (W, b) in enumerate(maps):
            self.register_buffer(f"W_{l}", W)
            self.register_buffer(f"b_{l}", b)
        self.A = None if A is None else nn.Parameter(A, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        own: Any = self._buffers  # looking attributes up takes longer than some of the operations
        z = linear(x, own["W_0"], own["b_0"])
        for l, function in enumerate(self.functions, 1):
            z = linear(function(z), own[f"W_{l}"], own[f"b_{l}"])
        return z if self.A is None else z + linear(x, self.A)


class _Powers(nn.Module):
    """a_1 t + a_2 t^2 + ... on the window, and straight on beyond it."""

    def __init__(self, powers: Tensor, low: Tensor | None, high: Tensor | None) -> None:
        super().__init__()
        self.names = tuple(f"a_{k}" for k in range(1, powers.shape[1]))
        for k, name in enumerate(self.names, 1):
            self.register_buffer(name, powers[:, k].contiguous())
        self.has_tails = low is not None
        if low is not None and high is not None:
            self.register_buffer("low", low.clone())
            self.register_buffer("more", high - low)

    def forward(self, t: Tensor) -> Tensor:
        own: Any = self._buffers
        s = t.clamp(-1.0, 1.0) if self.has_tails else t
        value: Tensor = own[self.names[-1]]
        for name in self.names[-2::-1]:
            value = torch.addcmul(own[name], value, s)
        value = value * s
        if not self.has_tails:
            return value
        beyond = t - s
        value = torch.addcmul(value, own["low"], beyond)
        return torch.addcmul(value, own["more"], beyond.clamp_min(0.0))


class _EqualPieces(nn.Module):
    """A table of polynomials on pieces of equal width h; arguments are counted in pieces from the left tail on.

    The piece of an argument is then its whole part, and no knot is searched for. The polynomials are written in what is
    left, between 0 and 1; that of the left tail is moved to begin one piece further out.
    """

    def __init__(self, knots: Tensor, table: Tensor) -> None:
        super().__init__()
        n_pieces = len(knots) + 1
        h = float(knots[1] - knots[0])
        self.per_piece, self.shift, self.last = 1.0 / h, 1.0 - float(knots[0]) / h, n_pieces - 1
        powers = table.reshape(n_pieces, -1, table.shape[1]) * h ** torch.arange(table.shape[1]).to(table)
        left = powers[0].clone()
        for k in range(left.shape[1]):  # from powers of v - 1 to those of v
            for j in range(left.shape[1] - 2, k - 1, -1):
                left[:, j] -= left[:, j + 1]
        powers[0] = left
        r = powers.shape[1]
        self.register_buffer("table", powers.transpose(0, 1).flatten(0, 1).contiguous())  # function by function
        self.register_buffer("first", n_pieces * torch.arange(r, device=table.device))

    def forward(self, t: Tensor) -> Tensor:
        own: Any = self._buffers
        place = t * self.per_piece + self.shift
        piece = place.clamp(0.0, self.last).long()
        powers = embedding(piece + own["first"], own["table"]).unbind(-1)
        return horner_in_pieces(place - piece, powers)


@torch.no_grad()
def _frozen(layer: DecoupledLayer) -> nn.Module:
    bias = torch.zeros_like(layer.W[0][:, 0])
    maps: list[tuple[Tensor, Tensor]] = []
    functions: list[nn.Module] = []
    for l in range(layer.n_layers):
        low, high = layer.domain(l).unbind(1)
        middle, half_width = (low + high) / 2.0, (high - low) / 2.0
        maps.append((layer.W[l] / half_width[:, None], (bias - middle) / half_width))
        kind = layer.form(l)
        constants = torch.zeros_like(middle)
        if kind is None:
            return copy.deepcopy(layer).eval()
        if isinstance(kind, Tensor):
            constants = kind[:, 0]
            ends = layer.end_slopes(l) if layer.outside[l] != "extend" else (None, None)
            if layer.outside[l] == "constant":
                ends = (torch.zeros_like(middle), torch.zeros_like(middle))
            functions.append(_Powers(kind, *ends))
        else:
            knots, _, table = kind
            steps = knots.diff()
            if len(steps) == 0 or not torch.allclose(steps, steps[0].expand_as(steps), rtol=1e-5):
                return copy.deepcopy(layer).eval()
            functions.append(_EqualPieces(knots, table))
        bias = layer.W[l + 1] @ constants
    maps.append((layer.W[-1].clone(), bias if layer.offset is None else bias + layer.offset))
    A = None if layer.linear is None else layer.linear.detach().clone()
    return FrozenLayer(maps, functions, A).eval()
