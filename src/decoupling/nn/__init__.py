"""Compression of PyTorch networks: sample a part, decouple it, put the decoupling in its place. Needs the torch extra."""

from ._layer import DecoupledLayer
from ._sample import sample

__all__ = ["DecoupledLayer", "sample"]
