r"""The arrays of samples: which shapes fit together, what weights may be, and that numbers are finite.

Weights stand between the residuals of a sample in both terms of the objective,

    sum_s tr((J_s - J_hat_s)^T M_s (J_s - J_hat_s)) + lam sum_s (f_s - f_hat_s)^T M_s (f_s - f_hat_s).

M_s is w_s I for weights of shape (S,) and diag(w_s) for (S, n). Without weights it is I.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_array, read_array
from .._support._errors import DataError, InputError, short_repr

_ROWS_IN_MESSAGE = 5


def what_does_not_fit(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """What is wrong with arrays X (S, m), F (S, n) or (S,), J (S, n, m), in a sentence; empty if they fit."""
    X, F, J = shapes["X"], shapes.get("F"), shapes.get("J")
    if len(X) != 2 or 0 in X:
        return f"`X` must hold at least one point with at least one coordinate. Got shape {X}."
    if F is None and J is None:
        return "`F` or `J` must be given: without values and Jacobians there is nothing to decouple."
    F = (*F, 1) if F is not None and len(F) == 1 else F
    if F is not None and (len(F) != 2 or F[0] != X[0] or F[1] == 0):
        return f"`F` must have shape ({X[0]}, n): one row per row of `X`. Got {F}."
    if J is not None:
        n = J[1] if F is None and len(J) == 3 else F[1] if F is not None else 0
        if n == 0 or (X[0], n, X[1]) != J:
            n_text = "n" if F is None else str(n)
            return (
                f"`J` must have shape ({X[0]}, {n_text}, {X[1]}): one Jacobian per row of `X`, outputs before inputs. "
                f"Got {J}."
            )
    return ""


def check_stored_shapes(shapes: Mapping[str, tuple[int, ...]], place: str) -> None:
    """The same for arrays that are kept elsewhere, their weights included."""
    rule = f"The arrays of {place} must have the shapes X (S, m), F (S, n), J (S, n, m), weights (S, ...)"
    got = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    if "F" not in shapes and "J" not in shapes:
        raise InputError(f"{rule}, with F or J or both. Got {got}: without values and Jacobians nothing is known.")
    if what_does_not_fit(shapes):
        raise InputError(f"{rule}, one sample after the other. Got {got}.")
    S, n = shapes["X"][0], (*shapes.get("F", shapes.get("J", ())), 1)[1]
    if "weights" in shapes and shapes["weights"] not in ((S,), (S, n)):
        raise InputError(f"{rule}. Got weights of shape {shapes['weights']} for {S} samples and {n} outputs.")


def finite_rows(what: str, table: ndarray, first: int) -> ndarray:
    """The same table, or an error that names the rows, counted from `first`, that hold NaN or infinity."""
    if np.isfinite(np.sum(table)):
        return table
    bad = first + np.flatnonzero(~np.isfinite(table.reshape(len(table), -1)).all(axis=1))
    if bad.size == 0:  # the sum alone overflowed
        return table
    rows = ", ".join(str(row) for row in bad[:_ROWS_IN_MESSAGE]) + (", ..." if bad.size > _ROWS_IN_MESSAGE else "")
    raise DataError(
        f"{what} must hold finite numbers only. Got NaN or infinity in {bad.size} of the samples {first} to "
        f"{first + len(table) - 1}: rows {rows}, counted from 0. Repair these rows, or write a store without them."
    )


def as_weights(value: object, S: int, n: int) -> Float[ndarray, "S *outputs"]:
    """Accept factors (S,) or (S, n)."""
    rule = f"`weights` must have shape ({S},) or ({S}, {n}): one factor per sample, or per sample and output"
    given = read_array(rule, value)
    if given.shape == (S, n, n):
        raise InputError(
            f"{rule}. Got one matrix per sample: give their diagonals. If one matrix M = R R^T holds for all samples, "
            "decouple F @ R and R.T @ J, whose last weights are R.T @ W_L."
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


def as_array_names(arrays: Any) -> dict[str, str] | None:
    """What the arrays X, F, J and weights are called in a file, if the user says so."""
    if arrays is None:
        return None
    found = dict(arrays) if isinstance(arrays, Mapping) else {}
    if not found or not all(isinstance(name, str) for pair in found.items() for name in pair):
        raise InputError(
            f'`arrays` must say what arrays are called in the file, such as {{"X": "points"}}. Got '
            f"{short_repr(arrays)}."
        )
    return found
