"""The loop around the sweeps of an alternating solver: all starts at once, each with its own patience."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._errors import SolverError
from .._status import Status
from ._abstract import History, ProgressCallback, Solution, StartRow
from ._iterate import Iterate
from ._problem import Problem

# Residuals of this share of the data are rounding.
_ROUNDING = 1e-26

# (state, iteration) -> the next state, the lam it was made with, and the objective that iterates are compared by
Step = Callable[[Iterate, int], tuple[Iterate, float, Float[ndarray, " B"]]]


@dataclass(frozen=True)
class Stopping:
    """When a start ends: after `max_iterations`, or, past `min_iterations`, after `patience` without a decrease."""

    min_iterations: int
    max_iterations: int
    patience: int


@dataclass
class Run:
    """The best iterate of every start and the record of all iterations (NaN once a start has ended)."""

    best: Iterate
    objective: Float[ndarray, " B"]
    iterations: ndarray
    status: list[Status]
    seconds: Float[ndarray, " B"]
    lam: Float[ndarray, " t"]
    record: Float[ndarray, "t 3 B"]  # objective, residual of J, residual of F


def run_starts(problem: Problem, start: Iterate, step: Step, stopping: Stopping, progress: ProgressCallback) -> Run:
    """Iterate until every start has ended; starts that end, or become non-finite, leave the batch."""
    began = time.perf_counter()
    B = start.W[0].shape[0]
    active, state = np.arange(B), start
    best = _blank(start)
    objective, since = np.full(B, np.inf), np.zeros(B, dtype=int)
    iterations, seconds = np.zeros(B, dtype=int), np.zeros(B)
    status = [Status.MAX_ITERATIONS] * B
    lams: list[float] = []
    record: list[ndarray] = []
    with np.errstate(all="ignore"):  # a start that overflows is found below, by its objective
        for t in range(1, stopping.max_iterations + 1):
            state, lam, value = step(state, t)
            lams.append(lam)
            row = np.full((3, B), np.nan)
            row[:, active] = value, state.residual_J, state.residual_F
            record.append(row)
            finite = np.isfinite(value)
            improved = finite & (value < objective[active])
            _store(best, active[improved], state, improved)
            objective[active[improved]] = value[improved]
            since[active] = np.where(improved, 0, since[active] + 1)
            iterations[active] = t
            seconds[active] = time.perf_counter() - began
            exact = state.residual_J <= _ROUNDING * problem.size_J
            if lam > 0.0:
                exact &= state.residual_F <= _ROUNDING * problem.size_F
            stalled = (since[active] >= stopping.patience) & (t >= stopping.min_iterations)
            for mask, reason in ((stalled, Status.STALLED), (exact, Status.EXACT), (~finite, Status.NONFINITE)):
                for index in active[mask]:
                    status[index] = reason
            keep = finite & ~exact & ~stalled
            if not keep.all():
                active, state = active[keep], state.take(keep)
            progress(done=t, total=stopping.max_iterations, objective=float(np.min(objective)))
            if active.size == 0:
                break
    return Run(best, objective, iterations, status, seconds, np.array(lams), np.array(record))


def solution_of(problem: Problem, run: Run, lam: float, notes: tuple[str, ...] = ()) -> Solution:
    """The best start of a run as a model, with the table of all starts."""
    good = np.array([s is not Status.NONFINITE for s in run.status]) & np.isfinite(run.objective)
    if not good.any():
        raise SolverError(
            f"All {len(good)} starts became NaN or infinite. Scale the inputs to about [-1, 1], lower the degrees, or "
            "try other starts: another `rng`, more `n_starts`, or `start=dc.Normal()`."
        )
    winner = int(np.argmin(np.where(good, run.objective, np.inf)))
    size_J, size_F = problem.size_J or 1.0, problem.size_F or 1.0
    rows = tuple(
        StartRow(
            start=b,
            lam=lam,
            objective=float(run.objective[b]),
            error_jacobian=float(run.best.residual_J[b] / size_J),
            error_values=float(run.best.residual_F[b] / size_F),
            iterations=int(run.iterations[b]),
            status=run.status[b],
            seconds=float(run.seconds[b]),
        )
        for b in range(len(good))
    )
    n = int(run.iterations[winner])
    record = run.record[:n, :, winner]
    history = History(run.lam[:n], record[:, 0], record[:, 1] / size_J, record[:, 2] / size_F)
    best = run.best
    inner = [W[winner] / scale[winner][:, None] for W, scale in zip(best.W, best.scale, strict=False)]
    model = problem.model([*inner, best.W[-1][winner]], [C[winner] for C in best.C])
    return Solution(model, run.status[winner], lam, history, rows, notes=notes)


def _blank(state: Iterate) -> Iterate:
    return Iterate.unrated(
        [np.full_like(a, np.nan) for a in state.W],
        [np.full_like(a, np.nan) for a in state.scale],
        [np.full_like(a, np.nan) for a in state.C],
        [np.full_like(a, np.nan) for a in state.G],
        np.full_like(state.R, np.nan),
    )


def _store(best: Iterate, rows: ndarray, state: Iterate, mask: ndarray) -> None:
    for old, new in zip(
        (*best.W, *best.scale, *best.C, *best.G), (*state.W, *state.scale, *state.C, *state.G), strict=True
    ):
        old[rows] = new[mask]
    best.R[rows], best.residual_J[rows], best.residual_F[rows] = (
        state.R[mask],
        state.residual_J[mask],
        state.residual_F[mask],
    )
