"""A start for one layer that needs no luck: generalised eigenvectors of two combinations of Jacobians."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray


def cpd_directions(J: Float[ndarray, "S n m"], rank: int, rng: np.random.Generator) -> Float[ndarray, "r m"] | None:
    """Rows of W_0, if the Jacobians are W_1 D_s W_0 with at most min(n, m) functions; None where that is impossible.

    Two random combinations of the slices, reduced to r x r by the leading singular vectors, are A D B and A D' B; the
    eigenvectors of their quotient are the columns of B^-1.
    """
    S, n, m = J.shape
    if rank > min(n, m) or not np.any(J):
        return None
    left = np.linalg.svd(J.transpose(1, 0, 2).reshape(n, -1), full_matrices=False)[0][:, :rank]
    right = np.linalg.svd(J.reshape(-1, m), full_matrices=False)[2][:rank].T
    small = left.T @ J @ right  # (S, r, r)
    first, second = (np.tensordot(rng.normal(size=S), small, axes=1) for _ in range(2))
    try:
        _, vectors = np.linalg.eig(np.linalg.solve(first, second))
        rows = np.linalg.inv(vectors.real)
    except np.linalg.LinAlgError:
        return None
    directions = rows @ right.T
    size = np.linalg.norm(directions, axis=1, keepdims=True)
    return directions / size if np.all(np.isfinite(directions)) and np.all(size > 0.0) else None
