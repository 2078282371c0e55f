r"""Core coordinates: r_1 inputs and r_L outputs hold all there is to find.

The rows of all Jacobians lie in the span of the rows of W_0, and the columns of J and F in that of the columns of W_L.
With the leading right singular vectors V of the stacked J and the leading left ones U of [F, J], the problem of
x V, F U and U^T J V has the same inner layers, with W_0 V in place of W_0. Where data are noisy the core leaves out
what no model of these ranks can follow; answers are polished with all data.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..problem._weighted_rows import Rows
from ._derivatives import Parameters


@dataclass(frozen=True)
class Core:
    """Orthonormal directions of inputs and outputs; None keeps them as they are."""

    V: Float[ndarray, "m k"] | None
    U: Float[ndarray, "n l"] | None

    @classmethod
    def of(cls, rows: Rows, n_inputs: int, n_outputs: int) -> Core:
        """The core of so many inputs and outputs, where that is fewer than there are."""
        m, n = rows.X.shape[1], rows.Y.shape[2]
        V = U = None
        if rows.jacobians and n_inputs < m:
            stacked = rows.Y[:, int(rows.values) :].swapaxes(0, 1).reshape(m, -1)
            V = _leading(stacked, n_inputs)
        if n_outputs < n:
            U = _leading(rows.Y.reshape(-1, n).T, n_outputs)
        return cls(V, U)

    def rows(self, rows: Rows) -> Rows:
        """The same data in core coordinates; weights must be the same for all outputs."""
        assert rows.mixing is None
        X, Y, weights, o = rows.X, rows.Y, rows.weights, int(rows.values)
        if self.U is not None:
            Y = Y @ self.U
        if self.V is not None:
            k = self.V.shape[1]
            X, weights = X @ self.V, weights[:, : o + k]  # the rows of a Jacobian have the same weight
            Y = np.concatenate([Y[:, :o], self.V.T @ Y[:, o:]], axis=1)
        return dataclasses.replace(rows, X=X, Y=Y, weights=weights)

    def enter(self, inner: Parameters) -> Parameters:
        """Inner layers in core coordinates."""
        return self._first(inner, self.V)

    def leave(self, inner: Parameters) -> Parameters:
        """Inner layers of the core as those of all inputs."""
        return self._first(inner, None if self.V is None else self.V.T)

    @staticmethod
    def _first(inner: Parameters, turn: ndarray | None) -> Parameters:
        if turn is None:
            return list(inner)
        W = inner[0]
        return [np.concatenate([W[..., :-1] @ turn, W[..., -1:]], axis=-1), *inner[1:]]


def _leading(wide: Float[ndarray, "k R"], count: int) -> Float[ndarray, "k c"]:
    """The leading left singular vectors; a triangle is as good as a long table."""
    triangle = np.linalg.qr(wide.T, mode="r") if wide.shape[1] > wide.shape[0] else wide.T
    return np.linalg.svd(triangle, full_matrices=True)[2][:count].T
