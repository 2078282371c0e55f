"""What the fit of a state-space model has found, in measured units: a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...model._names import as_names
from ...write._record_file import Record, with_infinities
from ..free_run._fit import fit_initial_states
from ..free_run._simulation import simulate
from ..signals._records import Range, RecordBatch, Signals, SignalUnits
from ._search import SearchResult, StateSpaceStart

_ARRAYS = ("x0", "rmse", "linear_rmse", "spread", "points")  # in files
_NUMBERS = ("n_free", "n_front", "flat")
_UNITS = ("u_mean", "u_size", "y_mean", "y_size")
_MOST_POINTS = 2000  # of the training run that are kept, for pictures and domains


@dataclass(frozen=True, eq=False)
class StateSpaceFit:
    """What a fit has found: a record.

    Attributes
    ----------
    step
        One step (x, u) -> (x+, y) in measured units.
    linear
        The linear model with as many states that was fitted to the same data, in measured units.
    starts
        One row per start, the linear model first.
    x0 : (records, n)
        Initial states of the training records.
    rmse, linear_rmse
        Free-run errors on all training records in units of y, one per output.
    points : (k, n + inputs)
        (x, u) along the training records, thinned out.
    n_free
        Numbers that the fit was free to move, initial states not counted.
    n_front
        Without feedback, the states in front of the functions.
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

    def file_record(self) -> Record:
        """For files; the step is written beside it."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {name: getattr(self.units, name) for name in _UNITS}
        arrays |= {"low": self.limits.low, "high": self.limits.high}
        arrays |= {"linear": self.linear.linear, "linear_offset": self.linear.offset}
        about = {name: getattr(self, name) for name in _NUMBERS} | {"oversample": self.units.oversample}
        return Record.of(arrays, about=about, starts=[asdict(row) for row in self.starts])

    @classmethod
    def of_record(cls, step: Decoupling, record: Record) -> StateSpaceFit:
        """The inverse of `file_record`."""
        arrays, about = record.arrays, record["about"]
        found: dict[str, Any] = {name: arrays[name] for name in _ARRAYS} | {name: about[name] for name in _NUMBERS}
        W = [np.zeros_like(step.W[0]), *step.W[1:-1], np.zeros_like(step.W[-1])]
        return cls(
            step=step,
            linear=step.with_parts(W=W, linear=arrays["linear"], offset=arrays["linear_offset"]),
            starts=tuple(StateSpaceStart(**with_infinities(row)) for row in record["starts"]),
            limits=Range(arrays["low"], arrays["high"]),
            units=SignalUnits(**{name: arrays[name] for name in _UNITS}, oversample=about["oversample"]),
            **found,
        )

    def with_names(self, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> StateSpaceFit:
        """The same with these names of (x, u) and (x+, y)."""
        step, linear = (model.with_names(inputs, outputs) for model in (self.step, self.linear))
        return replace(self, step=step, linear=linear)


def in_measured_units(
    found: SearchResult, units: SignalUnits, signals: Signals, everything: RecordBatch
) -> StateSpaceFit:
    """The model in measured units, with its errors on all records."""
    n, errors, points, x0 = found.fit.x0.shape[1], [], None, None
    for fit in (found.linear, found.fit):
        states = fit.x0 if len(fit.x0) == len(everything) else fit_initial_states(fit.step, n, everything).x0
        run = simulate(fit.step, everything, states)
        rmse = np.full(signals.n_outputs, np.inf)
        if run is not None:
            rmse = np.sqrt(np.mean(run.residuals**2, axis=0)) * units.y_size
            points, x0 = run.points[:: max(1, len(run.points) // _MOST_POINTS)], states
        errors.append(rmse)
    assert points is not None
    assert x0 is not None
    points = np.concatenate([points[:, :n], points[:, n:] * units.u_size + units.u_mean], axis=1)
    names = variable_names(n, signals.n_inputs, signals.n_outputs)
    return StateSpaceFit(
        step=found.fit.step.in_measured_units(units).decoupling(*names),
        linear=found.linear.step.in_measured_units(units).decoupling(*names),
        starts=found.starts,
        x0=x0,
        rmse=errors[1],
        linear_rmse=errors[0],
        spread=np.concatenate(signals.y).std(axis=0),
        points=points,
        n_free=found.n_free,
        n_front=found.n_front,
        limits=Range.of("y", signals.y).believable,
        units=units,
        flat=signals.flat,
        records=signals,
    )


def variable_names(
    n: int, n_inputs: int, n_outputs: int, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """Names of (x, u) and of (x+, y); channels without a name are u and y."""
    u, y = _channels("inputs", "u", n_inputs, inputs), _channels("outputs", "y", n_outputs, outputs)
    letter = "x" if not {f"x{i + 1}" for i in range(n)} & {*u, *y} else "state"
    states = [f"{letter}{i + 1}" for i in range(n)]
    return [*states, *u], [*(f"{x}(t+1)" for x in states), *y]


def _channels(argument: str, letter: str, count: int, given: Sequence[str] | None) -> list[str]:
    if given is None:
        return [letter] if count == 1 else [f"{letter}{i + 1}" for i in range(count)]
    return list(as_names(argument, given, count) or ())
