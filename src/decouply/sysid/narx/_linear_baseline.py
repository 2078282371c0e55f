"""A linear model with the lags of a NARX model, fitted one step ahead: what a NARX model is compared with."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import Monomial
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ..signals._records import Range, Signals
from ._regressors import Lags
from ._simulation import free_run, step_of


def linear_model(lags: Lags, signals: Signals) -> Decoupling:
    """Least squares for y(t) on a constant and the regressors, of all records together."""
    X = np.concatenate([lags.regressors(u, y) for u, y in zip(signals.u, signals.y, strict=True)])
    Y = np.concatenate([y[lags.longest :] for y in signals.y])
    middle, size = X.mean(axis=0), X.std(axis=0)
    size = np.where(size > 0.0, size, 1.0)
    slopes = np.linalg.lstsq((X - middle) / size, Y - Y.mean(axis=0), rcond=None)[0].T / size
    nothing = Functions(Monomial(1), np.zeros((1, 2)))
    return Decoupling(
        [np.zeros((1, X.shape[1])), np.zeros((Y.shape[1], 1))],
        [nothing],
        linear=slopes,
        offset=Y.mean(axis=0) - slopes @ middle,
    )


def linear_run(
    model: Decoupling, lags: Lags, u: Float[ndarray, "T inputs"], y_init: Float[ndarray, "k outputs"], limits: Range
) -> Float[ndarray, "T outputs"]:
    """The free run of a linear model; NaN from where it leaves the limits."""
    return free_run(step_of(model), lags, u, y_init, limits)[0]
