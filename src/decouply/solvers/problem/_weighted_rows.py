r"""Weights of samples at work, and data with their weights as the rows of a least-squares problem.

The weights M_s of samples are None (M_s = I), (S,) or (S, n), see `samples/_array_checks.py`. Products M_s T_s and
A_s^T M_s A_s, sums of squares and means are made in the form that costs least; without weights nothing is done at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...samples._portions import Portion
from ._batched_linalg import gram_of_columns

Weights = Float[ndarray, "S *outputs"]
MAX_DERIVATIVES = 4_000_000  # derivatives computed at a time, unless memory is short
_MAX_DENSE_UNKNOWNS = 1000  # unknowns; beyond this the normal matrix is applied instead of formed ...
_MAX_DENSE_PRODUCTS = 2e10  # ... and also where forming it takes more multiplications than this, about a second


def by_output(weights: Weights | None) -> bool:
    """Whether outputs of one sample may count differently."""
    return weights is not None and weights.ndim > 1


def apply_weights(T: Float[ndarray, "*B _ n k"], weights: Weights | None) -> Float[ndarray, "*B _ n k"]:
    """M_s T_s for every sample; T may have one sample instead of S."""
    if weights is None:
        return T
    return T * (weights[:, None, None] if weights.ndim == 1 else weights[:, :, None])


def apply_weights_to_values(F: Float[ndarray, "*B S n"], weights: Weights | None) -> Float[ndarray, "*B S n"]:
    """M_s f_s for every sample."""
    return F if weights is None else apply_weights(F[..., None], weights)[..., 0]


def weighted_gram(A: Float[ndarray, "B _ n r"], weights: Weights | None) -> Float[ndarray, "B _ r r"]:
    """A_s^T M_s A_s for every sample."""
    if weights is None:
        return gram_of_columns(A)
    if weights.ndim == 1:
        return gram_of_columns(A) * weights[:, None, None]
    return A.mT @ apply_weights(A, weights)


def weighted_squares(T: Float[ndarray, "B S *shape"], weights: Weights | None) -> Float[ndarray, " B"]:
    """sum_s tr(T_s^T M_s T_s), for T_s of shape (n,) or (n, m)."""
    if by_output(weights):
        columns = T if T.ndim == 4 else T[..., None]
        return np.einsum("bsnm,bsnm->b", columns, apply_weights(columns, weights))
    flat = T.reshape(*T.shape[:2], -1)
    per_sample = np.einsum("bsi,bsi->bs", flat, flat)
    return per_sample.sum(axis=1) if weights is None else per_sample @ weights


def weighted_mean(F: Float[ndarray, "S n"], weights: Weights | None) -> Float[ndarray, " n"]:
    """The b that minimises sum_s (f_s - b)^T M_s (f_s - b); 0 for an output that no M_s counts."""
    if weights is None or weights.ndim == 1:
        return np.average(F, axis=0, weights=weights)
    return mean_of_sums(*weighted_sums(F, weights))


def weighted_sums(F: Float[ndarray, "S n"], weights: Weights | None) -> tuple[ndarray, Float[ndarray, " n"]]:
    """Sums of M_s and of M_s f_s; for one factor per sample the first is a single number, in an array."""
    if weights is None:
        return np.array([float(len(F))]), F.sum(axis=0)
    if weights.ndim == 1:
        return np.array([weights.sum()]), weights @ F
    return weights.sum(axis=0), apply_weights_to_values(F, weights).sum(axis=0)


def mean_of_sums(total: ndarray, rhs: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """The weighted mean from these sums."""
    return np.where(total > 0.0, rhs / np.where(total > 0.0, total, 1.0), 0.0)


def sample_factors(weights: Weights | None) -> Float[ndarray, " S"] | None:
    """One factor per sample, the mean of the diagonal of M_s, for what cannot tell outputs apart."""
    if weights is None or weights.ndim == 1:
        return weights
    return weights.mean(axis=1)


@dataclass(frozen=True)
class Rows:
    """The weighted right-hand side: values first (if known), then Jacobians (if known), for every sample.

    `weights` are the factors of rows; `mixing` holds the roots of the weights, (S, n), if outputs differ.
    `max_derivatives` bounds the number of derivatives that are computed at a time.
    """

    X: Float[ndarray, "S m"]
    Y: Float[ndarray, "S q n"]
    weights: Float[ndarray, "S q"]
    values: bool
    jacobians: bool
    mixing: Float[ndarray, "S n"] | None = None
    max_derivatives: int = MAX_DERIVATIVES

    def with_values_times(self, factor: float) -> Rows:
        """The same rows with another weight of the values: `factor` times that of before, in squares."""
        weights, Y = self.weights.copy(), self.Y.copy()
        weights[:, 0] *= np.sqrt(factor)
        Y[:, 0] *= np.sqrt(factor)
        return dataclasses.replace(self, weights=weights, Y=Y)

    def weigh_rows(self, table: Float[ndarray, "B S q n"]) -> Float[ndarray, "B S q n"]:
        """A number per row and output, times its weight. The table is used up to save memory: use what is returned."""
        table *= self.weights[:, :, None]
        return table if self.mixing is None else table * self.mixing[:, None]

    @cached_property
    def n_numbers(self) -> int:
        """Numbers to fit: those that the weights see."""
        S, q, n = self.Y.shape
        return S * q * n if self.mixing is None else q * int(np.count_nonzero(self.mixing))

    def forms_normal_matrix(self, n_unknowns: int) -> bool:
        """Whether the normal matrix of a start is cheap enough to be formed."""
        return n_unknowns <= _MAX_DENSE_UNKNOWNS and self.Y.size * float(n_unknowns) ** 2 <= _MAX_DENSE_PRODUCTS

    def chunks(self, n_starts: int, n_unknowns: int) -> Iterator[slice]:
        """Samples in portions whose derivatives fit into a bounded amount of memory."""
        S, q, n = self.Y.shape
        step = max(1, self.max_derivatives // max(1, n_starts * q * n * n_unknowns))
        for first in range(0, S, step):
            yield slice(first, first + step)


@dataclass(frozen=True)
class RowScaling:
    """The factors of values and of Jacobians in the rows of a least-squares problem."""

    factor_F: float
    factor_J: float

    def rows(self, portion: Portion, max_derivatives: int = MAX_DERIVATIVES) -> Rows:
        """The rows of samples in the units of the solver."""
        S, root = len(portion), None if portion.weights is None else np.sqrt(portion.weights)
        mixing = root if by_output(portion.weights) else None
        per_sample = np.ones(S) if root is None or mixing is not None else root
        parts, weights = [], []
        if portion.F is not None:
            parts.append(portion.F[:, None, :])
            weights.append(self.factor_F * per_sample[:, None])
        if portion.J is not None:
            parts.append(portion.J.mT)
            weights.append(np.broadcast_to(self.factor_J * per_sample[:, None], (S, portion.J.shape[2])))
        rows = Rows(
            portion.X,
            np.concatenate(parts, axis=1),
            np.concatenate(weights, axis=1),
            portion.F is not None,
            portion.J is not None,
            mixing,
            max_derivatives,
        )
        return dataclasses.replace(rows, Y=rows.weigh_rows(rows.Y[None])[0])
