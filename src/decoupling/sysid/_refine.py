"""Levenberg-Marquardt on the error of a decoupled NARX model over whole records."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from .._support._checks import as_count
from .._support._errors import DecouplingWarning, InputError, SolverError
from .._support._interrupts import INTERRUPTED
from .._support._progress import progress_callback
from .._support._threads import one_thread
from ..model._decoupling import Decoupling
from ._abstract import AbstractNARX
from ._free_run import free_run, step_of
from ._lags import Lags
from ._sensitivity import parameters, sensitivities, value_derivatives, with_parameters
from ._signals import Signals
from ._units import Units

_HELD_BACK = 0.25  # share of the last record that validates when no validation record is given
_PATIENCE = 20  # steps without a better validation error
_PROGRESS = 1e-7  # relative gain of a step below which it has settled
_TRIES = 12  # dampings that are tried for one step
_ROWS = 16384  # times whose derivatives are held at once when they do not depend on each other


@dataclass(frozen=True)
class RefineRow:
    """One iterate: root mean square errors over all outputs, each as a share of half the range of its training data."""

    step: int
    training: float
    validation: float
    damping: float
    chosen: bool = False


@dataclass(frozen=True)
class Objective:
    """The error of decouplings over a set of records."""

    lags: Lags
    signals: Signals
    low: Float[ndarray, " outputs"]
    high: Float[ndarray, " outputs"]
    free: bool
    n_init: int
    moving: Bool[ndarray, " P"]

    def run(self, model: Decoupling) -> list[Float[ndarray, "T outputs"]] | None:
        """The outputs that enter as the past, for each record; None when a simulation leaves its range."""
        if not self.free:
            return list(self.signals.y)
        step = step_of(model)
        runs = []
        for u, y in zip(self.signals.u, self.signals.y, strict=True):
            outputs, stopped = free_run(step, self.lags, u, y[: self.n_init], self.low, self.high)
            if stopped is not None:
                return None
            runs.append(outputs)
        return runs

    def residuals(self, model: Decoupling, runs: list[ndarray] | None) -> list[ndarray] | None:
        if runs is None:
            return None
        if self.free:
            return [(y - run)[self.n_init :] for y, run in zip(self.signals.y, runs, strict=True)]
        k = self.n_init
        pairs = zip(self.signals.u, self.signals.y, strict=True)
        return [y[k:] - model(self.lags.regressors(u, y, k)) for u, y in pairs]

    def rmse(self, residuals: list[ndarray] | None) -> float:
        if residuals is None:
            return float("inf")
        return float(np.sqrt(np.mean(np.concatenate([r.ravel() for r in residuals]) ** 2)))

    def normal_equations(
        self, model: Decoupling, runs: list[ndarray], residuals: list[ndarray]
    ) -> tuple[Float[ndarray, "P P"], Float[ndarray, " P"]]:
        """Z^T Z and Z^T e with Z the derivatives of all outputs with respect to the parameters that may move."""
        P = int(self.moving.sum())
        gram, gradient = np.zeros((P, P)), np.zeros(P)
        for u, run, e in zip(self.signals.u, runs, residuals, strict=True):
            X = self.lags.regressors(u, run, self.n_init)
            for rows in [slice(None)] if self.free else [slice(i, i + _ROWS) for i in range(0, len(X), _ROWS)]:
                Z = sensitivities(model, self.lags, X) if self.free else value_derivatives(model, X[rows])
                Z = Z[..., self.moving].reshape(-1, P)
                gram += Z.T @ Z
                gradient += Z.T @ e[rows].ravel()
        return gram, gradient


def refine(
    narx: AbstractNARX,
    model: Decoupling,
    units: Units,
    u: Any,
    y: Any,
    on: str,
    validation: Any,
    max_steps: int,
    n_init: int | None,
    fixed: tuple[str, ...],
    progress: bool | Callable[..., None],
) -> tuple[Decoupling, tuple[RefineRow, ...]]:
    """The best iterate of `model`, which maps scaled signals, and all iterates as rows; see `DecoupledNARX.refine`."""
    if on not in ("simulation", "prediction"):
        raise InputError(f'`on` must be "simulation" or "prediction". Got {on!r}.')
    limit = as_count("max_steps", max_steps)
    lags = narx.lags
    k = max(lags.longest, 1) if n_init is None else as_count("n_init", n_init)
    if k < lags.longest:
        raise InputError(f"`n_init` must be at least the longest lag, {lags.longest}. Got {k}.")
    training, held_back = _records(narx, u, y, validation, k)
    low, high = ((bound - units.y_centre) / units.y_size for bound in narx.output_range.widened())
    moving = _moving(model, fixed)
    fitted, judged = (
        Objective(lags, units.scaled(part), low, high, on == "simulation", k, moving) for part in (training, held_back)
    )
    with progress_callback(progress, "Refining") as report, one_thread(), np.errstate(all="ignore"):
        return _descend(fitted, judged, model, limit, report)


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


def _moving(model: Decoupling, fixed: tuple[str, ...]) -> Bool[ndarray, " P"]:
    """Which parameters may move: all but those of parts such as "W0" or "g1"."""
    names = []
    for l, (W, g) in enumerate(zip(model.W, model.g, strict=False)):
        n_coefficients = g.C.size if l == model.n_layers - 1 else g.C[:, 1:].size
        names += [f"W{l}"] * W.size + [f"g{l + 1}"] * n_coefficients
    names += [f"W{model.n_layers}"] * model.W[-1].size
    return np.array([name not in fixed for name in names])


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
        if not (np.isfinite(gram).all() and np.isfinite(gradient).all()):
            raise SolverError(
                "The free run depends so strongly on the parameters that its derivatives overflow: the model is "
                'unstable along the record. Give shorter records, or refine on="prediction".'
            )
        before = rows[-1].training
        for _ in range(_TRIES):
            move = _move(gram, gradient, damping)
            if not np.isfinite(move).all():
                damping *= 4.0
                continue
            moved = theta.copy()
            moved[fitted.moving] += move
            trial = with_parameters(model, moved)
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
        if rows[-1].validation < best[0]:
            best = (rows[-1].validation, step, model)
        try:
            report(done=step, total=limit, objective=rows[-1].validation)
        except KeyboardInterrupt:
            warnings.warn(INTERRUPTED, DecouplingWarning, stacklevel=4)
            break
        since = step - best[1]
        if before - after < _PROGRESS * before or since >= _PATIENCE:
            break
    if not np.isfinite(best[0]):
        raise SolverError(
            "The simulation leaves its range on the validation record at every step, so no iterate can be chosen: give "
            "another `validation`."
        )
    chosen = best[1]
    return best[2], tuple(RefineRow(r.step, r.training, r.validation, r.damping, r.step == chosen) for r in rows)


def _move(gram: ndarray, gradient: ndarray, damping: float) -> Float[ndarray, " P"]:
    """A damped step in units of the columns: scalings that change nothing have no gradient and stay put."""
    unit = np.sqrt(np.diag(gram))
    unit = np.where(unit > 0.0, unit, 1.0)
    scaled = gram / np.outer(unit, unit)
    return np.linalg.solve(scaled + (damping + 1e-14) * np.eye(len(unit)), gradient / unit) / unit
