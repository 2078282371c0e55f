"""A decoupling as a trainable `torch.nn.Module`.

Internal functions are held as coefficients of monomials of v = u / scale, with one fixed scale per function, so that
single precision keeps its digits. What they do outside the range they were fitted on can be chosen, because polynomials
explode there: "polynomial" leaves them as they are, "clamp" holds the value at the border, "linear" goes on along the
tangent.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor, nn

from .._support._errors import InputError
from ..bases import AbstractPolynomialBasis, Monomial, Trigonometric
from ..model._decoupling import Decoupling
from ..model._functions import Functions

Outside = Literal["polynomial", "clamp", "linear"]
OUTSIDE = ("polynomial", "clamp", "linear")


class DecoupledLayer(nn.Module):
    """W_L g_L(... g_1(W_0 x)) on the last axis of its input.

    Parameters
    ----------
    model
        The decoupling, with polynomial or trigonometric bases.
    X : (S, m), optional
        Points whose inner inputs are the range of the functions; needed for "clamp" and "linear".
    outside
        Behaviour outside that range; by default "linear" where `X` is given and "polynomial" where it is not.
    evaluation
        "horner" computes powers one after the other; "matmul" makes a table of basis functions first, which is faster
        for training with many samples and takes more memory. Both give the same numbers up to rounding.
    dtype
        torch.float32 or torch.float64.
    """

    def __init__(
        self,
        model: Decoupling,
        X: object = None,
        *,
        outside: Outside | None = None,
        evaluation: Literal["horner", "matmul"] = "horner",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if not isinstance(model, Decoupling):
            raise InputError(f"`model` must be a dc.Decoupling. Got {type(model).__name__}.")
        chosen = ("polynomial" if X is None else "linear") if outside is None else outside
        if chosen not in OUTSIDE:
            raise InputError(f"`outside` must be one of {', '.join(OUTSIDE)}. Got {outside!r}.")
        if X is None and chosen != "polynomial":
            raise InputError(f"`X` must be given for outside={chosen!r}: the range of the functions is taken from it.")
        if evaluation not in ("horner", "matmul"):
            raise InputError(f'`evaluation` must be "horner" or "matmul". Got {evaluation!r}.')
        if dtype not in (torch.float32, torch.float64):
            raise InputError(f"`dtype` must be torch.float32 or torch.float64. Got {dtype}: other types lose too much.")
        model = model.without_inner_constants()
        self.outside, self.evaluation = chosen, evaluation
        self.ranks, self.degrees = model.ranks, model.degrees
        self.n_inputs, self.n_outputs = model.n_inputs, model.n_outputs
        self.waves = tuple(_is_wave(g) for g in model.g)
        self._bases = tuple(g.layer.bases for g in model.g)
        self.W = nn.ParameterList([nn.Parameter(_tensor(W, dtype)) for W in model.W])
        self.C = nn.ParameterList()
        inner = None if X is None else _inner_inputs(model, X)
        for l, g in enumerate(model.g):
            u = None if inner is None else inner[l]
            low, high = (-np.ones(g.rank), np.ones(g.rank)) if u is None else (u.min(axis=0), u.max(axis=0))
            scale = np.maximum(np.abs(low), np.abs(high))
            scale = np.where((scale > 0.0) & (u is not None) & ~np.array(self.waves[l]), scale, 1.0)
            coefficients = _scaled_coefficients(g, scale)
            first = 0 if l == model.n_layers - 1 else 1  # inner constants do not exist
            self.C.append(nn.Parameter(_tensor(coefficients[:, first:], dtype)))
            for name, value in (("low", low), ("high", high), ("scale", scale)):
                self.register_buffer(f"{name}_{l + 1}", _tensor(value, dtype))
            self._widen(l)

    @property
    def n_layers(self) -> int:
        return len(self.C)

    def forward(self, x: Tensor) -> Tensor:
        z = x
        for l in range(self.n_layers):
            z = self.functions(l, nn.functional.linear(z, self.W[l]))
        return nn.functional.linear(z, self.W[self.n_layers])

    def jacobian(self, x: Tensor) -> Tensor:
        """Jacobians (S, n, m) at points (S, m), differentiable in the parameters; the tails count as what they are."""
        z, J = x, None
        for l in range(self.n_layers):
            u = nn.functional.linear(z, self.W[l])
            V = self.W[l].expand(len(x), -1, -1) if J is None else self.W[l] @ J
            J = self.slopes(l, u)[..., None] * V
            z = self.functions(l, u)
        return self.W[self.n_layers] @ J

    def to_decoupling(self) -> Decoupling:
        """The same map as a `dc.Decoupling` in the bases it was made from, without its behaviour outside the range."""
        functions = []
        for l, bases in enumerate(self._bases):
            scale = self._buffer("scale", l).detach().double().cpu().numpy()
            C = self.C[l].detach().double().cpu().numpy()
            if l < self.n_layers - 1:
                C = np.concatenate([np.zeros((len(C), 1)), C], axis=1)
            functions.append(Functions(bases, _given_coefficients(bases, C, scale)))
        return Decoupling([W.detach().double().cpu().numpy() for W in self.W], functions)

    def save_onnx(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write an ONNX file that computes what this layer does, outside the range as well, without PyTorch.

        `options` are those of `Decoupling.save_onnx`, without `ranges` and `outside`.
        """
        model = self.to_decoupling()
        if self.outside == "polynomial":
            model.save_onnx(path, **options)
            return
        ranges = [tuple(b.detach().double().cpu().numpy() for b in self.bounds(l)) for l in range(self.n_layers)]
        model.save_onnx(path, ranges=ranges, outside=self.outside, **options)

    def extra_repr(self) -> str:
        dims = "-".join(str(d) for d in (self.n_inputs, *self.ranks, self.n_outputs))
        return f"{dims}, outside={self.outside!r}, evaluation={self.evaluation!r}"

    # One layer of functions

    def _buffer(self, name: str, l: int) -> Tensor:
        buffer: Tensor = getattr(self, f"{name}_{l + 1}")
        return buffer

    def _widen(self, l: int) -> None:
        """By what rounding may put a point of the range outside of it."""
        low, high = self.bounds(l)
        margin = 16.0 * torch.finfo(low.dtype).eps * torch.maximum(low.abs(), high.abs())
        low -= margin
        high += margin

    def _coefficients(self, l: int) -> Tensor:
        C = self.C[l]
        if l == self.n_layers - 1:
            return C
        return torch.cat([torch.zeros_like(C[:, :1]), C], dim=1)

    def bounds(self, l: int) -> tuple[Tensor, Tensor]:
        """The range of the inputs of layer l = 0, ..., L - 1."""
        return self._buffer("low", l), self._buffer("high", l)

    def set_range(self, x: Tensor) -> None:
        """Take the range of every layer from the points x (S, m), as they pass through the layer now."""
        with torch.no_grad():
            z = x
            for l in range(self.n_layers):
                u = nn.functional.linear(z, self.W[l])
                for bound, value in zip(self.bounds(l), (u.amin(dim=0), u.amax(dim=0)), strict=True):
                    bound.copy_(value)
                self._widen(l)
                z = self.functions(l, u)

    def functions(self, l: int, u: Tensor) -> Tensor:
        if self.outside == "polynomial":
            return self._values(l, u)
        inside = torch.minimum(torch.maximum(u, self._buffer("low", l)), self._buffer("high", l))
        if self.outside == "clamp":
            return self._values(l, inside)
        return self._values(l, inside) + self._derivatives(l, inside) * (u - inside)

    def slopes(self, l: int, u: Tensor) -> Tensor:
        """Derivatives of `functions`."""
        if self.outside == "polynomial":
            return self._derivatives(l, u)
        low, high = self._buffer("low", l), self._buffer("high", l)
        inside = torch.minimum(torch.maximum(u, low), high)
        slopes = self._derivatives(l, inside)
        return slopes * ((u >= low) & (u <= high)) if self.outside == "clamp" else slopes

    def _values(self, l: int, u: Tensor) -> Tensor:
        v, C = u / self._buffer("scale", l), self._coefficients(l)
        if any(self.waves[l]) or self.evaluation == "matmul":
            return (self._table(l, v) * C).sum(-1)
        value = C[:, -1].expand_as(v)
        for k in range(C.shape[1] - 2, -1, -1):
            value = value * v + C[:, k]
        return value

    def _derivatives(self, l: int, u: Tensor) -> Tensor:
        scale, C = self._buffer("scale", l), self._coefficients(l)
        v = u / scale
        if any(self.waves[l]) or self.evaluation == "matmul":
            return (self._table(l, v, derivative=True) * C).sum(-1) / scale
        n = C.shape[1] - 1
        value = (n * C[:, n]).expand_as(v)
        for k in range(n - 1, 0, -1):
            value = value * v + k * C[:, k]
        return value / scale

    def _table(self, l: int, v: Tensor, derivative: bool = False) -> Tensor:
        """1, v, v^2, ... (or 1, cos v, sin v, cos 2v, ...) along a last axis, or their derivatives."""
        size = self._coefficients(l).shape[1] - 1
        tables = []
        if not all(self.waves[l]):
            powers = [torch.ones_like(v)]
            for _ in range(size):
                powers.append(powers[-1] * v)
            if derivative:
                powers = [torch.zeros_like(v)] + [k * powers[k - 1] for k in range(1, size + 1)]
            tables.append(torch.stack(powers, -1))
        if any(self.waves[l]):
            tables.append(torch.stack([_wave(k, v, derivative) for k in range(size + 1)], -1))
        if len(tables) == 1:
            return tables[0]
        return torch.where(torch.tensor(self.waves[l], device=v.device)[:, None], tables[1], tables[0])


