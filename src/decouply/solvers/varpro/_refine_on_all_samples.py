"""From the answer of VarPro for a pilot to the one for all samples: steps over all, then a ridge if it is due.

Smoothed functions take rounds of steps, each with the weights of roughness that all samples ask for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..least_squares._derivatives import Parameters, Unknowns
from ..least_squares._fitting_problem import effective_note, model_of
from ..least_squares._levenberg_marquardt import Descent
from ..least_squares._parameters import Fixed, parameters_of, position
from ..least_squares._rescaling import balanced
from ..least_squares._roughness_penalty import Penalty
from ..least_squares._variable_projection import Complete
from ..problem._importance_sample import importance_sample
from ..problem._prepared_samples import PreparedSamples
from ..problem._problem import Problem
from ..problem._solution import History, Solution, Status
from ..problem._solver import ProgressCallback
from ..problem._weighted_rows import RowScaling
from ._ridge_choice import allowed_misfit, ridges
from ._streamed_gauss_newton import (
    Streamed,
    meets_rounding,
    near,
    normal_task,
    on_whole_window,
    rewritten,
    stream,
    worth,
)

_NUMBERS_PER_UNKNOWN = 1000  # of the part whose normal matrix stands for all samples ...
_PRODUCTS = 1e10  # ... as far as forming it takes no more multiplications than this
_ROUGHLY = 1e-3  # the share of the cost that is worth a step before all samples are looked at
_ROUNDS = 2  # of steps with new weights of roughness
_DECIDED = 1000  # numbers per unknown from which noise is averaged out, and no ridge is needed


@dataclass(frozen=True)
class Refinement:
    """What VarPro does with all samples after a search on a pilot."""

    whole: Problem
    problem: Problem  # of the pilot
    found: Solution
    lam: float
    fixed: Mapping[str, object]
    max_steps: int
    chooses: bool  # whether a ridge is to be chosen
    ridge: float
    weighs: bool  # whether weights of roughness are

    def solution(self, progress: ProgressCallback) -> Solution:
        """Refine until noise decides more than another pass."""
        try:
            return self._solution(progress)
        except KeyboardInterrupt:
            note = "Steps over all samples were stopped before the first was made."
            return dataclasses.replace(self.found, status=Status.INTERRUPTED, notes=(*self.found.notes, note))

    def on_part(self, progress: ProgressCallback) -> Solution:
        """The answer after steps on the part alone; as it is where parts of it are given, or smoothed."""
        if self.fixed or self.found.smoothing is not None:
            return self.found
        whole, layers, report = self.whole, self.whole.layers, _Reports(progress)
        data = whole.prepared
        scaling = data.row_scaling(self.lam)
        theta = [p[None] for p in parameters_of(self.problem, self.found.decoupling)]
        theta = rewritten(layers, theta, on_whole_window(data, layers, theta))
        part = self._part(whole, Unknowns.of(layers).count(theta), scaling)
        complete = Complete(part.rows(scaling), layers, whole.linear, self.ridge)
        residuals = Streamed(part, scaling, complete, _ROUGHLY, report.between)
        descent = near(residuals, theta, exact=data.rounding_floor, max_steps=self.max_steps, report=report.after)
        points = on_whole_window(data, layers, descent.theta)
        return dataclasses.replace(self.found, decoupling=model_of(self.problem, descent.theta, points, None))

    def _solution(self, progress: ProgressCallback) -> Solution:
        # Parts that are given are in the units of the user.
        whole, problem = ((one.as_given() if self.fixed else one) for one in (self.whole, self.problem))
        layers, data = whole.layers, whole.prepared
        scaling = data.row_scaling(self.lam)
        theta = [p[None] for p in parameters_of(problem, self.found.decoupling)]
        fixed = Fixed.of(self.fixed, problem) if self.fixed else None
        if fixed is None:
            theta = rewritten(layers, theta, on_whole_window(data, layers, theta))
        else:
            fixed.put(theta)
        unknowns = Unknowns.of(layers)
        count = unknowns.count(theta)
        held = {position(name, len(layers)) for name in self.fixed}
        part = self._part(whole, count, scaling)
        mask = unknowns.mask(theta, held) if held else None
        complete = Complete(part.rows(scaling), layers, whole.linear, self.ridge, mask, self._penalty())
        report = _Reports(progress)
        enough = worth(whole.n_free, whole.samples.n_numbers)
        residuals = Streamed(data, scaling, complete, enough, report.between)
        on_part = Streamed(part, scaling, complete, enough, report.between)
        descent, passes = self._descend(on_part, residuals, theta, report)
        used = None
        if complete.penalty is not None:
            descent, used, more = self._smoothed(on_part, residuals, descent, report)
            passes += more
        status = self._status(residuals, descent)
        ridge, note = self.ridge, ""
        due = self.chooses and status is not Status.EXACT and whole.samples.n_numbers < _DECIDED * count
        if due and not descent.interrupted:
            descent, ridge, note, more = self._ridged(on_part, residuals, descent, report)
            passes += more
        record = [float(c) for c in descent.record]
        notes = (*self.found.notes, self._told(passes, descent), *([note] if note else []))
        if used is not None and self.found.n_effective is not None:
            of_pilot = effective_note(self.found.n_effective, count)
            notes = (*(one for one in notes if one != of_pilot), effective_note(used, count))
        objective = [*self.found.history.objective.tolist(), *record]
        # Smoothed functions keep the knots that they have.
        points = on_whole_window(data, layers, descent.theta) if complete.penalty is None else None
        return dataclasses.replace(
            self.found,
            decoupling=model_of(problem, descent.theta, points, fixed),
            status=Status.INTERRUPTED if descent.interrupted else status,
            history=dataclasses.replace(History.of(objective), lam=np.full(len(objective), self.lam)),
            notes=notes,
            ridge=ridge,
            n_effective=used,
        )

    def _penalty(self) -> Penalty | None:
        """That of the pilot; relative to the misfit of all, roughness counts the less the more samples there are."""
        penalty = self.found.smoothing
        if not isinstance(penalty, Penalty):
            return None
        if not self.weighs:
            return penalty
        return penalty.times(min(1.0, self.problem.samples.n_numbers / self.whole.samples.n_numbers))

    def _part(self, whole: Problem, n_unknowns: int, scaling: RowScaling) -> PreparedSamples:
        """Samples that stand for all in the normal matrix, by their weights."""
        samples = whole.samples
        most = min(_NUMBERS_PER_UNKNOWN * n_unknowns, _PRODUCTS / n_unknowns**2)
        count = max(len(self.problem.samples), most * samples.n_samples / samples.n_numbers)
        part = importance_sample(whole.prepared, scaling, round(min(count, samples.n_samples)))
        return whole.of_pilot(part).prepared

    def _descend(
        self, on_part: Streamed, residuals: Streamed, theta: Parameters, report: _Reports
    ) -> tuple[Descent, int]:
        """First on the part, which costs little, then on all samples; and the number of passes over these."""
        nearly = near(
            on_part, theta, exact=self.whole.prepared.rounding_floor, max_steps=self.max_steps, report=report.after
        )
        descent, passes = stream(
            residuals,
            nearly.theta,
            exact=self.whole.prepared.rounding_floor,
            max_steps=self.max_steps,
            damping=nearly.damping,
            report=report.after,
        )
        descent.interrupted |= nearly.interrupted
        return descent, passes

    def _smoothed(
        self, on_part: Streamed, residuals: Streamed, descent: Descent, report: _Reports
    ) -> tuple[Descent, float, int]:
        """Rounds with new weights; the last descent, its effective number of parameters, and the passes it took."""
        penalty, passes, record, used = residuals.part.penalty, 0, descent.record, 0.0
        assert penalty is not None
        for last in [*[False] * (_ROUNDS if self.weighs else 0), True]:
            small = (residuals.scaling, residuals.layers, residuals.part.linear, descent.theta)
            misfit, g, plain = residuals.data.reduce(normal_task, *small, progress=report.between)
            passes += 1
            M, unknowns = plain.copy(), residuals.part.unknowns
            penalty.add(M, g, misfit.copy(), descent.theta, unknowns)
            n_numbers = self.whole.samples.n_numbers
            better, used = penalty.improved(M[0], plain[0], float(misfit[0]), n_numbers, descent.theta, unknowns)
            if last or descent.interrupted:
                break
            penalty = better
            complete = dataclasses.replace(residuals.part, penalty=penalty)
            few, everything = (
                Streamed(one.data, one.scaling, complete, one.enough, one.progress) for one in (on_part, residuals)
            )
            descent, more = self._descend(few, everything, descent.theta, report)
            passes += more
            record = record + descent.record
        descent.record = record
        return descent, used, passes

    def _status(self, residuals: Streamed, descent: Descent) -> Status:
        cost = float(descent.cost[0])
        if self.ridge == 0.0 and meets_rounding(residuals, descent.theta, cost, self.whole.prepared.rounding_floor):
            return Status.EXACT
        return Status.CONVERGED if descent.settled[0] else Status.OUT_OF_STEPS

    def _ridged(
        self, on_part: Streamed, residuals: Streamed, plain: Descent, report: _Reports
    ) -> tuple[Descent, float, str, int]:
        """The largest ridge that the data allow, as on samples in memory; and the number of passes it took."""
        n_numbers, cost, passes = self.whole.samples.n_numbers, float(plain.cost[0]), 0
        nothing = 1.0 + self.lam if self.whole.samples.has_jacobians else 1.0
        allowed = allowed_misfit(cost, n_numbers, self.whole.n_free, nothing)
        theta = balanced(self.whole.layers, plain.theta)
        for ridge in ridges(cost, n_numbers):
            complete = dataclasses.replace(residuals.part, ridge=ridge)
            few, everything = (
                Streamed(one.data, one.scaling, complete, one.enough, one.progress) for one in (on_part, residuals)
            )
            ridged, more = self._descend(few, everything, theta, report)
            passes += more
            size = float(np.sum(complete.unknowns.flatten(ridged.theta) ** 2))
            if float(ridged.cost[0]) - ridge * size <= allowed:
                ridged.record = plain.record
                note = f"A ridge of {ridge:.1e}, chosen from the misfit, holds weights small; ridge=0 switches it off."
                return ridged, ridge, note, passes
        return plain, 0.0, "", passes

    def _told(self, passes: int, descent: Descent) -> str:
        S, pilot = self.whole.samples.n_samples, len(self.problem.samples)
        before, after = float(descent.record[0]), float(descent.record[-1])
        count = "1 pass" if passes == 1 else f"{passes} passes"
        return (
            f"A pilot of {pilot} samples was searched; {count} over all {S} samples then took the "
            f"objective from {before:.4g} to {after:.4g}."
        )


class _Reports:
    """What is told on the way: between portions, so that Ctrl-C is heard, and after each step."""

    def __init__(self, progress: ProgressCallback) -> None:
        self._progress, self._objective, self._steps = progress, float("nan"), 0

    def between(self) -> None:
        self._progress(stage="all samples", done=self._steps, total=None, objective=self._objective)

    def after(self, objective: float) -> None:
        self._objective, self._steps = objective, self._steps + 1
        self.between()
