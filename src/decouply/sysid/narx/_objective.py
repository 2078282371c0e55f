"""The error of a decoupled NARX model over whole records, and its normal equations for Levenberg-Marquardt steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._errors import SolverError
from ...model._decoupling import Decoupling
from ...solvers.least_squares._levenberg_marquardt import Dense
from ..free_run._sensitivities import sensitivities
from ..signals._records import Range, Signals
from ._regressors import Lags
from ._simulation import free_run, step_of
from ._unknowns import Unknowns

_ROWS = 16384  # times whose derivatives are held at once when they do not depend on each other


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a model does on a set of records.

    Attributes
    ----------
    past
        The outputs that enter as regressors, record by record: those of the model itself in a free run.
    residuals
        Measured outputs less those of the model, in `Objective.unit`.
    """

    past: list[Float[ndarray, "_ outputs"]]
    residuals: list[Float[ndarray, "_ outputs"]]

    @property
    def mean_square(self) -> float:
        return float(np.mean(np.concatenate([e.ravel() for e in self.residuals]) ** 2))


@dataclass(frozen=True, eq=False)
class Objective:
    """The mean squared error over all times and outputs of a set of records.

    Attributes
    ----------
    unit
        What the errors of every output are divided by.
    limits
        A free run that leaves these has an infinite error.
    free
        Whether the model runs freely, or predicts one step.
    n_init
        Measured outputs that every record begins with.
    """

    lags: Lags
    signals: Signals
    unit: Float[ndarray, " outputs"]
    limits: Range
    free: bool
    n_init: int

    def outcome(self, model: Decoupling) -> Outcome | None:
        """What the model does; None when a free run leaves its limits."""
        step, k = step_of(model), self.n_init
        found = Outcome([], [])
        for u, y in zip(self.signals.u, self.signals.y, strict=True):
            if self.free:
                run, stopped = free_run(step, self.lags, u, y[:k], self.limits)
                if stopped is not None:
                    return None
                found.past.append(run)
                found.residuals.append((y - run)[k:] / self.unit)
            else:
                found.past.append(y)
                found.residuals.append((y[k:] - model.values(self.lags.regressors(u, y, k))) / self.unit)
        return found

    def rmse(self, model: Decoupling) -> float:
        """Root mean square error; infinite when a free run leaves its limits."""
        outcome = self.outcome(model)
        return float("inf") if outcome is None else float(np.sqrt(outcome.mean_square))

    def normal_equations(self, unknowns: Unknowns, model: Decoupling, outcome: Outcome) -> Dense:
        """Z^T Z and Z^T e with Z the derivatives of all outputs with respect to the unknowns, as a batch of one."""
        P = unknowns.count
        M, g = np.zeros((P, P)), np.zeros(P)
        for u, past, e in zip(self.signals.u, outcome.past, outcome.residuals, strict=True):
            X = self.lags.regressors(u, past, self.n_init)
            for rows in [slice(None)] if self.free else [slice(i, i + _ROWS) for i in range(0, len(X), _ROWS)]:
                Z = sensitivities(unknowns, model, self.lags, X) if self.free else unknowns.derivatives(model, X[rows])
                Z = (Z / self.unit[:, None]).reshape(-1, P)
                M += Z.T @ Z
                g += Z.T @ e[rows].ravel()
        if not (np.isfinite(M).all() and np.isfinite(g).all()):
            raise SolverError(
                "The free run depends so strongly on the parameters that its derivatives overflow: the model is "
                'unstable along the record. Give shorter records, or refine on="prediction".'
            )
        n_errors = sum(e.size for e in outcome.residuals)
        return Dense(M[None] / n_errors, g[None] / n_errors)
