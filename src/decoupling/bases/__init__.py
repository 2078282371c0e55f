"""Bases for internal functions: one class per file, all with the members of `AbstractBasis`."""

from ._abstract import AbstractBasis, AbstractPolynomialBasis
from ._algebra import AbstractAlgebra, ArrayAlgebra
from ._bernstein import Bernstein
from ._chebyshev import Chebyshev
from ._layer import LayerBasis
from ._monomial import Monomial
from ._scaled_monomial import ScaledMonomial
from ._tanh import Tanh
from ._trigonometric import Trigonometric

OWN_BASES: tuple[type[AbstractBasis], ...] = (Monomial, ScaledMonomial, Bernstein, Chebyshev, Trigonometric, Tanh)

__all__ = [
    "OWN_BASES",
    "AbstractAlgebra",
    "AbstractBasis",
    "AbstractPolynomialBasis",
    "ArrayAlgebra",
    "Bernstein",
    "Chebyshev",
    "LayerBasis",
    "Monomial",
    "ScaledMonomial",
    "Tanh",
    "Trigonometric",
]
