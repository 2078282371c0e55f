"""cos u, sin u, cos 2u, sin 2u, ...: a basis whose span does depend on the scale of u."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._checks import as_count
from ._abstract import AbstractBasis


@dataclass(frozen=True)
class Trigonometric(AbstractBasis):
    """The first `count` of cos u, sin u, cos 2u, sin 2u, ...

    >>> import decoupling as dc, numpy as np
    >>> dc.Trigonometric(3).evaluate(np.array([0.0]))
    array([[1., 0., 1.]])
    """

    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", as_count("count", self.count))

    @property
    def size(self) -> int:
        return self.count

    @property
    def scale_invariant(self) -> bool:
        return False

    def _waves(self, u: Float[ndarray, "*shape"]) -> tuple[ndarray, ndarray, ndarray]:
        """cos(k u), sin(k u) and k, for k = 1, 2, ... along a last axis."""
        k = np.arange(1.0, (self.count + 1) // 2 + 1)
        return np.cos(u[..., None] * k), np.sin(u[..., None] * k), k

    def _interleave(self, first: ndarray, second: ndarray) -> ndarray:
        pairs = np.stack([first, second], axis=-1)  # (..., k, 2)
        return pairs.reshape(*first.shape[:-1], -1)[..., : self.count]

    def evaluate(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        cos, sin, _ = self._waves(u)
        return self._interleave(cos, sin)

    def derivative(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        cos, sin, k = self._waves(u)
        return self._interleave(-k * sin, k * cos)

    def second_derivative(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        cos, sin, k = self._waves(u)
        return self._interleave(-(k**2) * cos, -(k**2) * sin)
