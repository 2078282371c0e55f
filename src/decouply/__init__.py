"""Decoupling of multivariate functions: f(x) = W_L g_L(W_(L-1) ... g_1(W_0 x)) with univariate g.

The public names are listed in `__init__.pyi` and imported when first used.
"""

from ._support import _interrupts  # noqa: F401, I001  # before what takes long
import lazy_loader

from ._support._optional_packages import guarded

__getattr__, __dir__, __all__ = guarded(
    lazy_loader.attach_stub(__name__, __file__),
    {
        "DecouplingClassifier": ("sklearn", "sklearn"),
        "DecouplingRegressor": ("sklearn", "sklearn"),
        "nn": ("torch", "torch"),
    },
)

__version__ = "0.1.0"
