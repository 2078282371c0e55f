r"""Layers for use, not for training: everything that does not depend on the input is computed beforehand.

Domains go into the matrices before the functions, constants and leading coefficients into those behind them. Samples
are columns, so that the numbers of a function multiply long rows: with samples as rows, each would be fetched anew for
every few numbers. Polynomials are summed by Horner's rule; splines are sums of hinges for few samples, and looked up in
a table for many (`bases._forms`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from ..._support._errors import InputError
from ...bases._activation import REACH
from ...bases._fast_forms import Hinges, in_hinges, in_monic
from ._decoupled_layer import DecoupledLayer, OnPatches
from ._torch_algebra import TensorAlgebra, horner_in_pieces

_MAX_HINGE_SAMPLES = 256  # samples up to which hinges are faster than a table
_MAX_HINGE_OUTPUTS = 32  # outputs up to which a matrix for all hinges is


def freeze(model: Any) -> nn.Module:
    """A copy of a network in evaluation mode whose decoupled layers are made for use: faster, and not to be trained.

    Layers of bases that are neither polynomials nor activations nor in equal pieces stay as they are, and so do splines
    within convolutions.

    Parameters
    ----------
    model : Module
        A network with decoupled layers. It is not changed.

    Returns
    -------
    Module
        A copy for use, without gradients.

    Examples
    --------
    >>> import decouply as dc, torch
    >>> layer = dc.nn.DecoupledLayer(dc.systems.f1().with_outside("linear"))
    >>> dc.nn.freeze(layer)(torch.zeros(5, 2)).shape
    torch.Size([5, 2])
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"`model` must be a torch.nn.Module. Got {type(model).__name__}.")
    if isinstance(model, DecoupledLayer | OnPatches):
        return _freeze_module(model)
    own = copy.deepcopy(model).eval()
    for module in list(own.modules()):
        if not isinstance(module, OnPatches):
            for name, child in module.named_children():
                if isinstance(child, DecoupledLayer | OnPatches):
                    setattr(module, name, _freeze_module(child))
    return own


class FrozenLayer(nn.Module):
    """What a `DecoupledLayer` computes, with fewer operations.

    Maps are W_0, ..., W_L with the numbers that are added behind them; functions take and return (r, samples).
    """

    def __init__(self, maps: list[tuple[Tensor, Tensor]], functions: list[nn.Module], A: Tensor | None) -> None:
        super().__init__()
        self.functions = nn.ModuleList(functions)
        *before, (W, b) = maps
        for l, (V, c) in enumerate(before):
            self.register_buffer(f"W_{l}", V.contiguous())
            self.register_buffer(f"b_{l}", c[:, None].contiguous())
        self.register_buffer("W_last", W.t().contiguous())  # (r, n): what comes out has samples as rows again
        self.register_buffer("b_last", b.contiguous())
        if isinstance(functions[-1], _Splines):
            functions[-1].fold(W, b)
        self.A = None if A is None else nn.Parameter(A, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2:
            return self.forward(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], -1)
        own: Any = self._buffers  # looking attributes up takes longer than some of the operations
        functions: Any = self._modules["functions"]
        *before, last = functions._modules.values()
        z = torch.addmm(own["b_0"], own["W_0"], x.t())
        for l, function in enumerate(before, 1):
            z = torch.addmm(own[f"b_{l}"], own[f"W_{l}"], function.forward(z))
        y = last.map_values(z, own["W_last"], own["b_last"])
        A = self._parameters.get("A")
        return y if A is None else torch.addmm(y, x, A.t())


