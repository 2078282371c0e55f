"""What one output of a part depends on: the whole sample, one token, or one pixel with its neighbours.

A part that treats every token (a `Linear` on the last axis) or every pixel (a convolution) alike is one function of a
vector, used many times. Tokens and pixels are samples. That is seen from the part itself: one token or pixel is moved,
and only what hangs on it may move.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..._support._errors import InputError, short_repr
from ..layer._decoupled_layer import OnPatches
from ._jacobian_sampling import first_line

Axis = Literal["auto", "all", -1, 1]
AXES = ("auto", "all", -1, 1)
_RELATIVE_TOLERANCE = 1e-4  # relative: rounding in single precision


class AbstractReceptiveField(abc.ABC):
    """How a part is a function of vectors, and how such a function becomes a module in its place."""

    @property
    @abc.abstractmethod
    def in_words(self) -> str: ...

    @abc.abstractmethod
    def vectors(self, arrays: Tensor) -> Tensor:
        """Inputs of the part (S, ...) as vectors, (S, positions, m)."""

    @abc.abstractmethod
    def values(self, outputs: Tensor) -> Tensor:
        """Outputs of the part as vectors, (S, positions, n)."""

    @abc.abstractmethod
    def function(self, part: nn.Module) -> nn.Module:
        """The part as a function of vectors, from (N, m) to (N, n)."""

    @abc.abstractmethod
    def module(self, function: nn.Module) -> nn.Module:
        """A function of vectors as a module with the interface of the part."""

    @property
    def exact(self) -> bool:
        """Whether `function` gives what the part gives everywhere; not at the borders of images that are padded."""
        return True


@dataclass(frozen=True)
class WholeSample(AbstractReceptiveField):
    """All numbers of a sample, of this shape."""

    shape: tuple[int, ...]

    @property
    def in_words(self) -> str:
        return "the whole sample"

    def vectors(self, arrays: Tensor) -> Tensor:
        return arrays.flatten(1)[:, None]

    def values(self, outputs: Tensor) -> Tensor:
        return outputs[:, None]

    def function(self, part: nn.Module) -> nn.Module:
        return part if len(self.shape) == 1 else nn.Sequential(nn.Unflatten(1, self.shape), part)

    def module(self, function: nn.Module) -> nn.Module:
        return function if len(self.shape) == 1 else nn.Sequential(nn.Flatten(), function)


@dataclass(frozen=True)
class EachToken(AbstractReceptiveField):
    """The vector on the last axis, alike for all positions of arrays with this many axes."""

    n_axes: int

    @property
    def in_words(self) -> str:
        return "each token"

    def vectors(self, arrays: Tensor) -> Tensor:
        return arrays.flatten(1, -2)

    def values(self, outputs: Tensor) -> Tensor:
        return outputs.flatten(1, -2)

    def function(self, part: nn.Module) -> nn.Module:
        def spread(x: Any) -> Any:  # as in `_Reshaped`
            for _ in range(self.n_axes - 2):
                x = x.unsqueeze(1)
            return x

        return _Reshaped(part, spread, lambda y: y.flatten(1))

    def module(self, function: nn.Module) -> nn.Module:
        return function


@dataclass(frozen=True)
class EachPixel(AbstractReceptiveField):
    """A pixel with its neighbours in a window, moved over an image (S, C, H, W) in steps, with zeros around it.

    A sequence (S, C, L) is an image of one row.
    """

    n_channels: int
    window: tuple[int, int]
    step: tuple[int, int]
    padding: tuple[int, int]
    in_sequence: bool = False

    @property
    def in_words(self) -> str:
        h, w = self.window
        if self.in_sequence:
            return "each step" if w == 1 else f"{w} steps"
        return "each pixel" if h == w == 1 else f"{h} x {w} pixels"

    @property
    def exact(self) -> bool:
        return self.padding == (0, 0)

    def vectors(self, arrays: Tensor) -> Tensor:
        images = arrays[:, :, None] if self.in_sequence else arrays
        return nn.functional.unfold(images, self.window, padding=self.padding, stride=self.step).transpose(1, 2)

    def values(self, outputs: Tensor) -> Tensor:
        return outputs.flatten(2).transpose(1, 2)

    def function(self, part: nn.Module) -> nn.Module:
        """The part at one patch, at the output whose window it is."""
        before = [-p % s for p, s in zip(self.padding, self.step, strict=True)]  # zeros that the window does not reach
        row, column = ((p + b) // s for p, b, s in zip(self.padding, before, self.step, strict=True))

        def as_patch(x: Tensor) -> Tensor:
            patch = x.reshape(len(x), self.n_channels, *self.window)
            return nn.functional.pad(patch, (before[1], 0, before[0], 0))

        own = _in_a_row(part) if self.in_sequence else part
        return _Reshaped(own, as_patch, lambda y: y[:, :, row, column])

    def module(self, function: nn.Module) -> nn.Module:
        on_images = OnPatches(function, self.n_channels, self.window, self.step, self.padding)
        return nn.Sequential(InOneRow(), on_images, nn.Flatten(2)) if self.in_sequence else on_images


class InOneRow(nn.Module):
    """Sequences (S, C, L) as images of one row."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, None]


