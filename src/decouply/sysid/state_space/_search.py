"""The search for a decoupled state-space model: a linear model first, then several starts, chosen by validation.

What it finds is a record in measured units, which files hold.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_count
from ..._support._errors import DecouplingWarning, SolverError
from ..._support._time_limit import TimeLimit
from ...model._decoupling import Decoupling
from ...model._names import as_names
from ...write._record_file import Record, with_infinities
from ..free_run._fit import FitResult, FreeRunObjective, InitialStatePrior, fit_free_run, fit_initial_states
from ..free_run._linear import fit_linear
from ..free_run._simulation import simulate
from ..free_run._step import StepArrays, whitening
from ..signals._records import Range, RecordBatch, Signals, SignalUnits
from ._initial_models import Candidate, candidates, in_other_bases
from ._structure import StateSpaceStructure

_SCAN_SAMPLES = 8192  # outputs that a start is tried on
_NEXT_SAMPLES = 16_384  # and that the best goes on with, before all
_SCAN_STEPS, _MOST_SCAN_STEPS = 30, 100  # of a start, on many data and on few, which cost little
_FINAL_STEPS = 60  # on all data
_INITIAL_OUTPUTS = 50  # from which the initial state of a validation record is found
_WINDOW_GROWTH = 4  # from stage to stage
_SCAN_SETTLES_AT, _FINAL_SETTLES_AT = 1e-3, 1e-4  # descents cross plateaus of many steps
_MOST_POINTS = 2000  # of the training run that are kept, for pictures and domains
_ARRAYS = ("x0", "rmse", "linear_rmse", "spread", "points")  # in files
_NUMBERS = ("n_free", "n_front", "flat")
_UNITS = ("u_mean", "u_size", "y_mean", "y_size")


@dataclass(frozen=True)
class StateSpaceStart:
    """One start: simulation errors on training and validation records, relative to the standard deviation of y.

    Attributes
    ----------
    start : str
        "linear" for the linear model, "physical", "random 1", ...; of a Wiener-Hammerstein model with its poles.
    training, validation : float
        Root mean square errors; infinite if the model is unstable.
    steps : int
        Levenberg-Marquardt steps.
    chosen : bool
        Whether this one was finished on all training data.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 200)
    >>> y = np.zeros(200)
    >>> for t in range(1, 200):
    ...     y[t] = 0.5 * y[t - 1] + np.tanh(3 * u[t - 1])
    >>> model = dc.sysid.DecoupledStateSpace(1, [dc.bases.Tanh()], feedthrough=False).fit(u, y, n_starts=1)
    >>> len([row for row in model.starts if row.chosen])
    1
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
    start : model, optional
        A model to begin with beside the other starts: a dynamic model with as many states and the same functions. It
        is another `DecoupledStateSpace`, or a `DecoupledNARX`, whose states are past inputs and outputs.
    window : int or None
        Begin with windows of this many samples, each with its initial state (multiple shooting), if a
        simulation over whole records drifts or is unstable. Windows then grow to whole records, as far as the model can
        be run over them.
    max_steps : int
        Steps of the chosen start on the first 16384 samples of long records, before all data are used. Fewer are taken
        if the error settles earlier.

    Examples
    --------
    >>> import decouply as dc
    >>> dc.sysid.SearchOptions(window=200).window
    200
    """

    start: Any = None
    window: int | None = None
    max_steps: int = 40

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_steps", as_count("max_steps", self.max_steps))
        if self.window is not None:
            object.__setattr__(self, "window", as_count("window", self.window))


@dataclass(frozen=True, eq=False)
class StateSpaceFit:
    """What a fit has found: a record.

    Attributes
    ----------
    step : Decoupling
        One step (x, u) -> (x+, y) in measured units.
    linear : Decoupling
        The linear model with as many states that was fitted to the same data, in measured units.
    starts : tuple of StateSpaceStart
        One row per start, the linear model first.
    x0 : (records, n)
        Initial states of the training records.
    rmse, linear_rmse : array (outputs,)
        Simulation errors on all training records in units of y, one per output.
    points : (k, n + inputs)
        (x, u) along the training records, thinned out.
    n_free : int
        Numbers that the fit was free to move, initial states not counted.
    n_front : int or None
        Without feedback, the states in front of the functions.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 200)
    >>> y = np.zeros(200)
    >>> for t in range(1, 200):
    ...     y[t] = 0.5 * y[t - 1] + np.tanh(3 * u[t - 1])
    >>> model = dc.sysid.DecoupledStateSpace(1, [dc.bases.Tanh()], feedthrough=False).fit(u, y, n_starts=1)
    >>> bool(model.fitted.rmse[0] < model.fitted.linear_rmse[0])
    True
    """

    step: Decoupling
    linear: Decoupling
    starts: tuple[StateSpaceStart, ...]
    x0: Float[ndarray, "records n"]
    rmse: Float[ndarray, " outputs"]
    linear_rmse: Float[ndarray, " outputs"]
    spread: Float[ndarray, " outputs"]
    points: Float[ndarray, "k m"]
    n_free: int
    n_front: int | None
    limits: Range
    units: SignalUnits
    flat: bool
    records: Signals | None = None  # what it was fitted to; not kept in files
    sampling_time: float | None = None  # seconds between samples, if they are known

    def file_record(self) -> Record:
        """For files; the step is written beside it."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {name: getattr(self.units, name) for name in (*_UNITS, "filters")}
        arrays |= {"low": self.limits.low, "high": self.limits.high}
        arrays |= {"linear": self.linear.linear, "linear_offset": self.linear.offset}
        about = {name: getattr(self, name) for name in _NUMBERS} | {"oversample": self.units.oversample}
        about |= {} if self.sampling_time is None else {"sampling_time": self.sampling_time}
        return Record.of(arrays, about=about, starts=[asdict(row) for row in self.starts])

    @classmethod
    def of_record(cls, step: Decoupling, record: Record) -> StateSpaceFit:
        """The inverse of `file_record`."""
        arrays, about = record.arrays, record["about"]
        k, n = arrays["x0"].shape
        m, p = step.n_inputs - n, step.n_outputs - n
        sizes: dict[str, tuple[int, ...]] = {"x0": (k, n), "points": (len(arrays["points"]), n + m)}
        sizes |= {"linear": (n + p, n + m), "linear_offset": (n + p,)}
        sizes |= dict.fromkeys(("rmse", "linear_rmse", "spread", "low", "high", "y_mean", "y_size"), (p,))
        sizes |= dict.fromkeys(("u_mean", "u_size"), (m,))
        if (filters := arrays.get("filters")) is not None:
            sizes["filters"] = (m, about["oversample"] - 1, max(2, filters.shape[-1]))
        for name, size in sizes.items():
            if arrays[name].shape != size:
                raise ValueError(f"{name} has shape {arrays[name].shape}, not {size}")
        seconds = about.get("sampling_time")
        if step.linear is None or step.offset is None or about["oversample"] < 1 or (seconds or 1.0) <= 0.0:
            raise ValueError("its step has no linear part, or no length")
        found: dict[str, Any] = {name: arrays[name] for name in _ARRAYS} | {name: about[name] for name in _NUMBERS}
        W = [np.zeros_like(step.W[0]), *step.W[1:-1], np.zeros_like(step.W[-1])]
        return cls(
            step=step,
            linear=step.with_parts(W=W, linear=arrays["linear"], offset=arrays["linear_offset"]),
            starts=tuple(StateSpaceStart(**with_infinities(row)) for row in record["starts"]),
            limits=Range(arrays["low"], arrays["high"]),
            units=SignalUnits(
                **{name: arrays[name] for name in _UNITS}, oversample=about["oversample"], filters=filters
            ),
            sampling_time=seconds,
            **found,
        )

    def with_names(self, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> StateSpaceFit:
        """The same with these names of (x, u) and (x+, y)."""
        step, linear = (model.with_names(inputs, outputs) for model in (self.step, self.linear))
        return replace(self, step=step, linear=linear)


def search(
    structure: StateSpaceStructure,
    units: SignalUnits,
    signals: Signals,
    split: tuple[Signals, Signals],
    options: SearchOptions,
    n_starts: int,
    *,
    rng: np.random.Generator,
    report: TimeLimit,
) -> StateSpaceFit:
    """The linear model, the scan of all starts, and the descent of the best one on more and more data.

    `split` are records to fit and records that choose. The model to begin with, `options.start`, is a `StepArrays` in
    standard units here.
    """
    n, n_integrators = structure.n_states, structure.n_integrators(signals.n_outputs)
    training, validation, everything = (units.batch(records) for records in (*split, signals))

    def objective(candidate: Candidate, step: StepArrays, batch: RecordBatch, x0: ndarray) -> FreeRunObjective:
        return FreeRunObjective(
            candidate.parameters(step), batch, x0, known_x0=n_integrators > 0, stable=structure.stable
        )

    def progress(stage: str, done: int) -> Callable[[float], None]:
        return lambda cost: report(stage=stage, done=done, total=len(starts) + 1, objective=math.sqrt(cost))

    # The linear model.
    linear = fit_linear(
        training, units.interpolated_batch(split[0]), n, feedthrough=structure.feedthrough, n_integrators=n_integrators
    )
    rows = [StateSpaceStart("linear", linear.rmse, validation_error(linear, validation), linear.steps)]

    # All starts with their initial states, the model that was given first. Without feedback poles are shared out, which
    # those of interpolated outputs cannot be: steps get smaller later.
    scanned, judging, base = training, validation, linear
    if not structure.feedback and units.oversample > 1:
        scanned, judging = training.at_measured_times(), validation.at_measured_times()
        base = fit_linear(scanned, scanned, n, feedthrough=structure.feedthrough)
    part = scanned.first_samples(_SCAN_SAMPLES)
    run = simulate(base.step, part, base.x0[: len(part)])
    if run is None:
        raise SolverError(
            "The linear model that all starts begin with is unstable on the training record: give fewer states, or "
            "records in which the outputs stay within bounds."
        )
    part = part.windows(options.window)
    x0 = initial_states(base, part, n_integrators)
    starts = [(c, x0) for c in candidates(structure.coarse, base.step, run.points, n_starts, rng)]
    if (given := options.start) is not None:
        step = given if n_integrators else _with_white_states(given, n, part)
        first = Candidate("given", step, structure.free_entries(step))
        starts.insert(0, (first, fit_initial_states(step, n, part).x0))

    # Every start is fitted to the beginning of the training records: the best one on the validation records.
    max_steps = min(_MOST_SCAN_STEPS, _SCAN_STEPS * _SCAN_SAMPLES // len(part.all_y))
    best, least, interrupted = None, math.inf, False
    for k, (candidate, x0) in enumerate(starts):
        so_far = "" if best is None else f" (best so far: {100.0 * least:.3g} %)"
        fit = fit_free_run(
            objective(candidate, candidate.step, part, x0),
            max_steps=max_steps,
            settles_at=_SCAN_SETTLES_AT,
            progress=progress(f"start {k + 1} of {len(starts)}{so_far}", k),
        )
        error = validation_error(fit, judging)
        rows.append(StateSpaceStart(candidate.name, fit.rmse, error, fit.steps))
        if error < least:
            best, least = (len(rows) - 1, fit, candidate), error
        interrupted = fit.interrupted
        if interrupted:
            break
    if best is None:
        if not interrupted:
            raise SolverError(
                "No start gave a model whose simulation stays finite on the validation record: give a `window` in "
                "`search`, fewer states or functions, or another `validation`."
            )
        warnings.warn(report.reason, DecouplingWarning, stacklevel=3)
        return in_measured_units(linear, linear, units, signals, tuple(rows))

    # The best one goes on with more data, then with smaller steps per sample, then with windows that grow.
    row, fit, candidate = best
    rows[row] = replace(rows[row], chosen=True)
    oversample = scanned.oversample
    for batch, max_steps, final in _stages(scanned, training, everything, options):
        if interrupted:
            break
        if batch.oversample > oversample:
            oversample = batch.oversample
            fit = replace(fit, step=fit.step.in_smaller_steps(n, oversample))
        x0, step = initial_states(fit, batch, n_integrators), fit.step
        if final and step.layers != structure.layers:  # the bases that were asked for, on all that is visited
            run = simulate(step, batch, x0)
            step = step if run is None else in_other_bases(step, structure.layers, run.points)
        longer = fit_free_run(
            objective(candidate, step, batch, x0),
            max_steps=max_steps,
            settles_at=_FINAL_SETTLES_AT,
            progress=progress("finishing", len(starts)),
        )
        if math.isfinite(longer.rmse):  # longer windows may be more than an unstable model can cross
            fit = longer
        interrupted = longer.interrupted
    if units.oversample > oversample:  # ended before
        fit = replace(fit, step=fit.step.in_smaller_steps(n, units.oversample))
    if interrupted:
        warnings.warn(report.reason, DecouplingWarning, stacklevel=3)
    found = in_measured_units(fit, linear, units, signals, tuple(rows))
    return replace(found, n_free=candidate.parameters(fit.step).count, n_front=candidate.n_front)


def _stages(
    scanned: RecordBatch, training: RecordBatch, everything: RecordBatch, options: SearchOptions
) -> Iterator[tuple[RecordBatch, int, bool]]:
    """Records, the most steps on them, and whether with the bases that were asked for."""
    window = options.window
    if len(training.all_y) > _SCAN_SAMPLES:
        yield scanned.first_samples(_NEXT_SAMPLES).windows(window), options.max_steps, False
    if training.oversample > scanned.oversample:
        yield training.first_samples(_NEXT_SAMPLES).windows(window), options.max_steps, True
    while window is not None and window < max(len(y) for y in everything.y):
        yield everything.windows(window), _FINAL_STEPS, True
        window *= _WINDOW_GROWTH
    yield everything, _FINAL_STEPS, True


def validation_error(fit: FitResult, batch: RecordBatch) -> float:
    """Root mean square error of a simulation whose initial state was found from the beginning of each record."""
    if not math.isfinite(fit.rmse):
        return math.inf
    n = fit.x0.shape[1]
    x0 = fit_initial_states(fit.step, n, _first_outputs(batch, n), prior=_white_prior(fit)).x0
    run = simulate(fit.step, batch, x0)
    return math.inf if run is None else math.sqrt(run.mean_square)


def initial_states(fit: FitResult, batch: RecordBatch, n_integrators: int) -> Float[ndarray, "records n"]:
    """Those that the fit has found, or those that fit other records best.

    Of models that integrate they are those that fit the first outputs: free to fit the whole of a record, a velocity at
    the beginning would make up for drift.
    """
    n = fit.x0.shape[1]
    if n_integrators:
        return fit_initial_states(fit.step, n, _first_outputs(batch, n), prior=_white_prior(fit)).x0
    return fit.x0 if len(fit.x0) == len(batch) else fit_initial_states(fit.step, n, batch).x0


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


def in_measured_units(
    fit: FitResult,
    linear: FitResult,
    units: SignalUnits,
    signals: Signals,
    starts: tuple[StateSpaceStart, ...],
    *,
    n_free: int = 0,
) -> StateSpaceFit:
    """A model and the linear one beside it in measured units, with their errors on all records."""
    n, everything, errors, points, x0 = fit.x0.shape[1], units.batch(signals), [], None, None
    for some in (linear, fit):
        states = some.x0 if len(some.x0) == len(everything) else fit_initial_states(some.step, n, everything).x0
        run = simulate(some.step, everything, states)
        rmse = np.full(signals.n_outputs, np.inf)
        if run is not None:
            rmse = np.sqrt(np.mean(run.residuals**2, axis=0)) * units.y_size
            points, x0 = run.points[:: max(1, len(run.points) // _MOST_POINTS)], states
        errors.append(rmse)
    assert points is not None
    assert x0 is not None
    names = variable_names(n, signals.n_inputs, signals.n_outputs)
    return StateSpaceFit(
        step=fit.step.in_measured_units(units).decoupling(*names),
        linear=linear.step.in_measured_units(units).decoupling(*names),
        starts=starts,
        x0=x0,
        rmse=errors[1],
        linear_rmse=errors[0],
        spread=np.concatenate(signals.y).std(axis=0),
        points=np.concatenate([points[:, :n], points[:, n:] * units.u_size + units.u_mean], axis=1),
        n_free=n_free,
        n_front=None,
        limits=Range.of("y", signals.y).believable,
        units=units,
        flat=signals.flat,
        records=signals,
        sampling_time=signals.sampling_time,
    )


def variable_names(
    n: int, n_inputs: int, n_outputs: int, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """Names of (x, u) and of (x+, y); channels without a name are u and y."""
    u, y = (
        [letter if count == 1 else f"{letter}{i + 1}" for i in range(count)]
        if names is None
        else list(as_names(argument, names, count) or ())
        for argument, letter, count, names in (("inputs", "u", n_inputs, inputs), ("outputs", "y", n_outputs, outputs))
    )
    letter = "x" if not {f"x{i + 1}" for i in range(n)} & {*u, *y} else "state"
    states = [f"{letter}{i + 1}" for i in range(n)]
    return [*states, *u], [*(f"{x}(t+1)" for x in states), *y]
