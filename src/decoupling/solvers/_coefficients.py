"""The ways of updating the coefficients c_l of a layer, which make the algorithms of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._normal import solve_normal
from ._problem import Problem
from ._sweep import Surroundings
from ._updates import coefficient_equations, projection_equations
from ._weighting import by_output, weigh, weigh_values, weighted_gram

_RANK = 1e-10  # singular values below this share of the largest are rounding


Equations = Callable[[Problem, Surroundings, float], tuple[ndarray, ndarray]]


@dataclass(frozen=True)
class Update:
    """A way to the coefficients: normal equations, which are sums over samples, and their solution."""

    equations: Equations
    solve: Callable[[ndarray, ndarray, ndarray | None], ndarray]

    def __call__(self, problem: Problem, around: Surroundings, lam: float) -> Float[ndarray, "B r e"]:
        return self.solve(*self.equations(problem, around, lam), with_values(around, lam))


def with_values(around: Surroundings, lam: float) -> Float[ndarray, "B n r"] | None:
    """W_L, where values take part."""
    return None if around.F is None or lam == 0.0 else around.W_L


def _projected_equations(problem: Problem, around: Surroundings, lam: float) -> tuple[ndarray, ndarray]:
    sample_weights = np.ones((1, 1, 1)) if problem.sample_weights is None else problem.sample_weights[None, :, None]
    return _projection(problem, around, lam, sample_weights, sample_weights)


def _weighted_equations(problem: Problem, around: Surroundings, lam: float) -> tuple[ndarray, ndarray]:
    weights_G = np.diagonal(around.H, axis1=-2, axis2=-1)  # carries the weights of the samples already
    weights_R = np.ones((1, 1, 1))
    if around.W_L is not None and by_output(problem.weights):
        weights_R = np.sum(around.W_L[:, None] * weigh(around.W_L[:, None], problem.weights), axis=2)
    elif around.W_L is not None:
        weights_R = np.sum(around.W_L**2, axis=1)[:, None]
        if problem.weights is not None:
            weights_R = weights_R * problem.weights[:, None]
    return _projection(problem, around, lam, weights_G, weights_R)


def _projection(
    problem: Problem, around: Surroundings, lam: float, weights_G: ndarray, weights_R: ndarray
) -> tuple[ndarray, ndarray]:
    G = around.diagonals()
    if around.W_L is None or around.F is None or lam == 0.0:
        return projection_equations([G], [around.dPhi], [weights_G])
    R = least_squares_values(around.F, around.W_L, problem.root)
    return projection_equations([G, R], list(around.with_constant()), [weights_G, lam * weights_R])


def _solve_each(gram: ndarray, rhs: ndarray, W_L: ndarray | None) -> Float[ndarray, "B r e"]:
    c = solve_normal(gram, rhs)[..., 0]
    return _without_constant(c) if W_L is None else c


def _constrained_equations(problem: Problem, around: Surroundings, lam: float) -> tuple[ndarray, ndarray]:
    H, b = around.H, around.b
    if around.W_L is None or around.F is None or lam == 0.0:
        gram, rhs = coefficient_equations(H, b, around.dPhi)
        return gram, _by_function(rhs, b.shape[2])
    X, Y = around.with_constant()
    gram, rhs = coefficient_equations(H, b, X)
    W_L = around.W_L[:, None]
    if by_output(problem.weights):
        H_F, b_F = weighted_gram(W_L, problem.weights), weigh_values(around.F, problem.weights) @ around.W_L
    else:
        H_F, b_F = W_L.mT @ W_L, around.F @ around.W_L
        if problem.root is not None:  # the root on both sides, so that sums over samples carry the weight once
            b_F, Y = b_F * problem.root[:, None], Y * problem.root[:, None, None]
    gram_F, rhs_F = coefficient_equations(H_F, b_F, Y)
    return gram + lam * gram_F, _by_function(rhs + lam * rhs_F, b.shape[2])


def _by_function(rhs: Float[ndarray, "B p"], rank: int) -> Float[ndarray, "B r e"]:
    return rhs.reshape(len(rhs), rank, -1)


def _solve_together(gram: ndarray, rhs: Float[ndarray, "B r k"], W_L: ndarray | None) -> Float[ndarray, "B r e"]:
    c = solve_normal(gram, rhs.reshape(len(rhs), -1, 1)).reshape(rhs.shape)
    return _without_constant(c) if W_L is None else smallest_constants(c, W_L)


# PROJ: least squares for G (and R) as if they were free, then the nearest functions of the basis. In the last layer the
# fit to G and, with factor `lam`, to R share the coefficients.
projected = Update(_projected_equations, _solve_each)

# PROJ with the projection measured by the objective: an error in G_sj counts ||a_sj||^2 ||b_sj||^2 times. These are the
# diagonals of the normal equations of G (and of R: w_j^T M_s w_j). A plain projection treats a sample at which the
# objective hardly feels G_sj, where its least-squares value is mostly noise, like any other.
projected_weighted = Update(_weighted_equations, _solve_each)

# CONSTR: the coefficients that minimise the objective itself, all functions of the layer together.
constrained = Update(_constrained_equations, _solve_together)


def smallest_constants(c: Float[ndarray, "B r e"], W_L: Float[ndarray, "B n r"]) -> Float[ndarray, "B r e"]:
    """The same outputs with the smallest constants, which are not unique where functions outnumber outputs."""
    n, r = W_L.shape[1:]
    if r <= n:
        return c
    constants = W_L.mT @ solve_normal(W_L @ W_L.mT, W_L @ c[..., :1])
    return np.concatenate([constants, c[..., 1:]], axis=-1)


def least_squares_values(
    F: Float[ndarray, "*B S n"], W_L: Float[ndarray, "B n r"], root: Float[ndarray, "S *outputs"] | None
) -> Float[ndarray, "B S r"]:
    """R that minimises the weighted ||F - R W_L^T||^2, the smallest one where the weighted outputs leave it open."""
    n, r = W_L.shape[1:]
    if root is not None and by_output(root):
        X = weigh(W_L[:, None], root)  # (B, S, n, r)
        failed = ~np.isfinite(X).all(axis=(1, 2, 3))  # a start that has failed must not stop the others
        X[failed] = 0.0
        R = (np.linalg.pinv(X, rcond=_RANK) @ weigh_values(F, root)[..., None])[..., 0]
        R[failed] = np.nan
        return R
    if r <= n:
        return solve_normal(W_L.mT @ W_L, (F @ W_L).mT).mT
    return solve_normal(W_L @ W_L.mT, np.broadcast_to(F.mT, (W_L.shape[0], *F.mT.shape[-2:]))).mT @ W_L


def _without_constant(c: Float[ndarray, "B r d"]) -> Float[ndarray, "B r e"]:
    return np.concatenate([np.zeros((*c.shape[:-1], 1)), c], axis=-1)
