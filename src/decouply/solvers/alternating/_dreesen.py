"""The first tensor method, Dreesen et al. (2015): CPD of the Jacobian tensor, then a fit of each function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..problem._batched_linalg import combine, outer, solve_normal
from ..problem._problem import Problem
from ..problem._solution import Solution, Status
from ..problem._solver import Feature, ProgressCallback
from ..problem._weighted_rows import weighted_gram
from ._block_updates import (
    diagonal_equations,
    input_products,
    output_equations,
    projection_equations,
    solve_output_equations,
    update_diagonals,
    update_input_factor,
)
from ._loop import AbstractAlternatingSolver, objective_of, run_starts, solution_of
from ._sweep import Iterate, basis_tables, with_residuals


@dataclass(frozen=True, kw_only=True)
class Dreesen(AbstractAlternatingSolver):
    """Single layer: unconstrained CPD of J, then basis functions fitted to each column of G against u and integrated.

    The history shows the CPD; the start is chosen, and errors are told, by the fitted model. Constants come from the
    mean of the values, as in `Hollander`. No update of a CPD raises its objective, so that the last iterate is the best
    one.

    Parameters
    ----------
    start
        Distribution of the random start values, or a `Decoupling` to start from.
    stopping
        When a start ends, see `Stopping`.
    """

    supports: ClassVar[frozenset[Feature]] = frozenset({"weights", "Jacobians only"})

    def solve_from(self, problem: Problem, start: Iterate, progress: ProgressCallback) -> Solution:
        def step(state: Iterate, _: int) -> tuple[Iterate, float]:
            return cpd_sweep(problem, state), 0.0

        run = run_starts(problem, start, step, objective_of, 0.0, self.stopping, progress)
        with np.errstate(all="ignore"):  # starts that failed hold NaN
            run.kept = fit_functions(problem, run.kept)
        run.objective = run.kept.residual_J
        run.status = [Status.FITTED if s is Status.EXACT else s for s in run.status]
        return solution_of(problem, run, jacobians_only=True)


def cpd_sweep(problem: Problem, state: Iterate) -> Iterate:
    """Alternating least squares for the CPD [[W_1, W_0^T, G]], in the order W_0, G, W_1."""
    J, weights, A = problem.J, problem.weights, state.W[1][:, None]
    assert J is not None
    W0 = update_input_factor(J, A * state.G[0][:, :, None, :], weights)
    K, N = input_products(J, W0, weights)
    G = update_diagonals(*diagonal_equations(A, weighted_gram(A, weights), K, N))
    gram, rhs = output_equations(K * G[:, :, None, :], N * outer(G), weights)
    W1 = solve_output_equations(gram, rhs)
    new = Iterate.unrated([W0, W1], state.domain, state.C, [G], np.zeros_like(G))
    return with_residuals(problem, new, gram, rhs)


def fit_functions(problem: Problem, cpd: Iterate) -> Iterate:
    """Replace G by the nearest derivatives of basis functions; integrating them is keeping the coefficients."""
    J, weights, (W0, W1) = problem.J, problem.weights, cpd.W
    assert J is not None
    domain, Phi, dPhi = basis_tables(problem, 0, problem.X @ W0.mT)
    factors = np.ones((1, 1, 1)) if problem.sample_weights is None else problem.sample_weights[None, :, None]
    c = solve_normal(*projection_equations([cpd.G[0]], [dPhi], [factors]))[..., 0]
    C = np.concatenate([np.zeros((*c.shape[:-1], 1)), c], axis=-1)
    G, R = combine(dPhi, c), combine(Phi, c)
    K, N = input_products(J, W0, weights)
    new = Iterate.unrated([W0, W1], [domain], [C], [G], R)
    return with_residuals(problem, new, *output_equations(K * G[:, :, None, :], N * outer(G), weights))
