r"""Digits that normal equations lose with three and more layers, brought back.

Around a layer every slice reads A_s D_s B_s. From positive start values the products A_s and B_s of many matrices are
nearly of rank one, and normal equations square their condition number: single factors then differ from exact arithmetic
in the sixth digit and worse. The equations are still good enough to solve with: steps of refinement

    x <- x + H^{-1} rhs(J - J_hat)

with the residual of the data themselves give what QR would (corrected seminormal equations, Björck 1987), at the price
of one pass over J each. With one or two layers there is next to nothing to bring back, and nothing is done.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..samples._jacobians import held
from ._problem import Problem
from ._weighting import some, weigh

FROM_LAYERS = 3
STEPS = 2


@dataclass(frozen=True)
class RightSide:
    """What lies to the right of the diagonals of layer `l`: B_s = W_l D_l ... D_1 W_0, and a linear part beside it."""

    problem: Problem
    W: list[Float[ndarray, "B _ _"]]
    G: list[Float[ndarray, "B S _"]]
    l: int
    linear: Float[ndarray, "B n m"] | None

    @property
    def steps(self) -> int:
        """How many steps of refinement are worth their time."""
        return STEPS if len(self.G) >= FROM_LAYERS else 0

    def products_left(self, AD: Float[ndarray, "B S n r"]) -> Float[ndarray, "B S n r"]:
        """K for what `AD` leaves of the data: M_s (J_s - AD_s B_s) B_s^T, from the data, not from Gram matrices."""
        assert self.problem.J is not None
        K = np.empty_like(AD)
        for rows, J in held(self.problem.J).portions():
            B = self.W[0][:, None]
            for k in range(self.l):
                B = self.W[k + 1][:, None] @ (self.G[k][:, rows, :, None] * B)
            left = J - AD[:, rows] @ B
            if self.linear is not None:
                left -= self.linear[:, None]
            K[:, rows] = weigh(left, some(self.problem.weights, rows)) @ B.mT
        return K
