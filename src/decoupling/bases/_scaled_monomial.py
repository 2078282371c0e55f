"""Monomials divided by a factor each, so that their derivatives have like size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._checks import as_count, as_number
from ._combined import AbstractMonomialCombination


@dataclass(frozen=True)
class ScaledMonomial(AbstractMonomialCombination):
    """phi_k(u) = (u / scale)^k * scale / k, with derivatives (u / scale)^(k-1) of like size."""

    degree: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        as_count("degree", self.degree)
        as_number("scale", self.scale, above=True)

    @property
    def size(self) -> int:
        return self.degree

    def to_monomials(self) -> Float[ndarray, "d d"]:
        k = np.arange(1.0, self.degree + 1)
        return np.diag(self.scale ** (1.0 - k) / k)
