r"""Derivatives of a free run with respect to what may change in a decoupling, exact and without a loop over time.

With y(t) = f(x(t), theta) and x(t) made of past outputs, the sensitivities s(t) = d y(t) / d theta obey

    s(t) - sum_k A_k(t) s(t - k) = d f / d theta at x(t),       A_k(t) = d f / d y(t - k),

a unit lower-triangular banded system: one LAPACK call for all times and parameters.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg.lapack import dtbtrs

from ...model._decoupling import Decoupling
from ..narx._regressors import Lags
from ..narx._unknowns import Unknowns


def sensitivities(
    unknowns: Unknowns, model: Decoupling, lags: Lags, X: Float[ndarray, "S m"]
) -> Float[ndarray, "S n P"]:
    """d y(t) / d theta along a free run whose regressors were X; what came before does not depend on theta."""
    S, n = len(X), lags.n_outputs
    right = unknowns.derivatives(model, X)
    P = right.shape[2]
    if lags.n_y == 0:
        return right
    A = model.jacobians(X)[:, :, (lags.n_u + 1) * lags.n_inputs :].reshape(S, n, lags.n_y, n)
    band = np.zeros((lags.n_y * n + n, S * n))  # band[d, c] is the entry in column c and row c + d
    band[0] = 1.0
    for k in range(1, min(lags.n_y, S - 1) + 1):
        for i in range(n):
            for j in range(n):
                band[k * n + i - j, np.arange(S - k) * n + j] = -A[k:, i, k - 1, j]
    solved, _ = dtbtrs(band, right.reshape(S * n, P), uplo="L", diag="U")
    return solved.reshape(S, n, P)
