r"""The weights M_s of samples at work: M_s T_s, A_s^T M_s A_s, sums of squares and means.

Weights are None (M_s = I), (S,) or (S, n), see `samples/_array_checks.py`; products are made in the form that
costs least, and without weights nothing is done at all.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._batched_linalg import gram_of_columns

Weights = Float[ndarray, "S *outputs"]


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
