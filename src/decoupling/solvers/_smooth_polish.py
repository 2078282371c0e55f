"""The end of a search with smoothing: phases of steps, each with new domains and new weights of the penalty."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ._chain import Parameters
from ._equations import Equations
from ._levenberg import Dense, descend
from ._smoothing import Penalty
from ._window import on_window

_PHASES = 6
_STEPS = 25  # of a phase, within which weights stay as they are


@dataclass(frozen=True)
class Smoothed:
    """A model with the smoothing that the data ask for.

    Attributes
    ----------
    theta, cost, record
        Parameters, penalised cost, and the costs on the way.
    n_effective
        Effective number of parameters.
    score
        Generalised cross-validation: the misfit over the square of the numbers that are left.
    """

    theta: Parameters
    cost: float
    record: list[float]
    n_effective: float
    score: float


def smooth(
    equations: Equations,
    penalty: Penalty,
    theta: Parameters,
    *,
    chosen: bool,
    deadline: float,
    progress: Callable[[float], None],
) -> Smoothed:
    """Go on from one model in phases; where weights are `chosen`, each phase but the first has new ones."""
    record: list[float] = []
    L, rows, layers = len(equations.problem.layers), equations.rows, equations.problem.layers
    for phase in range(_PHASES if chosen else 2):
        complete = dataclasses.replace(equations.complete, penalty=penalty)
        theta = [*on_window(rows.X, layers, theta[: 2 * L], exactly=True), *theta[2 * L :]]
        descent = descend(
            complete.linearise,
            complete.moved,
            theta,
            max_steps=_STEPS,
            exact=equations.floor,
            deadline=deadline,
            progress=progress,
        )
        theta = descent.theta
        record += descent.record
        cost, at = complete.linearise(theta)
        misfit, plain = dataclasses.replace(complete, penalty=None).linearise(theta)
        assert isinstance(at, Dense) and isinstance(plain, Dense)
        better, used = penalty.improved(at.M[0], plain.M[0], float(misfit[0]), rows.n_numbers, theta, complete.unknowns)
        if descent.out_of_time or descent.interrupted:
            break
        if chosen and phase < _PHASES - 1:
            penalty = better
    left = max(rows.n_numbers - used, 1.0)
    score = float(misfit[0]) / left**2 if np.isfinite(misfit[0]) else np.inf
    return Smoothed(theta, float(cost[0]), record, used, score)
