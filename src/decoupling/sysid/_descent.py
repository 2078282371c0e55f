"""Levenberg-Marquardt on the free-run error of a state-space model, with the initial states of all pieces free."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..model._decoupling import Decoupling
from ..solvers._chain import Parameters
from ..solvers._levenberg import AbstractLinearisation, descend
from ._later import LinearisedLater, rejected
from ._movable import Movable
from ._records import Pieces, normal_equations, run

_FIRST_DAMPING = 1e-3
_EXACT = 1e-28  # a mean square of errors in units of the spread of the outputs: rounding


@dataclass(frozen=True, eq=False)
class Fitted:
    """Where a descent has ended: one step of the model, the initial state of every piece, and the error."""

    step: Decoupling
    x0: Float[ndarray, "pieces n"]
    rmse: float
    steps: int = 0
    interrupted: bool = False


def fit_free_run(
    movable: Movable,
    pieces: Pieces,
    x0: Float[ndarray, "pieces n"],
    *,
    max_steps: int,
    settles_at: float = 1e-3,
    progress: Callable[[float], None] = lambda _: None,
) -> Fitted:
    """Move the free numbers and the initial states until the free-run error does not fall any more."""
    P, n = movable.count, x0.shape[1]

    def linearise(theta: Parameters) -> tuple[ndarray, AbstractLinearisation]:
        values = theta[0][0]
        if not np.isfinite(values).all():  # the step of a singular matrix
            return rejected()
        step = movable.model(values[:P])
        found = run(step, pieces, values[P:].reshape(-1, n))
        if found is None:
            return rejected()
        return np.array([found.mean_square]), LinearisedLater(lambda: normal_equations(movable, step, pieces, n, found))

    begun = np.concatenate([movable.theta, x0.ravel()])
    if not np.isfinite(linearise([begun[None]])[0][0]):
        return Fitted(movable.start, x0, math.inf)
    descent = descend(
        linearise,
        lambda theta, move: [theta[0] + move],
        [begun[None]],
        max_steps=max_steps,
        exact=_EXACT,
        deadline=math.inf,
        first_damping=_FIRST_DAMPING,
        settles_at=settles_at,
        progress=progress,
    )
    values = descent.theta[0][0]
    return Fitted(
        movable.model(values[:P]),
        values[P:].reshape(-1, n),
        float(np.sqrt(descent.cost[0])),
        descent.steps,
        descent.interrupted,
    )
