"""A last layer of rank one per function, from coefficients that are free for every output.

Eliminating the last layer gives every output a function of its own of each argument; a decoupling has one function per
argument, shared by all outputs: coefficients W_ij c_jk instead of A_jki. The nearest product in the norm of the
coefficients may be far from the data where basis functions are nearly dependent, so it is only the first guess;
alternating least squares over the outputs' own equations improve it.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

_SWEEPS = 30
_SHARED = 1e-8  # of a coefficient matrix: what differs between outputs by no more than this is rounding
_RIDGE = 1e-12  # of the diagonal


def shared_functions(
    free: Float[ndarray, "B r d n"],
) -> tuple[Float[ndarray, "B r d"], Float[ndarray, "B n r"], bool]:
    """Coefficients and weights of the nearest products, and whether the outputs share their functions to rounding."""
    U, sizes, Vt = np.linalg.svd(free)
    c = U[..., 0] * np.sqrt(sizes[..., :1])
    W = (Vt[:, :, 0] * np.sqrt(sizes[..., :1])).mT
    return c, W, bool(np.all(sizes[..., 1:] <= _SHARED * sizes[..., :1]))


def fit_shared(
    c: Float[ndarray, "B r d"],
    W: Float[ndarray, "B n r"],
    gram: Float[ndarray, "B p p"],
    A: Float[ndarray, "B p n"],
    first: int,
) -> tuple[Float[ndarray, "B r d"], Float[ndarray, "B n r"], Float[ndarray, "B p n"]]:
    """Improve c and W on the equations with this Gram matrix of the design and best free coefficients `A`.

    The functions' columns begin at `first`; all other columns (constants, linear part) stay free for every output and
    are returned in their places.
    """
    (B, r, d), p = c.shape, A.shape[1]
    inside = np.arange(first, first + r * d)
    rest = np.setdiff1d(np.arange(p), inside)
    target = gram @ A  # the right-hand sides of all outputs
    block = gram[:, inside[:, None], inside].reshape(B, r, d, r, d)
    for _ in range(_SWEEPS):
        # Weights and free columns for these functions.
        mix = np.zeros((B, r + len(rest), p))
        mix[:, np.repeat(np.arange(r), d), inside] = c.reshape(B, -1)
        mix[:, r + np.arange(len(rest)), rest] = 1.0
        found = _solved(mix @ gram @ mix.mT, mix @ target)
        W, others = found[:, :r].mT, found[:, r:]
        # Functions for these weights.
        left = target[:, inside] - gram[:, inside[:, None], rest] @ others
        M = block * (W.mT @ W)[:, :, None, :, None]
        right = np.einsum("bnj,bjkn->bjk", W, left.reshape(B, r, d, -1))
        c = _solved(M.reshape(B, r * d, r * d), right.reshape(B, -1, 1)).reshape(B, r, d)
        size = np.linalg.norm(c, axis=-1, keepdims=True)
        size = np.where(size > 0.0, size, 1.0)
        c, W = c / size, W * size.mT
    whole = np.zeros_like(A)
    whole[:, rest] = others
    return c, W, whole


def _solved(M: Float[ndarray, "B k k"], right: Float[ndarray, "B k i"]) -> Float[ndarray, "B k i"]:
    diagonal = np.diagonal(M, axis1=1, axis2=2)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    scaled = M * scale[:, :, None] * scale[:, None, :] + _RIDGE * np.eye(M.shape[-1])
    return scale[..., None] * np.linalg.solve(scaled, scale[..., None] * right)
