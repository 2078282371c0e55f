"""Single-layer methods that came before: Dreesen et al. (2015), Hollander (2017) and Zniyed et al. (2021).

Dreesen: a CPD of the Jacobian tensor, then a fit of each function. Hollander: CONSTR-CMPT-1 on Jacobians only, then a
bias correction. Zniyed: coupled, update W_1, W_0, then G and R with projection.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_number, settle_numbers
from ..problem._batched_linalg import combine, outer, solve_normal
from ..problem._problem import Problem
from ..problem._solution import Solution, Status
from ..problem._solver import Feature, ProgressCallback
from ..problem._weighted_rows import weighted_gram
from ._block_updates import (
    RightSide,
    diagonal_equations,
    input_products,
    output_equations,
    projection_equations,
    solve_output_equations,
    update_diagonals,
    update_input_factor,
    update_output_factor,
)
from ._coefficient_updates import LayerSystem, update_c_constr, update_c_proj
from ._loop import AbstractAlternatingSolver, objective_of, run_starts, solution_of
from ._proj_constr import run_cmpt
from ._sweep import Iterate, basis_tables, values_without_linear_part, with_linear_part_and_residuals, with_residuals

_FIRST_LAM, _GROWTH, _EVERY = 1e-6, 10.0, 10  # the schedule of Zniyed et al.: times 10 every 10 steps
_LARGEST_LAM = 1e6  # past this the Jacobian term is lost in the rounding of the value term


@dataclass(frozen=True, kw_only=True)
class Dreesen(AbstractAlternatingSolver):
    """Single layer: unconstrained CPD of J, then basis functions fitted to each column of G against u and integrated.

    The history shows the CPD; the start is chosen, and errors are computed, by the fitted model. Constants come from
    the mean of the values, as in `Hollander`. No update of a CPD raises its objective, so that the last iterate is the
    best one.

    Parameters
    ----------
    start : start or Decoupling
        Distribution of the random start values, or a `Decoupling` to start from.
    stopping : Stopping
        When a start ends, see `Stopping`.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    >>> result = dc.decouple(samples, ranks=2, degrees=3, solver=dc.Dreesen(), n_starts=2)
    >>> result.decoupling.ranks, len(result.starts)
    ((2,), 2)
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


@dataclass(frozen=True, kw_only=True)
class Hollander(AbstractAlternatingSolver):
    """Single layer, Jacobians only, direct update of the coefficients; then b = mean of F - W_1 g(W_0 x) is added.

    Parameters
    ----------
    start : start or Decoupling
        Distribution of the random start values, or a `Decoupling` to start from.
    stopping : Stopping
        When a start ends, and with which of its iterates, see `Stopping`.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    >>> result = dc.decouple(samples, ranks=2, degrees=3, solver=dc.Hollander(), n_starts=2)
    >>> result.decoupling.ranks, len(result.starts)
    ((2,), 2)
    """

    supports: ClassVar[frozenset[Feature]] = frozenset({"linear", "weights", "Jacobians only"})

    def solve_from(self, problem: Problem, start: Iterate, progress: ProgressCallback) -> Solution:
        run = run_cmpt(problem, start, 0.0, update_c_constr, None, self.stopping, progress)
        return solution_of(problem, run, jacobians_only=True)


@dataclass(frozen=True, kw_only=True)
class Zniyed(AbstractAlternatingSolver):
    """Single layer, coupled: order W_1, W_0, then G and R with projection.

    Parameters
    ----------
    lam : float, optional
        Fixed weight of the value term. None follows the original schedule: 1e-6, times 10 every 10 steps (up to
        1e6). Iterates are then compared by Error(J) + Error(F), since the objective itself changes with lam.
    start : start or Decoupling
        Distribution of the random start values, or a `Decoupling` to start from.
    stopping : Stopping
        When a start ends, and with which of its iterates, see `Stopping`.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    >>> result = dc.decouple(samples, ranks=2, degrees=3, solver=dc.Zniyed(), n_starts=2)
    >>> result.decoupling.ranks, len(result.starts)
    ((2,), 2)
    """

    lam: float | None = None

    supports: ClassVar[frozenset[Feature]] = frozenset({"linear", "weights", "Jacobians only"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lam is not None:
            as_number("lam", self.lam)
            settle_numbers(self, "lam")

    def with_lam(self, lam: float) -> Zniyed:
        return dataclasses.replace(self, lam=lam)

    def solve_from(self, problem: Problem, start: Iterate, progress: ProgressCallback) -> Solution:
        def step(state: Iterate, iteration: int) -> tuple[Iterate, float]:
            scheduled = min(_FIRST_LAM * _GROWTH ** min((iteration - 1) // _EVERY, 100), _LARGEST_LAM)
            lam = float(scheduled) if self.lam is None else self.lam
            return zniyed_sweep(problem, state, lam), lam

        def sum_of_errors(state: Iterate, _: float) -> Float[ndarray, " B"]:
            return state.residual_J / (problem.size_J or 1.0) + state.residual_F / (problem.size_F or 1.0)

        objective, first = (sum_of_errors, _FIRST_LAM) if self.lam is None else (objective_of, self.lam)
        return solution_of(problem, run_starts(problem, start, step, objective, first, self.stopping, progress))


def zniyed_sweep(problem: Problem, state: Iterate, lam: float) -> Iterate:
    """Update every factor once, the output factor first."""
    J, weights, (W0, _), (G,) = problem.J, problem.weights, state.W, state.G
    assert J is not None
    F = values_without_linear_part(problem, state.A)

    # W_1 = argmin ||unfold_1(J) - W_1 M_W^(1)||^2 + lam ||F - W_1 R^T||^2.
    K, N = input_products(J, W0, weights, state.A)
    equations = output_equations(K * G[:, :, None, :], N * outer(G), weights)
    W1 = update_output_factor(*equations, weights, state.R, F, lam)
    # W_0 = argmin ||unfold_2(J)^T - M_W^(0) W_0||^2.
    A = W1[:, None]
    W0 = update_input_factor(J, A * G[:, :, None, :], weights, state.A)
    # G and R, as if they were free, then projected: Algorithm 3 of the paper.
    K, N = input_products(J, W0, weights, state.A)
    H, b = diagonal_equations(A, weighted_gram(A, weights), K, N)
    domain, Phi, dPhi = basis_tables(problem, 0, problem.X @ W0.mT)
    right = RightSide(problem, [W0, W1], [G], 0)
    C = update_c_proj(LayerSystem(problem, right, A, H, b, Phi, dPhi, W1, F), lam)
    G, R = combine(dPhi, C[..., 1:]), combine(Phi, C[..., 1:]) + C[:, None, :, 0]
    new = Iterate.unrated([W0, W1], [domain], [C], [G], R, state.A)
    equations = output_equations(K * G[:, :, None, :], N * outer(G), weights)
    return with_linear_part_and_residuals(problem, new, lam, *equations)
