"""Compression of PyTorch networks: sample a part, decouple it, put the decoupling in its place. Needs torch."""

from ._compress import Compression, compress
from ._fine_tune import FineTune
from ._layer import DecoupledLayer
from ._refine import refine
from ._report import CompressionReport
from ._sample import sample

__all__ = ["Compression", "CompressionReport", "DecoupledLayer", "FineTune", "compress", "refine", "sample"]
