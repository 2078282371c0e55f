"""The first tensor method, Dreesen et al. (2015): CPD of the Jacobian tensor, then a fit of each function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ...model._decoupling import Decoupling
from ..problem._problem import Problem
from ..problem._sample_weights import weigh, weighted_gram
from ..problem._solution import Solution, Status
from ..problem._solver import Feature, ProgressCallback
from ..problem._start_distributions import AbstractStart, Uniform, draw_factors
from ._block_updates import (
    combine,
    diagonal_equations,
    outer,
    output_equations,
    project,
    update_diagonals,
    update_input_factor,
    update_output_factor,
)
from ._iterate import Iterate
from ._loop import run_starts, solution_of, weighted_sum
from ._options import AbstractStartedSolver
from ._proj_constr import check_options
from ._sweep import first_right_products, tables, with_residuals


@dataclass(frozen=True, kw_only=True)
class Dreesen(AbstractStartedSolver):
    """Single layer: unconstrained CPD of J, then basis functions fitted to each column of G against u and integrated.

    The history shows the CPD; the start is chosen, and errors are told, by the fitted model. Constants come from the
    mean of the values, as in `Hollander`. There is no `iterate` to choose: no update of a CPD raises its objective, so
    that the last iterate is the best one.

    Parameters
    ----------
    min_steps, max_steps, patience
        A start ends after `max_steps`, or, past `min_steps`, after `patience` steps without a decrease.
    max_seconds
        All starts end after so many seconds, with the best so far; None is no limit.
    start
        Distribution of the random start values, or a `Decoupling` to start from.
    """

    min_steps: int = 10
    max_steps: int = 500
    patience: int = 50
    max_seconds: float | None = None
    start: AbstractStart | Decoupling = field(default_factory=Uniform)

    def __post_init__(self) -> None:
        check_options(0.0, self.min_steps, self.max_steps, self.patience, "best", self.start, self.max_seconds)

    supports: ClassVar[frozenset[Feature]] = frozenset({"weights", "Jacobians only"})

    def solve(
        self,
        problem: Problem,
        *,
        n_starts: int,
        rng: np.random.Generator,
        progress: ProgressCallback,
    ) -> Solution:
        def step(state: Iterate, _: int) -> tuple[Iterate, float]:
            return cpd_sweep(problem, state), 0.0

        start = draw_factors(problem, self.start, n_starts, rng)
        run = run_starts(problem, start, step, weighted_sum, 0.0, self.stopping, progress)
        with np.errstate(all="ignore"):  # starts that failed hold NaN
            run.kept = fit_functions(problem, run.kept)
        run.objective = run.kept.residual_J
        run.status = [Status.FITTED if s is Status.EXACT else s for s in run.status]
        return solution_of(problem, run, uses_values=False, corrected=True)


def cpd_sweep(problem: Problem, state: Iterate) -> Iterate:
    """Alternating least squares for the CPD [[W_1, W_0^T, G]], in the order W_0, G, W_1."""
    assert problem.J is not None
    weights, A = problem.weights, state.W[1][:, None]
    P = A * state.G[0][:, :, None, :]
    W0 = update_input_factor(problem.J, P, weigh(P, weights))
    K, N = first_right_products(problem, W0)
    G = update_diagonals(*diagonal_equations(A, weighted_gram(A, weights), K, N))
    gram, rhs = output_equations(K * G[:, :, None, :], N * outer(G), weights)
    W1 = update_output_factor(gram, rhs)
    new = Iterate.unrated([W0, W1], state.domain, state.C, [G], np.zeros_like(G))
    return with_residuals(problem, new, gram, rhs)


def fit_functions(problem: Problem, cpd: Iterate) -> Iterate:
    """Replace G by the nearest derivatives of basis functions; integrating them is keeping the coefficients."""
    W0, W1 = cpd.W
    domain, Phi, dPhi = tables(problem, 0, problem.X @ W0.mT)
    factors = np.ones((1, 1, 1)) if problem.sample_weights is None else problem.sample_weights[None, :, None]
    c = project([cpd.G[0]], [dPhi], [factors])
    G, R = combine(dPhi, c), combine(Phi, c)
    C = np.concatenate([np.zeros((*c.shape[:-1], 1)), c], axis=-1)
    K, N = first_right_products(problem, W0)
    new = Iterate.unrated([W0, W1], [domain], [C], [G], R)
    return with_residuals(problem, new, *output_equations(K * G[:, :, None, :], N * outer(G), problem.weights))
