"""The smallest number of parameters of a state-space model: what other coordinates and scales can fix is fixed."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._errors import InputError
from ...model._decoupling import Decoupling
from ..free_run._step_arrays import StepArrays
from ._structure import absorbs_scale

_DEPENDENT = 1e-9  # of its length: a row that is no farther from those before depends on them


def canonical_form(step: Decoupling, n: int, *, feedback: bool) -> tuple[Decoupling, Float[ndarray, "n n"]]:
    """The same step with states that are outputs and their successors, and T where the old state is T times the new.

    Without feedback the states keep their coordinates: others would mix the two linear blocks.
    """
    T = np.linalg.inv(_observability_rows(step, n)) if feedback else np.eye(n)
    other = StepArrays.of(step).in_states(T).decoupling(step.inputs, step.outputs)
    for l, functions in enumerate(other.g, start=1):
        W = other.W[l - 1]
        largest = W[np.arange(len(W)), np.argmax(np.abs(W), axis=1)]
        scales = np.array([absorbs_scale(basis) for basis in functions.layer.bases]) & (largest != 0.0)
        positive = np.where(functions.turns_around, largest, np.abs(largest))
        other = other.scaled(l, 1.0 / np.where(scales, positive, 1.0), np.ones(len(W)))
        C = other.g[l - 1].C[:, 1:]
        size = C[np.arange(len(C)), np.argmax(np.abs(C), axis=1)]
        other = other.scaled(l, np.ones(len(W)), 1.0 / np.where(size != 0.0, size, 1.0))
    return other, T


def _observability_rows(step: Decoupling, n: int) -> Float[ndarray, "n n"]:
    """The first n independent rows of C, C A, C A^2, ..."""
    assert step.linear is not None
    A, block = step.linear[:n, :n], step.linear[n:, :n]
    rows: list[ndarray] = []
    for _ in range(n):
        for row in block:
            left = row - (np.linalg.lstsq(np.array(rows).T, row, rcond=None)[0] @ np.array(rows) if rows else 0.0)
            if len(rows) < n and np.linalg.norm(left) > _DEPENDENT * np.linalg.norm(row):
                rows.append(row)
        block = block @ A
    if len(rows) < n:
        raise InputError(
            f"The outputs must depend on all {n} states for a canonical form. Only {len(rows)} can be seen in them: "
            "lower `n_states`."
        )
    return np.array(rows)
