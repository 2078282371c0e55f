"""Compression of PyTorch networks: sample a part, decouple it, put the decoupling in its place. Needs torch."""

from .._support._extras import needed

needed("torch", "torch", "decoupling.nn")

from ._compress import Compression, compress  # noqa: E402
from ._fine_tune import FineTune  # noqa: E402
from ._layer import DecoupledLayer  # noqa: E402
from ._refine import refine  # noqa: E402
from ._report import CompressionReport  # noqa: E402
from ._sample import sample  # noqa: E402

__all__ = ["Compression", "CompressionReport", "DecoupledLayer", "FineTune", "compress", "refine", "sample"]
