"""Many small least-squares problems given by their normal equations, solved at once and without ever raising.

NumPy's batched `solve` raises for the whole batch when one matrix is singular, and loops over LAPACK calls that cost
more than the arithmetic of a 2 x 2 system. Here every matrix is first scaled to unit diagonal, which makes one small
ridge right for all of them, and tiny systems are eliminated with the batch as the fast axis.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

# Relative to the unit diagonal: just above the rounding of a Gram matrix, so that it only acts on singular ones.
RIDGE = 1e-14
_TINY_SIZE = 4  # up to this size elimination in NumPy beats LAPACK on the batches met here


def solve_normal(M: Float[ndarray, "*batch p p"], b: Float[ndarray, "*batch p k"]) -> Float[ndarray, "*batch p k"]:
    """Solve M x = b for symmetric positive semidefinite M; unknowns that M does not see come out as 0."""
    diagonal = np.diagonal(M, axis1=-2, axis2=-1)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    scaled = M * scale[..., :, None] * scale[..., None, :]
    p = M.shape[-1]
    rhs = b * scale[..., None]
    if p <= _TINY_SIZE:  # whatever the batch size, so that a start does not depend on how many there are
        solution = _eliminate(scaled, rhs)
    else:
        scaled[..., range(p), range(p)] += RIDGE
        solution = solve_each(scaled, rhs)
    return solution * scale[..., None]


def _eliminate(M: ndarray, b: ndarray) -> ndarray:
    """Square-root-free Cholesky, one array operation per matrix entry; pivots stay at least as large as the ridge."""
    p, k = b.shape[-2:]
    batch = b.shape[:-2]
    entry = np.ascontiguousarray(np.moveaxis(M.reshape(-1, p, p), 0, -1))  # (p, p, N)
    x = np.ascontiguousarray(np.moveaxis(b.reshape(-1, p, k), 0, -1))  # (p, k, N)
    pivot = []
    for j in range(p):
        pivot.append(np.maximum(entry[j, j] + RIDGE, RIDGE))
        for i in range(j + 1, p):
            ratio = entry[i, j] / pivot[j]
            for q in range(j + 1, i + 1):
                entry[i, q] -= ratio * entry[q, j]
            x[i] -= ratio * x[j]
    for j in reversed(range(p)):
        for i in range(j + 1, p):
            x[j] -= entry[i, j] * x[i]
        x[j] /= pivot[j]
    return np.moveaxis(x, -1, 0).reshape(*batch, p, k)


def solve_each(M: Float[ndarray, "*batch p p"], b: Float[ndarray, "*batch p k"]) -> Float[ndarray, "*batch p k"]:
    """Solve M x = b by LAPACK; x is NaN where M is exactly singular."""
    try:
        return np.linalg.solve(M, b)
    except np.linalg.LinAlgError:  # one singular matrix stops all: solve the others one by one
        solution = np.full(b.shape, np.nan)
        for index in np.ndindex(M.shape[:-2]):
            try:
                solution[index] = np.linalg.solve(M[index], b[index])
            except np.linalg.LinAlgError:
                continue
        return solution
