"""The two-stage choice of lam: raise it step by step while a metric of the task does not get worse."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from .._checks import as_count, as_number
from .._decoupling import Decoupling
from .._errors import InputError, SolverError
from .._metrics import relative_rmse
from .._samples import Samples
from ._abstract import AbstractSolver, History, LamRow, Metric, ProgressCallback, Solution
from ._problem import Problem


@dataclass(frozen=True)
class TwoStage(AbstractSolver):
    """Run `solver` with lam, beta lam, beta^2 lam, ... while `metric` does not get worse.

    Parameters
    ----------
    solver
        The inner solver; every value of lam starts it afresh with start values of its own.
    lam
        First weight of the value term.
    beta
        Factor from one weight to the next.
    metric
        Callable on a `Decoupling`, lower is better. By default the sum of the relative errors e_i on the validation
        samples, or on the fitted samples where none are given.
    max_steps
        At most so many values of lam are tried.
    """

    solver: AbstractSolver
    _: dataclasses.KW_ONLY
    lam: float = 1e-6
    beta: float = 100.0
    metric: Metric | None = None
    max_steps: int = 15

    def __post_init__(self) -> None:
        if not isinstance(self.solver, AbstractSolver) or isinstance(self.solver, TwoStage):
            raise InputError(f"`solver` must be a solver such as dc.Constr(). Got {self.solver!r}.")
        as_number("lam", self.lam, above=True)
        as_number("beta", self.beta, least=1.0, above=True)
        as_count("max_steps", self.max_steps)
        if self.metric is not None and not callable(self.metric):
            raise InputError(f"`metric` must be callable on a Decoupling. Got {self.metric!r}.")

    def check(self, problem: Problem) -> None:
        self.solver.check(problem)
        if problem.F is None:
            raise InputError(
                f"`samples` must hold values F for TwoStage: lam is their weight. Got Jacobians only: use "
                f"{type(self.solver).__name__}() itself."
            )

    def with_lam(self, lam: float) -> TwoStage:
        return dataclasses.replace(self, lam=lam)

    def solve(
        self,
        problem: Problem,
        *,
        n_starts: int,
        rng: np.random.Generator,
        progress: ProgressCallback,
    ) -> Solution:
        metric = self.metric or _sum_of_errors(problem.validation or problem.samples)
        lam, best, best_metric = self.lam, None, math.inf
        tried: list[tuple[Solution, float]] = []
        for child in rng.spawn(self.max_steps):

            def stage(lam: float = lam, **values: object) -> None:
                progress(stage=f"lam = {lam:.0e}", **values)

            try:
                solution = self.solver.with_lam(lam).solve(problem, n_starts=n_starts, rng=child, progress=stage)
            except SolverError:
                if best is None:
                    raise
                break
            value = float(metric(solution.decoupling))
            tried.append((solution, value))
            if not value <= best_metric:  # also true when the metric is NaN
                break
            best, best_metric = solution, value
            lam *= self.beta
        if best is None:
            raise SolverError(
                f"`metric` was not a number for the first decoupling (lam = {self.lam:g}): check what it returns."
            )
        return Solution(
            best.decoupling,
            best.status,
            best.lam,
            _join([s.history for s, _ in tried]),
            tuple(row for s, _ in tried for row in s.starts),
            tuple(_row(s, value, s is best) for s, value in tried),
            best.notes,
        )


def _sum_of_errors(samples: Samples) -> Metric:
    if samples.F is None:
        raise InputError("`validation` must hold values F: the default metric is the sum of the errors e_i on them.")

    def metric(model: Decoupling) -> float:
        return float(np.sum(relative_rmse(samples.F, model(samples.X))))

    return metric


def _join(parts: list[History]) -> History:
    fields = (f.name for f in dataclasses.fields(History))
    return History(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields))


def _row(solution: Solution, metric: float, chosen: bool) -> LamRow:
    best = min(solution.starts, key=lambda row: row.objective if math.isfinite(row.objective) else math.inf)
    return LamRow(
        solution.lam, metric, best.objective, best.error_jacobian, best.error_values, len(solution.history), chosen
    )