class FrozenPatches(nn.Module):
    """The same for functions of patches: a convolution, functions of its channels, and convolutions of 1 x 1 pixels."""

    def __init__(
        self, maps: list[tuple[Tensor, Tensor]], functions: list[nn.Module], A: Tensor | None, like: OnPatches
    ) -> None:
        super().__init__()
        self.functions = nn.ModuleList(functions)
        self.step, self.padding, self.n_maps = like.step, like.padding, len(maps)
        for l, (W, b) in enumerate(maps):
            window = (like.n_channels, *like.window) if l == 0 else (W.shape[1], 1, 1)
            self.register_buffer(f"W_{l}", W.reshape(len(W), *window).contiguous())
            self.register_buffer(f"b_{l}", b.contiguous())
        kernel = None if A is None else A.reshape(len(A), like.n_channels, *like.window)
        self.A = None if kernel is None else nn.Parameter(kernel, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        own: Any = self._buffers
        z = conv2d(x, own["W_0"], own["b_0"], self.step, self.padding)
        for l, function in enumerate(self.functions, 1):
            inner = function.forward(z.flatten(-2)).unflatten(-1, z.shape[-2:])
            z = conv2d(inner, own[f"W_{l}"], own[f"b_{l}"])
        return z if self.A is None else z + conv2d(x, self.A, None, self.step, self.padding)


class _Powers(nn.Module):
    """Monic polynomials of t (..., r, N), clipped to the window if they have tails, and straight on beyond it."""

    def __init__(self, powers: Tensor, tails: tuple[Tensor, Tensor] | None, *, clipped: bool) -> None:
        super().__init__()
        self.clipped, self.has_tails = clipped, tails is not None
        self.names = tuple(f"c_{k}" for k in range(len(powers), 0, -1))
        for name, c in zip(self.names, powers.flip(0), strict=True):
            self.register_buffer(name, c[:, None].contiguous())
        if tails is not None:
            self.register_buffer("p", tails[0][:, None].contiguous())
            self.register_buffer("q", tails[1][:, None].contiguous())

    def forward(self, t: Tensor) -> Tensor:
        own: Any = self._buffers
        s = value = t.clamp(-1.0, 1.0) if self.clipped else t
        if self.names:
            value = s + own[self.names[0]]
            for name in self.names[1:]:
                value = torch.addcmul(own[name], value, s)
            value = value.mul_(s)
        if not self.has_tails:
            return value
        return torch.addcmul(torch.addcmul(value, own["p"], t), own["q"], t.clamp_min(1.0))

    def map_values(self, t: Tensor, W: Tensor, b: Tensor) -> Tensor:
        """g(t)^T W + b, with samples as rows."""
        return torch.addmm(b, self.forward(t).t(), W)


class _Activations(nn.Module):
    """Sums of activations, of arguments in their own units."""

    def __init__(self, basis: Any, C: Tensor) -> None:  # an `Activation`
        super().__init__()
        self.basis, self.n_curves = basis, C.shape[1]
        for k, c in enumerate(C.t()):
            self.register_buffer(f"c_{k}", c[:, None].contiguous())

    def forward(self, v: Tensor) -> Tensor:
        own: Any = self._buffers
        curves = self.basis.curves_of(TensorAlgebra(v), v)
        if self.n_curves == 0:
            return curves[0]  # its coefficient is in the matrix behind it
        value = curves[0] * own["c_0"]
        for k in range(1, self.n_curves):
            value = torch.addcmul(value, curves[k], own[f"c_{k}"])
        return value

    def map_values(self, v: Tensor, W: Tensor, b: Tensor) -> Tensor:
        """g(v)^T W + b, with samples as rows."""
        return torch.addmm(b, self.forward(v).t(), W)


class _Splines(nn.Module):
    """A table of polynomials on pieces of equal width; arguments are counted in pieces from the left tail on.

    The piece of an argument is then its whole part, and no knot is searched for. The polynomials are written in the
    residual, between 0 and 1; that of the left tail is moved to begin one piece further out.
    """

    def __init__(self, table: Tensor, hinges: Hinges | None) -> None:
        super().__init__()
        n_pieces, r, _ = table.shape
        self.last, self._hinges, self.folded = n_pieces - 1.0, hinges, False
        self.register_buffer("table", table.permute(2, 1, 0).flatten(1).contiguous())  # power by power, then function
        self.register_buffer("first", (n_pieces * torch.arange(r, device=table.device))[:, None].to(table))

    def fold(self, W: Tensor, b: Tensor) -> None:
        """Make the matrix W (n, r) behind the functions one for all their hinges, if that is worth it."""
        hinges, self._hinges = self._hinges, None
        if hinges is None or len(W) > _MAX_HINGE_OUTPUTS:
            return
        self.folded = True
        spans = {k: (first, first + len(c)) for k, (first, c) in hinges.jumps.items()}
        self.powers = tuple(spans.get(k) for k in range(1, 1 + max(spans)))  # which knots have a power
        knots, rows, constant = (_tensor_like(array, W) for array in (hinges.knots, hinges.rows(), hinges.constant))
        self.register_buffer("knots", knots[:, None, None].contiguous())
        self.register_buffer("matrix", (rows[:, :, None] * W.t()).flatten(0, 1).contiguous())
        self.register_buffer("bias", b + W @ constant)

    def map_values(self, t: Tensor, W: Tensor, b: Tensor) -> Tensor:
        """g(t)^T W + b, with samples as rows."""
        own: Any = self._buffers
        if not self.folded or not (torch.compiler.is_compiling() or t.shape[1] <= _MAX_HINGE_SAMPLES):
            return torch.addmm(b, self.forward(t).t(), W)
        d = (t - own["knots"]).relu_()
        features, power = [t[None]], d
        for k, ends in enumerate(self.powers, 1):
            power = power if k == 1 else power * d
            if ends is not None:
                features.append(power if ends == (0, len(d)) else power[ends[0] : ends[1]])
        return torch.addmm(own["bias"], torch.cat(features).flatten(0, 1).t(), own["matrix"])

    def forward(self, t: Tensor) -> Tensor:
        own: Any = self._buffers
        piece = t.clamp(0.0, self.last).floor()
        index = (piece + own["first"]).int().flatten()
        powers = own["table"].index_select(1, index).unbind(0)
        return horner_in_pieces((t - piece).flatten(), powers).reshape(t.shape)


@torch.no_grad()
def _freeze_module(module: DecoupledLayer | OnPatches) -> nn.Module:
    """The same module for use; a copy if its functions have none of the forms."""
    layer = module.function if isinstance(module, OnPatches) else module
    if not isinstance(layer, DecoupledLayer):
        return copy.deepcopy(module).eval()
    behind = torch.zeros_like(layer.W[0][:, 0])  # constants of the functions before, behind their matrix
    maps: list[tuple[Tensor, Tensor]] = []
    functions: list[nn.Module] = []
    scale = torch.ones_like(layer.W[0][0])
    for l in range(layer.n_layers):
        own = _functions(layer, l)
        if own is None or (isinstance(own.module, _Splines) and isinstance(module, OnPatches)):
            return copy.deepcopy(module).eval()
        maps.append((own.per * layer.W[l] * scale, own.per[:, 0] * behind + own.shift))
        functions.append(own.module)
        behind, scale = layer.W[l + 1] @ own.constant, own.scale
    maps.append((layer.W[-1] * scale, behind if layer.offset is None else behind + layer.offset))
    A = None if layer.linear is None else layer.linear.detach().clone()
    if isinstance(module, OnPatches):
        return FrozenPatches(maps, functions, A, module).eval()
    return FrozenLayer(maps, functions, A).eval()


@dataclass(frozen=True)
class _Own:
    """Functions of per * u + shift, to be multiplied by `scale` and moved by `constant`."""

    module: nn.Module
    per: Tensor
    shift: Tensor
    scale: Tensor
    constant: Tensor


def _functions(layer: DecoupledLayer, l: int) -> _Own | None:
    low, high = layer.domain(l).unbind(1)
    middle, half_width = (low + high) / 2.0, (high - low) / 2.0
    if (basis := layer.activation(l)) is not None:
        coefficients = layer._coefficients(l)
        constant, C = coefficients[:, :1], coefficients[:, 1 : 1 + basis.size]
        alone = basis.size == 1
        per, scale = REACH / half_width, C[:, 0] if alone else torch.ones_like(middle)
        functions = _Activations(basis, C[:, :0] if alone else C)
        return _Own(functions, per[:, None], -middle * per, scale.detach(), constant[:, 0].detach())
    kind = layer.form(l)
    if kind is None:
        return None
    if isinstance(kind, Tensor):
        clipped = layer.outside[l] != "extend"
        slopes = layer.end_slopes(l) if layer.outside[l] == "linear" else None
        ends = None if slopes is None else (slopes[0].cpu().double().numpy(), slopes[1].cpu().double().numpy())
        form = in_monic(kind.cpu().double().numpy(), ends, torch.finfo(kind.dtype).eps)
        tails = None if form.tails is None else (_tensor_like(form.tails[0], kind), _tensor_like(form.tails[1], kind))
        powers = _Powers(_tensor_like(form.powers, kind), tails, clipped=clipped)
        per, shift = 1.0 / half_width, -middle / half_width
        return _Own(powers, per[:, None], shift, _tensor_like(form.scale, kind), _tensor_like(form.constant, kind))
    knots, _, flat = kind
    steps = knots.diff()
    if len(steps) == 0 or not torch.allclose(steps, steps[0].expand_as(steps), rtol=1e-5):
        return None
    h = float(steps[0])
    table = flat.reshape(1 + len(knots), -1, flat.shape[1]) * h ** torch.arange(flat.shape[1]).to(flat)
    for k in range(table.shape[2]):  # the left tail: from powers of v - 1 to those of v
        for j in range(table.shape[2] - 2, k - 1, -1):
            table[0, :, j] -= table[0, :, j + 1]
    places = np.arange(len(table), dtype=float)
    hinges = in_hinges(places[1:], places, table.cpu().double().numpy(), 100.0 * torch.finfo(table.dtype).eps)
    per, shift = 1.0 / (h * half_width), 1.0 - (float(knots[0]) + middle / half_width) / h
    return _Own(_Splines(table, hinges), per[:, None], shift, torch.ones_like(per), torch.zeros_like(per))


def _tensor_like(array: np.ndarray, tensor: Tensor) -> Tensor:
    return torch.as_tensor(array).to(tensor)
