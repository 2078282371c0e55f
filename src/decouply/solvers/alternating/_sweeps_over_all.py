"""Alternating solvers over all samples, from the answer for a pilot: the one loop, around streamed sweeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from numpy import ndarray

from ..problem._data_summary import Whole
from ..problem._problem import Problem
from ..problem._solver import ProgressCallback, Solution
from ._bias_correction import with_bias_over_all
from ._iterate import Iterate
from ._loop import Stopping, run_starts, solution_of, weighted_sum
from ._streamed_sweep import Factors, Passes, factors_of

Sweep = Callable[[Passes, Factors, float], Factors]


def sweep_over_all(
    whole: Whole,
    problem: Problem,
    found: Solution,
    sweep: Sweep,
    lam: float,
    stopping: Stopping,
    progress: ProgressCallback,
    *,
    by_errors: bool = False,
    corrected: bool = False,
) -> Solution:
    """Go on from a model of a pilot with sweeps over all samples.

    Iterates are compared by the objective, or by the sum of both errors. With `corrected` the constants of a method
    that sees Jacobians only are found afterwards.
    """
    passes = Passes(whole, problem, whole.overview.frame(1.0), progress)
    # The loop compares residuals with the sizes of its problem, here those of the pilot.
    scale = problem.size_J / (whole.overview.size_J or 1.0)

    def rated(factors: Factors) -> Iterate:
        residual_J, residual_F = passes.residuals(factors)
        return factors.iterate(scale * residual_J, scale * residual_F)

    def step(state: Iterate, _: int) -> tuple[Iterate, float]:
        factors = Factors(tuple(state.W), tuple(state.domain), tuple(state.C))
        return rated(sweep(passes, factors, lam)), lam

    def sum_of_errors(state: Iterate, _: float) -> ndarray:
        of_F = scale * (whole.overview.size_F or 1.0)
        return state.residual_J / (problem.size_J or 1.0) + state.residual_F / of_F

    start = rated(factors_of(problem, found.decoupling))
    objective = sum_of_errors if by_errors else weighted_sum
    run = run_starts(problem, start, step, objective, lam, stopping, progress)
    solution = solution_of(problem, run, uses_values=not corrected)
    if corrected:
        model, notes = with_bias_over_all(whole, solution.decoupling)
        solution = replace(solution, decoupling=model, notes=(*solution.notes, *notes))
    return told(whole, problem, found, solution, int(run.steps[0]))


def told(whole: Whole, problem: Problem, found: Solution, solution: Solution, n_sweeps: int) -> Solution:
    """The answer with the starts of the pilot, and a word about what was done."""
    note = (
        f"Starts were run on a pilot of {len(problem.samples)} samples; {n_sweeps} sweeps over all "
        f"{len(whole.samples)} samples followed."
    )
    return replace(solution, starts=found.starts, notes=(*found.notes, *solution.notes, note))
