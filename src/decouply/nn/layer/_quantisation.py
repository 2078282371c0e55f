"""Layers stored in few bits, and layers that are trained as they will be stored.

Rows of the matrices, and the coefficients of a function but for its constant, are whole numbers times one scale per
row; scales, constants and domains have 16 bits.

In training, numbers are rounded in every pass. The gradient of a rounded number is taken as that of the number itself
(a "straight-through" estimate). So numbers move between the steps of their scale until the rounded layer is good.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..._support._errors import InputError, short_repr
from ._decoupled_layer import DecoupledLayer

_SCALE_TYPE = torch.float16


def check_bits(n_bits: Any, name: str = "quantize", *, or_none: bool = True) -> None:
    if n_bits is None and or_none:
        return
    if not isinstance(n_bits, int | np.integer) or n_bits not in range(2, 9):
        more = ", or None" * or_none
        raise InputError(f"`{name}` must be a number of bits from 2 to 8{more}. Got {short_repr(n_bits)}.")


def pack(layer: DecoupledLayer, n_bits: int = 8) -> dict[str, Tensor]:
    """The numbers of a layer in few bits, to be written by torch.save and read by `unpack`.

    Parameters
    ----------
    layer : DecoupledLayer
        The layer to store.
    n_bits : int
        Bits per number.

    Returns
    -------
    dict of str to Tensor
        What `torch.save` writes.

    Examples
    --------
    >>> import decouply as dc
    >>> layer = dc.nn.DecoupledLayer(dc.systems.f1().with_outside("linear"))
    >>> packed = dc.nn.pack(layer, n_bits=8)
    >>> int(packed["n_bits"])
    8
    """
    check_bits(n_bits, "n_bits", or_none=False)
    if not isinstance(layer, DecoupledLayer):
        raise InputError(f"`layer` must be a dc.nn.DecoupledLayer. Got {type(layer).__name__}.")
    packed = {"n_bits": torch.tensor(n_bits, dtype=torch.uint8)}
    for name, tensor in _stored_tensors(layer).items():
        if tensor.ndim < 2:
            packed[name] = tensor.to(_SCALE_TYPE)
            continue
        codes, packed[f"{name}.scale"] = round_rows(tensor, n_bits)
        flat = codes.flatten().cpu().numpy().astype(np.int64) + 2 ** (n_bits - 1)
        bits = (flat[:, None] >> np.arange(n_bits)) & 1
        packed[f"{name}.codes"] = torch.from_numpy(np.packbits(bits.astype(np.uint8)))
    return packed


def unpack(layer: DecoupledLayer, packed: Mapping[str, Tensor]) -> None:
    """Put packed numbers into a layer of the same sizes.

    Parameters
    ----------
    layer : DecoupledLayer
        A layer of the same sizes, which is changed.
    packed : dict of str to Tensor
        What `pack` returned.

    Examples
    --------
    >>> import decouply as dc, torch
    >>> layer = dc.nn.DecoupledLayer(dc.systems.f1().with_outside("linear"))
    >>> dc.nn.unpack(layer, dc.nn.pack(layer))
    >>> layer(torch.zeros(5, 2)).shape
    torch.Size([5, 2])
    """
    if not isinstance(layer, DecoupledLayer) or not isinstance(packed, Mapping):
        raise InputError(
            f"`layer` must be a dc.nn.DecoupledLayer and `packed` what dc.nn.pack returned. Got "
            f"{type(layer).__name__} and {type(packed).__name__}."
        )
    try:
        n_bits = int(packed["n_bits"])
        check_bits(n_bits, "packed")
        with torch.no_grad():
            for name, tensor in _stored_tensors(layer).items():
                if tensor.ndim < 2:
                    tensor.copy_(packed[name])
                    continue
                joined = np.unpackbits(packed[f"{name}.codes"].cpu().numpy())[: tensor.numel() * n_bits]
                bits = joined.reshape(tensor.numel(), n_bits).astype(np.int64) << np.arange(n_bits)
                codes = torch.from_numpy(bits.sum(axis=1) - 2 ** (n_bits - 1)).reshape(tensor.shape)
                tensor.copy_(codes.to(tensor) * packed[f"{name}.scale"].to(tensor)[:, None])
    except (KeyError, RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"`packed` must come from a layer of the same sizes. It does not fit: {error}") from error


def n_bytes(packed: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for name, tensor in packed.items() if name != "n_bits")


def count_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def stored_bytes(module: nn.Module, short: Collection[torch.dtype] = ()) -> int:
    """Bytes of all numbers that a module stores.

    If it is a copy in float32 of one with `short` floats, tensors that these hold exactly count as what they were.
    """

    def size(tensor: Tensor) -> int:
        sizes = [
            kind.itemsize for kind in short if tensor.dtype == torch.float32 and tensor.equal(tensor.to(kind).float())
        ]
        return min(sizes, default=tensor.element_size())

    return sum(tensor.numel() * size(tensor) for tensor in module.state_dict().values())


def round_rows(tensor: Tensor, n_bits: int) -> tuple[Tensor, Tensor]:
    """Whole numbers of this many bits, and one scale per row in 16 bits."""
    most = 2 ** (n_bits - 1) - 1
    rows = tensor.detach().flatten(1)
    limits = torch.finfo(_SCALE_TYPE)
    scale = (rows.abs().amax(dim=1) / most).clamp(limits.smallest_normal, limits.max).to(_SCALE_TYPE)
    return (rows / scale.to(rows)[:, None]).round().clamp(-most, most).reshape(tensor.shape), scale


def _stored_tensors(layer: DecoupledLayer) -> dict[str, Tensor]:
    """All that is stored of a layer, with the constants of functions apart from their other coefficients."""
    found: dict[str, Tensor] = {}
    constants = layer.constants
    for name, tensor in layer.state_dict(keep_vars=True).items():
        own = tensor.detach()
        if constants is not None and name == f"C.{layer.n_layers - 1}":
            found[f"{name}.constants"], own = own[:, 0], own[:, 1:]
        found[name] = own
    return found


class RoundedLayer:
    """A layer that computes with its numbers in few bits, from `begin` on."""

    def __init__(self, layer: DecoupledLayer, n_bits: int) -> None:
        self.layer, self.n_bits, self.begun = layer, n_bits, False

    def begin(self) -> None:
        """Round from now on. Domains, which are not trained, are rounded here and stay so."""
        kept = [p.detach().clone() for p in self.layer.parameters()]
        unpack(self.layer, pack(self.layer, self.n_bits))
        with torch.no_grad():
            for p, value in zip(self.layer.parameters(), kept, strict=True):
                p.copy_(value)
        self.begun = True

    def __call__(self, x: Tensor) -> Tensor:
        if not self.begun:
            return self.layer(x)
        numbers = {name: self._through(name, p) for name, p in self.layer.named_parameters()}
        return functional_call(self.layer, numbers, (x,))

    def _through(self, name: str, p: Tensor) -> Tensor:
        own = p.detach()
        if own.ndim < 2:
            return p + (own.half().to(own) - own)
        apart = self.layer.constants is not None and name == f"C.{self.layer.n_layers - 1}"
        codes, scale = round_rows(own[:, 1:] if apart else own, self.n_bits)
        near = codes * scale.to(own)[:, None]
        if apart:
            near = torch.cat([own[:, :1].half().to(own), near], dim=1)
        return p + (near - own)
