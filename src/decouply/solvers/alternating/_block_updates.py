r"""Block updates of the coupled ParaTuck-L problem, as pure functions on a batch of starts.

Shapes: B starts, S samples. Around the diagonals of one layer every slice reads A_s D_s B_s, with A_s (n x r)
everything to the left and B_s (r x m) everything to the right. The updates never need B_s itself, only

    K_s = M_s J_s B_s^T   (n x r)      and      N_s = B_s B_s^T   (r x r),

so that J is touched twice per sweep (from three layers on three times, see `_refinement`) and no Kronecker product is
ever formed. M_s are the weights: besides K they enter through the products A_s^T M_s A_s, called AA, and
through the equations of W_L.
`A`, `AA` and `N` may have one sample instead of S where they are the same for all.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..problem._batched_linalg import solve_normal

_SHORT = 4  # up to this many outputs a sum of outer products is faster than a product per sample


def left_products(W: list[ndarray], G: list[ndarray]) -> list[Float[ndarray, "B _ n _"]]:
    """A for every layer, first layer first: A_L = W_L and A_l = A_(l+1) D_(l+1) W_l."""
    A = [W[-1][:, None]]  # (B, 1, n, r_L)
    for l in range(len(G) - 1, 0, -1):
        A.insert(0, times(A[0] * G[l][:, :, None, :], W[l]))
    return A


def right_products(
    KD: Float[ndarray, "B S n q"], Q: Float[ndarray, "B S q q"], W: Float[ndarray, "B p q"]
) -> tuple[Float[ndarray, "B S n p"], Float[ndarray, "B S p p"]]:
    """K and N of the layer behind W, from K D and Q = D N D of the layer before it."""
    return times(KD, W.mT), times(times(Q, W.mT).mT, W.mT)


def update_input_factor(
    J: Float[ndarray, "S n m"],
    P: Float[ndarray, "B S n r"],
    MP: Float[ndarray, "B S n r"],
    A: Float[ndarray, "B n m"] | None = None,
) -> Float[ndarray, "B r m"]:
    """W_0 that minimises sum_s tr((J_s - P_s W_0)^T M_s (J_s - P_s W_0)), with P_s = A_s D_s and MP = M P.

    `A` is a linear part, to be taken from every J_s.
    """
    B, S, n, r = P.shape
    gram = MP.reshape(B, S * n, r).mT @ P.reshape(B, S * n, r)
    rhs = MP.reshape(B, S * n, r).mT @ J.reshape(S * n, -1)
    return solve_normal(gram, rhs if A is None else rhs - sum_samples(MP).mT @ A)


def input_products(J: Float[ndarray, "S n m"], W0: Float[ndarray, "B r m"]) -> Float[ndarray, "B S n r"]:
    """J_s W_0^T for every sample."""
    S, n, m = J.shape
    B, r, _ = W0.shape
    return (J.reshape(S * n, m) @ W0.mT).reshape(B, S, n, r)


def update_inner_factor(
    P: Float[ndarray, "B S n p"],
    PP: Float[ndarray, "B S p p"],
    KD: Float[ndarray, "B S n q"],
    Q: Float[ndarray, "B S q q"],
) -> Float[ndarray, "B p q"]:
    """W_l, 0 < l < L, that brings P_s W_l D_s B_s closest to J_s, with KD = K D, Q = D N D and PP = P^T M P."""
    B, S, n, q = KD.shape
    p = P.shape[-1]
    # sum_s (P_s^T M_s P_s) x (Q_s), first as one product over the samples, then with its four axes put in order.
    gram = PP.reshape(B, S, p * p).mT @ Q.reshape(B, S, q * q)
    gram = gram.reshape(B, p, p, q, q).transpose(0, 1, 3, 2, 4).reshape(B, p * q, p * q)
    rhs = P.reshape(B, S * n, p).mT @ KD.reshape(B, S * n, q)
    return solve_normal(gram, rhs.reshape(B, p * q, 1)).reshape(B, p, q)


def update_output_factor(
    gram: Float[ndarray, "B *outputs r r"], rhs: Float[ndarray, "B n r"]
) -> Float[ndarray, "B n r"]:
    """W_L from its normal equations (see `output_equations`)."""
    if gram.ndim == 3:
        return solve_normal(gram, rhs.mT).mT
    return solve_normal(gram, rhs[..., None])[..., 0]


def output_equations(
    KD: Float[ndarray, "B S n r"], Q: Float[ndarray, "B _ r r"], weights: Float[ndarray, "S *outputs"] | None
) -> tuple[Float[ndarray, "B *outputs r r"], Float[ndarray, "B n r"]]:
    """Normal equations of W_L for the Jacobian term: sum_s M_s W_L Q_s = sum_s K_s D_s, with Q = D N D."""
    return output_gram(Q, weights), sum_samples(KD)


def output_gram(
    Q: Float[ndarray, "B S r r"], weights: Float[ndarray, "S *outputs"] | None
) -> Float[ndarray, "B *outputs r r"]:
    """sum_s M_s x Q_s, without what is the same or 0: (B, r, r) if all outputs count alike, (B, n, r, r) otherwise."""
    if weights is None:
        return sum_samples(Q)
    B, S, r, _ = Q.shape
    total = weights.reshape(S, -1).T @ Q.reshape(B, S, r * r)
    return total.reshape(B, *weights.shape[1:], r, r)


def output_gram_times(gram: Float[ndarray, "B *outputs r r"], W: Float[ndarray, "B n r"]) -> Float[ndarray, "B n r"]:
    """sum_s M_s W Q_s, from `output_gram`."""
    return W @ gram if gram.ndim == 3 else (gram @ W[..., None])[..., 0]


def diagonal_equations(
    A: Float[ndarray, "B _ n r"],
    AA: Float[ndarray, "B _ r r"],
    K: Float[ndarray, "B S n r"],
    N: Float[ndarray, "B _ r r"],
) -> tuple[Float[ndarray, "B _ r r"], Float[ndarray, "B S r"]]:
    """Normal equations H_s g_s = b_s of the diagonals: H = (A^T M A) o (B B^T), b = column sums of A o (M J B^T)."""
    return AA * N, np.einsum("bsnr,bsnr->bsr", *np.broadcast_arrays(A, K))


def update_diagonals(H: Float[ndarray, "B _ r r"], b: Float[ndarray, "B S r"]) -> Float[ndarray, "B S r"]:
    """Rows of G that bring A_s D_s B_s closest to J_s, every sample on its own."""
    if H.shape[1] == 1:  # single layer: one matrix for all samples
        return solve_normal(H[:, 0], b.mT).mT
    return solve_normal(H, b[..., None])[..., 0]


def project(
    targets: list[Float[ndarray, "B S r"]],
    designs: list[Float[ndarray, "B S r e"]],
    weights: list[Float[ndarray, "#B #S #r"]],
) -> Float[ndarray, "B r e"]:
    """Coefficients c_j that minimise sum_ts weight_tsj (target_tsj - design_tsj c_j)^2, each function on its own."""
    gram, rhs = projection_equations(targets, designs, weights)
    return solve_normal(gram, rhs)[..., 0]


def projection_equations(
    targets: list[Float[ndarray, "B S r"]],
    designs: list[Float[ndarray, "B S r e"]],
    weights: list[Float[ndarray, "#B #S #r"]],
) -> tuple[Float[ndarray, "B r e e"], Float[ndarray, "B r e 1"]]:
    """The normal equations of `project`."""
    gram: ndarray | float = 0.0
    rhs: ndarray | float = 0.0
    for target, design, weight in zip(targets, designs, weights, strict=True):
        columns = np.ascontiguousarray(np.moveaxis(design, 1, 2))  # (B, r, S, e)
        weighted = columns * weight.mT[..., None]
        gram = gram + weighted.mT @ columns
        rhs = rhs + weighted.mT @ target.mT[..., None]
    assert isinstance(gram, ndarray) and isinstance(rhs, ndarray)
    return gram, rhs


def coefficient_equations(
    H: Float[ndarray, "B _ r r"], b: Float[ndarray, "B S r"], design: Float[ndarray, "B S r e"]
) -> tuple[Float[ndarray, "B p p"], Float[ndarray, "B p"]]:
    """Normal equations for all coefficients of a layer, from those of its diagonals (p = r e, function by function).

    With g_sj = design_sj c_j the block (j, k) is sum_s H_s[j, k] design_sj design_sk^T.
    """
    B, S, r, e = design.shape
    rhs = sum_samples(b[..., None] * design)
    if H.shape[1] == 1:
        flat = design.reshape(B, S, r * e)
        blocks = (flat.mT @ flat).reshape(B, r, e, r, e) * H[:, 0, :, None, :, None]
    else:
        mixed = np.moveaxis(H, 2, 1)[..., None] * design[:, None]  # (B, j, S, k, e)
        blocks = np.moveaxis(design, 1, 3) @ mixed.reshape(B, r, S, r * e)  # (B, j, e, S) @ (B, j, S, k e)
    return blocks.reshape(B, r * e, r * e), rhs.reshape(B, r * e)


# Small products, in the form that costs least: a call of LAPACK or BLAS per sample would cost more than its arithmetic.


def times(T: Float[ndarray, "B S p q"], W: Float[ndarray, "B q k"]) -> Float[ndarray, "B S p k"]:
    """T_s W for every sample, as one product per start."""
    B, S, p, q = T.shape
    return (T.reshape(B, S * p, q) @ W).reshape(B, S, p, -1)


def gram_of_columns(A: Float[ndarray, "B S n r"]) -> Float[ndarray, "B S r r"]:
    """A_s^T A_s for every sample."""
    if A.shape[2] > _SHORT:
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
    total = Phi[..., 0] * c[:, None, :, 0]
    for k in range(1, Phi.shape[-1]):
        total += Phi[..., k] * c[:, None, :, k]
    return total
