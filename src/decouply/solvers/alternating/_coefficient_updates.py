"""The ways of updating the coefficients c_l of a layer, which make the algorithms of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..problem._batched_linalg import solve_normal
from ..problem._problem import Problem
from ..problem._sample_weights import by_output, weigh, weigh_values, weighted_gram
from ._block_updates import coefficient_equations, projection_equations
from ._smoothed_coefficients import Smoother, sizes_behind
from ._sweep import Surroundings

_RANK = 1e-10  # singular values below this share of the largest are rounding

Equations = Callable[[Problem, Surroundings, float], tuple[ndarray, ndarray]]
Targets = tuple[list[ndarray], list[ndarray], list[ndarray]]  # with designs and weights
TargetsOf = Callable[[Problem, Surroundings, float], Targets]


@dataclass(frozen=True)
class Update:
    """A way to the coefficients: normal equations, which are sums over samples, and their solution, plain or smooth."""

    equations: Equations
    solve: Callable[[ndarray, ndarray, ndarray | None], ndarray]
    smoothly: Callable[[Problem, Surroundings, float, Smoother], ndarray]

    def __call__(
        self, problem: Problem, around: Surroundings, lam: float, smoother: Smoother | None = None
    ) -> Float[ndarray, "B r e"]:
        if smoother is not None:
            return self.smoothly(problem, around, lam, smoother)
        return self.solve(*self.equations(problem, around, lam), with_values(around, lam))


def with_values(around: Surroundings, lam: float) -> Float[ndarray, "B n r"] | None:
    """W_L, where values take part."""
    return None if around.F is None or lam == 0.0 else around.W_L


# Each function on its own: projections


def _plain_targets(problem: Problem, around: Surroundings, lam: float) -> Targets:
    sample_weights = np.ones((1, 1, 1)) if problem.sample_weights is None else problem.sample_weights[None, :, None]
    return _targets(problem, around, lam, sample_weights, sample_weights)


def _weighted_targets(problem: Problem, around: Surroundings, lam: float) -> Targets:
    weights_G = np.diagonal(around.H, axis1=-2, axis2=-1)  # carries the weights of the samples already
    weights_R = np.ones((1, 1, 1))
    if around.W_L is not None and by_output(problem.weights):
        weights_R = np.sum(around.W_L[:, None] * weigh(around.W_L[:, None], problem.weights), axis=2)
    elif around.W_L is not None:
        weights_R = np.sum(around.W_L**2, axis=1)[:, None]
        if problem.weights is not None:
            weights_R = weights_R * problem.weights[:, None]
    return _targets(problem, around, lam, weights_G, weights_R)


def _targets(problem: Problem, around: Surroundings, lam: float, weights_G: ndarray, weights_R: ndarray) -> Targets:
    G = around.diagonals()
    if around.W_L is None or around.F is None or lam == 0.0:
        return [G], [around.dPhi], [weights_G]
    R = least_squares_values(around.F, around.W_L, problem.root)
    return [G, R], list(around.with_constant()), [weights_G, lam * weights_R]


def _solve_each(gram: ndarray, rhs: ndarray, W_L: ndarray | None) -> Float[ndarray, "B r e"]:
    c = solve_normal(gram, rhs)[..., 0]
    return _without_constant(c) if W_L is None else c


def _equations_of_each(
    problem: Problem, around: Surroundings, lam: float, *, targets_of: TargetsOf
) -> tuple[ndarray, ndarray]:
    return projection_equations(*targets_of(problem, around, lam))


def _each_smoothly(
    problem: Problem, around: Surroundings, lam: float, smoother: Smoother, *, targets_of: TargetsOf
) -> Float[ndarray, "B r e"]:
    targets, designs, weights = targets_of(problem, around, lam)
    gram, rhs = projection_equations(targets, designs, weights)
    data = sum(np.sum(w * t**2, axis=1) for t, w in zip(targets, weights, strict=True))  # (B, r)
    l, n_numbers = around.right.l, len(targets) * targets[0].shape[1]
    behind = sizes_behind(around.right.W[l + 1], problem)
    columns = [
        smoother.solved(l, [j], gram[:, j], rhs[:, j, :, 0], data[:, j], n_numbers, behind)
        for j in range(gram.shape[1])
    ]
    c = np.stack(columns, axis=1)
    return _without_constant(c) if with_values(around, lam) is None else c


def _projection(targets_of: TargetsOf) -> Update:
    return Update(
        partial(_equations_of_each, targets_of=targets_of), _solve_each, partial(_each_smoothly, targets_of=targets_of)
    )


# All functions of a layer together


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


def _constrained_smoothly(
    problem: Problem, around: Surroundings, lam: float, smoother: Smoother
) -> Float[ndarray, "B r e"]:
    gram, rhs = _constrained_equations(problem, around, lam)
    W_L = with_values(around, lam)
    weight = 0.0 if W_L is None else lam
    B, r = rhs.shape[:2]
    l, (S, m), n = around.right.l, problem.X.shape, problem.samples.n_outputs
    data = np.full(B, problem.size_J + weight * problem.size_F)
    n_numbers = S * n * (m + (weight > 0.0))
    behind = sizes_behind(around.right.W[l + 1], problem)
    c = smoother.solved(l, list(range(r)), gram, rhs.reshape(B, -1), data, n_numbers, behind).reshape(B, r, -1)
    return _without_constant(c) if W_L is None else smallest_constants(c, W_L)


# PROJ: least squares for G (and R) as if they were free, then the nearest functions of the basis. In the last layer the
# fit to G and, with factor `lam`, to R share the coefficients.
projected = _projection(_plain_targets)

# PROJ with the projection measured by the objective: an error in G_sj counts ||a_sj||^2 ||b_sj||^2 times. These are the
# diagonals of the normal equations of G (and of R: w_j^T M_s w_j). A plain projection treats a sample at which the
# objective hardly feels G_sj, where its least-squares value is mostly noise, like any other.
projected_weighted = _projection(_weighted_targets)

# CONSTR: the coefficients that minimise the objective itself, all functions of the layer together.
constrained = Update(_constrained_equations, _solve_together, _constrained_smoothly)


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
