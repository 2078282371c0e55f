"""Compression of PyTorch networks: sample a part, decouple it, put the decoupling in its place. Needs torch."""

from .._support._optional_packages import needed

needed("torch", "torch", "decouply.nn")

from .carving._jacobian_sampling import sample  # noqa: E402
from .compression._compress import Compression, compress  # noqa: E402
from .compression._evaluation import CompressionReport, PartReport  # noqa: E402
from .compression._options import Budget, Evaluation, Fitting, Training  # noqa: E402
from .layer._decoupled_layer import DecoupledLayer  # noqa: E402
from .layer._frozen import freeze  # noqa: E402
from .layer._quantisation import pack, unpack  # noqa: E402
from .training._distillation import Distil, refine  # noqa: E402
from .training._network_training import FineTune  # noqa: E402

__all__ = [
    "Budget",
    "Compression",
    "CompressionReport",
    "DecoupledLayer",
    "Distil",
    "Evaluation",
    "FineTune",
    "Fitting",
    "PartReport",
    "Training",
    "compress",
    "freeze",
    "pack",
    "refine",
    "sample",
    "unpack",
]
