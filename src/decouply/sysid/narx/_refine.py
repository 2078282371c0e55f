"""Refinement of a decoupled NARX model: Levenberg-Marquardt on its error over whole records, judged on others.

The model runs as a state space (`as_state_space`), in units in which regressors and outputs of the training records
fill [-1, 1]. So steps do not depend on the units of the signals, nor on how far these are from 0.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._errors import DecouplingWarning, SolverError
from ..._support._machine import one_thread
from ..._support._time_limit import TimeLimit
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ...model._units import Units
from ...solvers.least_squares._levenberg_marquardt import Dense, DescentOptions, descend
from ..free_run._fit import MEAN_SQUARE_AT_ROUNDING, FreeRunObjective, LazyNormalEquations
from ..free_run._step import FreeParameters, StepArrays
from ..signals._records import Range, RecordBatch, Signals, SignalUnits
from ._narx import Training, as_narx, as_state_space, repeated_outputs

_PATIENCE = 20  # steps without a better validation error


@dataclass(frozen=True)
class RefineRow:
    """One iterate: root mean square errors over all outputs, each as a share of half the range of its training data."""

    step: int
    training: float
    validation: float
    chosen: bool = False


@dataclass(frozen=True, eq=False)
class NARXInStandardUnits:
    """A decoupling of regressors as a state space in standard units, and which of its numbers may move.

    All do but the parts that are `fixed`, such as "W0" or "g1". The offset takes the place of constants of the last
    layer, unless these are fixed.
    """

    decoupling: Decoupling
    training: Training
    fixed: Collection[str]

    @property
    def _keeps_constants(self) -> bool:
        return f"g{self.decoupling.n_layers}" in self.fixed

    @cached_property
    def units(self) -> SignalUnits:
        """By the ranges of the training records."""
        u, y = self.training.u, self.training.y
        # Domains that are fixed stay while W_0 moves: only around 0 are they the same in other units.
        centred = float("g1" not in self.fixed or "W0" in self.fixed)
        return SignalUnits(centred * u.middle, u.half_width, centred * y.middle, y.half_width)

    @property
    def _regressor_units(self) -> tuple[Float[ndarray, " m"], Float[ndarray, " m"]]:
        """Centre and size of every regressor."""
        units, repeated = self.units, self.training.lags.repeated
        return repeated(units.u_mean, units.y_mean), repeated(units.u_size, units.y_size)

    @cached_property
    def parameters(self) -> FreeParameters:
        """What may move in the model to begin with."""
        model, lags = self.decoupling, self.training.lags
        start = StepArrays.of(model)
        if self._keeps_constants:
            offset = np.zeros(model.n_outputs) if model.offset is None else model.offset
            start = dataclasses.replace(start, g=model.g, offset=offset)
        centre, size = self._regressor_units
        start = start.in_variables(np.diag(size), centre, np.diag(1.0 / self.units.y_size), self.units.y_mean)
        step = as_state_space(start, lags)
        outputs = np.arange(step.n_outputs) >= lags.n_states
        free: dict[str, ndarray] = {}
        for l, g in enumerate(step.g, start=1):
            free[f"W{l - 1}"] = np.ones(step.W[l - 1].shape, dtype=bool)
            free[f"g{l}"] = np.arange(g.degree) < np.array(g.layer.sizes)[:, None]
            free[f"middle{l}"] = g.layer.free_domain.copy()
        free[f"W{step.n_layers}"] = np.repeat(outputs[:, None], step.W[-1].shape[1], axis=1)
        if model.linear is not None:
            free["linear"] = np.repeat(outputs[:, None], step.n_inputs, axis=1)
        if model.offset is not None or not self._keeps_constants:
            free["offset"] = outputs
        free = {name: mask for name, mask in free.items() if name.replace("middle", "g") not in self.fixed}
        return FreeParameters(step, free, repeated_outputs(lags))

    def objective(self, signals: Signals, n_init: int, limits: Range, *, simulated: bool) -> FreeRunObjective:
        """The error after the first `n_init` outputs of every record: of the simulation, or one step ahead."""
        lags, units = self.training.lags, self.units
        u, y = [units.inputs(a) for a in signals.u], [units.outputs(b) for b in signals.y]
        states = [lags.regressors(a, b, n_init)[:, lags.n_inputs :] for a, b in zip(u, y, strict=True)]
        batch = RecordBatch(tuple(a[n_init:] for a in u), tuple(b[n_init:] for b in y))
        return FreeRunObjective(
            self.parameters,
            batch,
            np.array([x[0] for x in states]),
            known_x0=True,
            measured_states=None if simulated else np.concatenate(states),
            limits=Range(units.outputs(limits.low), units.outputs(limits.high)),
        )

    def in_measured_units(self, step: StepArrays) -> Decoupling:
        """The decoupling of a step, written like the one to begin with."""
        model, units, (centre, size) = self.decoupling, self.units, self._regressor_units
        found = as_narx(step, self.training.lags).in_variables(
            np.diag(1.0 / size), -centre / size, np.diag(units.y_size), -units.y_mean / units.y_size
        )
        # Parts that are fixed are those given, to the last digit.
        W = [model.W[l] if f"W{l}" in self.fixed else W for l, W in enumerate(found.W)]
        g = [
            model.g[l - 1] if f"g{l}" in self.fixed else Functions(g.layer.bases, g.C, g.domain, g.outside)
            for l, g in enumerate(found.g, start=1)
        ]
        has_linear = model.linear is not None
        has_offset = has_linear or model.offset is not None or not self._keeps_constants
        refined = model.with_parts(
            W=W, g=g, linear=found.linear if has_linear else None, offset=found.offset if has_offset else None
        )
        if model.offset is not None or self._keeps_constants:
            return refined
        # Constants go back to the last layer if they were there, as far as W_L reaches them.
        return Units.given(model.n_inputs, model.n_outputs).to_given(refined)


def refine(
    narx: NARXInStandardUnits, fitted: FreeRunObjective, judged: FreeRunObjective, max_steps: int, report: TimeLimit
) -> tuple[Decoupling, tuple[RefineRow, ...]]:
    """The best iterate on the validation records `judged`, and all iterates as rows; see `DecoupledNARX.refine`."""

    def linearise(theta: ndarray) -> tuple[ndarray, LazyNormalEquations]:
        cost, trial = fitted.linearise(theta)
        return cost, LazyNormalEquations(lambda: _checked(trial.equations))

    with one_thread(), np.errstate(all="ignore"):
        start = fitted.start
        first = RefineRow(0, fitted.rmse(start), judged.rmse(start))
        if not np.isfinite(first.training):
            raise SolverError(
                "The simulation of the model leaves its range on the training record, so it cannot be refined on "
                'simulation. Refine on="prediction" first, or decouple with another rank or seed.'
            )
        watch = _Watch(judged, first, start)
        descent = descend(
            linearise,
            lambda theta, step: theta + step,
            start[None],
            DescentOptions(max_steps=max_steps, exact=MEAN_SQUARE_AT_ROUNDING),
            deadline=math.inf,
            observe=watch,
            progress=lambda _: report(done=watch.steps, total=max_steps, objective=watch.best.validation),
        )
    if descent.interrupted:
        warnings.warn(report.reason, DecouplingWarning, stacklevel=3)
    if not np.isfinite(watch.best.validation):
        raise SolverError(
            "The simulation leaves its range on the validation record at every step, so no iterate can be chosen: give "
            "another `validation`."
        )
    rows = tuple(dataclasses.replace(row, chosen=row is watch.best) for row in watch.rows)
    return narx.in_measured_units(fitted.model(watch.unknowns)[0]), rows


def _checked(equations: Dense) -> Dense:
    if not (np.isfinite(equations.M).all() and np.isfinite(equations.g).all()):
        raise SolverError(
            "The simulation depends so strongly on the parameters that its derivatives overflow: the model is unstable "
            'along the record. Give shorter records, or refine on="prediction".'
        )
    return equations


@dataclass
class _Watch:
    """Judges every iterate on the validation records, and ends the descent when they have not got better for long."""

    judged: FreeRunObjective
    best: RefineRow
    unknowns: Float[ndarray, " N"]
    steps: int = 0
    rows: list[RefineRow] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = [self.best]

    def __call__(self, theta: ndarray, cost: ndarray) -> bool:
        self.steps += 1
        training = float(np.sqrt(cost[0]))
        if training < self.rows[-1].training:
            self.rows.append(RefineRow(self.steps, training, self.judged.rmse(theta[0])))
            if self.rows[-1].validation < self.best.validation:
                self.best, self.unknowns = self.rows[-1], theta[0].copy()
        return self.steps - self.best.step < _PATIENCE
