"""Algorithm 6 of the paper, two stages: raise lam step by step while a loss of the task does not get worse."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .._support._arguments import as_count, as_number, settle_numbers
from .._support._errors import InputError, SolverError, short_repr
from .._support._interrupts import INTERRUPTED
from .._support._time_limit import OUT_OF_TIME, deadline_after, now
from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from .problem._problem import Problem
from .problem._solution import History, LamRow, Solution, Status, when_late
from .problem._solver import (
    AbstractSolver,
    Feature,
    HasLam,
    Loss,
    ProgressCallback,
    check_problem,
    fixed_parts,
    given_start,
    with_start,
    with_time_limit,
)

_LEAST_SECONDS = 1e-3


@dataclass(frozen=True)
class TwoStage(AbstractSolver):
    """Run `solver` with larger and larger weights of the values, as long as `loss` does not get worse.

    The weights are lam, beta lam, beta^2 lam, and so on.

    Parameters
    ----------
    solver : AbstractSolver
        The inner solver; every value of lam starts it afresh with separate start values. Its own lam is not used.
    lam : float
        First weight of the value term.
    beta : float
        Factor from one weight to the next.
    loss : Loss, optional
        Callable on a `Decoupling`, lower is better. By default the sum of the relative errors e_i on the validation
        samples, or on the fitted samples where none are given.
    max_runs : int
        At most this many values of lam are tried.
    max_seconds : float, optional
        All values of lam together take about this many seconds; None is no limit but those of `solver` for each.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    >>> solver = dc.TwoStage(dc.Proj(), max_runs=2)
    >>> result = dc.decouple(samples, ranks=2, degrees=3, solver=solver, n_starts=2)
    >>> len(result.path)
    2
    """

    solver: AbstractSolver
    _: dataclasses.KW_ONLY
    lam: float = 1e-6
    beta: float = 100.0
    loss: Loss | None = None
    max_runs: int = 15
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.solver, AbstractSolver) and isinstance(self.solver, HasLam)):
            raise InputError(
                "`solver` must be a solver with a weight lam of the values, such as dc.Constr() or dc.VarPro(). "
                f"Got {short_repr(self.solver)}."
            )
        as_number("lam", self.lam, above=True)
        as_number("beta", self.beta, least=1.0, above=True)
        settle_numbers(self, "lam", "beta")
        as_count("max_runs", self.max_runs)
        if self.max_seconds is not None:
            as_number("max_seconds", self.max_seconds, above=True)
        if self.loss is not None and not callable(self.loss):
            raise InputError(f"`loss` must be callable on a Decoupling. Got {short_repr(self.loss)}.")

    @property
    def default_n_starts(self) -> int:
        return self.solver.default_n_starts

    @property
    def supports(self) -> frozenset[Feature]:
        """What the inner solver does, with values: lam is their weight. Every lam has separate starts."""
        return self.solver.supports - {"Jacobians only", "many starts"}

    def check(self, problem: Problem) -> None:
        check_problem(self.solver, problem)

    @property
    def fixed(self) -> Mapping[str, object]:
        return fixed_parts(self.solver)

    @property
    def given_start(self) -> Decoupling | None:
        return given_start(self.solver)

    def with_start(self, model: Decoupling, *, max_steps: int | None = None) -> TwoStage | None:
        started = with_start(self.solver, model, max_steps=max_steps)
        return None if started is None else dataclasses.replace(self, solver=started)

    def with_loss(self, loss: Loss) -> TwoStage:
        return self if self.loss is not None else dataclasses.replace(self, loss=loss)

    def with_time_limit(self, seconds: float) -> TwoStage:
        least = seconds if self.max_seconds is None else min(seconds, self.max_seconds)
        return dataclasses.replace(self, max_seconds=least)

    def solve(
        self, problem: Problem, *, n_starts: int, rng: np.random.Generator, progress: ProgressCallback
    ) -> Solution:
        assert isinstance(self.solver, HasLam)  # checked when this was made
        loss = self.loss or _sum_of_errors(problem.validation or problem.samples)
        lam, best, best_loss = self.lam, None, math.inf
        tried: list[tuple[Solution, float]] = []
        deadline = deadline_after(self.max_seconds)
        # Line 7 of Algorithm 6: while the metric of the last decoupling is not worse than the one before.
        while len(tried) < self.max_runs and (best is None or now() < deadline):

            def stage(lam: float = lam, stage: str = "", **values: object) -> None:
                progress(stage=f"lam = {lam:.0e}" + (f", {stage}" if stage else ""), **values)

            # Line 8: decoupling(t + 1) = get_decoupling(..., lam), from start values of its own.
            solver = self.solver.with_lam(lam)
            if math.isfinite(deadline):  # the first lam has some time in any case
                solver = with_time_limit(solver, max(deadline - now(), _LEAST_SECONDS))
            child = np.random.default_rng(rng.integers(2**63))
            try:
                solution = solver.solve(problem, n_starts=n_starts, rng=child, progress=stage)
            except SolverError:
                if best is None:
                    raise
                break
            # Lines 9 to 11: the next lam, and the metric of this decoupling.
            value = loss(solution.decoupling)
            try:
                value = float(value)
            except (TypeError, ValueError) as error:
                raise InputError(f"`loss` must return a number. Got {short_repr(value)}.") from error
            tried.append((solution, value))
            lam *= self.beta
            if not math.isfinite(value) and best is None:
                continue  # nothing to compare with yet
            if not value <= best_loss:
                break
            best, best_loss = solution, value
            if _was_interrupted(solution):
                break
            if self.loss is None and value == 0.0:  # errors cannot fall below 0; what the user counts may
                break
        if best is None:
            raise SolverError(
                f"`loss` was not a finite number for any of {len(tried)} decouplings: check what it returns."
            )
        notes, status = best.notes, best.status
        if _was_interrupted(tried[-1][0]):
            notes, status = (*notes, INTERRUPTED), Status.INTERRUPTED
        elif now() >= deadline:
            notes, status = (*notes, OUT_OF_TIME), when_late(status)
        if len(tried) == self.max_runs and best is tried[-1][0]:
            notes = (*notes, f"The loss never got worse: lam was raised {self.max_runs} times, up to `max_runs`.")
        path = []
        for s, value in tried:
            row = min(s.starts, key=lambda row: row.objective if math.isfinite(row.objective) else math.inf)
            errors = row.objective, row.error_jacobian, row.error_values
            path.append(LamRow(s.lam, value, *errors, len(s.history), s is best))
        columns = (f.name for f in dataclasses.fields(History))
        history = History(*(np.concatenate([getattr(s.history, name) for s, _ in tried]) for name in columns))
        return dataclasses.replace(
            best,
            status=status,
            history=history,
            starts=tuple(row for s, _ in tried for row in s.starts),
            path=tuple(path),
            notes=notes,
        )


def _was_interrupted(solution: Solution) -> bool:
    return any(row.status is Status.INTERRUPTED for row in solution.starts)


def _sum_of_errors(samples: Samples) -> Loss:
    """Sum of the e_i. An output that does not vary is compared with its size, since it has no spread."""
    F = samples.F
    if F is None:
        raise InputError("`validation` must hold values F: the default loss is the sum of the errors e_i on them.")
    size, spread = np.linalg.norm(F, axis=0), np.linalg.norm(F - F.mean(axis=0), axis=0)
    unit = np.where(spread > 1e-10 * size, spread, np.where(size > 0.0, size, 1.0))

    def loss(model: Decoupling) -> float:
        with np.errstate(all="ignore"):  # a model may overflow away from the samples it was fitted to
            return float(np.sum(100.0 * np.linalg.norm(F - model(samples.X), axis=0) / unit))

    return loss
