r"""Derivatives of a free run with respect to all parameters of a decoupling, exact and without a loop over time.

With y(t) = f(x(t), theta) and x(t) made of past outputs, the sensitivities s(t) = d y(t) / d theta obey

    s(t) - sum_k A_k(t) s(t - k) = d f / d theta at x(t),       A_k(t) = d f / d y(t - k),

a unit lower-triangular banded system: one LAPACK call for all times and parameters.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg.lapack import dtbtrs

from ..model._decoupling import Decoupling
from ..model._functions import Functions
from ._lags import Lags


def parameters(model: Decoupling) -> Float[ndarray, " P"]:
    """W_0, c_1, W_1, ..., c_L, W_L in one row; the constants of the last layer count, inner ones are 0."""
    parts = []
    for l, (W, g) in enumerate(zip(model.W, model.g, strict=False)):
        parts += [W.ravel(), (g.C if l == model.n_layers - 1 else g.C[:, 1:]).ravel()]
    return np.concatenate([*parts, model.W[-1].ravel()])


def with_parameters(model: Decoupling, theta: Float[ndarray, " P"]) -> Decoupling:
    """The inverse of `parameters`, for models of the same shape."""
    W, g, at = [], [], 0
    for l, (old_W, old_g) in enumerate(zip(model.W, model.g, strict=False)):
        W.append(theta[at : at + old_W.size].reshape(old_W.shape))
        at += old_W.size
        first = 0 if l == model.n_layers - 1 else 1
        C = np.zeros_like(old_g.C)
        C[:, first:] = theta[at : at + C[:, first:].size].reshape(C.shape[0], -1)
        at += C[:, first:].size
        g.append(Functions(old_g.layer.bases, C))
    W.append(theta[at:].reshape(model.W[-1].shape))
    return Decoupling(W, g)


def value_derivatives(model: Decoupling, X: Float[ndarray, "S m"]) -> Float[ndarray, "S n P"]:
    """d f / d theta at the points X, going back from the output."""
    S, n = len(X), model.n_outputs
    u = model.inner_inputs(X)
    blocks: list[ndarray] = []
    D = np.broadcast_to(np.eye(n), (S, n, n))  # d f / d (what W_l gives)
    for l in range(model.n_layers, -1, -1):
        z = model.g[l - 1](u[l - 1]) if l else X
        blocks.insert(0, (D[..., None] * z[:, None, None, :]).reshape(S, n, -1))
        if l == 0:
            break
        functions = model.g[l - 1]
        Q = D @ model.W[l]  # d f / d z_l
        Phi = functions.layer.evaluate(u[l - 1])  # (S, r, d)
        if l == model.n_layers:
            Phi = np.concatenate([np.ones((*Phi.shape[:2], 1)), Phi], axis=2)
        # Coefficients past the basis of a function do not exist; their columns are 0 and never move.
        blocks.insert(0, (Q[..., None] * Phi[:, None]).reshape(S, n, -1))
        D = Q * functions.derivative(u[l - 1])[:, None, :]
    return np.concatenate(blocks, axis=2)


def sensitivities(model: Decoupling, lags: Lags, X: Float[ndarray, "S m"]) -> Float[ndarray, "S n P"]:
    """d y(t) / d theta along a free run whose regressors were X; what came before does not depend on theta."""
    S, n = len(X), lags.n_outputs
    right = value_derivatives(model, X)
    P = right.shape[2]
    if lags.n_y == 0:
        return right
    A = model.jacobian(X)[:, :, (lags.n_u + 1) * lags.n_inputs :].reshape(S, n, lags.n_y, n)
    band = np.zeros((lags.n_y * n + n, S * n))  # band[d, c] is the entry in column c and row c + d
    band[0] = 1.0
    for k in range(1, min(lags.n_y, S - 1) + 1):
        for i in range(n):
            for j in range(n):
                band[k * n + i - j, np.arange(S - k) * n + j] = -A[k:, i, k - 1, j]
    solved, _ = dtbtrs(band, right.reshape(S * n, P), uplo="L", diag="U")
    return solved.reshape(S, n, P)
