"""A NARX model as a state-space model: its states are the past inputs and outputs that it looks back on."""

from __future__ import annotations

import numpy as np

from ...model._decoupling import Decoupling
from ..free_run._step_arrays import StepArrays
from ._regressors import Lags


def n_lagged(lags: Lags) -> int:
    """How many states past inputs and outputs are."""
    return lags.n_regressors - lags.n_inputs


def realised(decoupling: Decoupling, lags: Lags) -> StepArrays:
    """One step (x, u) -> (x+, y) with x = (u(t - 1), ..., u(t - n_u), y(t - 1), ..., y(t - n_y)): the same model.

    The newest output enters the state as it leaves: its rows stand in W_L twice.
    """
    n, m, p = n_lagged(lags), lags.n_inputs, lags.n_outputs
    first_y = lags.n_u * m
    model = StepArrays.of(decoupling)
    newest = np.r_[np.arange(first_y, first_y + p * (lags.n_y > 0)), np.arange(n, n + p)]
    source = np.r_[np.arange(p * (lags.n_y > 0)), np.arange(p)]
    linear, offset = np.zeros((n + p, n + m)), np.zeros(n + p)
    W = np.zeros((n + p, model.W[-1].shape[1]))
    linear[:first_y, n:][:m] = np.eye(m)[: min(m, first_y)]  # u(t) is the newest past input
    for begin, end, size in ((0, first_y, m), (first_y, n, p)):  # older ones move on
        linear[np.arange(begin + size, end), np.arange(begin, max(begin, end - size))] = 1.0
    linear[newest] = np.concatenate([model.linear[:, m:], model.linear[:, :m]], axis=1)[source]
    offset[newest], W[newest] = model.offset[source], model.W[-1][source]
    W0 = np.concatenate([model.W[0][:, m:], model.W[0][:, :m]], axis=1)
    return StepArrays((W0, *model.W[1:-1], W), model.g, linear, offset)
