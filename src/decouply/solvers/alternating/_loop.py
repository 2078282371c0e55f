"""The loop around the sweeps of an alternating solver: all starts at once, each with its own patience."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._errors import SolverError
from ..._support._time_limit import deadline_after, now
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ..problem._problem import Problem
from ..problem._solution import History, Solution, StartRow, Status
from ..problem._solver import ProgressCallback
from ._bias_correction import with_bias_correction
from ._iterate import Iterate

WhichIterate = Literal["best", "last"]
# (state, iteration) -> the next state and the lam it was made with
Step = Callable[[Iterate, int], tuple[Iterate, float]]
# (state, lam) -> what iterates are compared by, one number per start
Objective = Callable[[Iterate, float], Float[ndarray, " B"]]


def weighted_sum(state: Iterate, lam: float) -> Float[ndarray, " B"]:
    """||J - J_hat||^2 + lam ||F - F_hat||^2, the objective of the coupled problem."""
    return state.residual_J + lam * state.residual_F if lam > 0.0 else state.residual_J


@dataclass(frozen=True)
class Stopping:
    """When a start ends, and with which of its iterates.

    It ends after `max_steps`, or, past `min_steps`, after `patience` without a decrease below the lowest objective. All
    end after the step in which `max_seconds` are over.
    """

    min_steps: int
    max_steps: int
    patience: int
    iterate: WhichIterate = "best"
    max_seconds: float | None = None


@dataclass
class Run:
    """The iterate that is kept of every start and the record of all steps (NaN once a start has ended)."""

    kept: Iterate
    objective: Float[ndarray, " B"]
    kept_lam: Float[ndarray, " B"]
    steps: ndarray
    status: list[Status]
    seconds: Float[ndarray, " B"]
    lam: Float[ndarray, " t"]
    record: Float[ndarray, "t 3 B"]  # objective, residual of J, residual of F


def run_starts(
    problem: Problem,
    start: Iterate,
    step: Step,
    objective_of: Objective,
    first_lam: float,
    stopping: Stopping,
    progress: ProgressCallback,
) -> Run:
    """Iterate until every start has ended; starts that end, or become non-finite, leave the batch.

    A start whose residuals are known (a warm start) counts as an iterate: the best one is not worse than it. The last
    iterate is the last one with finite residuals.
    """
    began = time.perf_counter()
    deadline = deadline_after(stopping.max_seconds)
    B = start.W[0].shape[0]
    active, state = np.arange(B), start
    kept = _blank(start)
    objective, kept_lam, since = np.full(B, np.inf), np.full(B, first_lam), np.zeros(B, dtype=int)
    given = objective_of(start, first_lam)
    rated = np.isfinite(given)
    _store(kept, np.flatnonzero(rated), start, rated)
    objective[rated] = given[rated]
    lowest = objective.copy()
    steps, seconds = np.zeros(B, dtype=int), np.zeros(B)
    status = [Status.OUT_OF_STEPS] * B
    rounding = problem.prepared.rounding_floor
    lams: list[float] = []
    record: list[ndarray] = []
    with np.errstate(all="ignore"):  # a start that overflows is found below, by its objective
        for t in range(1, stopping.max_steps + 1):
            state, lam = step(state, t)
            value = objective_of(state, lam)
            lams.append(lam)
            row = np.full((3, B), np.nan)
            row[:, active] = value, state.residual_J, state.residual_F
            record.append(row)
            finite = np.isfinite(value)
            improved = finite & (value < lowest[active])
            lowest[active[improved]] = value[improved]
            since[active] = np.where(improved, 0, since[active] + 1)
            stored = finite if stopping.iterate == "last" else improved
            _store(kept, active[stored], state, stored)
            objective[active[stored]], kept_lam[active[stored]] = value[stored], lam
            steps[active] = t
            seconds[active] = time.perf_counter() - began
            exact = state.residual_J <= rounding * problem.size_J
            if lam > 0.0:
                exact &= state.residual_F <= rounding * problem.size_F
            stalled = (since[active] >= stopping.patience) & (t >= stopping.min_steps)
            for mask, reason in ((stalled, Status.STALLED), (exact, Status.EXACT), (~finite, Status.NONFINITE)):
                for index in active[mask]:
                    status[index] = reason
            keep = finite & ~exact & ~stalled
            lowest_of_all = float(np.min(lowest))
            try:
                progress(done=t, total=stopping.max_steps, objective=lowest_of_all, iterate=state, starts=active)
                ended = Status.OUT_OF_TIME if now() > deadline else None
            except KeyboardInterrupt:
                ended = Status.INTERRUPTED
            if ended is not None:
                for index in active[keep]:
                    status[index] = ended
                break
            if not keep.all():
                active, state = active[keep], state.take(keep)
            if active.size == 0:
                break
    return Run(kept, objective, kept_lam, steps, status, seconds, np.array(lams), np.array(record))


def solution_of(problem: Problem, run: Run, *, uses_values: bool = True, corrected: bool = False) -> Solution:
    """The best start of a run as a model, with the table of all starts.

    Starts that became non-finite are passed over unless all did; then the iterate kept before that is the answer.
    With `corrected` the constants of methods that see Jacobians only are found afterwards.
    """
    good = np.array([s is not Status.NONFINITE for s in run.status]) & np.isfinite(run.objective)
    if not good.any():
        good = np.isfinite(run.objective)
    if not good.any():
        raise SolverError(
            f"All {len(good)} starts became NaN or infinite. Scale inputs and outputs to about [-1, 1], lower the "
            "degrees, or try other starts: another `rng`, more `n_starts`, or `start=dc.Normal()`."
        )
    winner = int(np.argmin(np.where(good, run.objective, np.inf)))
    size_J = problem.size_J or 1.0
    size_F = (problem.size_F or 1.0) if uses_values and problem.F is not None else np.nan
    models = KeptModels(problem.without_arrays(), run.kept, corrected=corrected)
    rows = tuple(
        StartRow(
            start=b,
            lam=float(run.kept_lam[b]),
            objective=float(run.objective[b]),
            error_jacobian=float(run.kept.residual_J[b] / size_J),
            error_values=float(run.kept.residual_F[b] / size_F),
            steps=int(run.steps[b]),
            status=run.status[b],
            seconds=float(run.seconds[b]),
            build=partial(models.canonical, b),
        )
        for b in range(len(good))
    )
    n = int(run.steps[winner])
    record = run.record[:n, :, winner]
    history = History(run.lam[:n], record[:, 0], record[:, 1] / size_J, record[:, 2] / size_F)
    model, notes = models.model(winner)
    return Solution(model, run.status[winner], float(run.kept_lam[winner]), history, rows, notes=notes)


class KeptModels:
    """The models of all starts of a run, made from its small factors: nothing with a sample axis is kept for them.

    With `corrected` the mean of what they leave of the values is added (see `_bias`).
    """

    def __init__(self, problem: Problem, kept: Iterate, *, corrected: bool) -> None:
        self._problem, self._corrected = problem, corrected
        self._W, self._C, self._domain, self._A = kept.W, kept.C, kept.domain, kept.A

    def model(self, b: int) -> tuple[Decoupling, tuple[str, ...]]:
        """The model of start b as one of the given data, and what there is to say about it."""
        functions = [
            Functions(layer.bases, C[b], domain[b])
            for layer, C, domain in zip(self._problem.layers, self._C, self._domain, strict=True)
        ]
        linear = None if self._A is None else self._A[b]
        model = self._problem.model([W[b] for W in self._W], functions, linear)
        return with_bias_correction(self._problem, model) if self._corrected else (model, ())

    def canonical(self, b: int) -> Decoupling:
        """The model of start b in the form that results have."""
        return self.model(b)[0].canonical(self._problem.samples.X)


def _blank(state: Iterate) -> Iterate:
    return Iterate.unrated(
        [np.full_like(a, np.nan) for a in state.W],
        [np.full_like(a, np.nan) for a in state.domain],
        [np.full_like(a, np.nan) for a in state.C],
        [np.full_like(a, np.nan) for a in state.G],
        np.full_like(state.R, np.nan),
        None if state.A is None else np.full_like(state.A, np.nan),
    )


def _store(kept: Iterate, rows: ndarray, state: Iterate, mask: ndarray) -> None:
    for old, new in zip(
        (*kept.W, *kept.domain, *kept.C, *kept.G), (*state.W, *state.domain, *state.C, *state.G), strict=True
    ):
        old[rows] = new[mask]
    if kept.A is not None and state.A is not None:
        kept.A[rows] = state.A[mask]
    kept.R[rows], kept.residual_J[rows], kept.residual_F[rows] = (
        state.R[mask],
        state.residual_J[mask],
        state.residual_F[mask],
    )
