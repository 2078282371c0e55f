r"""A decoupling as a trainable `torch.nn.Module`.

W_0, ..., W_L and the linear part are `nn.Linear` modules, so that tools which look for these find them; the offset is
the bias of the last one. Coefficients of the functions are kept in their own bases, as `Functions` holds them: on the
window, t = (u - middle) / half_width. So single precision keeps its digits, and the domain and what happens beyond it
are those of the decoupling.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor, nn
from torch.func import vjp

from ..._support._arguments import as_counts, as_flag, as_generator
from ..._support._errors import InputError, short_repr
from ...bases import AbstractBasis, LayerBasis, Monomial
from ...bases._fast_forms import goes_on, in_pieces, in_powers
from ...model._decoupling import Decoupling
from ...model._functions import Functions, Outside
from ._torch_algebra import horner, horner_in_pieces, look_up, table_of, values_on_window

_ROUNDING_MARGIN = 2e-6  # relative: by what rounding in single precision may put a point of a range outside of it


class DecoupledLayer(nn.Module):
    """A decoupling as a PyTorch layer.

    It computes A x + W_L g_L(... g_1(W_0 x)) on the last axis of its input, whatever comes before it. The domains
    of the functions stay as they are in training, unless `set_range` moves them; if a basis has a free domain,
    the middles are trained too.

    Parameters
    ----------
    model : Decoupling
        The decoupling, of bases that can write themselves. It says what functions do beyond their domains:
        ``model.with_outside("linear")`` keeps polynomials from exploding there.
    dtype : dtype
        torch.float32 or torch.float64. What overflows it is infinite or NaN, without a warning, as in all of PyTorch.

    Examples
    --------
    >>> import decouply as dc, torch
    >>> layer = dc.nn.DecoupledLayer(dc.systems.f1().with_outside("linear"))
    >>> layer(torch.zeros(5, 2)).shape
    torch.Size([5, 2])
    """

    def __init__(self, model: Decoupling, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        if not isinstance(model, Decoupling):
            raise InputError(f"`model` must be a dc.Decoupling. Got {type(model).__name__}.")
        if not isinstance(dtype, torch.dtype) or dtype not in (torch.float32, torch.float64):
            raise InputError(
                f"`dtype` must be torch.float32 or torch.float64. Got {short_repr(dtype)}: other types lose too much."
            )
        for basis in (basis for g in model.g for basis in g.layer.bases):
            if not basis.writable:
                raise InputError(
                    f"`model` must have bases that can write themselves to become a layer. {type(basis).__name__} has "
                    "no method `expression`: see dc.bases.AbstractBasis.expression."
                )
        model = model.without_inner_constants()
        self.outside = tuple(g.outside for g in model.g)
        self.ranks, self.degrees = model.ranks, model.degrees
        self.n_inputs, self.n_outputs = model.n_inputs, model.n_outputs
        self._names = (model.inputs, model.outputs)
        self._layers = tuple(g.layer for g in model.g)
        self._groups = tuple(_groups_by_basis(g.layer) for g in model.g)
        A, b = model.linear, model.offset
        b = None if b is None else b + model.W[-1] @ model.g[-1].constants
        self.maps = nn.ModuleList([_linear(W, None, dtype) for W in model.W[:-1]] + [_linear(model.W[-1], b, dtype)])
        self.bypass = None if A is None else _linear(A, None, dtype)
        self._has_offset = b is not None
        self.C = nn.ParameterList()
        for l, g in enumerate(model.g):
            first = 0 if self._has_constants(l) else 1
            self.C.append(nn.Parameter(_tensor(g.C[:, first:], dtype)))
            middle, ends = _tensor(g.middle, dtype), np.tile([[-1.0], [1.0]], (1, g.rank))
            if g.layer.free_domain.any():
                self.register_parameter(f"middle_{l + 1}", nn.Parameter(middle))
            else:
                self.register_buffer(f"middle_{l + 1}", middle)
            self.register_buffer(f"half_width_{l + 1}", _tensor(g.half_width, dtype))
            self.register_buffer(f"ends_{l + 1}", _tensor(g.layer.derivative(ends), dtype), persistent=False)
            P = None if g.layer.shared is None else in_powers(g.layer.shared)
            pieces = None if g.layer.shared is None or P is not None else in_pieces(g.layer.shared)
            constants = {
                "powers": P,
                "knots": None if pieces is None else pieces.ends,
                "origins": None if pieces is None else pieces.origins,
                "rows": None if pieces is None else pieces.rows,
            }
            for name, array in constants.items():
                if array is None:  # as a buffer, it would make torch.export count wrong
                    setattr(self, f"{name}_{l + 1}", None)
                else:
                    self.register_buffer(f"{name}_{l + 1}", _tensor(array, dtype), persistent=False)
        self._recorded: list[Tensor] | None = None
        self._extended = tuple(goes_on(g.layer.bases, g.outside) for g in model.g)

    @classmethod
    def of_sizes(
        cls,
        sizes: Sequence[int],
        degrees: int | Sequence[int] = 4,
        *,
        basis: AbstractBasis | None = None,
        outside: Outside = "linear",
        linear: bool = False,
        offset: bool = False,
        rng: int | np.random.Generator = 0,
        dtype: torch.dtype = torch.float32,
    ) -> DecoupledLayer:
        """A random layer with inputs, internal functions and outputs as in `sizes`: to be trained, or to load weights.

        Examples
        --------
        >>> import decouply as dc, torch  # doctest: +SKIP
        >>> layer = dc.nn.DecoupledLayer.of_sizes((80, 10, 10), degrees=4)  # doctest: +SKIP
        >>> layer.load_state_dict(torch.load("layer.pt", weights_only=True))  # doctest: +SKIP
        """
        dims, rng = as_counts("sizes", sizes), as_generator(rng)
        if len(dims) < 3:
            raise InputError(
                f"`sizes` must be inputs, internal functions and outputs, such as (80, 10, 10). Got {dims}."
            )
        powers = as_counts("degrees", degrees)
        powers = powers * (len(dims) - 2) if len(powers) == 1 else powers
        if len(powers) != len(dims) - 2:
            raise InputError(f"`degrees` must be one number, or {len(dims) - 2}, one per layer. Got {powers}.")
        if basis is not None and not isinstance(basis, AbstractBasis):
            raise InputError(f"`basis` must be a basis such as dc.Spline(8). Got {short_repr(basis)}.")
        g = []
        for r, d in zip(dims[1:-1], powers, strict=True):
            own = Monomial(d) if basis is None else basis
            g.append(Functions(own, rng.normal(size=(r, 1 + own.size)) / own.size, (-2.0, 2.0), outside))
        W = [rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairwise(dims)]
        A = np.zeros((dims[-1], dims[0])) if as_flag("linear", linear) else None
        b = np.zeros(dims[-1]) if as_flag("offset", offset) else None
        return cls(Decoupling(W, g, linear=A, offset=b), dtype=dtype)

    @property
    def n_layers(self) -> int:
        return len(self.C)

    @property
    def W(self) -> list[Tensor]:
        """W_0, ..., W_L."""
        return [_as_tensor(one.weight) for one in self.maps]

    @property
    def linear(self) -> Tensor | None:
        """A, if there is a linear part."""
        return None if self.bypass is None else _as_tensor(self.bypass.weight)

    @property
    def offset(self) -> Tensor | None:
        """What is added at the end, if the functions of the last layer have no constants."""
        return _as_tensor(self.maps[-1].bias) if self._has_offset else None

    @property
    def constants(self) -> Tensor | None:
        """Constants of the functions of the last layer, if they have any."""
        return None if self._has_offset else self.C[-1][:, 0]

    def forward(self, x: Tensor) -> Tensor:
        z = self.after_first(self.maps[0](x))
        return z if self.bypass is None else z + self.bypass(x)

    def after_first(self, u: Tensor) -> Tensor:
        """Everything behind W_0 but the linear part, of inputs u (..., r_1) of the first functions."""
        if self._recorded is not None:
            self._recorded.append(u.detach().reshape(-1, u.shape[-1]))
        for l in range(self.n_layers):
            u = self.maps[l + 1](self.functions(l, u))
        return u

    def jacobian(self, x: Tensor) -> Tensor:
        """Jacobians (..., n, m) at points (..., m), differentiable in the parameters."""
        z, W = x, self.W
        T: Tensor | None = None
        for l in range(self.n_layers):
            u = nn.functional.linear(z, W[l])
            V = W[l].expand(*x.shape[:-1], -1, -1) if T is None else W[l] @ T
            T = self.slopes(l, u)[..., None] * V
            z = self.functions(l, u)
        assert T is not None
        J = W[self.n_layers] @ T
        return J if self.linear is None else J + self.linear

    def functions(self, l: int, u: Tensor) -> Tensor:
        """Values g_l(u) of layer l = 0, ..., L - 1, without the constants that are kept elsewhere."""
        t = (u - self._of("middle", l)) / self._of("half_width", l)
        C = self._coefficients(l)
        if self._extended[l]:
            return self._values(l, t, C)
        inside = t.clamp(-1.0, 1.0)
        value = self._values(l, inside, C)
        if self.outside[l] == "constant":
            return value
        beyond = t - inside
        low, high = self.end_slopes(l)
        return torch.addcmul(value, torch.where(beyond > 0.0, high, low), beyond)

    def slopes(self, l: int, u: Tensor) -> Tensor:
        """Derivatives of `functions`."""
        half_width = self._of("half_width", l)
        t = (u - self._of("middle", l)) / half_width
        inside = t if self._extended[l] else t.clamp(-1.0, 1.0)
        C = self._coefficients(l)
        derivative = vjp(lambda t: self._values(l, t, C), inside)[1]
        slopes: Tensor = derivative(torch.ones_like(inside))[0] / half_width
        return slopes * ((t >= -1.0) & (t <= 1.0)) if self.outside[l] == "constant" else slopes

    def form(self, l: int) -> Tensor | tuple[Tensor, Tensor, Tensor] | None:
        """How the functions of a layer can be written on the window: powers (r, 1 + d), constants first. Or knots,
        origins and a table of pieces, tails included; None if they can be neither.
        """
        C = self._coefficients(l)
        if (P := getattr(self, f"powers_{l + 1}")) is not None:
            return C @ P
        if (rows := getattr(self, f"rows_{l + 1}")) is None or not self._extended[l]:
            return None
        return self._of("knots", l), self._of("origins", l), table_of(rows, C)

    def end_slopes(self, l: int) -> tuple[Tensor, Tensor]:
        """Slopes, in units of the window, at both ends of the domains of layer l = 0, ..., L - 1."""
        low, high = (self._of("ends", l) * self._coefficients(l)[:, 1:]).sum(-1).unbind(0)
        return low, high

    def domain(self, l: int) -> Tensor:
        """The domains (r, 2) of the functions of layer l = 0, ..., L - 1."""
        middle, half_width = self._of("middle", l).detach(), self._of("half_width", l)
        return torch.stack([middle - half_width, middle + half_width], dim=1)

    def domain_follows(self, l: int) -> bool:
        """Whether the domains of a layer are the range of its arguments; others say where a curve has its place."""
        return not self._layers[l].free_domain.any()

    def activation(self, l: int) -> AbstractBasis | None:
        """The basis of a layer whose functions are all sums of activations that follow their formulas; else None."""
        shared = self._layers[l].shared
        return shared if shared is not None and shared.is_activation and self._extended[l] else None

    def set_range(self, x: Tensor) -> None:
        """Move the domains to the range of the points x (..., m), as they pass through the layer now.

        The functions stay what they are: their formulas go on into the new domains, and coefficients change. Domains
        that a basis cannot do without stay, and so do those of functions whose argument does not vary.
        """
        with torch.no_grad():
            self.set_range_behind(nn.functional.linear(x.reshape(-1, self.n_inputs), self.W[0]))

    def set_range_behind(self, u: Tensor) -> None:
        """Like `set_range`, from the inputs u (N, r_1) of the first functions."""
        with torch.no_grad():
            W = self.W
            constants = self._move_domains(0, u.amin(dim=0), u.amax(dim=0))
            z = self.functions(0, u)
            for l in range(1, self.n_layers):  # constants of a layer are in the domains of the next
                self._of("middle", l).sub_(W[l] @ constants)
                u = nn.functional.linear(z, W[l])
                constants = self._move_domains(l, u.amin(dim=0), u.amax(dim=0))
                z = self.functions(l, u)
            if self.offset is not None:
                self.offset.add_(W[self.n_layers] @ constants)

    @contextmanager
    def record_inputs(self) -> Iterator[list[Tensor]]:
        """Keep the inputs (N, r_1) of the first functions, batch by batch, while the network runs."""
        self._recorded = []
        try:
            yield self._recorded
        finally:
            self._recorded = None

    def to_decoupling(self) -> Decoupling:
        """The same map as a `dc.Decoupling`, with its domains and what happens beyond them."""
        g = []
        for l, layer in enumerate(self._layers):
            domain, C = _array(self.domain(l)), _array(self._coefficients(l))
            g.append(Functions(layer.bases, C, domain, self.outside[l]))
        A, b = (None if p is None else _array(p) for p in (self.linear, self.offset))
        inputs, outputs = self._names
        return Decoupling([_array(W) for W in self.W], g, linear=A, offset=b, inputs=inputs, outputs=outputs)

    def save_onnx(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write an ONNX file that computes what this layer does, without PyTorch; see `Decoupling.save_onnx`."""
        self.to_decoupling().save_onnx(path, **options)

    def extra_repr(self) -> str:
        dims = "-".join(str(d) for d in (self.n_inputs, *self.ranks, self.n_outputs))
        beyond = self.outside[0] if len(set(self.outside)) == 1 else self.outside
        return f"{dims}, outside={beyond!r}"

    # One layer of functions

    def _of(self, name: str, l: int) -> Tensor:
        tensor: Tensor = getattr(self, f"{name}_{l + 1}")
        return tensor

    def _has_constants(self, l: int) -> bool:
        """Whether the functions of layer l have constants: the last ones, unless there is an offset."""
        return l == len(self._layers) - 1 and not self._has_offset

    def _coefficients(self, l: int) -> Tensor:
        C = self.C[l]
        if self._has_constants(l):
            return C
        return torch.cat([torch.zeros_like(C[:, :1]), C], dim=1)

    def _values(self, l: int, t: Tensor, C: Tensor) -> Tensor:
        P: Tensor | None = getattr(self, f"powers_{l + 1}")
        if P is not None:
            return horner(t, C @ P)
        if (rows := getattr(self, f"rows_{l + 1}")) is not None:
            table = table_of(rows, C)
            return horner_in_pieces(*look_up(t, self._of("knots", l), self._of("origins", l), table))
        groups = self._groups[l]  # each function in its basis
        if len(groups) == 1:
            return values_on_window(groups[0].basis, t, C)
        parts = [
            values_on_window(one.basis, t[..., one.members], C[one.members, : 1 + one.basis.size]) for one in groups
        ]
        order = np.argsort([j for one in groups for j in one.members])
        return torch.cat(parts, dim=-1)[..., order.tolist()]

    def _move_domains(self, l: int, low: Tensor, high: Tensor) -> Tensor:
        """Move the domains of a layer, and return the constants that its functions get and do not keep."""
        finite = torch.isfinite(low) & torch.isfinite(high)  # training may have gone astray
        a, b = (_array(torch.where(finite, end, 0.0)) for end in (low, high))
        margin = _ROUNDING_MARGIN * np.maximum(np.abs(a), np.abs(b))
        new_middle, new_half_width = a / 2.0 + b / 2.0, b / 2.0 - a / 2.0 + margin
        varies = b - a > margin
        held = self._of("middle", l), self._of("half_width", l)
        middle, half_width = (_array(p) for p in held)
        C = _array(self._coefficients(l))
        for one in self._groups[l]:
            some = np.array([j for j in one.members if one.moves and varies[j]], dtype=int)
            if len(some) == 0:
                continue
            own = np.ix_(some, np.arange(1 + one.basis.size))
            scale, shift = new_half_width[some] / half_width[some], (new_middle - middle)[some] / half_width[some]
            C[own] = one.basis.moved(C[own], scale, shift)
            middle[some], half_width[some] = new_middle[some], new_half_width[some]
        for p, value in zip(held, (middle, half_width), strict=True):
            p.copy_(torch.from_numpy(value))
        keeps = self._has_constants(l)
        self.C[l].copy_(torch.from_numpy(C if keeps else C[:, 1:]))
        return held[0].new_tensor(np.zeros_like(middle) if keeps else C[:, 0])


