"""Compression of PyTorch networks: sample a part, decouple it, put the decoupling in its place. Needs torch."""

from .._support._extras import needed

needed("torch", "torch", "decouply.nn")

from ._budget import Budget  # noqa: E402
from ._compress import Compression, compress  # noqa: E402
from ._distil import Distil  # noqa: E402
from ._fine_tune import FineTune  # noqa: E402
from ._frozen import freeze  # noqa: E402
from ._layer import DecoupledLayer  # noqa: E402
from ._packing import pack, unpack  # noqa: E402
from ._refine import refine  # noqa: E402
from ._report import BaselineReport, CompressionReport, PartReport  # noqa: E402
from ._sample import sample  # noqa: E402

__all__ = [
    "BaselineReport",
    "Budget",
    "Compression",
    "CompressionReport",
    "DecoupledLayer",
    "Distil",
    "FineTune",
    "PartReport",
    "compress",
    "freeze",
    "pack",
    "refine",
    "sample",
    "unpack",
]
