r"""Digits that normal equations lose with three and more layers, brought back.

Around a layer every slice reads A_s D_s B_s. From positive start values the products A_s and B_s of many matrices are
nearly of rank one, and normal equations square their condition number: single factors then differ from exact arithmetic
in the sixth digit and worse. The equations are still good enough to solve with: steps of refinement

    x <- x + H^{-1} rhs(J - J_hat)

with the residual of the data themselves give what QR would (corrected seminormal equations, Björck 1987). With one or
two layers there is next to nothing to bring back, and nothing is done.

Every B_s ends in W_0 = R^T Q^T, Q with orthonormal columns, so that J_s Q is all a residual needs: J is met once per
sweep, and the steps cost no more with many inputs than with few.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..problem._batched_linalg import times
from ..problem._problem import Problem
from ..problem._sample_weights import apply_weights

FROM_LAYERS = 3  # with fewer, errors of a sweep are below 1e-9 without refinement (notes/findings.md)
STEPS = 2  # they leave errors below 1e-9 with four layers (notes/findings.md)


@dataclass(frozen=True)
class ReducedJacobians:
    """The Jacobians, without the linear part, in an orthonormal basis Q of the rows of W_0."""

    JQ: Float[ndarray, "B S n p"]
    R: Float[ndarray, "B p r"]

    @classmethod
    def of(
        cls, problem: Problem, W0: Float[ndarray, "B r m"], linear: Float[ndarray, "B n m"] | None
    ) -> ReducedJacobians | None:
        """None with so few layers that nothing is refined."""
        if len(problem.layers) < FROM_LAYERS:
            return None
        assert problem.J is not None
        Q, R = np.linalg.qr(W0.mT)
        S, n, m = problem.J.shape
        JQ = (problem.J.reshape(S * n, m) @ Q).reshape(len(Q), S, n, -1)
        return cls(JQ if linear is None else JQ - (linear @ Q)[:, None], R)


@dataclass(frozen=True)
class RightSide:
    """What lies to the right of the diagonals of layer `l`: B_s = W_l D_l ... D_1 W_0."""

    problem: Problem
    W: list[Float[ndarray, "B _ _"]]
    G: list[Float[ndarray, "B S _"]]
    l: int
    reduced: ReducedJacobians | None = None

    @property
    def refinement_steps(self) -> int:
        """How many steps of refinement are worth their time."""
        return 0 if self.reduced is None else STEPS

    def residual_products(self, AD: Float[ndarray, "B S n r"]) -> Float[ndarray, "B S n r"]:
        """K of the residual: M_s (J_s - AD_s B_s) B_s^T, from the data, not from Gram matrices."""
        assert self.reduced is not None
        residual = self.reduced.JQ - AD @ self._columns.mT
        return apply_weights(residual, self.problem.weights) @ self._columns

    @functools.cached_property
    def _columns(self) -> Float[ndarray, "B _ p r"]:
        """Q^T B_s^T; all that it is made of is final by the time layer `l` is updated."""
        assert self.reduced is not None
        columns = self.reduced.R[:, None]
        for k in range(self.l):
            columns = times(columns * self.G[k][:, :, None, :], self.W[k + 1].mT)
        return columns