class OnPatches(nn.Module):
    """A function of patches (C h w numbers each) at every place of an image, from (S, C, H, W) to (S, n, H', W').

    A `DecoupledLayer` becomes a convolution with its W_0 into r_1 channels, the functions of these channels, and
    convolutions of 1 x 1 pixels; other functions are given the patches themselves.
    """

    def __init__(
        self,
        function: nn.Module,
        n_channels: int,
        window: tuple[int, int],
        step: tuple[int, int],
        padding: tuple[int, int],
    ) -> None:
        super().__init__()
        self.function = function
        self.n_channels, self.window, self.step, self.padding = n_channels, window, step, padding

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.function, DecoupledLayer):
            layer = self.function
            z = layer.after_first(self._convolve(x, layer.W[0]).movedim(1, -1)).movedim(-1, 1)
            return z if layer.linear is None else z + self._convolve(x, layer.linear)
        height, width = (
            (size + 2 * p - w) // s + 1
            for size, p, w, s in zip(x.shape[2:], self.padding, self.window, self.step, strict=True)
        )
        patches = nn.functional.unfold(x, self.window, padding=self.padding, stride=self.step)
        return self.function(patches.transpose(1, 2)).transpose(1, 2).unflatten(2, (height, width))

    def _convolve(self, x: Tensor, W: Tensor) -> Tensor:
        kernel = W.reshape(len(W), self.n_channels, *self.window)
        return nn.functional.conv2d(x, kernel, stride=self.step, padding=self.padding)

    def extra_repr(self) -> str:
        return f"window={self.window}, step={self.step}, padding={self.padding}"


