"""tanh t: a saturation whose domain sets its slope and its centre."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._abstract import AbstractBasis
from ._algebra import AbstractAlgebra


@dataclass(frozen=True)
class Tanh(AbstractBasis):
    """phi_1(t) = tanh t. A domain [a, b] puts the centre at (a + b) / 2 and the slope there at 2 / (b - a).

    >>> import decoupling as dc, numpy as np
    >>> g = dc.Functions(dc.Tanh(), [[0.0, 1.0]], domain=(2.0, 4.0))
    >>> g(np.array([[3.0]])), g.derivative(np.array([[3.0]]))
    (array([[0.]]), array([[1.]]))
    """

    @property
    def size(self) -> int:
        return 1

    @property
    def free_domain(self) -> bool:
        return True

    @property
    def in_words(self) -> str:
        return "multiples of tanh"

    def evaluate(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return np.tanh(t)[..., None]

    def derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return 1.0 - np.tanh(t)[..., None] ** 2

    def second_derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        value = np.tanh(t)[..., None]
        return -2.0 * value * (1.0 - value**2)

    def expression(self, algebra: AbstractAlgebra[Any], t: Any, c: Any) -> Any:
        wave = algebra.product([algebra.number(c[..., 1]), algebra.apply("tanh", t)])
        return algebra.sum([algebra.number(c[..., 0]), wave])
