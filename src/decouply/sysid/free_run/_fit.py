r"""Levenberg-Marquardt on the simulation error of a state-space model, with the initial states of all records free."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...solvers.least_squares._levenberg_marquardt import AbstractLinearisation, Dense, DescentOptions, descend
from ..signals._records import Range, RecordBatch
from ._recursion import Recursion
from ._simulation import SimulationResult, normal_equations, simulate
from ._step import FreeParameters, StepArrays, spectral_radius

MEAN_SQUARE_AT_ROUNDING = 1e-28  # of errors in units of the training standard deviation
_FIRST_DAMPING = 1e-3
_STABILITY_MARGIN = 1e-4  # of poles from the unit circle: a response that dies out within 10 000 samples
_LEAST_VARIANCE = 1e-10  # of the sum of all variances: states that never moved may still move a little
_INITIAL_STATE_STEPS, _INITIAL_STATE_SETTLES_AT = 30, 1e-6  # a nearly linear problem of few unknowns


@dataclass(frozen=True, eq=False)
class LazyNormalEquations(AbstractLinearisation):
    """The normal equations of one trial, made when the first step from them is asked for: rejected trials never are."""

    make: Callable[[], Dense] | None

    @cached_property
    def equations(self) -> Dense:
        assert self.make is not None
        return self.make()

    def step(self, damping: Float[ndarray, " B"]) -> tuple[Float[ndarray, "B N"], Float[ndarray, " B"]]:
        return self.equations.step(damping)

    def replace_where(self, better: ndarray, other: AbstractLinearisation) -> AbstractLinearisation:
        return other if better[0] else self

    def take(self, keep: ndarray) -> AbstractLinearisation:  # noqa: ARG002 (one start is never dropped)
        return self


@dataclass(frozen=True, eq=False)
class FitResult:
    """The point where a descent has ended: one step of the model, the initial state of every record, and the error."""

    step: StepArrays
    x0: Float[ndarray, "records n"]
    rmse: float
    steps: int = 0
    interrupted: bool = False


@dataclass(frozen=True, eq=False)
class InitialStatePrior:
    """What initial states are like: their mean and covariance in other records, and the errors of a run.

    A few outputs do not determine slow states. Those that fit best may then be far from all that ever occur: x0
    minimises sum e^2 / error^2 + (x0 - mean)^T covariance^-1 (x0 - mean).
    """

    mean: Float[ndarray, " n"]
    covariance: Float[ndarray, "n n"]
    error: float

    @classmethod
    def of(cls, states: Float[ndarray, "T n"], error: float) -> InitialStatePrior:
        covariance = np.atleast_2d(np.cov(states.T))
        least = _LEAST_VARIANCE * np.trace(covariance)
        return cls(states.mean(axis=0), covariance + least * np.eye(len(covariance)), error)

    @cached_property
    def precision(self) -> Float[ndarray, "n n"]:
        return np.linalg.inv(self.covariance) * self.error**2

    def cost(self, x0: Float[ndarray, "records n"], size: int) -> float:
        """What is added to the mean of `size` squared errors."""
        away = x0 - self.mean
        return float(np.einsum("ki,ij,kj->", away, self.precision, away)) / size

    def added_to(self, equations: Dense, x0: Float[ndarray, "records n"], size: int) -> Dense:
        """The normal equations of the sum of both."""
        M, g = equations.M.copy(), equations.g.copy()
        n = x0.shape[1]
        for at, x in zip(range(M.shape[1] - x0.size, M.shape[1], n), x0, strict=True):
            M[0, at : at + n, at : at + n] += self.precision / size
            g[0, at : at + n] += self.precision @ (self.mean - x) / size
        return Dense(M, g)


@dataclass(frozen=True, eq=False)
class FreeRunObjective:
    """The mean squared error over all records as a function of the free parameters and the initial states.

    Attributes
    ----------
    x0
        Initial states to begin with, which stay as they are with `known_x0`.
    prior
        What draws initial states towards those that occur.
    measured_states
        States at all times, for errors one step ahead; without them the model runs freely.
    limits
        A run whose outputs leave these is rejected.
    stable
        A model whose linear part has a pole on the unit circle or outside is rejected.
    """

    parameters: FreeParameters
    batch: RecordBatch
    x0: Float[ndarray, "records n"]
    known_x0: bool = False
    prior: InitialStatePrior | None = None
    measured_states: Float[ndarray, "T n"] | None = None
    limits: Range | None = None
    stable: bool = False

    @cached_property
    def recursion(self) -> Recursion:
        return Recursion(self.parameters.start, self.x0.shape[1], self.parameters.free)

    @property
    def start(self) -> Float[ndarray, " N"]:
        """All unknowns of the model to begin with."""
        theta = self.parameters.theta
        return theta if self.known_x0 else np.concatenate([theta, self.x0.ravel()])

    def model(self, unknowns: Float[ndarray, " N"]) -> tuple[StepArrays, Float[ndarray, "records n"]]:
        """The step and the initial states of a trial."""
        P = self.parameters.count
        return self.parameters.step(unknowns[:P]), self.x0 if self.known_x0 else unknowns[P:].reshape(self.x0.shape)

    def simulate(self, step: StepArrays, x0: Float[ndarray, "records n"]) -> SimulationResult | None:
        """What a model does on the records; None if it is not allowed or leaves the limits."""
        if self.stable and spectral_radius(step, x0.shape[1]) >= 1.0 - _STABILITY_MARGIN:
            return None
        if self.measured_states is not None:
            return SimulationResult.at(step, self.batch, self.measured_states)
        result = simulate(step, self.batch, x0, self.recursion)
        if result is not None and self.limits is not None:
            inside = (result.y >= self.limits.low) & (result.y <= self.limits.high)
            return result if inside.all() else None
        return result

    def rmse(self, unknowns: Float[ndarray, " N"]) -> float:
        """Root mean square error; infinite if a run leaves the limits."""
        result = self.simulate(*self.model(unknowns))
        return math.inf if result is None else math.sqrt(result.mean_square)

    def linearise(self, theta: Float[ndarray, "1 N"]) -> tuple[Float[ndarray, " 1"], LazyNormalEquations]:
        """The cost of one trial, and its normal equations."""
        step, x0 = self.model(theta[0])
        # The step of a singular matrix is not finite. Of a trial that cannot be run no equations are asked for.
        result = self.simulate(step, x0) if np.isfinite(theta).all() else None
        if result is None:
            return np.array([np.inf]), LazyNormalEquations(None)
        size, cost = result.residuals.size, result.mean_square
        if self.prior is not None:
            cost += self.prior.cost(x0, size)

        def equations() -> Dense:
            recursive = self.measured_states is None
            made = normal_equations(
                self.parameters, step, self.batch, result, known_x0=self.known_x0, recursive=recursive
            )
            return made if self.prior is None else self.prior.added_to(made, x0, size)

        return np.array([cost]), LazyNormalEquations(equations)


def fit_free_run(
    objective: FreeRunObjective,
    *,
    max_steps: int,
    settles_at: float = 1e-3,
    progress: Callable[[float], None] = lambda _: None,
) -> FitResult:
    """Move the free parameters and the initial states until the simulation error does not fall any more."""
    start = objective.start[None]
    if not np.isfinite(objective.linearise(start)[0][0]):
        return FitResult(objective.parameters.start, objective.x0, math.inf)
    descent = descend(
        objective.linearise,
        lambda theta, move: theta + move,
        start,
        DescentOptions(
            max_steps=max_steps, exact=MEAN_SQUARE_AT_ROUNDING, first_damping=_FIRST_DAMPING, settles_at=settles_at
        ),
        deadline=math.inf,
        progress=progress,
    )
    step, x0 = objective.model(descent.theta[0])
    return FitResult(step, x0, float(np.sqrt(descent.cost[0])), descent.steps, descent.interrupted)


def fit_initial_states(
    step: StepArrays,
    n: int,
    batch: RecordBatch,
    x0: Float[ndarray, "records n"] | None = None,
    *,
    prior: InitialStatePrior | None = None,
) -> FitResult:
    """The initial states that fit the outputs of all records best."""
    begin = np.zeros((len(batch), n)) if x0 is None else x0
    objective = FreeRunObjective(FreeParameters(step, {}), batch, begin, prior=prior)
    return fit_free_run(objective, max_steps=_INITIAL_STATE_STEPS, settles_at=_INITIAL_STATE_SETTLES_AT)
