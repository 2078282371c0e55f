r"""Tensor decompositions by eigenvalue problems, without any search: the Jacobians of one layer and of two.

One layer is a canonical polyadic decomposition, J_s = W_1 diag(g_s) W_0: two random combinations of the slices have the
inverse of W_0 as generalised eigenvectors.

Two layers are a ParaTuck-2 decomposition, T_s = A diag(g_s) B diag(h_s) C. A (r_2 x r_2) and C (r_1 x r_1) are
invertible. In t = A^-1 T_s C^-1 every 2 x 2 cross-ratio is the same in all slices,

    B_il B_jk t_ik t_jl = B_ik B_jl t_il t_jk,

so all slices lie on C(r_1, 2) C(r_2, 2) quadrics. These are the null space of the table of all products of two entries
of a slice. Let a_i be the rows of A^-1 and c_k the columns of C^-1. The parts that are symmetric in rows and in columns
span {a_i a_j} x {c_k c_l}, i < j and k < l. What is orthogonal to all a_i a_j is the span of the squares of the
columns of A, and two elements of it have these columns as generalised eigenvectors. The same holds for the rows of C.
Then B follows from the cross-ratios, and g_s and h_s from one matrix of rank one per slice.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

_NEGLIGIBLE_PRODUCT = 1e-12  # of the largest entry of B: says nothing about the diagonals


def cpd_directions(J: Float[ndarray, "S n m"], rank: int, rng: np.random.Generator) -> Float[ndarray, "r m"] | None:
    """Rows of W_0, if the Jacobians are W_1 D_s W_0 with at most min(n, m) functions; None if that is impossible.

    Two random combinations of the slices, reduced to r x r by the leading singular vectors, are A D B and A D' B. The
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


class Factors(NamedTuple):
    """T_s = A diag(g_s) B diag(h_s) C up to machine precision, or to noise."""

    A: Float[ndarray, "r2 r2"]
    g: Float[ndarray, "S r2"]
    B: Float[ndarray, "r2 r1"]
    h: Float[ndarray, "S r1"]
    C: Float[ndarray, "r1 r1"]


def n_products_of_entries(r1: int, r2: int) -> int:
    """Products of two entries of a slice."""
    return comb(r1 * r2 + 1, 2)


def samples_for_paratuck2(r1: int, r2: int) -> int:
    """As many slices as there are products, less the quadrics that they satisfy."""
    return n_products_of_entries(r1, r2) - comb(r1, 2) * comb(r2, 2)


def decompose_paratuck2(T: Float[ndarray, "S r2 r1"], rng: np.random.Generator) -> Factors | None:
    """The factors of a generic ParaTuck-2 tensor; None if ranks or slices do not suffice, or algebra fails."""
    S, r2, r1 = T.shape
    if min(r1, r2) < 2 or samples_for_paratuck2(r1, r2) > S:
        return None
    size = np.linalg.norm(T, axis=(1, 2), keepdims=True)
    unit = T / np.where(size > 0.0, size, 1.0)  # every slice counts
    try:
        quadrics = _null_quadrics(unit)
        both = (quadrics + quadrics.transpose(0, 3, 2, 1, 4)) / 2.0  # symmetric in rows and in columns
        A = _squares(both.transpose(0, 2, 4, 1, 3).reshape(-1, r2, r2), rng).T
        C = _squares(both.transpose(0, 1, 3, 2, 4).reshape(-1, r1, r1), rng)
        t = np.linalg.solve(A, unit) @ np.linalg.inv(C)
    except np.linalg.LinAlgError:
        return None
    # B with ones in its first row and column: t_00 t_il = B_il t_0l t_i0, by least squares over the slices.
    size_t = np.linalg.norm(t, axis=(1, 2), keepdims=True)
    each = t / np.where(size_t > 0.0, size_t, 1.0)
    left, right = each[:, :1, :1] * each, each[:, :1, :] * each[:, :, :1]
    B: ndarray = np.sum(left * right, axis=0) / np.sum(right**2, axis=0)
    used = np.abs(B) > _NEGLIGIBLE_PRODUCT * np.abs(B).max()
    ratio = np.where(used, t / np.where(used, B, 1.0), 0.0)
    if not np.all(np.isfinite(ratio)):
        return None
    left, singular, right = np.linalg.svd(ratio, full_matrices=False)
    g = left[:, :, 0] * (singular[:, :1] * size[:, 0])
    return Factors(A, g, B, right[:, 0], C)


def _null_quadrics(T: Float[ndarray, "S r2 r1"]) -> Float[ndarray, "k r2 r1 r2 r1"]:
    """An orthonormal basis of the quadrics that all slices satisfy."""
    S, r2, r1 = T.shape
    N, k = r1 * r2, comb(r1, 2) * comb(r2, 2)
    i, j = np.triu_indices(N)
    flat, twice = T.reshape(S, N), np.where(i == j, 1.0, np.sqrt(2.0))
    products = flat[:, i] * flat[:, j] * twice  # the inner product of these is that of symmetric matrices
    if len(i) < S:
        products = np.linalg.qr(products, mode="r")
    found = np.linalg.svd(products, full_matrices=True)[2][len(i) - k :] / twice
    quadrics = np.zeros((k, N, N))
    quadrics[:, i, j] = found
    quadrics[:, j, i] = found
    return quadrics.reshape(k, r2, r1, r2, r1)


def _squares(space: Float[ndarray, "q r r"], rng: np.random.Generator) -> Float[ndarray, "r r"]:
    """Rows b_i such that all b_i b_i^T are orthogonal to the given symmetric matrices."""
    r = space.shape[1]
    i, j = np.triu_indices(r)
    twice = np.where(i == j, 1.0, np.sqrt(2.0))
    triangle = np.linalg.qr(space[:, i, j] * twice, mode="r")
    complement = np.linalg.svd(triangle, full_matrices=True)[2][len(i) - r :] / twice
    M = np.zeros((r, r, r))
    M[:, i, j] = complement
    M[:, j, i] = complement
    first, second = (np.tensordot(rng.normal(size=r), M, axes=1) for _ in range(2))
    # first = B^T D B: the eigenvectors of the quotient are the columns of B^-1. Noise makes pairs of them complex.
    vectors = np.linalg.eig(np.linalg.solve(first, second))[1]
    return np.linalg.inv(vectors.real + vectors.imag)
