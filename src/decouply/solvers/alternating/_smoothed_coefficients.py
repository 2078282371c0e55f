r"""Equations of coefficients in alternating solvers, with the roughness of functions held down.

The coefficients of a layer solve normal equations, to which weight_j P_j is added for every function, with
P_j = L_j^T L_j from its basis. Weights are found anew in every update, by a few steps of Fellner and Schall

    weight_j  <-  noise x effective parameters of function j / c_j^T P_j c_j,

so that nothing has to be remembered between sweeps and no scale of a factor matters; a number in place of "auto" is
multiplied by the squared size of the weights behind the function, as in VarPro.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ..least_squares._fitting_problem import FittingProblem, effective_note, smoothing_weights_at
from ..least_squares._parameters import parameters_of
from ..least_squares._roughness_penalty import FIRST_WEIGHT, Penalty
from ..problem._batched_linalg import solve_normal
from ..problem._problem import Problem
from ..problem._solution import Solution

_STEPS = 3  # of the weights, in every update
_FIRST = 1e-3  # weight, as a share of the mean of the diagonal of the equations of a function
_LOWEST, _HIGHEST = 1e-10, 1e4  # ... and its bounds
_LEAST_PARAMETERS = 1e-3
_ROUNDING = 1e-14
_NO_VALUES = 1e-12  # weight of values that do not count


@dataclass(frozen=True)
class Smoother:
    """How rough functions may be: the roots of the roughness of all layers, and a weight or "auto"."""

    penalty: Penalty
    smoothing: float | Literal["auto"]

    @classmethod
    def of(
        cls, layers: tuple[LayerBasis, ...], smoothing: float | Literal["auto"] | None, *, standard: bool
    ) -> Smoother | None:
        """None where nothing is smoothed: no basis asks for it, or the data are taken as given."""
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
        weight = _FIRST * level if self.smoothing == "auto" else self.smoothing * behind[:, functions]
        weight = np.where(wanted, weight, 0.0)
        for _ in range(_STEPS if self.smoothing == "auto" else 0):
            full = _with_penalty(gram, weight, squares, blocks)
            c = solve_normal(full, rhs[..., None])[..., 0]
            inverse = solve_normal(full, np.broadcast_to(np.eye(p), full.shape))
            used = np.sum(inverse * gram, axis=(1, 2))
            misfit = data - 2.0 * np.sum(c * rhs, axis=1) + np.einsum("bp,bpq,bq->b", c, gram, c)
            noise = np.maximum(misfit, _ROUNDING * data) / np.maximum(n_numbers - used, 1.0)
            for i, (P, b) in enumerate(zip(squares, blocks, strict=True)):
                own = ranks[i] - weight[:, i] * np.sum(inverse[:, b, b] * P, axis=(1, 2))
                rough = np.einsum("bp,pq,bq->b", c[:, b], P, c[:, b])
                new = noise * np.maximum(own, _LEAST_PARAMETERS) / np.maximum(rough, 1e-300)
                weight[:, i] = np.where(wanted[i], np.clip(new, _LOWEST * level[:, i], _HIGHEST * level[:, i]), 0.0)
        return solve_normal(_with_penalty(gram, weight, squares, blocks), rhs[..., None])[..., 0]

    def _square(self, l: int, j: int, width: int) -> Float[ndarray, "e e"]:
        """P of one function, with a row of zeros for a constant where there is one among the unknowns."""
        root = self.penalty.roots[l][j]
        P = root.T @ root
        return np.pad(P, ((width - len(P), 0), (width - len(P), 0)))


def _with_penalty(
    gram: Float[ndarray, "B p p"], weight: Float[ndarray, "B r"], squares: list[ndarray], blocks: list[slice]
) -> Float[ndarray, "B p p"]:
    full = gram.copy()
    for i, (P, b) in enumerate(zip(squares, blocks, strict=True)):
        full[:, b, b] += weight[:, i, None, None] * P
    return full


def sizes_behind(W: Float[ndarray, "B n r"], problem: Problem) -> Float[ndarray, "B r"]:
    """||W_l[:, j]||^2 in the units of the objective of alternating solvers, which is not divided by the size of J."""
    return problem.size_J * np.sum(W**2, axis=1)


def with_effective_parameters(problem: Problem, lam: float, solution: Solution, smoother: Smoother) -> Solution:
    """The answer of an alternating solver with its effective number of parameters, where the model is small enough."""
    values = 0.0 if problem.F is None else float(np.sum((problem.F - problem.F.mean(axis=0)) ** 2))
    share = lam * values / (problem.size_J or 1.0) or _NO_VALUES  # lam of VarPro, whose terms have size 1
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
