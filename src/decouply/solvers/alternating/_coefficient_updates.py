r"""Update_c of the paper: the coefficients c_l of the functions of a layer, with all other factors fixed.

`update_c_proj` is Algorithm 2, in the last layer Algorithm 3 (PROJ-CMPT-L); `update_c_constr` is Algorithm 4, in the
last layer Algorithm 5 (CONSTR-CMPT-L). The last line of all four, G = X_l c_l and R = Y_L c_L, is in the sweep.

The rows of X_l^j in the paper are (0, phi_1'(u), ..., phi_d'(u)), those of Y_L^j are (1, phi_1(u), ..., phi_d(u)). The
constant counts only with values; without, it is 0 and its column is left out. A smoother adds the roughness of the
functions to the normal equations.

The coefficients of a layer solve normal equations, to which weight_j P_j is added for every function, with
P_j = L_j^T L_j from its basis. Weights are found anew in every update, by a few steps of Fellner and Schall

    weight_j  <-  noise x effective parameters of function j / c_j^T P_j c_j,

so that nothing has to be remembered between sweeps and no scale of a factor matters. A number in place of "auto" is
multiplied by the squared size of the weights behind the function, as in VarPro.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ..least_squares._fitting_problem import FittingProblem, effective_note, smoothing_weights_at
from ..least_squares._parameters import parameters_of
from ..least_squares._roughness_penalty import FIRST_WEIGHT, LEAST_PARAMETERS, Penalty
from ..problem._batched_linalg import solve_normal
from ..problem._problem import Problem
from ..problem._solution import Solution
from ..problem._weighted_rows import apply_weights, apply_weights_to_values, by_output, weighted_gram
from ._block_updates import RightSide, coefficient_equations, projection_equations, update_diagonals

_RANK_TOLERANCE = 1e-10  # singular values below this share of the largest are rounding
_WEIGHT_STEPS = 3  # of the weights, in every update
_FIRST_WEIGHT_SHARE = 1e-3  # weight, as a share of the mean of the diagonal of the equations of a function
_LOWEST_WEIGHT_SHARE, _HIGHEST_WEIGHT_SHARE = 1e-10, 1e4  # ... and its bounds
_MISFIT_OF_ROUNDING = 1e-14
_WEIGHT_OF_NO_VALUES = 1e-12  # weight of values that do not count


@dataclass(frozen=True)
class LayerSystem:
    """What the functions of one layer are updated from.

    `A` lies to the left of the diagonals of the layer and `right` to their right. `H` and `b` are the normal equations
    of its diagonals, H_s = M_G^(l,s)T M_G^(l,s) and b_s = M_G^(l,s)T vec(J_s). `Phi` and `dPhi` are the basis functions
    and their derivatives at u. `W_L` and the values `F`, without the linear part, are set for the last layer only.
    """

    problem: Problem
    right: RightSide
    A: Float[ndarray, "B _ n r"]
    H: Float[ndarray, "B _ r r"]
    b: Float[ndarray, "B S r"]
    Phi: Float[ndarray, "B S r d"]
    dPhi: Float[ndarray, "B S r d"]
    W_L: Float[ndarray, "B n r"] | None
    F: Float[ndarray, "*B S n"] | None

    def with_constant(self) -> tuple[Float[ndarray, "B S r e"], Float[ndarray, "B S r e"]]:
        """The rows of X_L and Y_L."""
        one = np.ones((*self.Phi.shape[:-1], 1))
        return np.concatenate([0.0 * one, self.dPhi], axis=-1), np.concatenate([one, self.Phi], axis=-1)

    def sizes_behind(self) -> Float[ndarray, "B r"]:
        """||W_l[:, j]||^2 behind every function, for a smoother; the objective here is not divided by ||J||^2."""
        return self.problem.size_J * np.sum(self.right.W[self.right.l + 1] ** 2, axis=1)


def update_c_proj(system: LayerSystem, lam: float, smoother: Smoother | None = None) -> Float[ndarray, "B r e"]:
    """PROJ as printed: every sample counts alike in the projection."""
    known = system.problem.sample_weights
    alike = np.ones((1, 1, 1)) if known is None else known[None, :, None]
    return _update_c_proj(system, lam, smoother, alike, alike)


def update_c_proj_weighted(
    system: LayerSystem, lam: float, smoother: Smoother | None = None
) -> Float[ndarray, "B r e"]:
    """PROJ with the projection measured by the objective.

    An error in G_sj counts ||a_sj||^2 ||b_sj||^2 times, one in R_sj w_j^T M_s w_j times: the diagonals of the normal
    equations. A plain projection treats a sample at which the objective hardly feels G_sj, if its least-squares
    value is mostly noise, like any other.
    """
    weights, W_L = system.problem.weights, system.W_L
    weights_G = np.diagonal(system.H, axis1=-2, axis2=-1)  # carries the weights of the samples already
    weights_R = np.ones((1, 1, 1))
    if W_L is not None and by_output(weights):
        weights_R = np.sum(W_L[:, None] * apply_weights(W_L[:, None], weights), axis=2)
    elif W_L is not None:
        weights_R = np.sum(W_L**2, axis=1)[:, None]
        if weights is not None:
            weights_R = weights_R * weights[:, None]
    return _update_c_proj(system, lam, smoother, weights_G, weights_R)


def _update_c_proj(
    system: LayerSystem, lam: float, smoother: Smoother | None, weights_G: ndarray, weights_R: ndarray
) -> Float[ndarray, "B r e"]:
    """Algorithms 2 and 3: least squares for G (and R) as if they were free, then the nearest functions of the basis."""
    # Line 1: G_s = argmin ||vec(J_s) - M_G^(l,s) G_s^T||^2 for every sample, refined if digits were lost.
    G = update_diagonals(system.H, system.b)
    for _ in range(system.right.refinement_steps):
        K = system.right.residual_products(system.A * G[:, :, None, :])
        G = G + update_diagonals(system.H, np.sum(system.A * K, axis=2))

    if system.W_L is None or system.F is None or lam == 0.0:
        # Algorithm 2, lines 2 and 3: c_l = argmin ||vec(G) - X_l c_l||^2, each function on its own.
        targets, designs, weights = [G], [system.dPhi], [weights_G]
    else:
        # Algorithm 3, line 2: R = argmin ||F - W_L R^T||^2.
        R = least_squares_values(system.F, system.W_L, system.problem.root)
        # Lines 3 and 4: c_L = argmin ||vec(G) - X_L c_L||^2 + lam ||vec(R) - Y_L c_L||^2.
        targets, designs, weights = [G, R], list(system.with_constant()), [weights_G, lam * weights_R]
    gram, rhs = projection_equations(targets, designs, weights)
    if smoother is None:
        c = solve_normal(gram, rhs)[..., 0]
    else:
        l, n_numbers, behind = system.right.l, len(targets) * targets[0].shape[1], system.sizes_behind()
        size = sum(np.sum(w * t**2, axis=1) for t, w in zip(targets, weights, strict=True))  # (B, r)
        columns = [
            smoother.coefficients(l, [j], gram[:, j], rhs[:, j, :, 0], size[:, j], n_numbers, behind)
            for j in range(gram.shape[1])
        ]
        c = np.stack(columns, axis=1)
    return c if len(targets) == 2 else _with_zero_constant(c)


def update_c_constr(system: LayerSystem, lam: float, smoother: Smoother | None = None) -> Float[ndarray, "B r e"]:
    """Algorithms 4 and 5: the coefficients that minimise the objective itself, all functions of the layer together."""
    problem, W_L, F = system.problem, system.W_L, system.F
    B, _, r = system.b.shape
    if W_L is None or F is None or lam == 0.0:
        # Algorithm 4: c_l = argmin ||vec(J) - (M_C^(l))_0 c_l||^2.
        lam, W_L = 0.0, None
        gram, rhs = coefficient_equations(system.H, system.b, system.dPhi)
    else:
        # Algorithm 5: c_L = argmin ||vec(J) - (M_C^(L))_0 c_L||^2 + lam ||vec(F^T) - (W_L x I) Y_L c_L||^2.
        X, Y = system.with_constant()
        gram, rhs = coefficient_equations(system.H, system.b, X)
        if by_output(problem.weights):
            H_F, b_F = weighted_gram(W_L[:, None], problem.weights), apply_weights_to_values(F, problem.weights) @ W_L
        else:
            H_F, b_F = W_L[:, None].mT @ W_L[:, None], F @ W_L
            if problem.root is not None:  # the root on both sides, so that sums over samples carry the weight once
                b_F, Y = b_F * problem.root[:, None], Y * problem.root[:, None, None]
        gram_F, rhs_F = coefficient_equations(H_F, b_F, Y)
        gram, rhs = gram + lam * gram_F, rhs + lam * rhs_F
    if smoother is None:
        c = solve_normal(gram, rhs[..., None])[..., 0]
    else:
        (S, m), n = problem.X.shape, problem.samples.n_outputs
        size, n_numbers = np.full(B, problem.size_J + lam * problem.size_F), S * n * (m + (lam > 0.0))
        c = smoother.coefficients(system.right.l, list(range(r)), gram, rhs, size, n_numbers, system.sizes_behind())
    c = c.reshape(B, r, -1)
    if W_L is None:
        return _with_zero_constant(c)
    if r > W_L.shape[1]:  # constants are not unique if functions outnumber outputs: the smallest ones
        constants = W_L.mT @ solve_normal(W_L @ W_L.mT, W_L @ c[..., :1])
        c = np.concatenate([constants, c[..., 1:]], axis=-1)
    return c


def least_squares_values(
    F: Float[ndarray, "*B S n"], W_L: Float[ndarray, "B n r"], root: Float[ndarray, "S *outputs"] | None
) -> Float[ndarray, "B S r"]:
    """R that minimises the weighted ||F - R W_L^T||^2, the smallest one if the weighted outputs leave it open."""
    n, r = W_L.shape[1:]
    if root is not None and by_output(root):
        X = apply_weights(W_L[:, None], root)  # (B, S, n, r)
        failed = ~np.isfinite(X).all(axis=(1, 2, 3))  # a start that has failed must not stop the others
        X[failed] = 0.0
        R = (np.linalg.pinv(X, rcond=_RANK_TOLERANCE) @ apply_weights_to_values(F, root)[..., None])[..., 0]
        R[failed] = np.nan
        return R
    if r <= n:
        return solve_normal(W_L.mT @ W_L, (F @ W_L).mT).mT
    return solve_normal(W_L @ W_L.mT, np.broadcast_to(F.mT, (W_L.shape[0], *F.mT.shape[-2:]))).mT @ W_L


def _with_zero_constant(c: Float[ndarray, "B r d"]) -> Float[ndarray, "B r e"]:
    return np.concatenate([np.zeros((*c.shape[:-1], 1)), c], axis=-1)


@dataclass(frozen=True)
class Smoother:
    """How rough functions may be: the roots of the roughness of all layers, and a weight or "auto"."""

    penalty: Penalty
    smoothing: float | Literal["auto"]

    @classmethod
    def of(
        cls, layers: tuple[LayerBasis, ...], smoothing: float | Literal["auto"] | None, *, standard: bool
    ) -> Smoother | None:
        """None if nothing is smoothed: no basis asks for it, or the data are taken as given."""
        if smoothing is None or smoothing == 0.0 or not standard:
            return None
        penalty = Penalty.of(layers, 1.0, everything=smoothing != "auto")
        return None if penalty is None else cls(penalty, smoothing)

    def coefficients(
        self,
        l: int,
        functions: list[int],
        gram: Float[ndarray, "B p p"],
        rhs: Float[ndarray, "B p"],
        data: Float[ndarray, " B"],
        n_numbers: int,
        behind: Float[ndarray, "B r"],
    ) -> Float[ndarray, "B p"]:
        """Coefficients of some functions of layer `l`, one after the other, from their equations.

        `data` is the squared size of what is fitted, and `n_numbers` how many numbers that are. A number as weight is
        multiplied by `behind`.
        """
        r, p = len(functions), gram.shape[1]
        e = p // r
        squares = [self._square(l, j, e) for j in functions]
        ranks = [int(np.linalg.matrix_rank(P)) for P in squares]
        blocks = [slice(i * e, (i + 1) * e) for i in range(r)]
        wanted = np.array([self.penalty.weights[l][j] > 0.0 for j in functions])
        level = np.stack([np.trace(gram[:, b, b], axis1=1, axis2=2) / e for b in blocks], axis=1)
        weight = _FIRST_WEIGHT_SHARE * level if self.smoothing == "auto" else self.smoothing * behind[:, functions]
        weight = np.where(wanted, weight, 0.0)
        for _ in range(_WEIGHT_STEPS if self.smoothing == "auto" else 0):
            full = _with_penalty(gram, weight, squares, blocks)
            c = solve_normal(full, rhs[..., None])[..., 0]
            inverse = solve_normal(full, np.broadcast_to(np.eye(p), full.shape))
            used = np.sum(inverse * gram, axis=(1, 2))
            misfit = data - 2.0 * np.sum(c * rhs, axis=1) + np.einsum("bp,bpq,bq->b", c, gram, c)
            noise = np.maximum(misfit, _MISFIT_OF_ROUNDING * data) / np.maximum(n_numbers - used, 1.0)
            for i, (P, b) in enumerate(zip(squares, blocks, strict=True)):
                own = ranks[i] - weight[:, i] * np.sum(inverse[:, b, b] * P, axis=(1, 2))
                rough = np.einsum("bp,pq,bq->b", c[:, b], P, c[:, b])
                new = noise * np.maximum(own, LEAST_PARAMETERS) / np.maximum(rough, 1e-300)
                weight[:, i] = np.where(
                    wanted[i],
                    np.clip(new, _LOWEST_WEIGHT_SHARE * level[:, i], _HIGHEST_WEIGHT_SHARE * level[:, i]),
                    0.0,
                )
        return solve_normal(_with_penalty(gram, weight, squares, blocks), rhs[..., None])[..., 0]

    def _square(self, l: int, j: int, width: int) -> Float[ndarray, "e e"]:
        """P of one function, with a row of zeros for a constant if there is one among the unknowns."""
        root = self.penalty.roots[l][j]
        P = root.T @ root
        return np.pad(P, ((width - len(P), 0), (width - len(P), 0)))


# Gives coefficients (B, r, 1 + d), constant first.
CoefficientUpdate = Callable[[LayerSystem, float, Smoother | None], ndarray]


def _with_penalty(
    gram: Float[ndarray, "B p p"], weight: Float[ndarray, "B r"], squares: list[ndarray], blocks: list[slice]
) -> Float[ndarray, "B p p"]:
    full = gram.copy()
    for i, (P, b) in enumerate(zip(squares, blocks, strict=True)):
        full[:, b, b] += weight[:, i, None, None] * P
    return full


def with_effective_parameters(problem: Problem, lam: float, solution: Solution, smoother: Smoother) -> Solution:
    """The answer of an alternating solver with its effective number of parameters, if the model is small enough."""
    values = 0.0 if problem.F is None else float(np.sum((problem.F - problem.F.mean(axis=0)) ** 2))
    share = lam * values / (problem.size_J or 1.0) or _WEIGHT_OF_NO_VALUES  # lam of VarPro, whose terms have size 1
    weight = FIRST_WEIGHT if smoother.smoothing == "auto" else smoother.smoothing
    everything = smoother.smoothing != "auto"
    penalty = Penalty.of(problem.layers, weight, everything=everything)
    equations = FittingProblem(problem, lam=share, ridge=0.0, fixed={}, penalty=penalty)
    if equations.penalty is None:
        return solution
    theta = parameters_of(problem, solution.decoupling)
    _, used = smoothing_weights_at(equations, theta, chosen=not everything)
    note = effective_note(used, equations.unknowns.count(theta))
    return dataclasses.replace(solution, notes=(*solution.notes, note), n_effective=used)