@dataclass(frozen=True)
class _Group:
    """The functions of a layer that have a basis in common, and whether they can be written on other domains."""

    basis: AbstractBasis
    members: list[int]
    moves: bool


def _groups_by_basis(layer: LayerBasis) -> list[_Group]:
    groups: list[_Group] = []
    for j, basis in enumerate(layer.bases):
        for one in groups:
            if LayerBasis((one.basis, basis)).shared is not None:
                one.members.append(j)
                break
        else:
            try:
                Functions(basis, np.ones((1, 1 + basis.size))).on_domain((-1.2, 0.9))
                moves = True
            except InputError:
                moves = False
            groups.append(_Group(basis, [j], moves))
    return groups


def layer_on(model: Decoupling, X: ndarray, outside: Outside, dtype: torch.dtype = torch.float32) -> DecoupledLayer:
    """A model as a layer in canonical form, with the domains that the points X visit, computed in double precision."""
    layer = DecoupledLayer(model.canonical(X).with_outside(outside), dtype=torch.float64)
    layer.set_range(torch.tensor(X))
    return DecoupledLayer(layer.to_decoupling(), dtype=dtype)


def _linear(W: ndarray, bias: ndarray | None, dtype: torch.dtype) -> nn.Linear:
    one = nn.Linear(W.shape[1], W.shape[0], bias=bias is not None, dtype=dtype, device="meta")  # draws no numbers
    one.weight = nn.Parameter(_tensor(W, dtype))
    if bias is not None:
        one.bias = nn.Parameter(_tensor(bias, dtype))
    return one


def _as_tensor(own: Any) -> Tensor:
    """A parameter, or what a quantised module gives in its place."""
    if isinstance(own, Tensor):
        return own
    numbers: Tensor = own()
    return numbers.dequantize() if numbers.is_quantized else numbers


def _tensor(array: ndarray, dtype: torch.dtype) -> Tensor:
    tensor = torch.tensor(array, dtype=dtype)
    if not bool(torch.isfinite(tensor).all()):
        wider = "use dtype=torch.float64, or " if dtype == torch.float32 else ""
        raise InputError(
            f"`model` must have weights, coefficients and domains within what {dtype} can hold. Got "
            f"{np.max(np.abs(array)):.3g}: {wider}rescale the model with `Decoupling.canonical`."
        )
    return tensor


def _array(tensor: Tensor) -> ndarray:
    return tensor.detach().cpu().double().numpy().copy()
