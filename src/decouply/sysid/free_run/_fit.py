"""Normal equations that are made when the first step from them is asked for.

Levenberg-Marquardt on the free-run error of a state-space model, with the initial states of all pieces free.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...solvers.least_squares._derivatives import Parameters
from ...solvers.least_squares._levenberg_marquardt import AbstractLinearisation, Dense, descend
from ._free_parameters import Movable
from ._simulation import Pieces, normal_equations, run


@dataclass(frozen=True, eq=False)
class LinearisedLater(AbstractLinearisation):
    """The normal equations of one trial: trials that are rejected cost nothing but their run."""

    make: Callable[[], Dense]

    @cached_property
    def equations(self) -> Dense:
        return self.make()

    def step(self, damping: Float[ndarray, " B"]) -> tuple[Float[ndarray, "B N"], Float[ndarray, " B"]]:
        return self.equations.step(damping)

    def merged(self, better: ndarray, other: AbstractLinearisation) -> AbstractLinearisation:
        return other if better[0] else self

    def take(self, keep: ndarray) -> AbstractLinearisation:  # noqa: ARG002 (one start is never dropped)
        return self


def rejected() -> tuple[Float[ndarray, " 1"], LinearisedLater]:
    """Cost and equations of a trial that cannot be run: infinite, and never asked for."""

    def make() -> Dense:
        raise AssertionError("no step is made from a trial that was rejected")

    return np.array([np.inf]), LinearisedLater(make)


_FIRST_DAMPING = 1e-3
_FLAT = 1e-10  # of the sum of all variances: directions in which states never moved
_EXACT = 1e-28  # a mean square of errors in units of the spread of the outputs: rounding


@dataclass(frozen=True, eq=False)
class Fitted:
    """Where a descent has ended: one step of the model, the initial state of every piece, and the error."""

    step: Decoupling
    x0: Float[ndarray, "pieces n"]
    rmse: float
    steps: int = 0
    interrupted: bool = False


@dataclass(frozen=True, eq=False)
class Usual:
    """What initial states are like: their mean and covariance, in other records, and the errors that a run has.

    A few outputs do not tell slow states. Those that fit best may then be far from all that ever occur: x0 minimises
    sum e^2 / error^2 + (x0 - mean)^T covariance^-1 (x0 - mean).
    """

    mean: Float[ndarray, " n"]
    covariance: Float[ndarray, "n n"]
    error: float

    @classmethod
    def of(cls, states: Float[ndarray, "T n"], error: float) -> Usual:
        covariance = np.atleast_2d(np.cov(states.T))
        return cls(states.mean(axis=0), covariance + _FLAT * np.trace(covariance) * np.eye(len(covariance)), error)

    @cached_property
    def precision(self) -> Float[ndarray, "n n"]:
        return np.linalg.inv(self.covariance) * self.error**2

    def cost(self, x0: Float[ndarray, "pieces n"], size: int) -> float:
        """What is added to the mean of `size` squared errors."""
        away = x0 - self.mean
        return float(np.einsum("ki,ij,kj->", away, self.precision, away)) / size

    def added(self, equations: Dense, x0: Float[ndarray, "pieces n"], size: int) -> Dense:
        M, g = equations.M.copy(), equations.g.copy()
        n = x0.shape[1]
        for at, x in zip(range(M.shape[1] - x0.size, M.shape[1], n), x0, strict=True):
            M[0, at : at + n, at : at + n] += self.precision / size
            g[0, at : at + n] += self.precision @ (self.mean - x) / size
        return Dense(M, g)


def fit_free_run(
    movable: Movable,
    pieces: Pieces,
    x0: Float[ndarray, "pieces n"],
    *,
    max_steps: int,
    settles_at: float = 1e-3,
    known_x0: bool = False,
    usual: Usual | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Fitted:
    """Move the free numbers and the initial states until the free-run error does not fall any more.

    With `known_x0` the initial states stay as they are given. Others may be drawn towards those that are `usual`.
    """
    P, n = movable.count, x0.shape[1]
    held = np.arange(P, P + x0.size if known_x0 else P)

    def linearise(theta: Parameters) -> tuple[ndarray, AbstractLinearisation]:
        values = theta[0][0]
        if not np.isfinite(values).all():  # the step of a singular matrix
            return rejected()
        step = movable.model(values[:P])
        found = run(step, pieces, values[P:].reshape(-1, n))
        if found is None:
            return rejected()
        cost = found.mean_square
        if usual is not None:
            cost += usual.cost(values[P:].reshape(-1, n), found.residuals.size)

        def equations() -> Dense:
            made = normal_equations(movable, step, pieces, n, found)
            if usual is not None:
                made = usual.added(made, values[P:].reshape(-1, n), found.residuals.size)
            return _holding(made, held)

        return np.array([cost]), LinearisedLater(equations)

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


def _holding(equations: Dense, held: Int[ndarray, " k"]) -> Dense:
    """The same equations for steps that leave some unknowns where they are."""
    if not held.size:
        return equations
    M, g = equations.M.copy(), equations.g.copy()
    size = np.diagonal(M[0]).max()
    M[:, held], M[:, :, held], g[:, held] = 0.0, 0.0, 0.0
    M[:, held, held] = size
    return Dense(M, g)
