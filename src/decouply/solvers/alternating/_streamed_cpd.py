r"""The CPD of Jacobians that are anywhere, by alternating least squares, then a fit of each function.

The rows of G solve small normal equations with W_0 and W_1, so that they are computed again wherever a portion is: with
the W_1 before its last update, as in memory. A sweep is two passes, one for each matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ...samples._portions import Portion, Task
from ..problem._batched_linalg import solve_normal
from ..problem._data_summary import Frame, Whole
from ..problem._problem import Problem
from ..problem._sample_weights import weigh, weighted_gram
from ._block_updates import (
    diagonal_equations,
    outer,
    output_equations,
    projection_equations,
    update_diagonals,
    update_output_factor,
)
from ._iterate import Iterate
from ._streamed_sweep import Factors, problem_of, range_task, tables_on
from ._sweep import explicit_residual, first_right_products, seen, visited_domain

Matrices = tuple[Float[ndarray, "1 r m"], Float[ndarray, "1 n r"], Float[ndarray, "1 n r"]]  # W_0, W_1, W_1 before


@dataclass(frozen=True)
class StreamedCPD:
    """A CPD of all samples; `problem` is that of a pilot, in the same units."""

    whole: Whole
    problem: Problem
    frame: Frame

    def sweep(self, W: Matrices) -> Matrices:
        """W_0, then G (not kept) and W_1."""
        W0 = solve_normal(*self._reduce(input_task, W))
        return W0, seen(self.problem, update_output_factor(*self._reduce(output_task, (W0, W[1], W[1])))), W[1]

    def residual(self, W: Matrices) -> Float[ndarray, " 1"]:
        return self._reduce(residual_task, W)[0]

    def fitted(self, W: Matrices) -> Factors:
        """Functions whose derivatives are nearest to the columns of G."""
        blank = Factors(W[:2], (np.zeros((1, 0, 2)),), (np.zeros((1, 0, 1)),))
        low, high = self._reduce(range_task, blank, 0, join=("min", "max"))
        layer = self.whole.layers[0]
        domain = visited_domain(np.stack([low, high], axis=1), layer, around_zero=not self.frame.standard)
        c = solve_normal(*self._reduce(projection_task, W, domain))[..., 0]
        C = np.concatenate([np.zeros((*c.shape[:-1], 1)), c], axis=-1)
        return Factors(W[:2], (domain,), (C,))

    def _reduce(self, task: Task, *small: Any, join: Any = "sum") -> tuple[ndarray, ...]:
        return self.whole.samples.data.reduce(task, self.frame, self.whole.layers, *small, join=join)


# Tasks


def _diagonals(problem: Problem, W: Matrices) -> Float[ndarray, "1 S r"]:
    """G that is best for W_0 and the W_1 before."""
    W0, _, before = W
    A = before[:, None]
    return update_diagonals(
        *diagonal_equations(A, weighted_gram(A, problem.weights), *first_right_products(problem, W0))
    )


def input_task(portion: Portion, frame: Frame, layers: tuple[LayerBasis, ...], W: Matrices) -> tuple[ndarray, ndarray]:
    """Normal equations of W_0."""
    problem = problem_of(portion, frame, layers)
    assert isinstance(problem.J, ndarray)
    P = W[1][:, None] * _diagonals(problem, W)[:, :, None, :]
    r = P.shape[-1]
    flat = weigh(P, problem.weights).reshape(1, -1, r).mT
    return flat @ P.reshape(1, -1, r), flat @ problem.J.reshape(-1, problem.J.shape[2])


def output_task(portion: Portion, frame: Frame, layers: tuple[LayerBasis, ...], W: Matrices) -> tuple[ndarray, ndarray]:
    """Normal equations of W_1."""
    problem = problem_of(portion, frame, layers)
    G = _diagonals(problem, W)
    K, N = first_right_products(problem, W[0])
    return output_equations(K * G[:, :, None, :], N * outer(G), problem.weights)


def residual_task(portion: Portion, frame: Frame, layers: tuple[LayerBasis, ...], W: Matrices) -> tuple[ndarray]:
    """||J - J_hat||^2 of the CPD."""
    problem = problem_of(portion, frame, layers)
    G = _diagonals(problem, W)
    return (explicit_residual(problem, Iterate.unrated(list(W[:2]), [], [], [G], np.zeros_like(G))),)


def projection_task(
    portion: Portion, frame: Frame, layers: tuple[LayerBasis, ...], W: Matrices, domain: Float[ndarray, "1 r 2"]
) -> tuple[ndarray, ndarray]:
    """Normal equations of the coefficients of derivatives that are near to G."""
    problem = problem_of(portion, frame, layers)
    _, dPhi = tables_on(layers[0], domain, problem.X @ W[0].mT)
    factors = np.ones((1, 1, 1)) if problem.sample_weights is None else problem.sample_weights[None, :, None]
    return projection_equations([_diagonals(problem, W)], [dPhi], [factors])
