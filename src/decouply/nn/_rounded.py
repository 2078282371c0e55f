"""A layer that is trained as it will be stored: its numbers are rounded in every pass, its gradients are not.

The gradient of a rounded number is taken as that of the number itself (a "straight-through" estimate), so that numbers
move between the steps of their scale until the rounded layer is good, not the one before rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call

from ._layer import DecoupledLayer
from ._packing import pack, rounded, unpack


class Rounded:
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
        codes, scale = rounded(own[:, 1:] if apart else own, self.n_bits)
        near = codes * scale.to(own)[:, None]
        if apart:
            near = torch.cat([own[:, :1].half().to(own), near], dim=1)
        return p + (near - own)
