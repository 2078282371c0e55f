"""The place of a part in its network, and the form that a decoupling must have there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from numpy import ndarray
from torch import nn

from ...model._decoupling import Decoupling
from ...model._functions import Outside
from ..layer._decoupled_layer import DecoupledLayer, layer_on
from ._carve import Carved
from ._receptive_field import AbstractReach


@dataclass(frozen=True, eq=False)
class Place:
    """Where decouplings go.

    Attributes
    ----------
    carved
        The network with its part cut out.
    reach
        What one output of the part depends on.
    X
        Inputs of the part: the domains of the functions are what these visit.
    outside
        What the functions do beyond them.
    dtype, device
        Of the network.
    """

    carved: Carved
    reach: AbstractReach
    X: Float[ndarray, "S m"]
    outside: Outside
    dtype: torch.dtype
    device: torch.device

    def layer(self, decoupling: Decoupling) -> DecoupledLayer:
        """A decoupling as a module, in canonical form."""
        return layer_on(decoupling, self.X, self.outside, self.dtype)

    def network(self, layer: DecoupledLayer) -> nn.Module:
        """A copy of the network with the layer in the place of the part."""
        return self.carved.with_part(self.reach.module(layer.to(self.device, self.dtype)))
