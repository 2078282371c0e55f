r"""One sweep of CMPT-L in the paper's order W_0, (c_1, W_1), ..., (c_L, W_L), for a batch of starts.

The factors keep the paper's scale throughout. Only the coefficients are held in another one: functions live on the
range of u over the samples, so that compositions of high degree neither overflow nor lose their low-order terms. For
data as given that range is [-a, a] with a the largest |u|: polynomials that vanish at 0 are the same then, and every
other quantity of the sweep is the same number as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ..problem._problem import Problem
from ..problem._sample_weights import by_output, weigh, weigh_values, weighted_gram, weighted_squares
from ._block_updates import (
    combine,
    diagonal_equations,
    input_products,
    left_products,
    outer,
    output_equations,
    output_gram,
    output_gram_times,
    right_products,
    sum_samples,
    times,
    update_diagonals,
    update_inner_factor,
    update_input_factor,
    update_output_factor,
)
from ._iterate import Iterate
from ._iterative_refinement import InRows, RightSide

# Below this share of ||J||^2 the objective from Gram matrices has lost too many digits, and J - J_hat is formed.
_EXPLICIT_BELOW = 1e-6
_CHUNK_ENTRIES = 2_000_000
_NO_RANGE = 1e-13  # of their size: arguments that do not vary


@dataclass(frozen=True)
class Surroundings:
    """What the coefficients of one layer are updated from.

    `H` and `b` are the normal equations of the layer's diagonals, `Phi` and `dPhi` the basis functions and their
    derivatives at u; `W_L` and the values `F` (less a linear part) are set for the last layer only. `A` lies to the
    left of the diagonals and `right` to their right.
    """

    H: Float[ndarray, "B _ r r"]
    b: Float[ndarray, "B S r"]
    Phi: Float[ndarray, "B S r d"]
    dPhi: Float[ndarray, "B S r d"]
    W_L: Float[ndarray, "B n r"] | None
    F: Float[ndarray, "*B S n"] | None
    A: Float[ndarray, "B _ n r"]
    right: RightSide

    def diagonals(self) -> Float[ndarray, "B S r"]:
        """G as if it were free: the solutions of the normal equations, refined where these lose digits."""
        G = update_diagonals(self.H, self.b)
        for _ in range(self.right.steps):
            K = self.right.products_left(self.A * G[:, :, None, :])
            G = G + update_diagonals(self.H, np.sum(self.A * K, axis=2))
        return G

    def with_constant(self) -> tuple[Float[ndarray, "B S r e"], Float[ndarray, "B S r e"]]:
        """The rows of X_L and Y_L in the paper: (0, dPhi) and (1, Phi)."""
        one = np.ones((*self.Phi.shape[:-1], 1))
        return np.concatenate([0.0 * one, self.dPhi], axis=-1), np.concatenate([one, self.Phi], axis=-1)


# Gives coefficients (B, r, 1 + d), constant first.
CoefficientUpdate = Callable[[Problem, Surroundings, float], ndarray]


def sweep(problem: Problem, state: Iterate, lam: float, update_coefficients: CoefficientUpdate) -> Iterate:
    """Update every factor once."""
    W, domain, C, G = list(state.W), list(state.domain), list(state.C), list(state.G)
    L = len(G)
    J, weights = problem.J, problem.weights
    assert J is not None
    A = left_products(W, G)
    AA = [weighted_gram(a, weights) for a in A]
    P = A[0] * G[0][:, :, None, :]
    W[0] = update_input_factor(J, P, weigh(P, weights), state.A)
    K, N = first_right_products(problem, W[0], state.A)
    rows = InRows.of(problem, W[0], state.A)
    z, F = problem.X, values_left(problem, state.A)
    for l in range(L):
        H, b = diagonal_equations(A[l], AA[l], K, N)
        W_L, known = (W[L], F) if l == L - 1 else (None, None)
        right = RightSide(problem, W, G, l, rows)
        domain[l], C[l], G[l], z = update_layer(
            problem, z @ W[l].mT, H, b, W_L, known, lam, update_coefficients, A[l], right
        )
        KD, Q = K * G[l][:, :, None, :], N * outer(G[l])
        if l < L - 1:
            P = A[l + 1] * G[l + 1][:, :, None, :]
            PP = AA[l + 1] * outer(G[l + 1])
            W[l + 1] = update_inner_factor(P, PP, KD, Q)
            for _ in range(right.steps):
                left = right.products_left(times(P, W[l + 1]) * G[l][:, :, None, :])
                W[l + 1] = W[l + 1] + update_inner_factor(P, PP, left * G[l][:, :, None, :], Q)
            K, N = right_products(KD, Q, W[l + 1])
    gram_J, rhs_J = output_equations(KD, Q, weights)
    gram, rhs = add_value_term(problem, gram_J, rhs_J, z, F, lam)
    W[L] = update_output_factor(gram, rhs)
    for _ in range(right.steps):
        left = right.products_left(W[L][:, None] * G[-1][:, :, None, :])
        values = None if F is None else F - z @ W[L].mT
        _, rhs = add_value_term(problem, gram_J, sum_samples(left * G[-1][:, :, None, :]), z, values, lam)
        W[L] = W[L] + update_output_factor(gram, rhs)
    new = Iterate.unrated(W, domain, C, G, z, state.A)
    return finished(problem, new, lam, gram_J, rhs_J)


def finished(problem: Problem, state: Iterate, lam: float, gram_J: ndarray, rhs_J: ndarray) -> Iterate:
    """The end of a sweep: the linear part, if there is one, and the residuals."""
    if state.A is None:
        return with_residuals(problem, state, gram_J, rhs_J)
    state.A = update_linear_part(problem, state, lam)
    state.residual_J, state.residual_F = explicit_residual(problem, state), value_residual(problem, state)
    return state


def update_layer(
    problem: Problem,
    u: Float[ndarray, "B S r"],
    H: Float[ndarray, "B _ r r"],
    b: Float[ndarray, "B S r"],
    W_L: Float[ndarray, "B n r"] | None,
    F: Float[ndarray, "*B S n"] | None,
    lam: float,
    update_coefficients: CoefficientUpdate,
    A: Float[ndarray, "B _ n r"],
    right: RightSide,
) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    """Domains, coefficients, derivatives and values of the functions of one layer."""
    domain, Phi, dPhi = tables(problem, right.l, u)
    C = update_coefficients(problem, Surroundings(H, b, Phi, dPhi, W_L, F, A, right), lam)
    return domain, C, combine(dPhi, C[..., 1:]), combine(Phi, C[..., 1:]) + C[:, None, :, 0]


def tables(problem: Problem, l: int, u: Float[ndarray, "B S r"]) -> tuple[ndarray, ndarray, ndarray]:
    """Domains of the functions of a layer, and their basis functions with derivatives in u."""
    layer = problem.layers[l]
    domain = visited_domain(u, layer, around_zero=not problem.standard)
    middle, half = (domain[..., 1] + domain[..., 0]) / 2.0, (domain[..., 1] - domain[..., 0]) / 2.0
    t = (u - middle[:, None, :]) / half[:, None, :]
    return domain, layer.evaluate(t), layer.derivative(t) / half[:, None, :, None]


def visited_domain(u: Float[ndarray, "B S r"], layer: LayerBasis, *, around_zero: bool) -> Float[ndarray, "B r 2"]:
    """The range of u over the samples, or around 0; [-1, 1] where the basis has a domain of its own or u vanishes."""
    if around_zero:
        high = np.abs(u).max(axis=1)
        low = -high
    else:
        low, high = u.min(axis=1), u.max(axis=1)
    follows = (high - low > _NO_RANGE * np.abs(high)) & ~layer.free_domain
    middle = np.where(layer.free_domain, 0.0, (low + high) / 2.0)  # of arguments that do not vary, where they are
    return np.where(follows[..., None], np.stack([low, high], axis=-1), middle[..., None] + np.array([-1.0, 1.0]))


def first_right_products(
    problem: Problem, W0: Float[ndarray, "B r m"], A: Float[ndarray, "B n m"] | None = None
) -> tuple[ndarray, ndarray]:
    """K = M (J - A) W_0^T and N = W_0 W_0^T of the first layer."""
    assert problem.J is not None
    products = input_products(problem.J, W0)
    if A is not None:
        products -= (A @ W0.mT)[:, None]
    return weigh(products, problem.weights), (W0 @ W0.mT)[:, None]


def values_left(problem: Problem, A: Float[ndarray, "B n m"] | None) -> Float[ndarray, "*B S n"] | None:
    """What the functions have to give: F, less A x where there is a linear part."""
    return problem.F if problem.F is None or A is None else problem.F - problem.X @ A.mT


def update_linear_part(problem: Problem, state: Iterate, lam: float) -> Float[ndarray, "B n m"]:
    """A that minimises the objective, all factors held: A (sum_s w_s (I + lam x_s x_s^T)) = sum_s w_s (...)."""
    J, X = problem.J, problem.X
    assert J is not None and not by_output(problem.weights)
    w = np.ones(len(X)) if problem.weights is None else problem.weights
    P = left_products(state.W, state.G)[0] * state.G[0][:, :, None, :]
    rhs = np.tensordot(w, J, axes=1) - np.einsum("s,bsnr->bnr", w, P) @ state.W[0]
    gram = w.sum() * np.eye(X.shape[1])
    if problem.F is not None and lam > 0.0:
        gram = gram + lam * (X * w[:, None]).T @ X
        rhs = rhs + lam * (problem.F - state.R @ state.W[-1].mT).mT @ (X * w[:, None])
    return np.linalg.solve(gram, rhs.mT).mT


def add_value_term(
    problem: Problem, gram_J: ndarray, rhs_J: ndarray, R: ndarray, F: ndarray | None, lam: float
) -> tuple[ndarray, ndarray]:
    """Normal equations of W_L with lam ||F - R W_L^T||^2 added."""
    weights = problem.weights
    if F is None or lam == 0.0:
        return gram_J, rhs_J
    if by_output(weights):
        return gram_J + lam * output_gram(outer(R), weights), rhs_J + lam * (weigh_values(F, weights).mT @ R)
    weighted = R if weights is None else R * weights[:, None]
    return gram_J + lam * (weighted.mT @ R), rhs_J + lam * (F.mT @ weighted)


def with_residuals(problem: Problem, state: Iterate, gram_J: ndarray, rhs_J: ndarray) -> Iterate:
    """Fill in the squared residuals, the one of J from the normal equations of W_L unless that is too inaccurate."""
    W_L = state.W[-1]
    size = problem.size_J
    residual_J = (
        size - 2.0 * np.sum(W_L * rhs_J, axis=(1, 2)) + np.sum(output_gram_times(gram_J, W_L) * W_L, axis=(1, 2))
    )
    inaccurate = np.flatnonzero(residual_J < _EXPLICIT_BELOW * size)
    if inaccurate.size:
        residual_J[inaccurate] = explicit_residual(problem, state.take(inaccurate))
    state.residual_J = residual_J
    state.residual_F = value_residual(problem, state)
    return state


def value_residual(problem: Problem, state: Iterate) -> Float[ndarray, " B"]:
    """||F - F_hat||^2; 0 where no values are known."""
    if problem.F is None:
        return np.zeros(len(state.R))
    F = values_left(problem, state.A)
    return weighted_squares(F - state.R @ state.W[-1].mT, problem.weights)


def explicit_residual(problem: Problem, state: Iterate) -> Float[ndarray, " B"]:
    """||J - J_hat||^2 entry by entry, a few starts at a time so that memory stays bounded."""
    assert problem.J is not None
    B = state.W[0].shape[0]
    total = np.zeros(B)
    step = max(1, _CHUNK_ENTRIES // problem.J.size)
    for starts in (slice(first, first + step) for first in range(0, B, step)):
        W, G = [w[starts] for w in state.W], [g[starts] for g in state.G]
        P = left_products(W, G)[0] * G[0][:, :, None, :]
        difference = P @ W[0][:, None]
        difference -= problem.J
        if state.A is not None:
            difference += state.A[starts, None]
        total[starts] = weighted_squares(difference, problem.weights)
    return total
