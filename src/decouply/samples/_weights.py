r"""Weights of samples: what stands between the residuals of a sample in both terms of the objective.

    sum_s tr((J_s - J_hat_s)^T M_s (J_s - J_hat_s)) + lam sum_s (f_s - f_hat_s)^T M_s (f_s - f_hat_s)

M_s is w_s I for weights of shape (S,) and diag(w_s) for (S, n). Without weights it is I.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_array, read_array
from .._support._errors import InputError


def as_weights(value: object, S: int, n: int) -> Float[ndarray, "S *outputs"]:
    """Accept factors (S,) or (S, n)."""
    rule = f"`weights` must have shape ({S},) or ({S}, {n}): one factor per sample, or per sample and output"
    given = read_array(rule, value)
    if given.shape == (S, n, n):
        raise InputError(
            f"{rule}. Got one matrix per sample: give their diagonals; or, where one matrix M = R R^T holds for all "
            "samples, decouple F @ R and R.T @ J, whose last weights are R.T @ W_L."
        )
    if given.shape not in ((S,), (S, n)):
        raise InputError(f"{rule}. Got shape {given.shape}.")
    weights = as_array("weights", given, ("S", "n")[: given.ndim])
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
    return weights


def check_all_outputs_count(weights: Float[ndarray, "S *outputs"] | None) -> None:
    """An output that no sample weighs would be left to chance."""
    if weights is None or weights.ndim == 1:
        return
    unseen = np.flatnonzero(~np.any(weights > 0.0, axis=0))
    if unseen.size == weights.shape[1]:
        raise InputError(
            "`weights` must be above 0 for every output at one sample or more. Got 0 throughout: scale them up, or "
            "leave them out."
        )
    if unseen.size:
        raise InputError(
            f"`weights` must be above 0 for every output at one sample or more. Got 0 at all samples for the outputs "
            f"{unseen.tolist()} (counted from 0): leave these outputs out of F and J."
        )
