"""Bases for internal functions: one class per file, all with the members of `AbstractBasis`."""

from ._abstract import AbstractBasis, AbstractPolynomialBasis
from ._bernstein import Bernstein
from ._change import rescaled, shifted
from ._chebyshev import Chebyshev
from ._layer import LayerBasis
from ._monomial import Monomial
from ._scaled_monomial import ScaledMonomial
from ._trigonometric import Trigonometric

__all__ = [
    "AbstractBasis",
    "AbstractPolynomialBasis",
    "Bernstein",
    "Chebyshev",
    "LayerBasis",
    "Monomial",
    "ScaledMonomial",
    "Trigonometric",
    "rescaled",
    "shifted",
]
