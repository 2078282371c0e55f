"""The loop around the sweeps of an alternating solver: all starts at once, each with its own patience."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._errors import SolverError
from ..model._functions import Functions
from ._abstract import History, ProgressCallback, Solution, StartRow
from ._exact import exact_below
from ._iterate import Iterate
from ._problem import Problem
from ._status import Status

# (state, iteration) -> the next state and the lam it was made with
Step = Callable[[Iterate, int], tuple[Iterate, float]]
# (state, lam) -> what iterates are compared by, one number per start
Objective = Callable[[Iterate, float], Float[ndarray, " B"]]


def weighted_sum(state: Iterate, lam: float) -> Float[ndarray, " B"]:
    """||J - J_hat||^2 + lam ||F - F_hat||^2, the objective of the coupled problem."""
    return state.residual_J + lam * state.residual_F if lam > 0.0 else state.residual_J


@dataclass(frozen=True)
class Stopping:
    """When a start ends: after `max_steps`, or, past `min_steps`, after `patience` without a decrease."""

    min_steps: int
    max_steps: int
    patience: int


@dataclass
class Run:
    """The best iterate of every start and the record of all steps (NaN once a start has ended)."""

    best: Iterate
    objective: Float[ndarray, " B"]
    best_lam: Float[ndarray, " B"]
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

    A start whose residuals are known (a warm start) counts as an iterate: what is returned is not worse than it.
    """
    began = time.perf_counter()
    B = start.W[0].shape[0]
    active, state = np.arange(B), start
    best = _blank(start)
    objective, best_lam, since = np.full(B, np.inf), np.full(B, first_lam), np.zeros(B, dtype=int)
    given = objective_of(start, first_lam)
    rated = np.isfinite(given)
    _store(best, np.flatnonzero(rated), start, rated)
    objective[rated] = given[rated]
    steps, seconds = np.zeros(B, dtype=int), np.zeros(B)
    status = [Status.OUT_OF_STEPS] * B
    rounding = exact_below(problem.samples)
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
            improved = finite & (value < objective[active])
            _store(best, active[improved], state, improved)
            objective[active[improved]], best_lam[active[improved]] = value[improved], lam
            since[active] = np.where(improved, 0, since[active] + 1)
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
            if not keep.all():
                active, state = active[keep], state.take(keep)
            try:
                progress(done=t, total=stopping.max_steps, objective=float(np.min(objective)))
            except KeyboardInterrupt:
                for index in active:
                    status[index] = Status.INTERRUPTED
                break
            if active.size == 0:
                break
    return Run(best, objective, best_lam, steps, status, seconds, np.array(lams), np.array(record))


def solution_of(problem: Problem, run: Run, *, uses_values: bool = True) -> Solution:
    """The best start of a run as a model, with the table of all starts.

    Starts that became non-finite are passed over unless all did; then the best iterate before that is the answer.
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
    rows = tuple(
        StartRow(
            start=b,
            lam=float(run.best_lam[b]),
            objective=float(run.objective[b]),
            error_jacobian=float(run.best.residual_J[b] / size_J),
            error_values=float(run.best.residual_F[b] / size_F),
            steps=int(run.steps[b]),
            status=run.status[b],
            seconds=float(run.seconds[b]),
        )
        for b in range(len(good))
    )
    n = int(run.steps[winner])
    record = run.record[:n, :, winner]
    history = History(run.lam[:n], record[:, 0], record[:, 1] / size_J, record[:, 2] / size_F)
    best = run.best
    functions = [
        Functions(layer.bases, C[winner], domain[winner])
        for layer, C, domain in zip(problem.layers, best.C, best.domain, strict=True)
    ]
    linear = None if best.A is None else best.A[winner]
    model = problem.model([W[winner] for W in best.W], functions, linear)
    return Solution(model, run.status[winner], float(run.best_lam[winner]), history, rows)


def _blank(state: Iterate) -> Iterate:
    return Iterate.unrated(
        [np.full_like(a, np.nan) for a in state.W],
        [np.full_like(a, np.nan) for a in state.domain],
        [np.full_like(a, np.nan) for a in state.C],
        [np.full_like(a, np.nan) for a in state.G],
        np.full_like(state.R, np.nan),
        None if state.A is None else np.full_like(state.A, np.nan),
    )


def _store(best: Iterate, rows: ndarray, state: Iterate, mask: ndarray) -> None:
    for old, new in zip(
        (*best.W, *best.domain, *best.C, *best.G), (*state.W, *state.domain, *state.C, *state.G), strict=True
    ):
        old[rows] = new[mask]
    if best.A is not None and state.A is not None:
        best.A[rows] = state.A[mask]
    best.R[rows], best.residual_J[rows], best.residual_F[rows] = (
        state.R[mask],
        state.residual_J[mask],
        state.residual_F[mask],
    )
