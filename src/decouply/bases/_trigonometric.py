"""cos t, sin t, cos 2t, sin 2t, ...: a basis whose domain sets the frequency, and so has to be found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_count
from ._abstract import MOST_FUNCTIONS, AbstractBasis
from ._algebra import AbstractAlgebra


@dataclass(frozen=True)
class Trigonometric(AbstractBasis):
    """The first `count` of cos t, sin t, cos 2t, sin 2t, ...

    >>> import decouply as dc, numpy as np
    >>> dc.Trigonometric(3).evaluate(np.array([0.0]))
    array([[1., 0., 1.]])
    """

    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", as_count("count", self.count, most=MOST_FUNCTIONS))

    @property
    def size(self) -> int:
        return self.count

    @property
    def free_domain(self) -> bool:
        return True

    @property
    def in_words(self) -> str:
        return f"sums of {self.count} cosines and sines"

    def evaluate(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        cos, sin, _ = self._waves(t)
        return self._interleave(cos, sin)

    def derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        cos, sin, k = self._waves(t)
        return self._interleave(-k * sin, k * cos)

    def second_derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        cos, sin, k = self._waves(t)
        return self._interleave(-(k**2) * cos, -(k**2) * sin)

    def expression(self, algebra: AbstractAlgebra[Any], t: Any, c: Any) -> Any:
        terms = [algebra.number(c[..., 0])]
        for i in range(1, self.count + 1):
            k = (i + 1) // 2
            at = t if k == 1 else algebra.product([algebra.number(float(k)), t])
            wave = algebra.apply("cos" if i % 2 else "sin", at)
            terms.append(algebra.product([algebra.number(c[..., i]), wave]))
        return algebra.sum(terms)

    def _waves(self, t: Float[ndarray, "*shape"]) -> tuple[ndarray, ndarray, ndarray]:
        """cos(k t), sin(k t) and k, for k = 1, 2, ... along a last axis."""
        k = np.arange(1.0, (self.count + 1) // 2 + 1)
        return np.cos(t[..., None] * k), np.sin(t[..., None] * k), k

    def _interleave(self, first: ndarray, second: ndarray) -> ndarray:
        pairs = np.stack([first, second], axis=-1)  # (..., k, 2)
        return pairs.reshape(*first.shape[:-1], -1)[..., : self.count]
