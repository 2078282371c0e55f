"""The search for a decoupled state-space model: a linear model first, then several starts, chosen by validation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_count
from ..._support._errors import SolverError
from ..free_run._fit import FitResult, FreeRunObjective, InitialStatePrior, fit_free_run, fit_initial_states
from ..free_run._linear import fit_linear
from ..free_run._simulation import simulate
from ..free_run._step import StepArrays, whitening
from ..signals._records import RecordBatch
from ._initial_models import Candidate, candidates, in_other_bases
from ._structure import StateSpaceStructure

_SCAN_SAMPLES = 8192  # outputs that a start is tried on
_NEXT_SAMPLES = 16_384  # and that the best goes on with, before all
_SCAN_STEPS, _MOST_SCAN_STEPS = 30, 100  # of a start, on many data and on few, which cost little
_FINAL_STEPS = 60  # on all data
_INITIAL_OUTPUTS = 50  # from which the initial state of a validation record is found
_WINDOW_GROWTH = 4  # from stage to stage
_SCAN_SETTLES_AT, _FINAL_SETTLES_AT = 1e-3, 1e-4  # descents cross plateaus of many steps


@dataclass(frozen=True)
class StateSpaceStart:
    """One start: free-run errors on training and validation records, relative to the standard deviation of y.

    Attributes
    ----------
    start
        "linear" for the linear model, "physical", "random 1", ...; of a Wiener-Hammerstein model with its poles.
    training, validation
        Root mean square errors; infinite if the model is unstable.
    steps
        Levenberg-Marquardt steps.
    chosen
        Whether this one was finished on all training data.
    """

    start: str
    training: float
    validation: float
    steps: int
    chosen: bool = False


@dataclass(frozen=True, eq=False)
class SearchOptions:
    """How a state-space model is searched for, beside the number of starts.

    Attributes
    ----------
    start
        A model to begin with beside the other starts: a dynamic model with as many states and the same functions, such
        as another `DecoupledStateSpace`, or a `DecoupledNARX`, whose states are past inputs and outputs.
    window
        Begin with windows of so many samples, each with an initial state of its own (multiple shooting), if a free run
        over whole records drifts or is unstable; windows then grow to whole records, as far as the model can be run
        over them.
    max_steps
        Steps of the chosen start on the first 16384 samples of long records, before all data are used; fewer are taken
        if the error settles earlier.
    """

    start: Any = None
    window: int | None = None
    max_steps: int = 40

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_steps", as_count("max_steps", self.max_steps))
        if self.window is not None:
            object.__setattr__(self, "window", as_count("window", self.window))


@dataclass(frozen=True, eq=False)
class SearchData:
    """The records of a search in standard units.

    Attributes
    ----------
    training, validation
        What starts are fitted to, and what chooses among them.
    interpolated
        The training records with outputs as often as inputs.
    everything
        What the chosen start ends on.
    """

    training: RecordBatch
    interpolated: RecordBatch
    validation: RecordBatch
    everything: RecordBatch


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The model in standard units, the linear one beside it, and how they were found."""

    fit: FitResult
    linear: FitResult
    starts: tuple[StateSpaceStart, ...]
    n_free: int
    n_front: int | None
    interrupted: bool


