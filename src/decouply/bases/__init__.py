"""Bases for internal functions, all with the members of `AbstractBasis`: polynomials, splines, curves with names."""

from ._abstract import AbstractBasis, LayerBasis
from ._activation import Activation
from ._algebra import AbstractAlgebra, ArrayAlgebra
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
    Trigonometric,
)
from ._polynomials import AbstractPolynomialBasis, Bernstein, Chebyshev, Monomial, ScaledMonomial
from ._spline import Spline

OWN_BASES: tuple[type[AbstractBasis], ...] = (
    Monomial,
    ScaledMonomial,
    Bernstein,
    Chebyshev,
    Trigonometric,
    Spline,
    *CURVES,
    Activation,
)

__all__ = [
    "CURVES",
    "OWN_BASES",
    "Absolute",
    "AbstractAlgebra",
    "AbstractBasis",
    "AbstractPolynomialBasis",
    "Activation",
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
