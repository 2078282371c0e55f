"""From the answer of VarPro for a subsample to the one for all samples: steps over all, then a ridge if it is due.

Smoothed functions take rounds of steps, each with the weights of roughness that all samples ask for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..least_squares._fitting_problem import effective_note, meets_rounding, model_of
from ..least_squares._levenberg_marquardt import Descent
from ..least_squares._parameters import Fixed, Parameters, Unknowns, balance_parameters, parameters_of
from ..least_squares._roughness_penalty import Penalty
from ..least_squares._variable_projection import Complete
from ..problem._problem import Problem
from ..problem._solution import Solution, Status
from ..problem._solver import ProgressCallback
from ._penalty_choice import RidgeChoice, ridge_note
from ._search import history_of
from ._streamed_gauss_newton import (
    StreamedResiduals,
    descend_on_all,
    descend_on_subsample,
    extreme_points,
    importance_sample,
    normal_task,
    rescale_to_all_samples,
    stopping_tolerance,
)

_NUMBERS_PER_UNKNOWN = 1000  # of the subsample whose normal matrix stands for all samples ...
_MAX_PRODUCTS = 1e10  # ... as far as forming it takes no more multiplications than this
_ROUGH_TOLERANCE = 1e-3  # the share of the cost that is worth a step before all samples are looked at
_SMOOTHING_ROUNDS = 2  # of steps with new weights of roughness
_RIDGE_UP_TO = 1000  # numbers per unknown; more of them average out the noise, and no ridge is needed


@dataclass(frozen=True)
class RefinementOptions:
    """Parts that are given, the most passes over all samples, the given ridge, and what the data choose."""

    fixed: Mapping[str, object]
    max_steps: int
    ridge: float
    chooses_ridge: bool
    chooses_weights: bool  # of roughness


def refined_solution(
    whole: Problem, pilot: Problem, found: Solution, options: RefinementOptions, progress: ProgressCallback
) -> Solution:
    """The answer `found` for a subsample after steps over all samples, until noise decides more than another pass.

    `whole` and `pilot` are in the same units.
    """
    try:
        return Refinement(whole, pilot, found, options, progress).solution()
    except KeyboardInterrupt:
        note = "Steps over all samples were stopped before the first was made."
        return dataclasses.replace(found, status=Status.INTERRUPTED, notes=(*found.notes, note))


class Refinement:
    """One refinement: the model it begins with, the residuals of all samples and of a subsample, and passes so far."""

    def __init__(
        self, whole: Problem, pilot: Problem, found: Solution, options: RefinementOptions, progress: ProgressCallback
    ) -> None:
        self.found, self.options, self.progress = found, options, progress
        self.objective, self.n_steps, self.n_passes = float("nan"), 0, 0
        # Parts that are given are in the units of the user.
        self.whole, self.pilot = (one.as_given() if options.fixed else one for one in (whole, pilot))
        data, layers, linear = self.whole.prepared, self.whole.layers, self.whole.linear
        self.theta = parameters_of(self.pilot, self.found.decoupling)
        self.fixed = Fixed.of(options.fixed, self.pilot) if options.fixed else None
        if self.fixed is None:
            self.theta = rescale_to_all_samples(data, layers, self.theta)
        else:
            self.fixed.write_into(self.theta)

        # Samples that stand for all in the normal matrix, by their weights.
        unknowns, samples = Unknowns.of(layers), self.whole.samples
        self.n_unknowns = unknowns.count(self.theta)
        n_numbers = min(_NUMBERS_PER_UNKNOWN * self.n_unknowns, _MAX_PRODUCTS / self.n_unknowns**2)
        count = max(len(self.pilot.samples), n_numbers * samples.n_samples / samples.n_numbers)
        scaling = data.row_scaling(self.found.lam)
        drawn = importance_sample(data, scaling, round(min(count, samples.n_samples)))
        subsample = self.whole.of_pilot(drawn).prepared

        mask = unknowns.mask(self.theta, options.fixed) if options.fixed else None
        complete = Complete(subsample.rows(scaling), layers, linear, options.ridge, mask, self._first_penalty())
        tolerance = stopping_tolerance(self.whole.n_free, samples.n_numbers)
        self.all = StreamedResiduals(data, scaling, complete, tolerance, self.report)
        self.subsample = StreamedResiduals(subsample, scaling, complete, tolerance, self.report)

    def _first_penalty(self) -> Penalty | None:
        """That of the subsample: beside more samples, roughness counts less."""
        penalty = self.found.smoothing
        if not isinstance(penalty, Penalty):
            return None
        if not self.options.chooses_weights:
            return penalty
        share = min(1.0, self.pilot.samples.n_numbers / self.whole.samples.n_numbers)
        return dataclasses.replace(penalty, weights=tuple(share * weights for weights in penalty.weights))

    # Progress: between portions, so that Ctrl-C is heard, and after each step

    def report(self) -> None:
        self.progress(stage="all samples", done=self.n_steps, total=None, objective=self.objective)

    def report_step(self, objective: float) -> None:
        self.objective, self.n_steps = objective, self.n_steps + 1
        self.report()

    # Stages

    def on_subsample(self) -> Solution:
        """The answer after steps on the subsample alone."""
        self.subsample.tolerance = _ROUGH_TOLERANCE
        descent = descend_on_subsample(self.subsample, self.theta, self.options.max_steps, self.report_step)
        points = extreme_points(self.whole.prepared, self.whole.layers, descent.theta)
        return dataclasses.replace(self.found, decoupling=model_of(self.pilot, descent.theta, points, None))

    def solution(self) -> Solution:
        found, options, complete = self.found, self.options, self.all.subsample
        descent, n_effective = self._descend(complete, self.theta), None
        if complete.penalty is not None:
            descent, n_effective = self._with_new_weights(descent)
        status = Status.CONVERGED if descent.settled[0] else Status.OUT_OF_STEPS
        plain = dataclasses.replace(complete, ridge=0.0, free=None, penalty=None)
        floor = self.whole.prepared.rounding_floor
        if options.ridge == 0.0 and meets_rounding(plain, descent.theta, float(descent.cost[0]), floor):
            status = Status.EXACT
        ridge, ridge_notes = options.ridge, tuple[str, ...]()
        few_numbers = self.whole.samples.n_numbers < _RIDGE_UP_TO * self.n_unknowns
        if options.chooses_ridge and few_numbers and status is not Status.EXACT and not descent.interrupted:
            descent, ridge, ridge_notes = self._with_ridge(descent)

        notes = (*found.notes, self._note(descent), *ridge_notes)
        if n_effective is not None and found.n_effective is not None:
            of_pilot = effective_note(found.n_effective, self.n_unknowns)
            notes = (*(note for note in notes if note != of_pilot), effective_note(n_effective, self.n_unknowns))
        # Smoothed functions keep the knots that they have.
        points = None
        if complete.penalty is None:
            points = extreme_points(self.whole.prepared, self.whole.layers, descent.theta)
        return dataclasses.replace(
            found,
            decoupling=model_of(self.pilot, descent.theta, points, self.fixed),
            status=Status.INTERRUPTED if descent.interrupted else status,
            history=history_of([*found.history.objective.tolist(), *map(float, descent.record)], found.lam),
            notes=notes,
            ridge=ridge,
            n_effective=n_effective,
        )

    def _descend(self, complete: Complete, theta: Parameters) -> Descent[Parameters]:
        """First on the subsample, which costs little, then on all samples."""
        few, everything = (
            StreamedResiduals(one.data, one.scaling, complete, one.tolerance, one.progress)
            for one in (self.subsample, self.all)
        )
        max_steps = self.options.max_steps
        nearly = descend_on_subsample(few, theta, max_steps, self.report_step)
        descent, passes = descend_on_all(everything, nearly.theta, max_steps, self.report_step, nearly.damping)
        self.n_passes += passes
        descent.interrupted |= nearly.interrupted
        return descent

    def _with_new_weights(self, descent: Descent[Parameters]) -> tuple[Descent[Parameters], float]:
        """Rounds with the weights of roughness that all samples ask for; the effective number of parameters."""
        complete, record, n_effective = self.all.subsample, descent.record, 0.0
        penalty, n_numbers = complete.penalty, self.whole.samples.n_numbers
        assert penalty is not None
        for last in [*[False] * (_SMOOTHING_ROUNDS if self.options.chooses_weights else 0), True]:
            small = (self.all.scaling, complete.layers, complete.linear, descent.theta)
            misfit, _, plain = self.all.data.reduce(normal_task, *small, progress=self.report)
            self.n_passes += 1
            better, n_effective = penalty.improve_weights(
                plain[0], float(misfit[0]), n_numbers, descent.theta, complete.unknowns
            )
            if last or descent.interrupted:
                break
            penalty = better
            descent = self._descend(dataclasses.replace(complete, penalty=penalty), descent.theta)
            record = record + descent.record
        descent.record = record
        return descent, n_effective

    def _with_ridge(self, plain: Descent[Parameters]) -> tuple[Descent[Parameters], float, tuple[str, ...]]:
        """The largest ridge that the data allow, as on samples in memory."""
        samples, zero_cost = self.whole.samples, self.whole.prepared.zero_cost(self.all.scaling)
        choice = RidgeChoice(float(plain.cost[0]), samples.n_numbers, self.whole.n_free, zero_cost)
        theta = balance_parameters(self.whole.layers, plain.theta)
        for ridge in choice.candidates():
            complete = dataclasses.replace(self.all.subsample, ridge=ridge)
            ridged = self._descend(complete, theta)
            size = float(np.sum(complete.unknowns.flatten(ridged.theta) ** 2))
            if float(ridged.cost[0]) - ridge * size <= choice.max_misfit:
                ridged.record = plain.record
                return ridged, ridge, (ridge_note(ridge),)
        return plain, 0.0, ()

    def _note(self, descent: Descent[Parameters]) -> str:
        before, after = float(descent.record[0]), float(descent.record[-1])
        count = "1 pass" if self.n_passes == 1 else f"{self.n_passes} passes"
        return (
            f"A subsample of {len(self.pilot.samples)} was searched; {count} over all "
            f"{self.whole.samples.n_samples} samples then took the objective from {before:.4g} to {after:.4g}."
        )
