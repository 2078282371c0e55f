"""Any solver on samples of any size: all of them at once where it can, else a pilot first.

A pilot that was too small is told by what its answer leaves of all samples: where that is far more, per number, than
what it leaves of the pilot, and steps over a larger part do not mend it, the pilot grows fourfold, and the search
begins again at that answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import numpy as np

from ...bases import LayerBasis
from ...samples._samples import Samples
from ._data_summary import Extent, Whole
from ._model_shape import ModelShape
from ._problem import Problem
from ._solution import Solution, Status
from ._solver import AbstractSolver, ProgressCallback, check_problem, out_of_core, with_start

_FAR = 1.5  # times what the pilot leads to expect
_ROUNDING = 1e-10  # relative squared errors below this are met well enough on both
_GROWS = 4
_TELLING = 4  # numbers for every unknown from which a pilot tells what to expect of a model that was fitted to more


def prepared(
    solver: AbstractSolver,
    samples: Samples,
    layers: tuple[LayerBasis, ...],
    validation: Samples | None,
    extent: Extent | None,
    *,
    linear: bool,
    standard: bool,
) -> Callable[..., Solution]:
    """What finds the answer of a solver for all samples, given n_starts, rng and progress; checked as far as possible.

    `extent` is known where samples are not at hand.
    """
    size = out_of_core(solver).pilot_size(samples, layers, linear=linear)
    if size is None:
        problem = Problem.build(samples, layers, validation, linear=linear, standard=standard)
        check_problem(solver, problem)
        return partial(solver.solve, problem)
    return partial(_solve_large, solver, samples, layers, validation, extent, size, linear, standard)


def _solve_large(
    solver: AbstractSolver,
    samples: Samples,
    layers: tuple[LayerBasis, ...],
    validation: Samples | None,
    extent: Extent | None,
    size: int,
    linear: bool,
    standard: bool,
    *,
    n_starts: int,
    rng: np.random.Generator,
    progress: ProgressCallback,
) -> Solution:
    """A pilot, as large as it must be, and then all samples."""
    known = Extent.of(samples.data) if extent is None else extent
    whole = Whole.of(samples, layers, validation, known, linear=linear, standard=standard)
    size = min(size, samples.n_samples)
    notes: list[str] = []
    search = solver
    while True:
        large = out_of_core(search)
        pilot = large.draw_pilot(whole, size, rng)
        problem = whole.problem_of(pilot)
        check_problem(search, problem)
        found = large.solve_pilot(problem, n_starts=n_starts, rng=rng, progress=_staged(progress, len(pilot)))
        grown = min(_GROWS * size, samples.n_samples)
        stopped = found.status is Status.INTERRUPTED
        try:
            enough = grown == size or stopped or not _is_far(whole, found, found, pilot, progress)
            if not enough and pilot.n_numbers >= _TELLING * _n_free(whole):
                nearer = large.improve_on_subsample(whole, problem, found, progress)
                enough = nearer is not found and not _is_far(whole, nearer, found, pilot, progress)
                found = nearer if enough else found
        except KeyboardInterrupt:
            enough = stopped = True
        if enough:
            break
        notes.append(
            f"A pilot of {len(pilot)} samples was too small: its model fits all {len(samples)} samples far worse."
        )
        size = grown
        search = with_start(solver, found.decoupling) or solver
    if stopped:
        note = f"Only a pilot of {len(pilot)} samples was used."
        return dataclasses.replace(found, status=Status.INTERRUPTED, notes=(*found.notes, note))
    solution = out_of_core(solver).refine_on_all(whole, problem, found, progress)
    return dataclasses.replace(solution, notes=(*notes, *solution.notes))


def _is_far(whole: Whole, solution: Solution, found: Solution, pilot: Samples, progress: ProgressCallback) -> bool:
    """Whether a model leaves far more of all samples than what was found does of its pilot, and fitting explains."""
    between = partial(progress, stage="all samples")
    lam = found.lam if whole.samples.has_values else 1.0
    here = whole.misfit(found.decoupling, lam, pilot, between)
    there = whole.misfit(solution.decoupling, lam, whole.samples, between)
    expected = here * pilot.n_numbers / max(pilot.n_numbers - _n_free(whole), 1)
    # Costs of all samples add up to about 1 for a model that explains nothing: these are means over samples.
    return there > _FAR * expected + _ROUNDING / whole.samples.n_samples


def _n_free(whole: Whole) -> int:
    shape = ModelShape.of(whole.samples, whole.layers, linear=whole.linear)
    return shape.n_free(values=whole.samples.has_values)


def _staged(progress: ProgressCallback, size: int) -> ProgressCallback:
    def report(stage: str = "", **values: object) -> None:
        progress(stage=f"pilot of {size} samples" + (f", {stage}" if stage else ""), **values)

    return report
