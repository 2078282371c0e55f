"""Levenberg-Marquardt on the error of a decoupled NARX model over whole records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._checks import as_count
from .._decoupling import Decoupling
from .._errors import InputError, SolverError
from .._progress import progress_callback
from .._threads import one_thread
from ._free_run import free_run, step_of
from ._sensitivity import parameters, sensitivities, value_derivatives, with_parameters
from ._signals import Signals

if TYPE_CHECKING:
    from ._decoupled import DecoupledNARX

_HELD_BACK = 0.25  # share of the last record that validates when no validation record is given
_PATIENCE = 10  # steps without a better validation error
_PROGRESS = 1e-7  # relative gain of a step below which it has settled
_TRIES = 12  # dampings that are tried for one step
_ROWS = 16384  # times whose derivatives are held at once when they do not depend on each other


@dataclass(frozen=True)
class RefineRow:
    """One iterate: root mean square errors in units of y, over all outputs."""

    step: int
    training: float
    validation: float
    damping: float
    chosen: bool = False


@dataclass(frozen=True)
class Objective:
    """The error of decouplings over a set of records."""

    narx: DecoupledNARX
    signals: Signals
    free: bool
    n_init: int

    def run(self, model: Decoupling) -> list[Float[ndarray, "T outputs"]] | None:
        """The outputs that enter as the past, for each record; None when a simulation leaves its range."""
        if not self.free:
            return list(self.signals.y)
        step = step_of(model)
        low, high = self.narx.output_range.widened()
        runs = []
        for u, y in zip(self.signals.u, self.signals.y, strict=True):
            outputs, stopped = free_run(step, self.narx.lags, u, y[: self.n_init], low, high)
            if stopped is not None:
                return None
            runs.append(outputs)
        return runs

    def residuals(self, model: Decoupling, runs: list[ndarray] | None) -> list[ndarray] | None:
        if runs is None:
            return None
        if self.free:
            return [(y - run)[self.n_init :] for y, run in zip(self.signals.y, runs, strict=True)]
        lags, k = self.narx.lags, self.n_init
        pairs = zip(self.signals.u, self.signals.y, strict=True)
        return [y[k:] - model(lags.regressors(u, y, k)) for u, y in pairs]

    def rmse(self, residuals: list[ndarray] | None) -> float:
        if residuals is None:
            return float("inf")
        return float(np.sqrt(np.mean(np.concatenate([r.ravel() for r in residuals]) ** 2)))

    def normal_equations(
        self, model: Decoupling, runs: list[ndarray], residuals: list[ndarray]
    ) -> tuple[Float[ndarray, "P P"], Float[ndarray, " P"]]:
        """Z^T Z and Z^T e with Z the derivatives of all outputs."""
        P = parameters(model).size
        gram, gradient = np.zeros((P, P)), np.zeros(P)
        for u, run, e in zip(self.signals.u, runs, residuals, strict=True):
            X = self.narx.lags.regressors(u, run, self.n_init)
            for rows in [slice(None)] if self.free else [slice(i, i + _ROWS) for i in range(0, len(X), _ROWS)]:
                Z = sensitivities(model, self.narx.lags, X) if self.free else value_derivatives(model, X[rows])
                Z = Z.reshape(-1, P)
                gram += Z.T @ Z
                gradient += Z.T @ e[rows].ravel()
        return gram, gradient


def refine(
    narx: DecoupledNARX,
    u: Any,
    y: Any,
    on: str,
    validation: Any,
    max_steps: int,
    n_init: int | None,
    progress: bool | Callable[..., None],
) -> tuple[Decoupling, tuple[RefineRow, ...]]:
    """The best iterate by validation error, and all of them as rows; see `DecoupledNARX.refine`."""
    if on not in ("simulation", "prediction"):
        raise InputError(f'`on` must be "simulation" or "prediction". Got {on!r}.')
    limit = as_count("max_steps", max_steps)
    lags = narx.lags
    k = max(lags.longest, 1) if n_init is None else as_count("n_init", n_init)
    if k < lags.longest:
        raise InputError(f"`n_init` must be at least the longest lag, {lags.longest}. Got {k}.")
    training, held_back = _records(narx, u, y, validation, k)
    free = on == "simulation"
    fitted, judged = Objective(narx, training, free, k), Objective(narx, held_back, free, k)
    with progress_callback(progress, "Refining") as report, one_thread():
        return _descend(fitted, judged, narx.decoupling, limit, report)


def _records(narx: DecoupledNARX, u: Any, y: Any, validation: Any, n_init: int) -> tuple[Signals, Signals]:
    signals = narx._read(u, y)
    if validation is not None:
        if not isinstance(validation, tuple | list) and not hasattr(validation, "__iter__"):
            raise InputError(f"`validation` must be a record (u, y). Got {type(validation).__name__}.")
        parts = tuple(validation)
        if len(parts) != 2:
            raise InputError(f"`validation` must be a record (u, y). Got {len(parts)} parts.")
        held_back = narx._read(*parts)
    else:
        cut = round((1.0 - _HELD_BACK) * len(signals.u[-1]))
        held_back = Signals((signals.u[-1][cut:],), (signals.y[-1][cut:],))
        signals = Signals((*signals.u[:-1], signals.u[-1][:cut]), (*signals.y[:-1], signals.y[-1][:cut]))
    for name, part in (("u", signals), ("validation", held_back)):
        shortest = min(len(r) for r in part.u)
        if shortest <= n_init:
            raise InputError(
                f"`{name}` must be longer than the {n_init} outputs that a simulation begins with. Got {shortest} "
                "samples" + (" after a quarter was held back: give `validation`." if validation is None else ".")
            )
    return signals, held_back


def _descend(
    fitted: Objective, judged: Objective, model: Decoupling, limit: int, report: Callable[..., None]
) -> tuple[Decoupling, tuple[RefineRow, ...]]:
    theta = parameters(model)
    runs = fitted.run(model)
    if runs is None:
        raise SolverError(
            "The simulation of the model leaves its range on the training record, so it cannot be refined on "
            'simulation. Refine on="prediction" first, or decouple with another rank or seed.'
        )
    residuals = fitted.residuals(model, runs)
    damping = 1e-3
    rows = [RefineRow(0, fitted.rmse(residuals), judged.rmse(judged.residuals(model, judged.run(model))), damping)]
    best, since = (rows[0].validation, 0, model), 0
    for step in range(1, limit + 1):
        assert residuals is not None
        gram, gradient = fitted.normal_equations(model, runs, residuals)
        before = rows[-1].training
        for _ in range(_TRIES):
            trial = with_parameters(model, theta + _move(gram, gradient, damping))
            new_runs = fitted.run(trial)
            new_residuals = fitted.residuals(trial, new_runs)
            after = fitted.rmse(new_residuals)
            if after < before:
                break
            damping *= 4.0
        else:
            break
        assert new_runs is not None
        model, theta, runs, residuals = trial, parameters(trial), new_runs, new_residuals
        damping = max(damping / 10.0, 1e-12)
        rows.append(RefineRow(step, after, judged.rmse(judged.residuals(model, judged.run(model))), damping))
        report(done=step, total=limit, objective=rows[-1].validation)
        if rows[-1].validation < best[0]:
            best = (rows[-1].validation, step, model)
        since = step - best[1]
        if before - after < _PROGRESS * before or since >= _PATIENCE:
            break
    chosen = best[1]
    return best[2], tuple(RefineRow(r.step, r.training, r.validation, r.damping, r.step == chosen) for r in rows)


def _move(gram: ndarray, gradient: ndarray, damping: float) -> Float[ndarray, " P"]:
    """A damped step in units of the columns: scalings that change nothing have no gradient and stay put."""
    unit = np.sqrt(np.diag(gram))
    unit = np.where(unit > 0.0, unit, 1.0)
    scaled = gram / np.outer(unit, unit)
    return np.linalg.solve(scaled + (damping + 1e-14) * np.eye(len(unit)), gradient / unit) / unit
