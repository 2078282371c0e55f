"""Vectors that a tall matrix sends to nearly nothing."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

_ITERATIONS = 4  # each multiplies the parts of other vectors by the square of a ratio of singular values
_ZERO = 1e-18  # of the largest entry: what a pivot that is 0 is replaced by


def null_vectors(M: Float[ndarray, "E p"], count: int, rng: np.random.Generator) -> Float[ndarray, "p c"]:
    """Right singular vectors of the smallest singular values, by inverse iteration: cheaper than all of them."""
    from scipy.linalg import solve_triangular

    R = np.asarray(np.linalg.qr(M, mode="r"))
    if len(R) < R.shape[1]:
        raise np.linalg.LinAlgError("fewer equations than unknowns")
    at = np.arange(len(R))
    R[at, at] += np.where(R[at, at] == 0.0, _ZERO * (np.abs(R).max() or 1.0), 0.0)
    V = rng.normal(size=(R.shape[1], count))
    for _ in range(_ITERATIONS):
        V = solve_triangular(R, solve_triangular(R, V, trans="T", check_finite=False), check_finite=False)
        if not np.all(np.isfinite(V)):
            raise np.linalg.LinAlgError("singular beyond rounding")
        V = np.linalg.qr(V / np.abs(V).max(axis=0))[0]
    return V
