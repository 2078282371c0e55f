"""Many small least-squares problems given by their normal equations, solved at once and without ever raising.

NumPy's batched `solve` raises for the whole batch when one matrix is singular, and loops over LAPACK calls that cost
more than the arithmetic of a 2 x 2 system. Here every matrix is first scaled to unit diagonal, which makes one small
ridge right for all of them. Tiny systems are eliminated with the batch as the fast axis.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

# Relative to the unit diagonal: just above the rounding of a Gram matrix, so that it only acts on singular ones.
RIDGE = 1e-14
_SHORT_ROWS = 8  # basis functions up to which a sum over them in strides is faster than one per row
_SHORT_SUMS = 4  # up to this many outputs a sum of outer products is faster than a product per sample
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
    """Solve M x = b by LAPACK; x is NaN if M is exactly singular."""
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


# Small products, in the form that costs least: a call of LAPACK or BLAS per sample would cost more than its arithmetic.


def times(T: Float[ndarray, "B S p q"], W: Float[ndarray, "B q k"]) -> Float[ndarray, "B S p k"]:
    """T_s W for every sample, as one product per start."""
    B, S, p, q = T.shape
    return (T.reshape(B, S * p, q) @ W).reshape(B, S, p, -1)


def gram_of_columns(A: Float[ndarray, "B S n r"]) -> Float[ndarray, "B S r r"]:
    """A_s^T A_s for every sample."""
    if A.shape[2] > _SHORT_SUMS:
        return A.mT @ A
    total = A[:, :, 0, :, None] * A[:, :, 0, None, :]
    for i in range(1, A.shape[2]):
        total += A[:, :, i, :, None] * A[:, :, i, None, :]
    return total


def outer(G: Float[ndarray, "B S r"]) -> Float[ndarray, "B S r r"]:
    """g_s g_s^T for every sample, so that D N D = N o outer(g)."""
    return G[..., :, None] * G[..., None, :]


def sum_samples(T: Float[ndarray, "B S *shape"]) -> Float[ndarray, "B *shape"]:
    """Sum over the sample axis; as a product it is four times faster than `sum(axis=1)` on short rows."""
    B, S = T.shape[:2]
    return (np.ones((1, S)) @ T.reshape(B, S, -1)).reshape(B, *T.shape[2:])


def combine(Phi: Float[ndarray, "#B S r d"], c: Float[ndarray, "#B r d"]) -> Float[ndarray, "#B S r"]:
    """sum_k c_jk phi_k(u_j)."""
    if Phi.shape[-1] > _SHORT_ROWS:
        return np.einsum("bsrd,brd->bsr", Phi, c)
    total = Phi[..., 0] * c[:, None, :, 0]
    for k in range(1, Phi.shape[-1]):
        total += Phi[..., k] * c[:, None, :, k]
    return total
