"""Bases for internal functions, all with the members of `AbstractBasis`: one per file, curves with a name in one."""

from ._abstract import AbstractBasis, AbstractPolynomialBasis
from ._algebra import AbstractAlgebra, ArrayAlgebra
from ._bernstein import Bernstein
from ._chebyshev import Chebyshev
from ._layer import LayerBasis
from ._monomial import Monomial, ScaledMonomial
from ._named_curves import (
    CURVES,
    Absolute,
    DeadZone,
    Exponential,
    Friction,
    Gaussian,
    LeakyReLU,
    Logarithm,
    Rational,
    ReLU,
    Saturation,
    Sigmoid,
    Tanh,
)
from ._spline import Spline
from ._trigonometric import Trigonometric

OWN_BASES: tuple[type[AbstractBasis], ...] = (
    Monomial,
    ScaledMonomial,
    Bernstein,
    Chebyshev,
    Trigonometric,
    Spline,
    *CURVES,
)

__all__ = [
    "CURVES",
    "OWN_BASES",
    "Absolute",
    "AbstractAlgebra",
    "AbstractBasis",
    "AbstractPolynomialBasis",
    "ArrayAlgebra",
    "Bernstein",
    "Chebyshev",
    "DeadZone",
    "Exponential",
    "Friction",
    "Gaussian",
    "LayerBasis",
    "LeakyReLU",
    "Logarithm",
    "Monomial",
    "Rational",
    "ReLU",
    "Saturation",
    "ScaledMonomial",
    "Sigmoid",
    "Spline",
    "Tanh",
    "Trigonometric",
]
