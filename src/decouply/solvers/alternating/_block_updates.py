r"""Block updates of the coupled ParaTuck-L problem, as functions on a batch of starts.

Shapes: B starts, S samples. Around the diagonals of one layer every slice reads A_s D_s B_s, with A_s (n x r)
everything to the left and B_s (r x m) everything to the right. The updates never need B_s itself, only

    K_s = M_s J_s B_s^T   (n x r)      and      N_s = B_s B_s^T   (r x r),

so that J is touched twice per sweep (from three layers on three times, see below) and no Kronecker
product is ever formed. M_s are the weights: besides K they enter through the products A_s^T M_s A_s, called AA, and
through the equations of W_L. `A`, `AA` and `N` may have one sample instead of S if they are the same for all.

The matrices M of the appendix of the paper are never formed either; their Gram matrices are

    `M_W^(0)T M_W^(0) = sum_s P_s^T M_s P_s                     with P_s = A_s D_s,`
    `M_W^(l)T M_W^(l) = sum_s (P_s^T M_s P_s) x (D_s N_s D_s)   for 0 < l < L,`
    `M_W^(L) M_W^(L)T = sum_s D_s N_s D_s,`
    `M_G^(l,s)T M_G^(l,s) = (A_s^T M_s A_s) o N_s.`

Digits that normal equations lose with three and more layers, brought back.

Around a layer every slice reads A_s D_s B_s. From positive start values the products A_s and B_s of many matrices are
nearly of rank one, and normal equations square their condition number. Single factors then differ from exact arithmetic
in the sixth digit and worse. The equations are still good enough to solve with: steps of refinement

    x <- x + H^{-1} rhs(J - J_hat)

with the residual of the data themselves give what QR would (corrected seminormal equations, Björck 1987). With one or
two layers there is next to nothing to bring back, and nothing is done.

Every B_s ends in W_0 = R^T Q^T, Q with orthonormal columns, so that J_s Q is all a residual needs. J is met once per
sweep, and the steps cost no more with many inputs than with few.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..problem._batched_linalg import outer, solve_normal, sum_samples, times
from ..problem._problem import Problem
from ..problem._weighted_rows import apply_weights, apply_weights_to_values, by_output

REFINED_FROM_LAYERS = 3  # with fewer, errors of a sweep are below 1e-9 without refinement (notes/findings.md)
REFINEMENT_STEPS = 2  # they leave errors below 1e-9 with four layers (notes/findings.md)
Weights = Float[ndarray, "S *outputs"]


@dataclass(frozen=True)
class ReducedJacobians:
    """The Jacobians, without the linear part, in an orthonormal basis Q of the rows of W_0."""

    JQ: Float[ndarray, "B S n p"]
    R: Float[ndarray, "B p r"]

    @classmethod
    def of(
        cls, problem: Problem, W0: Float[ndarray, "B r m"], linear: Float[ndarray, "B n m"] | None
    ) -> ReducedJacobians | None:
        """None with so few layers that nothing is refined."""
        if len(problem.layers) < REFINED_FROM_LAYERS:
            return None
        assert problem.J is not None
        Q, R = np.linalg.qr(W0.mT)
        S, n, m = problem.J.shape
        JQ = (problem.J.reshape(S * n, m) @ Q).reshape(len(Q), S, n, -1)
        return cls(JQ if linear is None else JQ - (linear @ Q)[:, None], R)


@dataclass(frozen=True)
class RightSide:
    """What lies to the right of the diagonals of layer `l`: B_s = W_l D_l ... D_1 W_0."""

    problem: Problem
    W: list[Float[ndarray, "B _ _"]]
    G: list[Float[ndarray, "B S _"]]
    l: int
    reduced: ReducedJacobians | None = None

    @property
    def refinement_steps(self) -> int:
        """How many steps of refinement are worth their time."""
        return 0 if self.reduced is None else REFINEMENT_STEPS

    def residual_products(self, AD: Float[ndarray, "B S n r"]) -> Float[ndarray, "B S n r"]:
        """K of the residual: M_s (J_s - AD_s B_s) B_s^T, from the data, not from Gram matrices."""
        assert self.reduced is not None
        residual = self.reduced.JQ - AD @ self._columns.mT
        return apply_weights(residual, self.problem.weights) @ self._columns

    @functools.cached_property
    def _columns(self) -> Float[ndarray, "B _ p r"]:
        """Q^T B_s^T; all that it is made of is final by the time layer `l` is updated."""
        assert self.reduced is not None
        columns = self.reduced.R[:, None]
        for k in range(self.l):
            columns = times(columns * self.G[k][:, :, None, :], self.W[k + 1].mT)
        return columns


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
    weights: Weights | None = None,
    linear: Float[ndarray, "B n m"] | None = None,
) -> Float[ndarray, "B r m"]:
    """W_0 that minimises sum_s tr((J_s - P_s W_0)^T M_s (J_s - P_s W_0)), with P_s = A_s D_s.

    A linear part is subtracted from every J_s.
    """
    B, S, n, r = P.shape
    MP = apply_weights(P, weights)
    gram = MP.reshape(B, S * n, r).mT @ P.reshape(B, S * n, r)
    rhs = MP.reshape(B, S * n, r).mT @ J.reshape(S * n, -1)
    return solve_normal(gram, rhs if linear is None else rhs - sum_samples(MP).mT @ linear)


def input_products(
    J: Float[ndarray, "S n m"],
    W0: Float[ndarray, "B r m"],
    weights: Weights | None = None,
    linear: Float[ndarray, "B n m"] | None = None,
) -> tuple[Float[ndarray, "B S n r"], Float[ndarray, "B 1 r r"]]:
    """K = M (J - linear) W_0^T and N = W_0 W_0^T of the first layer."""
    S, n, m = J.shape
    B, r, _ = W0.shape
    K = (J.reshape(S * n, m) @ W0.mT).reshape(B, S, n, r)
    if linear is not None:
        K -= (linear @ W0.mT)[:, None]
    return apply_weights(K, weights), (W0 @ W0.mT)[:, None]


def update_inner_factor(
    P: Float[ndarray, "B S n p"],
    PP: Float[ndarray, "B S p p"],
    KD: Float[ndarray, "B S n q"],
    Q: Float[ndarray, "B S q q"],
    right: RightSide | None = None,
) -> Float[ndarray, "B p q"]:
    """W_l, 0 < l < L, that brings P_s W_l D_s B_s closest to J_s, with KD = K D, Q = D N D and PP = P^T M P."""
    B, S, n, q = KD.shape
    p = P.shape[-1]
    # sum_s (P_s^T M_s P_s) x (Q_s), first as one product over the samples, then with its four axes put in order.
    gram = PP.reshape(B, S, p * p).mT @ Q.reshape(B, S, q * q)
    gram = gram.reshape(B, p, p, q, q).transpose(0, 1, 3, 2, 4).reshape(B, p * q, p * q)

    def solve(KD: ndarray) -> ndarray:
        rhs = P.reshape(B, S * n, p).mT @ KD.reshape(B, S * n, q)
        return solve_normal(gram, rhs.reshape(B, p * q, 1)).reshape(B, p, q)

    W = solve(KD)
    if right is not None:
        D = right.G[right.l][:, :, None, :]
        for _ in range(right.refinement_steps):
            W = W + solve(right.residual_products(times(P, W) * D) * D)
    return W


def update_output_factor(
    gram_J: Float[ndarray, "B *outputs r r"],
    rhs_J: Float[ndarray, "B n r"],
    weights: Weights | None,
    R: Float[ndarray, "B S r"],
    F: Float[ndarray, "*B S n"] | None,
    lam: float,
    right: RightSide | None = None,
) -> Float[ndarray, "B n r"]:
    """W_L that minimises ||unfold_1(J) - W_L M_W^(L)||^2 + lam ||F - W_L R^T||^2, from `output_equations`."""
    has_values = F is not None and lam > 0.0
    each = by_output(weights)  # every output has weights of its own
    MR = R if weights is None or each else R * weights[:, None]
    gram = gram_J
    if has_values:
        gram = gram_J + lam * (output_gram(outer(R), weights) if each else MR.mT @ R)

    def solve(rhs: ndarray, values: ndarray | None) -> ndarray:
        if has_values and values is not None:
            rhs = rhs + lam * (apply_weights_to_values(values, weights).mT @ R if each else values.mT @ MR)
        return solve_output_equations(gram, rhs)

    W = solve(rhs_J, F)
    if right is not None:
        D = right.G[-1][:, :, None, :]
        for _ in range(right.refinement_steps):
            residual = sum_samples(right.residual_products(W[:, None] * D) * D)
            W = W + solve(residual, None if F is None else F - R @ W.mT)
    return W


def solve_output_equations(
    gram: Float[ndarray, "B *outputs r r"], rhs: Float[ndarray, "B n r"]
) -> Float[ndarray, "B n r"]:
    """W_L from its normal equations (see `output_equations`)."""
    return solve_normal(gram, rhs.mT).mT if gram.ndim == 3 else solve_normal(gram, rhs[..., None])[..., 0]


def output_equations(
    KD: Float[ndarray, "B S n r"], Q: Float[ndarray, "B _ r r"], weights: Weights | None
) -> tuple[Float[ndarray, "B *outputs r r"], Float[ndarray, "B n r"]]:
    """Normal equations of W_L for the Jacobian term: sum_s M_s W_L Q_s = sum_s K_s D_s, with Q = D N D."""
    return output_gram(Q, weights), sum_samples(KD)


def output_gram(Q: Float[ndarray, "B S r r"], weights: Weights | None) -> Float[ndarray, "B *outputs r r"]:
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


def projection_equations(
    targets: list[Float[ndarray, "B S r"]],
    designs: list[Float[ndarray, "B S r e"]],
    weights: list[Float[ndarray, "#B #S #r"]],
) -> tuple[Float[ndarray, "B r e e"], Float[ndarray, "B r e 1"]]:
    """Normal equations of the c_j that minimise sum_ts weight_tsj (target_tsj - design_tsj c_j)^2, one per function."""
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