def _in_a_row(part: nn.Module) -> nn.Module:
    """A part of sequences as one of images of one row."""
    return _Reshaped(part, lambda x: x.squeeze(2), lambda y: y.unsqueeze(2))


class _Reshaped(nn.Module):
    """A module between two changes of shape."""

    def __init__(
        self, module: nn.Module, before: Callable[[Tensor], Tensor], after: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__()
        self.module, self._before, self._after = module, before, after

    def forward(self, x: Any) -> Any:  # a tensor, or what stands for one while the module is traced
        return self._after(self.module(self._before(x)))


def receptive_field_of(part: nn.Module, x: Tensor, name: str, axis: Axis) -> AbstractReceptiveField:
    """What an output of the part depends on, seen at some of its inputs x (S, ...)."""
    with torch.no_grad():
        y = part(x.clone())
    if not isinstance(y, Tensor):
        raise InputError(f"`parts` must return one tensor. {name} returns {type(y).__name__}.")
    if axis in ("auto", -1) and x.ndim >= 3 and y.shape[:-1] == x.shape[:-1] and _is_by_token(part, x, y):
        return EachToken(x.ndim)
    if axis == -1:
        raise InputError(
            f"`axis` must fit the part: with axis=-1 every vector on the last axis is treated by itself. {name} "
            f"turns {tuple(x.shape)} into {tuple(y.shape)}, and moving one token moves the outputs of others."
        )
    if axis in ("auto", 1) and x.ndim == y.ndim and x.ndim in (3, 4):
        found = _pixel_window(part, x, y)
        if found is not None:
            return found
    if axis == 1:
        raise InputError(
            f"`axis` must fit the part: with axis=1 a pixel with its neighbours decides about an output. {name} "
            f"turns {tuple(x.shape)} into {tuple(y.shape)}, and does not move a window over an image."
        )
    if y.ndim != 2:
        raise InputError(
            f"`parts` must return one vector per sample, or treat every token or pixel alike. {name} turns "
            f"{tuple(x.shape)} into {tuple(y.shape)}, and neither one token nor a window of pixels decides about an "
            "output: name a part without attention, pooling or statistics of the whole sample. Convolutions in three "
            "dimensions are not supported."
        )
    return WholeSample(tuple(x.shape[1:]))


def _close(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).abs() <= _RELATIVE_TOLERANCE * b.abs().max().clamp_min(1e-12)


def _is_by_token(part: nn.Module, x: Tensor, y: Tensor) -> bool:
    """Whether only its own output moves when one token does, and a token alone gives what it gives among others."""
    tokens = x.flatten(1, -2)
    moved = tokens.clone()
    middle = tokens.shape[1] // 2
    moved[:, middle] = 1.5 * tokens[:, middle - 1] + 0.1 * tokens.std()
    with torch.no_grad():
        try:
            shifted = part(moved.reshape(x.shape)).flatten(1, -2)
            alone = EachToken(x.ndim).function(part)(tokens.flatten(0, 1))
        except (RuntimeError, ValueError, IndexError):
            return False
    same = _close(shifted, y.flatten(1, -2)).all(dim=-1).all(dim=0)
    same[middle] = True
    return bool(same.all()) and bool(_close(alone, y.flatten(0, -2)).all())


def _pixel_window(part: nn.Module, x: Tensor, y: Tensor) -> EachPixel | None:
    """The window over which a part moves, from what two neighbouring outputs in the middle hang on."""
    given, in_sequence = (part, x, y), x.ndim == 3
    if in_sequence:
        part, x, y = _in_a_row(part), x[:, :, None], y[:, :, None]
    flat = [size == other == 1 for size, other in zip(x.shape[2:], y.shape[2:], strict=True)]  # of sequences
    if any(size < 2 and not one for size, one in zip(y.shape[2:], flat, strict=True)):
        return None
    here, beside = (
        [0 if one else size // 2 - 1 + k for size, one in zip(y.shape[2:], flat, strict=True)] for k in (0, 1)
    )
    box, next_box = (_dependence_box(part, x, (place[0], place[1])) for place in (here, beside))
    if box is None or next_box is None:
        return None
    window, step, padding = [], [], []
    for (low, high), (next_low, next_high), at, one in zip(box, next_box, here, flat, strict=True):
        if one:
            window.append(1)
            step.append(1)
            padding.append(0)
            continue
        window.append(high - low + 1)
        step.append(next_low - low)
        if next_high - next_low != high - low or step[-1] < 1:
            return None
        padding.append(at * step[-1] - low)
    sides = ((window[0], window[1]), (step[0], step[1]), (padding[0], padding[1]))
    found = EachPixel(x.shape[1], *sides, in_sequence)
    sizes = [(s + 2 * p - w) // d + 1 for s, p, w, d in zip(x.shape[2:], padding, window, step, strict=True)]
    if min(padding) < 0 or sizes != list(y.shape[2:]):
        return None
    rows, columns = (slice(-(-p // d), n - (-(-p // d))) for p, d, n in zip(padding, step, sizes, strict=True))
    inner = torch.zeros(sizes, dtype=torch.bool)
    inner[rows, columns] = True  # outputs whose windows lie within the image
    with torch.no_grad():
        try:
            alone = found.function(given[0])(found.vectors(given[1])[:, inner.flatten()].flatten(0, 1))
        except (RuntimeError, ValueError, IndexError):
            return None
    wanted = found.values(given[2])[:, inner.flatten()].flatten(0, 1)
    return found if len(wanted) and bool(_close(alone, wanted).all()) else None


def _dependence_box(part: nn.Module, x: Tensor, at: tuple[int, int]) -> list[tuple[int, int]] | None:
    """Rows and columns of the pixels that the output at one place moves with."""
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).to(x)
    moved = torch.cat([x, x + x.std() * noise, x.std() * noise]).requires_grad_(True)
    with torch.enable_grad():
        try:
            (slope,) = torch.autograd.grad(part(moved)[:, :, at[0], at[1]].pow(2).sum(), moved)
        except RuntimeError as error:
            raise InputError(f"`parts` must be differentiable. {first_line(error)}") from error
    seen = (slope.abs() > 0).any(dim=0).any(dim=0)
    box = []
    for other in (1, 0):
        hit = seen.any(dim=other).nonzero()[:, 0]
        if len(hit) == 0:
            return None
        box.append((int(hit[0]), int(hit[-1])))
    return box


def check_axis(axis: Any) -> None:
    if axis not in AXES or isinstance(axis, bool):
        raise InputError(f'`axis` must be "auto", "all", -1 (tokens) or 1 (pixels). Got {short_repr(axis)}.')
