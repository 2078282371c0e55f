"""A NARX model as a state-space model: its states are the past inputs and outputs that it looks back on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ..free_run._step_arrays import StepArrays
from ._regressors import Lags


def as_state_space(of_regressors: StepArrays, lags: Lags) -> StepArrays:
    """One step (x, u) -> (x+, y) with x = (u(t - 1), ..., u(t - n_u), y(t - 1), ..., y(t - n_y)): the same model.

    The newest output enters the state as it leaves: its rows stand in W_L twice, see `repeated_outputs`.
    """
    n, m, p = lags.n_states, lags.n_inputs, lags.n_outputs
    first_y, order = lags.n_u * m, _states_first(lags)
    linear, offset = np.zeros((n + p, n + m)), np.zeros(n + p)
    W = np.zeros((n + p, of_regressors.W[-1].shape[1]))
    linear[:first_y, n:][:m] = np.eye(m)[: min(m, first_y)]  # u(t) is the newest past input
    for begin, end, size in ((0, first_y, m), (first_y, n, p)):  # older ones move on
        linear[np.arange(begin + size, end), np.arange(begin, max(begin, end - size))] = 1.0
    copies = repeated_outputs(lags)
    for rows in (list(range(n, n + p)), list(copies)):
        source = [copies.get(row, row) - n for row in rows]
        linear[rows] = of_regressors.linear[source][:, order]
        offset[rows], W[rows] = of_regressors.offset[source], of_regressors.W[-1][source]
    return StepArrays((of_regressors.W[0][:, order], *of_regressors.W[1:-1], W), of_regressors.g, linear, offset)


def as_narx(step: StepArrays, lags: Lags) -> StepArrays:
    """The inverse of `as_state_space`: the map from regressors to outputs."""
    n, order = lags.n_states, np.argsort(_states_first(lags))
    W = (step.W[0][:, order], *step.W[1:-1], step.W[-1][n:])
    return replace(step, W=W, linear=step.linear[n:][:, order], offset=step.offset[n:])


def repeated_outputs(lags: Lags) -> dict[int, int]:
    """Rows of (x+, y) that hold the newest output as a state, and the rows of the output itself."""
    newest = lags.n_u * lags.n_inputs
    return {newest + i: lags.n_states + i for i in range(lags.n_outputs if lags.n_y else 0)}


def _states_first(lags: Lags) -> Int[ndarray, " m"]:
    """The order of regressors as (x, u): u(t) comes last."""
    return np.r_[np.arange(lags.n_inputs, lags.n_regressors), np.arange(lags.n_inputs)]
