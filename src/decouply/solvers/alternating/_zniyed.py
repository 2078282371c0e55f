"""The coupled single-layer algorithm of Zniyed et al. (2021): update W_1, W_0, then G and R with projection."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ..problem._problem import Problem
from ..problem._sample_weights import weigh, weighted_gram
from ..problem._solution import Solution
from ..problem._solver import Feature, ProgressCallback
from ..problem._start_distributions import AbstractStart, Uniform, draw_factors
from ._block_updates import diagonal_equations, outer, output_equations, update_input_factor, update_output_factor
from ._coefficient_updates import projected
from ._iterate import Iterate
from ._iterative_refinement import RightSide
from ._loop import WhichIterate, run_starts, solution_of, weighted_sum
from ._options import AbstractStartedSolver
from ._proj_constr import check_options, needs_plain_weights
from ._sweep import add_value_term, finished, first_right_products, update_layer, values_left

_FIRST_LAM, _GROWTH, _EVERY = 1e-6, 10.0, 10
_LARGEST_LAM = 1e6  # past this the Jacobian term is lost in the rounding of the value term


@dataclass(frozen=True, kw_only=True)
class Zniyed(AbstractStartedSolver):
    """Single layer, coupled: order W_1, W_0, then G and R with projection.

    Parameters
    ----------
    lam
        Fixed weight of the value term. None follows the original schedule: 1e-6, times 10 every 10 steps (up to
        1e6); iterates are then compared by Error(J) + Error(F), since the objective itself changes with lam.
    min_steps, max_steps, patience
        A start ends after `max_steps`, or, past `min_steps`, after `patience` steps without a decrease.
    max_seconds
        All starts end after so many seconds, with the best so far; None is no limit.
    iterate
        Which iterate of a start is the answer: the "best" by the objective, or the "last", where the paper's rule of
        stopping ends. Updates that are not exact may raise the objective, so the two differ.
    start
        Distribution of the random start values, or a `Decoupling` to start from.
    """

    lam: float | None = None
    min_steps: int = 10
    max_steps: int = 500
    patience: int = 50
    max_seconds: float | None = None
    iterate: WhichIterate = "best"
    start: AbstractStart | Decoupling = field(default_factory=Uniform)

    def __post_init__(self) -> None:
        lam = 0.0 if self.lam is None else self.lam
        check_options(lam, self.min_steps, self.max_steps, self.patience, self.iterate, self.start, self.max_seconds)

    supports: ClassVar[frozenset[Feature]] = frozenset({"linear", "weights", "Jacobians only"})

    def check(self, problem: Problem) -> None:
        needs_plain_weights(problem, "Zniyed")

    def with_lam(self, lam: float) -> Zniyed:
        return dataclasses.replace(self, lam=lam)

    def solve(
        self,
        problem: Problem,
        *,
        n_starts: int,
        rng: np.random.Generator,
        progress: ProgressCallback,
    ) -> Solution:
        def step(state: Iterate, iteration: int) -> tuple[Iterate, float]:
            lam = _schedule(iteration) if self.lam is None else self.lam
            return zniyed_sweep(problem, state, lam), lam

        def sum_of_errors(state: Iterate, _: float) -> Float[ndarray, " B"]:
            return state.residual_J / (problem.size_J or 1.0) + state.residual_F / (problem.size_F or 1.0)

        start = draw_factors(problem, self.start, n_starts, rng)
        objective, first = (sum_of_errors, _FIRST_LAM) if self.lam is None else (weighted_sum, self.lam)
        return solution_of(problem, run_starts(problem, start, step, objective, first, self.stopping, progress))


def zniyed_sweep(problem: Problem, state: Iterate, lam: float) -> Iterate:
    """Update every factor once, the output factor first."""
    assert problem.J is not None
    weights, (W0, _), (G,), R = problem.weights, state.W, state.G, state.R
    F = values_left(problem, state.A)
    K, N = first_right_products(problem, W0, state.A)
    equations = output_equations(K * G[:, :, None, :], N * outer(G), weights)
    W1 = update_output_factor(*add_value_term(problem, *equations, R, F, lam))
    A = W1[:, None]
    P = A * G[:, :, None, :]
    W0 = update_input_factor(problem.J, P, weigh(P, weights), state.A)
    K, N = first_right_products(problem, W0, state.A)
    H, b = diagonal_equations(A, weighted_gram(A, weights), K, N)
    right = RightSide(problem, [W0, W1], [G], 0)
    domain, C, G, R = update_layer(problem, problem.X @ W0.mT, H, b, W1, F, lam, projected, A, right)
    new = Iterate.unrated([W0, W1], [domain], [C], [G], R, state.A)
    return finished(problem, new, lam, *output_equations(K * G[:, :, None, :], N * outer(G), weights))


def _schedule(iteration: int) -> float:
    steps = (iteration - 1) // _EVERY
    return float(min(_FIRST_LAM * _GROWTH ** min(steps, 100), _LARGEST_LAM))