def _inner_inputs(model: Decoupling, X: Any) -> tuple[ndarray, ...]:
    points = X.detach().cpu().numpy() if isinstance(X, Tensor) else X
    inner = model.inner_inputs(points)
    if len(inner[0]) == 0:
        raise InputError("`X` must hold at least one point: the range of the functions is taken from it. Got none.")
    return inner


def _tensor(array: ndarray, dtype: torch.dtype) -> Tensor:
    tensor = torch.tensor(array, dtype=dtype)
    if not bool(torch.isfinite(tensor).all()):
        wider = "use dtype=torch.float64, or " if dtype == torch.float32 else ""
        raise InputError(
            f"`model` must have weights, coefficients and inner inputs within what {dtype} can hold. Got "
            f"{np.max(np.abs(array)):.3g}: {wider}rescale the model with `Decoupling.canonical`."
        )
    return tensor


def _wave(k: int, v: Tensor, derivative: bool) -> Tensor:
    """Member k of 1, cos v, sin v, cos 2v, ..., or its derivative."""
    if k == 0:
        return torch.zeros_like(v) if derivative else torch.ones_like(v)
    q = (k + 1) // 2
    if derivative:
        return -q * torch.sin(q * v) if k % 2 else q * torch.cos(q * v)
    return torch.cos(q * v) if k % 2 else torch.sin(q * v)


