r"""Weights of samples: what stands between the residuals of a sample in both terms of the objective.

    sum_s tr((J_s - J_hat_s)^T M_s (J_s - J_hat_s)) + lam sum_s (f_s - f_hat_s)^T M_s (f_s - f_hat_s)

M_s is w_s I for weights of shape (S,), diag(w_s) for (S, n), and any symmetric positive semidefinite matrix for
(S, n, n). Without weights it is I.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_array, read_array
from .._support._errors import InputError

# Asymmetry and negative eigenvalues up to so many roundings of the largest entry or eigenvalue are taken for rounding.
_ROUNDINGS = 100.0
_CLEAN = 1e-14  # smallest eigenvalue, relative to the largest of the same matrix, below which a matrix is repaired

_KINDS = {1: "weighted", 2: "weighted by output", 3: "weighted by matrices"}


def as_weights(value: object, S: int, n: int) -> Float[ndarray, "S *outputs"]:
    """Accept factors (S,) or (S, n), or matrices (S, n, n); the matrices come back symmetric and without rounding."""
    rule = f"`weights` must have shape ({S},), ({S}, {n}) or ({S}, {n}, {n}): factors or matrices, one set per sample"
    given = read_array(rule, value)
    if given.shape not in ((S,), (S, n), (S, n, n)):
        raise InputError(f"{rule}. Got shape {given.shape}.")
    weights = as_array("weights", given, ("S", "n", "n")[: given.ndim])
    if weights.ndim == 1 and not np.all(weights > 0.0):
        raise InputError(
            f"`weights` must be {S} positive numbers, one per sample. Got the smallest entry {weights.min():.3g}: "
            "leave a sample out to give it weight 0."
        )
    if weights.ndim == 2 and not np.all(weights >= 0.0):
        raise InputError(
            f"`weights` must be factors of at least 0, one per sample and output. Got the smallest entry "
            f"{weights.min():.3g}: a factor of 0 leaves an output of a sample out."
        )
    return weights if weights.ndim < 3 else _positive_semidefinite(weights, given.dtype)


def kind(n_axes: int) -> str:
    """Weights with so many axes in a word or two."""
    return _KINDS[n_axes]


def check_all_outputs_count(weights: Float[ndarray, "S *outputs"] | None) -> None:
    """An output that no sample weighs would be left to chance."""
    if weights is None or weights.ndim == 1:
        return
    size = weights if weights.ndim == 2 else np.diagonal(weights, axis1=1, axis2=2)
    unseen = np.flatnonzero(~np.any(size > 0.0, axis=0))
    if unseen.size == size.shape[1]:
        raise InputError(
            "`weights` must be above 0 for every output at one sample or more. Got 0 throughout: scale them up, or "
            "leave them out."
        )
    if unseen.size:
        raise InputError(
            f"`weights` must be above 0 for every output at one sample or more. Got 0 at all samples for the outputs "
            f"{unseen.tolist()} (counted from 0): leave these outputs out of F and J."
        )


def _positive_semidefinite(M: Float[ndarray, "S n n"], dtype: np.dtype) -> Float[ndarray, "S n n"]:
    """Symmetric matrices without negative eigenvalues, if the given ones are such up to the rounding of their type."""
    eps = np.finfo(dtype).eps if dtype.kind == "f" else np.finfo(float).eps
    tolerance = _ROUNDINGS * float(max(eps, np.finfo(float).eps)) * float(np.max(np.abs(M)))
    apart = np.abs(M - M.mT).max(axis=(1, 2))
    worst = int(np.argmax(apart))
    if apart[worst] > tolerance:
        raise InputError(
            f"`weights` must be symmetric matrices. Got `weights[{worst}]`, which differs from its transpose by "
            f"{apart[worst]:.3g}: give (M + M^T) / 2."
        )
    even = (M + M.mT) / 2.0
    values, vectors = np.linalg.eigh(even)
    worst = int(np.argmin(values[:, 0]))
    if values[worst, 0] < -tolerance:
        raise InputError(
            f"`weights` must be matrices without negative eigenvalues. Got `weights[{worst}]` with the eigenvalue "
            f"{values[worst, 0]:.3g}: set negative eigenvalues to 0, or compute the matrices in float64."
        )
    repaired = values[:, 0] < -_CLEAN * np.abs(values[:, -1])
    V = vectors[repaired]
    even[repaired] = (V * np.maximum(values[repaired], 0.0)[:, None, :]) @ V.mT
    even.flags.writeable = False
    return even
