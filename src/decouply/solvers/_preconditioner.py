"""A rough inverse of the normal matrix of many unknowns, which makes conjugate gradients short.

A row of Jacobians is D_s W_0 with the slopes D_s of everything behind W_0. So W_0, by far the most of the unknowns, has
the normal matrix K kron I with K = sum_s w_s^2 D_s^T D_s, but for how slopes change with W_0. All else is scaled by its
diagonal, or by the mean of that of K where it is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._chain import Chain, Parameters
from ._rows import Rows

_FLOOR = 1e-12  # of the largest entry of the diagonal


@dataclass(frozen=True)
class Preconditioner:
    """K of W_0, which comes first in a row of all unknowns, and the diagonal of what follows."""

    K: Float[ndarray, "r r"]
    n_inputs: int
    diagonal: Float[ndarray, " rest"]

    @classmethod
    def of(
        cls,
        rows: Rows,
        chain: Chain,
        before: Parameters,
        D: Float[ndarray, "1 S n r"],
        n_unknowns: int,
        last: Float[ndarray, " known"] | None = None,
    ) -> Preconditioner:
        """For one start with slopes `D` of the last layer; `last` is the diagonal of the last unknowns."""
        for l in range(len(chain.a) - 1, -1, -1):
            D = (D @ before[2 * l + 2][:, None, :, :-1]) * chain.a[l][:, :, None]
        of_F, of_J = square_weights(rows)
        weight = of_J + of_F * np.mean(rows.X**2)
        flat = (D[0] * np.sqrt(weight)[:, None, None]).reshape(-1, D.shape[-1])
        K, m = flat.T @ flat, rows.X.shape[1]
        mean = float(np.trace(K)) / len(K)
        diagonal = np.full(n_unknowns - len(K) * m, mean)
        if last is not None:
            diagonal[len(diagonal) - len(last) :] = last
        floor = _FLOOR * max(float(diagonal.max(initial=0.0)), mean) or 1.0
        return cls(K + floor * np.eye(len(K)), m, np.maximum(diagonal, floor))

    @property
    def scale(self) -> Float[ndarray, "1 N"]:
        """The diagonal of the whole, by which damping is measured."""
        return np.concatenate([np.repeat(np.diagonal(self.K), self.n_inputs), self.diagonal])[None]

    def inverse(self, damping: float, ridge: float) -> Callable[[ndarray], ndarray]:
        """What applies the inverse, damped and with a ridge, to one row of all unknowns."""
        r, m = len(self.K), self.n_inputs
        of_W0 = np.linalg.inv(self.K + np.diag(damping * np.diagonal(self.K) + ridge))
        of_rest = 1.0 / ((1.0 + damping) * self.diagonal + ridge)

        def apply(v: Float[ndarray, "1 N"]) -> Float[ndarray, "1 N"]:
            first = of_W0 @ v[0, : r * m].reshape(r, m)
            return np.concatenate([first.ravel(), of_rest * v[0, r * m :]])[None]

        return apply


def square_weights(rows: Rows) -> tuple[Float[ndarray, " S"], Float[ndarray, " S"]]:
    """Squared weights of the values and, on average, of the Jacobian entries of every sample; 0 where not known."""
    squares, o, none = rows.weights**2, int(rows.values), np.zeros(len(rows.weights))
    return (squares[:, 0] if rows.values else none), (squares[:, o:].mean(axis=1) if rows.jacobians else none)
