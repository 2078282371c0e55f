"""Refinement of a decoupled NARX model: Levenberg-Marquardt on its error over whole records, judged on others."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._arguments import as_count, is_word
from ..._support._blas_threads import one_thread
from ..._support._errors import DecouplingWarning, InputError, SolverError
from ..._support._messages import short_repr
from ..._support._progress import progress_callback
from ..._support._time_limit import TimeLimit
from ...model._decoupling import Decoupling
from ...solvers.least_squares._derivatives import Parameters
from ...solvers.least_squares._levenberg_marquardt import AbstractLinearisation, descend
from ..free_run._fit import LazyNormalEquations, rejected_trial
from ..signals._records import Signals
from ._abstract import AbstractNARX
from ._objective import Objective
from ._unknowns import Unknowns

_HELD_BACK = 0.25  # share of the last record that validates when no validation record is given
_PATIENCE = 20  # steps without a better validation error
_EXACT = 1e-28  # a mean square of errors relative to half the range of the outputs: rounding


@dataclass(frozen=True)
class RefineRow:
    """One iterate: root mean square errors over all outputs, each as a share of half the range of its training data."""

    step: int
    training: float
    validation: float
    chosen: bool = False


def refine(
    narx: AbstractNARX,
    model: Decoupling,
    u: Any,
    y: Any,
    on: str,
    validation: Any,
    max_steps: int,
    max_seconds: float | None,
    n_init: int | None,
    fixed: Collection[str],
    progress: bool | Callable[..., None],
) -> tuple[Decoupling, tuple[RefineRow, ...]]:
    """The best iterate that begins at `model`, and all iterates as rows; see `DecoupledNARX.refine`."""
    if not is_word(on, ("simulation", "prediction")):
        raise InputError(f'`on` must be "simulation" or "prediction". Got {short_repr(on)}.')
    limit = as_count("max_steps", max_steps)
    lags = narx.lags
    k = max(lags.longest, 1) if n_init is None else as_count("n_init", n_init)
    if k < lags.longest:
        raise InputError(f"`n_init` must be at least the longest lag, {lags.longest}. Got {k}.")
    training = narx.trained_on
    unit = training.y.half_width
    fitted, judged = (
        Objective(lags, part, unit, narx.limits, on == "simulation", k) for part in _records(narx, u, y, validation, k)
    )
    unknowns = Unknowns(model, training.middle, training.half_width, unit, fixed)
    with progress_callback(progress, "Refining") as report, one_thread(), np.errstate(all="ignore"):
        return _descend(unknowns, fitted, judged, limit, TimeLimit(report, max_seconds))


def _records(narx: AbstractNARX, u: Any, y: Any, validation: Any, n_init: int) -> tuple[Signals, Signals]:
    signals = narx._read(u, y)
    if validation is not None:
        parts = tuple(validation) if hasattr(validation, "__iter__") else ()
        if len(parts) != 2:
            raise InputError(f"`validation` must be a record (u, y). Got {type(validation).__name__}.")
        held_back = narx._read(*parts, what="validation")
    else:
        longest = int(np.argmax([len(record) for record in signals.u]))
        cut = round((1.0 - _HELD_BACK) * len(signals.u[longest]))
        held_back = Signals((signals.u[longest][cut:],), (signals.y[longest][cut:],))
        u_parts, y_parts = list(signals.u), list(signals.y)
        u_parts[longest], y_parts[longest] = u_parts[longest][:cut], y_parts[longest][:cut]
        signals = Signals(tuple(u_parts), tuple(y_parts))
    for name, part in (("u", signals), ("validation", held_back)):
        shortest = min(len(r) for r in part.u)
        if shortest <= n_init:
            raise InputError(
                f"`{name}` must be longer than the {n_init} outputs that a simulation begins with. Got {shortest} "
                "samples" + (" after a quarter was held back: give `validation`." if validation is None else ".")
            )
    return signals, held_back


def _descend(
    unknowns: Unknowns, fitted: Objective, judged: Objective, limit: int, report: TimeLimit
) -> tuple[Decoupling, tuple[RefineRow, ...]]:
    def linearise(theta: Parameters) -> tuple[ndarray, AbstractLinearisation]:
        """The cost of one set of displacements, as a batch of one."""
        if not np.isfinite(theta[0]).all():  # the step of a singular matrix
            return rejected_trial()
        model = unknowns.model(theta[0][0])
        outcome = fitted.outcome(model)
        if outcome is None:
            return rejected_trial()
        return np.array([outcome.mean_square]), LazyNormalEquations(
            lambda: fitted.normal_equations(unknowns, model, outcome)
        )

    begun = fitted.rmse(unknowns.start)
    if not np.isfinite(begun):
        raise SolverError(
            "The simulation of the model leaves its range on the training record, so it cannot be refined on "
            'simulation. Refine on="prediction" first, or decouple with another rank or seed.'
        )
    watch = _Watch(unknowns, judged, RefineRow(0, begun, judged.rmse(unknowns.start)))
    descent = descend(
        linearise,
        lambda theta, step: [theta[0] + step],
        [np.zeros((1, unknowns.count))],
        max_steps=limit,
        exact=_EXACT,
        deadline=math.inf,
        observe=watch,
        progress=lambda _: report(done=watch.steps, total=limit, objective=watch.best.validation),
    )
    if descent.interrupted:
        warnings.warn(report.reason, DecouplingWarning, stacklevel=4)
    if not np.isfinite(watch.best.validation):
        raise SolverError(
            "The simulation leaves its range on the validation record at every step, so no iterate can be chosen: give "
            "another `validation`."
        )
    return unknowns.as_given(watch.model), tuple(
        dataclasses.replace(row, chosen=row is watch.best) for row in watch.rows
    )


@dataclass
class _Watch:
    """Judges every iterate on the validation records, and ends the descent when they have not got better for long."""

    unknowns: Unknowns
    judged: Objective
    best: RefineRow
    steps: int = 0
    rows: list[RefineRow] = field(init=False)
    model: Decoupling = field(init=False)

    def __post_init__(self) -> None:
        self.rows, self.model = [self.best], self.unknowns.start

    def __call__(self, theta: Parameters, cost: ndarray) -> bool:
        self.steps += 1
        training = float(np.sqrt(cost[0]))
        if training < self.rows[-1].training:
            model = self.unknowns.model(theta[0][0])
            self.rows.append(RefineRow(self.steps, training, self.judged.rmse(model)))
            if self.rows[-1].validation < self.best.validation:
                self.best, self.model = self.rows[-1], model
        return self.steps - self.best.step < _PATIENCE