def _is_wave(g: Functions) -> tuple[bool, ...]:
    kinds = []
    for basis in g.layer.bases:
        if not isinstance(basis, AbstractPolynomialBasis | Trigonometric):
            raise InputError(
                f"`model` must have polynomial or trigonometric bases to become a layer. Got {type(basis).__name__}."
            )
        kinds.append(isinstance(basis, Trigonometric))
    return tuple(kinds)


def _scaled_coefficients(g: Functions, scale: ndarray) -> ndarray:
    """Coefficients over 1, v, v^2, ... with v = u / scale; waves stay as they are (their scale is 1)."""
    C = np.zeros_like(g.C)
    for j, basis in enumerate(g.layer.bases):
        c = g.C[j, : 1 + basis.size]
        if isinstance(basis, AbstractPolynomialBasis):
            c = np.concatenate([c[:1], c[1:] @ basis.to_monomials()]) * scale[j] ** np.arange(len(c))
        C[j, : len(c)] = c
    return C


def _given_coefficients(bases: tuple[Any, ...], C: ndarray, scale: ndarray) -> ndarray:
    """The inverse of `_scaled_coefficients`."""
    found = np.zeros_like(C)
    for j, basis in enumerate(bases):
        c = C[j, : 1 + basis.size]
        if isinstance(basis, AbstractPolynomialBasis):
            c = c / scale[j] ** np.arange(len(c))
            if not isinstance(basis, Monomial):
                c = np.concatenate([c[:1], np.linalg.solve(basis.to_monomials().T, c[1:])])
        found[j, : len(c)] = c
    return found
