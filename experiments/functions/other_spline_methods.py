r"""Two methods of others for one layer with functions of any shape, written anew to compare with.

Both decompose the Jacobians by alternating least squares, J_s = W diag(H_s) V^T, with unit columns of V, and hold the
slopes H[:, j] smooth along the arguments z_j = X v_j.

- `alternating_psplines` follows CMTF-PSD of the package untangle (github.com/mrochk/Untangle, read in November 2026),
  which adds a penalty to the B-splines of De Jonghe and Ishteva (2025): values R are a second factor, F = R W^T, with
  weight 0.1. After each sweep, H and R become slopes and values of P-splines, whose penalty on second differences is
  chosen by generalised cross-validation.
- `filtered_cpd` is after the filtered decomposition of Decuyper and others (2021, 2022): a filter of finite differences
  along z_j is part of the step for H, and values are not used until the functions are integrated. How the papers choose
  its weight could not be had; here a few are tried, and the one whose functions meet the values best is kept.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg import cho_factor, cho_solve

from decouply.bases import Spline
from decouply.model._decoupling import Decoupling
from decouply.model._functions import Functions
from decouply.samples._samples import Samples

_SWEEPS = 100
_STARTS = 4
_VALUES = 0.1  # the weight of values against slopes
_WEIGHTS = np.logspace(-8, 4, 25)  # of roughness, between which cross-validation chooses
_RIDGE = 1e-13
_NO_RANGE = 1e-6
_FILTERS = (1e-4, 1e-2)  # weights of finite differences
_NO_GAP = 1e-3  # of the range of z: closer samples are as good as this far apart


def alternating_psplines(samples: Samples, rank: int, spline: Spline, seed: int) -> Decoupling:
    """The sweep of the best Jacobian error, from the best of several random starts."""
    X, F, J = _arrays(samples)
    rng = np.random.default_rng(seed)
    best, least = None, np.inf
    for _ in range(_STARTS):
        W, V, H, R = (rng.normal(size=(size, rank)) for size in (J.shape[1], J.shape[2], len(J), len(J)))
        for _ in range(_SWEEPS):
            of_J = np.einsum("snm,sr,mr->nr", J, H, V, optimize=True) + _VALUES**2 * F.T @ R
            W = of_J @ np.linalg.pinv((V.T @ V) * (H.T @ H) + _VALUES**2 * R.T @ R)
            V, W = _unit(_step(J.transpose(2, 1, 0), W, H), W)
            H, R = _step(J, W, V), F @ np.linalg.pinv(W).T
            C, domain = np.empty((rank, 1 + spline.size)), np.empty((rank, 2))
            for j, z in enumerate((X @ V).T):
                C[j], domain[j] = _pspline(spline, z, H[:, j], R[:, j])
            g = Functions(spline, C, domain)
            H, R = g.slopes(X @ V), g(X @ V)
            error = float(np.sum((J - np.einsum("nr,sr,mr->snm", W, H, V)) ** 2))
            if error < least:
                best, least = Decoupling([V.T, W], [g]), error
    assert best is not None
    return best


def filtered_cpd(samples: Samples, rank: int, spline: Spline, seed: int) -> Decoupling:
    """The weight and the start whose functions, integrated, meet the values best."""
    X, F, J = _arrays(samples)
    rng = np.random.default_rng(seed)
    models = [_fit_filtered(X, F, J, rank, spline, weight, rng) for weight in _FILTERS for _ in range(_STARTS // 2)]
    return min(models, key=lambda model: float(np.sum((model(X) - F) ** 2)))


def _fit_filtered(
    X: ndarray, F: ndarray, J: ndarray, rank: int, spline: Spline, weight: float, rng: np.random.Generator
) -> Decoupling:
    S = len(J)
    W, V, H = (rng.normal(size=(size, rank)) for size in (J.shape[1], J.shape[2], S))
    for _ in range(_SWEEPS):
        W = _step(J.transpose(1, 2, 0), V, H)
        V, W = _unit(_step(J.transpose(2, 1, 0), W, H), W)
        # (V^T V * W^T W) x I + the filter of each function, for all of H at once.
        M = np.einsum("ij,st->isjt", (V.T @ V) * (W.T @ W), np.eye(S))
        scale = np.sum(W**2, axis=0)  # a filter that does not depend on who holds the scale
        for j, z in enumerate((X @ V).T):
            M[j, :, j] += weight * scale[j] * _filter(z)
        right = np.einsum("snm,nr,mr->rs", J, W, V)
        root = cho_factor(M.reshape(rank * S, rank * S), overwrite_a=True, check_finite=False)
        H = cho_solve(root, right.reshape(-1), check_finite=False).reshape(rank, S).T
    C, domain = np.empty((rank, 1 + spline.size)), np.empty((rank, 2))
    for j, z in enumerate((X @ V).T):
        C[j], domain[j] = _pspline(spline, z, H[:, j], None)
    plain = Decoupling([V.T, W], [Functions(spline, C, domain)])
    C[:, 0] += np.linalg.pinv(W) @ (F - plain(X)).mean(axis=0)
    return Decoupling([V.T, W], [Functions(spline, C, domain)])


def _arrays(samples: Samples) -> tuple[ndarray, ndarray, ndarray]:
    assert samples.F is not None and isinstance(samples.J, ndarray)
    return samples.X, samples.F, samples.J


def _step(J: Float[ndarray, "a b c"], B: Float[ndarray, "b r"], C: Float[ndarray, "c r"]) -> Float[ndarray, "a r"]:
    """The factor of the first axis of J, least squares with those of the others."""
    return np.einsum("abc,br,cr->ar", J, B, C, optimize=True) @ np.linalg.pinv((B.T @ B) * (C.T @ C))


def _unit(V: Float[ndarray, "m r"], W: Float[ndarray, "n r"]) -> tuple[Float[ndarray, "m r"], Float[ndarray, "n r"]]:
    size = np.maximum(np.linalg.norm(V, axis=0), 1e-12)
    return V / size, W * size


def _filter(z: Float[ndarray, " S"]) -> Float[ndarray, "S S"]:
    """The square of first differences along z over the roots of the gaps: the integral of the squared derivative."""
    order = np.argsort(z)
    gaps = np.maximum(np.diff(z[order]), _NO_GAP * np.ptp(z))
    D = np.diff(np.eye(len(z)), axis=0)[:, np.argsort(order)] / np.sqrt(gaps)[:, None]
    return D.T @ D / len(z)


def _pspline(
    spline: Spline, z: Float[ndarray, " S"], h: Float[ndarray, " S"], r: Float[ndarray, " S"] | None
) -> tuple[Float[ndarray, " e"], tuple[float, float]]:
    """Coefficients of the P-spline with slopes h and (if given) values r at z, and its domain."""
    low, high = float(z.min()), float(z.max())
    if high - low < _NO_RANGE:  # a column that has died: its function is 0, as in untangle
        return np.zeros(1 + spline.size), (low - 1.0, low + 1.0)
    half = (high - low) / 2.0
    t = (z - (low + high) / 2.0) / half
    A = np.concatenate([np.zeros((len(z), 1)), spline.derivative(t) / half], axis=1)
    y = h
    if r is not None:
        A = np.concatenate([A, _VALUES * np.concatenate([np.ones((len(z), 1)), spline.evaluate(t)], axis=1)])
        y = np.concatenate([h, _VALUES * r])
    D = np.concatenate([np.zeros((len(spline.roughness()), 1)), spline.roughness()], axis=1)
    # All weights at once: in the coordinates in which A^T A and the penalty are both diagonal.
    G, P = A.T @ A, D.T @ D
    size = float(np.trace(G))
    root = np.linalg.cholesky(G + _WEIGHTS[0] * size * P + _RIDGE * size * np.eye(len(G)))
    half_way = np.linalg.solve(root, P)
    bends, U = np.linalg.eigh(np.linalg.solve(root, half_way.T))
    back = np.linalg.solve(root.T, U)
    shrunk = 1.0 / (1.0 + (_WEIGHTS - _WEIGHTS[0])[:, None] * size * bends)  # (weights, e)
    C = (shrunk * (back.T @ (A.T @ y))) @ back.T
    used = np.sum(shrunk * (1.0 - _WEIGHTS[0] * size * bends), axis=1)
    scores = np.sum((y - C @ A.T) ** 2, axis=1) / np.maximum(len(y) - used, 1.0) ** 2
    return C[np.argmin(scores)], (low, high)
