"""Dead time: how long outputs take to follow inputs, and models that keep the inputs meanwhile.

A delay of many samples would need as many states. It is found with linear models of two states for inputs that are
shifted, and becomes a shift register of past inputs once a model is found for them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..._support._errors import InputError
from ..free_run._fit import FitResult
from ..free_run._linear import fit_linear
from ..free_run._step import StepArrays
from ..signals._records import Signals, SignalUnits

_DELAYS = (0, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)  # that are tried first, in samples
_SAMPLES_PER_DELAY = 10  # a record must be so many times as long
_SAMPLES = 2048  # that models are fitted to
_FEW_STATES, _MORE_STATES = 2, 4  # of models with a delay, and of one without it that must be worse
_CLEARLY_BETTER = 0.8  # what a delay must lower the error to


def dead_time(signals: Signals) -> int:
    """The delay in samples with which a linear model simulates best; 0 if states alone do as well."""
    errors: dict[int, float] = {}

    def error(delay: int) -> float:
        if delay not in errors:
            errors[delay] = _linear_error(signals, delay, _FEW_STATES)
        return errors[delay]

    longest = min(len(y) for y in signals.y) // _SAMPLES_PER_DELAY
    tried = [delay for delay in _DELAYS if delay <= longest]
    best = min(tried, key=error)
    if best == 0:
        return 0
    step = max(1, tried[tried.index(best)] - tried[tried.index(best) - 1])
    while step > 1:  # the error has one valley: nearer and nearer to its bottom
        step = (step + 1) // 2
        best = min((d for d in (best, best - step, best + step) if 0 <= d <= longest), key=error)
    without = min(error(0), _linear_error(signals, 0, _MORE_STATES))
    return best if error(best) < _CLEARLY_BETTER * without else 0


def _linear_error(signals: Signals, delay: int, n: int) -> float:
    """That of the simulation of the data themselves; infinite if they are too few."""
    shifted = signals.without_delay(delay)
    try:
        batch = SignalUnits.of(shifted, 1).batch(shifted).first_samples(_SAMPLES)
        return fit_linear(batch, batch, n, feedthrough=False).rmse
    except InputError:
        return math.inf


def with_late_inputs(fit: FitResult, delay: int) -> FitResult:
    """The same model for inputs that it gets `delay` samples early: the last states keep them. No initial states."""
    step, n, d = fit.step, fit.x0.shape[1], delay
    m, p = step.n_inputs - n, step.n_outputs - n
    q = d * m  # u(t-1), ..., u(t-d)
    P = np.zeros((n + m, n + q + m))  # (x, u(t-d)) of the larger model's (x, u(t-1), ..., u(t-d), u)
    P[:n, :n], P[n:, n + q - m : n + q] = np.eye(n), np.eye(m)
    Q = np.zeros((n + q + p, n + p))
    Q[:n, :n], Q[n + q :, n:] = np.eye(n), np.eye(p)
    linear = Q @ step.linear @ P
    linear[n : n + m, n + q :] = np.eye(m)
    linear[n + m : n + q, n : n + q - m] = np.eye(q - m)
    larger = StepArrays((step.W[0] @ P, *step.W[1:-1], Q @ step.W[-1]), step.g, linear, Q @ step.offset)
    return replace(fit, step=larger, x0=np.zeros((0, n + q)))