class StateSpaceSearch:
    """The stages of a search for a model of one structure; `run` goes through them.

    The model to begin with, `options.start`, is a `StepArrays` in standard units here.
    """

    def __init__(
        self,
        structure: StateSpaceStructure,
        data: SearchData,
        options: SearchOptions,
        n_starts: int,
        *,
        rng: np.random.Generator,
        report: Callable[..., None],
    ) -> None:
        self.structure, self.data, self.given = structure, data, options.start
        self.n_starts, self.max_steps, self.window = n_starts, options.max_steps, options.window
        self.rng, self.report = rng, report
        self.n = structure.n_states
        self.n_integrators = structure.n_integrators(data.training.y[0].shape[1])
        # Without feedback poles are shared out, which those of interpolated outputs cannot be: steps get smaller later.
        self.scanned, self.judging = data.training, data.validation
        if not structure.feedback:
            self.scanned, self.judging = data.training.at_measured_times(), data.validation.at_measured_times()
        self.rows: list[StateSpaceStart] = []
        self.interrupted = False

    def run(self) -> SearchResult:
        """The linear model, the scan of all starts, and the descent of the best one on more and more data."""
        linear = self._fit_linear_model()
        starts = list(self._starts(linear))
        best = self._scan(starts)
        if best is None:
            return SearchResult(linear, linear, tuple(self.rows), 0, None, self.interrupted)
        row, fit, candidate = best
        self.rows[row] = replace(self.rows[row], chosen=True)
        fit = self._finish(fit, candidate, len(starts))
        n_free = candidate.parameters(fit.step).count
        return SearchResult(fit, linear, tuple(self.rows), n_free, candidate.n_front, self.interrupted)

    def _fit_linear_model(self) -> FitResult:
        linear = fit_linear(
            self.data.training,
            self.data.interpolated,
            self.n,
            feedthrough=self.structure.feedthrough,
            n_integrators=self.n_integrators,
        )
        error = validation_error(linear, self.data.validation)
        self.rows.append(StateSpaceStart("linear", linear.rmse, error, linear.steps))
        return linear

    def _starts(self, linear: FitResult) -> Iterator[tuple[Candidate, Float[ndarray, "records n"]]]:
        """All starts with their initial states, the model that was given first."""
        base = linear
        if self.scanned is not self.data.training:
            base = fit_linear(self.scanned, self.scanned, self.n, feedthrough=self.structure.feedthrough)
        beginning = self.scanned.first_samples(_SCAN_SAMPLES)
        run = simulate(base.step, beginning, base.x0[: len(beginning)])
        if run is None:
            raise SolverError(
                "The linear model that all starts begin with is unstable on the training record: give fewer states, or "
                "records in which the outputs stay within bounds."
            )
        self.part = beginning.windows(self.window)
        x0 = self._initial_states(base, self.part)
        others = list(candidates(self.structure.coarse, base.step, run.points, self.n_starts, self.rng))
        if self.given is not None:
            step = self.given if self.n_integrators else _with_white_states(self.given, self.n, self.part)
            candidate = Candidate("given", step, self.structure.free_entries(step))
            yield candidate, fit_initial_states(step, self.n, self.part).x0
        for candidate in others:
            yield candidate, x0

    def _scan(
        self, starts: list[tuple[Candidate, Float[ndarray, "records n"]]]
    ) -> tuple[int, FitResult, Candidate] | None:
        """Fit every start to the beginning of the training records: the best one on the validation records."""
        max_steps = min(_MOST_SCAN_STEPS, _SCAN_STEPS * _SCAN_SAMPLES // len(self.part.all_y))
        best, least = None, math.inf
        for k, (candidate, x0) in enumerate(starts):
            so_far = "" if best is None else f" (best so far: {100.0 * least:.3g} %)"
            fit = fit_free_run(
                self._objective(candidate, candidate.step, self.part, x0),
                max_steps=max_steps,
                settles_at=_SCAN_SETTLES_AT,
                progress=self._progress(f"start {k + 1} of {len(starts)}{so_far}", k, len(starts) + 1),
            )
            error = validation_error(fit, self.judging)
            self.rows.append(StateSpaceStart(candidate.name, fit.rmse, error, fit.steps))
            if error < least:
                best, least = (len(self.rows) - 1, fit, candidate), error
            self.interrupted = fit.interrupted
            if self.interrupted:
                break
        return best

    def _finish(self, fit: FitResult, candidate: Candidate, n_starts: int) -> FitResult:
        """Go on with more data, then with smaller steps per sample, then with windows that grow to whole records."""
        oversample = self.scanned.oversample
        for batch, max_steps, final in self._stages():
            if self.interrupted:
                break
            if batch.oversample > oversample:
                oversample = batch.oversample
                fit = replace(fit, step=fit.step.in_smaller_steps(self.n, oversample))
            x0, step = self._initial_states(fit, batch), fit.step
            if final and step.layers != self.structure.layers:  # the bases that were asked for, on all that is visited
                run = simulate(step, batch, x0)
                step = step if run is None else in_other_bases(step, self.structure.layers, run.points)
            longer = fit_free_run(
                self._objective(candidate, step, batch, x0),
                max_steps=max_steps,
                settles_at=_FINAL_SETTLES_AT,
                progress=self._progress("finishing", n_starts, n_starts + 1),
            )
            if math.isfinite(longer.rmse):  # longer windows may be more than an unstable model can cross
                fit = longer
            self.interrupted = longer.interrupted
        if self.data.training.oversample > oversample:  # ended before
            fit = replace(fit, step=fit.step.in_smaller_steps(self.n, self.data.training.oversample))
        return fit

    def _stages(self) -> Iterator[tuple[RecordBatch, int, bool]]:
        """Records, the most steps on them, and whether with the bases that were asked for."""
        training, everything, window = self.data.training, self.data.everything, self.window
        if len(training.all_y) > _SCAN_SAMPLES:
            yield self.scanned.first_samples(_NEXT_SAMPLES).windows(window), self.max_steps, False
        if training.oversample > self.scanned.oversample:
            yield training.first_samples(_NEXT_SAMPLES).windows(window), self.max_steps, True
        while window is not None and window < max(len(y) for y in everything.y):
            yield everything.windows(window), _FINAL_STEPS, True
            window *= _WINDOW_GROWTH
        yield everything, _FINAL_STEPS, True

    def _objective(
        self, candidate: Candidate, step: StepArrays, batch: RecordBatch, x0: Float[ndarray, "records n"]
    ) -> FreeRunObjective:
        return FreeRunObjective(candidate.parameters(step), batch, x0, known_x0=self.n_integrators > 0)

    def _initial_states(self, fit: FitResult, batch: RecordBatch) -> Float[ndarray, "records n"]:
        """The initial states that a fit has found, or those that fit other records best.

        Of models that integrate they are those that fit the first outputs: free to fit the whole of a record, a
        velocity at the beginning would make up for drift.
        """
        if self.n_integrators:
            return fit_initial_states(fit.step, self.n, _first_outputs(batch, self.n), prior=_white_prior(fit)).x0
        return fit.x0 if len(fit.x0) == len(batch) else fit_initial_states(fit.step, self.n, batch).x0

    def _progress(self, stage: str, done: int, total: int) -> Callable[[float], None]:
        """What a descent reports its mean square error to."""
        return lambda cost: self.report(stage=stage, done=done, total=total, objective=math.sqrt(cost))


def validation_error(fit: FitResult, batch: RecordBatch) -> float:
    """Root mean square error of a free run whose initial state was found from the beginning of each record."""
    if not math.isfinite(fit.rmse):
        return math.inf
    n = fit.x0.shape[1]
    x0 = fit_initial_states(fit.step, n, _first_outputs(batch, n), prior=_white_prior(fit)).x0
    run = simulate(fit.step, batch, x0)
    return math.inf if run is None else math.sqrt(run.mean_square)


def _first_outputs(batch: RecordBatch, n: int) -> RecordBatch:
    """The outputs from which initial states are found."""
    return batch.truncated([min(_INITIAL_OUTPUTS, max(n, len(y) // 3)) for y in batch.y])


def _white_prior(fit: FitResult) -> InitialStatePrior:
    """States have unit variance along a run of the linear model, and about that of others."""
    n = fit.x0.shape[1]
    return InitialStatePrior(np.zeros(n), np.eye(n), fit.rmse)


def _with_white_states(step: StepArrays, n: int, batch: RecordBatch) -> StepArrays:
    """The same model with states of mean 0 and unit variance along its run, if it can be run."""
    run = simulate(step, batch, fit_initial_states(step, n, batch).x0)
    if run is None:
        return step
    states = run.points[:, :n]
    return step.in_states(whitening(states), states.mean(axis=0))
