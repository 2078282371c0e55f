"""Any solver on samples of any size: all of them at once if it can, otherwise a subsample first.

A subsample that was too small shows in the misfit of its answer on all samples: per number it is far larger than on the
subsample. If steps on a larger subsample do not mend it, the subsample grows fourfold, and the search begins again at
that answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy import ndarray

from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...model._units import Units
from ...samples._portions import Portion
from ...samples._samples import Samples
from ._prepared_samples import PreparedSamples
from ._problem import Problem
from ._solution import Solution, Status
from ._solver import AbstractSolver, ProgressCallback, check_problem, out_of_core, with_start
from ._weighted_rows import RowScaling, weighted_squares

_RATIO_OF_FAR_MISFIT = 1.5  # times the misfit that the pilot leads to expect: the pilot was too small
_EXACT_MISFIT = 1e-10  # relative squared errors below this are small enough on the pilot and on all samples
_GROWTH = 4
_TELLING = 4  # numbers for every parameter from which the misfit on a pilot tells what to expect on more samples


def prepare_solve(
    solver: AbstractSolver,
    samples: PreparedSamples,
    layers: tuple[LayerBasis, ...],
    validation: Samples | None,
    *,
    linear: bool,
) -> Callable[..., Solution]:
    """A function of n_starts, rng and progress that solves the problem of all samples; checked as far as possible."""
    problem = Problem(samples, layers, validation, linear)
    size = out_of_core(solver).pilot_size(samples.samples, layers, linear=linear)
    if size is None:
        check_problem(solver, problem)
        return partial(solver.solve, problem)
    return partial(_solve_by_pilot, solver, problem, size)


def _solve_by_pilot(
    solver: AbstractSolver,
    whole: Problem,
    size: int,
    *,
    n_starts: int,
    rng: np.random.Generator,
    progress: ProgressCallback,
) -> Solution:
    """A subsample, as large as it must be, and then all samples."""
    samples, n_free = whole.samples, whole.n_free
    size = min(size, samples.n_samples)
    notes: list[str] = []
    search = solver
    while True:
        large = out_of_core(search)
        pilot = large.draw_pilot(whole, size, rng)
        problem = whole.of_pilot(pilot)
        check_problem(search, problem)
        found = large.solve_pilot(problem, n_starts=n_starts, rng=rng, progress=_with_stage(progress, len(pilot)))
        grown = min(_GROWTH * size, samples.n_samples)
        stopped = found.status is Status.INTERRUPTED
        try:
            enough = grown == size or stopped or not _is_far(whole, found, found, pilot, progress)
            if not enough and pilot.n_numbers >= _TELLING * n_free:
                nearer = large.improve_on_subsample(whole, problem, found, progress)
                enough = nearer is not found and not _is_far(whole, nearer, found, pilot, progress)
                found = nearer if enough else found
        except KeyboardInterrupt:
            enough = stopped = True
        if enough:
            break
        notes.append(f"A subsample of {len(pilot)} was too small: its model fits all {len(samples)} samples far worse.")
        size = grown
        search = with_start(solver, found.decoupling) or solver
    if stopped:
        note = f"Only a subsample of {len(pilot)} was used."
        return dataclasses.replace(found, status=Status.INTERRUPTED, notes=(*found.notes, note))
    solution = out_of_core(solver).refine_on_all(whole, problem, found, progress)
    return dataclasses.replace(solution, notes=(*notes, *solution.notes))


def _is_far(whole: Problem, solution: Solution, found: Solution, pilot: Samples, progress: ProgressCallback) -> bool:
    """Whether the misfit on all samples is far above what the answer `found` on the subsample promises."""
    lam = found.lam if whole.samples.has_values else 1.0
    small = whole.units, whole.prepared.row_scaling(lam)

    def mean_misfit(model: Decoupling, samples: Samples) -> float:
        cost, weight = samples.data.reduce(misfit_task, model, *small, progress=partial(progress, stage="all samples"))
        return float(cost[0] / weight[0])

    fitted = mean_misfit(found.decoupling, pilot)
    expected = fitted * pilot.n_numbers / max(pilot.n_numbers - whole.n_free, 1)
    # Costs of all samples add up to about 1 for a model that explains nothing: these are means over samples.
    least = _EXACT_MISFIT / whole.samples.n_samples
    return mean_misfit(solution.decoupling, whole.samples) > _RATIO_OF_FAR_MISFIT * expected + least


def misfit_task(portion: Portion, model: Decoupling, units: Units, scaling: RowScaling) -> tuple[ndarray, ndarray]:
    """Weighted squares of residuals in the units of the solver, and the sum of the weights."""
    total = np.zeros(1)
    if portion.F is not None:
        left = (portion.F - model.values(portion.X)) / units.y_scale
        total = total + scaling.factor_F**2 * weighted_squares(left[None], portion.weights)
    if portion.J is not None:
        left = units.jacobians(portion.J - model.jacobians(portion.X))
        total = total + scaling.factor_J**2 * weighted_squares(left[None], portion.weights)
    weight = len(portion) if portion.weights is None else np.mean(portion.weights) * len(portion)
    return total, np.array([float(weight)])


def _with_stage(progress: ProgressCallback, size: int) -> ProgressCallback:
    def report(stage: str = "", **values: object) -> None:
        progress(stage=f"subsample of {size}" + (f", {stage}" if stage else ""), **values)

    return report
