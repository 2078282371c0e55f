"""How good a model is, seen beside the noise in its samples: could these data give a better one?

Three things are looked at, output by output: what inputs still predict of the residuals (`_predictable`), which is
misfit and not noise; the residuals against the degrees of freedom that parameters left, which is the size of the noise;
and the error on samples that are left out, which tells whether the noise itself was fitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...samples._duplicates import without_copies
from ...samples._samples import Samples
from ...solvers.inference._identifiability import Linearisation
from ...solvers.inference._leave_one_out import leave_one_out
from ._noise_tests import agreeing_shares, noise_of_repeated, predictable_shares, repeated_places, share_beyond_noise

_ROUNDING = 1e-8  # of the spread: residuals that are smaller are none
_MUCH = 0.1  # of the squares of the residuals: a model that leaves so much could be better
_RISE, _USED = 1.5, 0.3  # of the error on left-out samples, and of the numbers: where both are more, noise was fitted


class Verdict(Enum):
    """What the samples say about a model; the value is how a person reads it."""

    EXACT = "exact"
    NOISE = "as good as the data allow"
    BETTER = "the data would allow better"
    OVERFITTED = "fitted to the noise"
    UNTESTED = "too few samples to tell"
    UNKNOWN = "unknown"


_ORDER = (
    Verdict.OVERFITTED,
    Verdict.UNTESTED,
    Verdict.BETTER,
    Verdict.UNKNOWN,
    Verdict.NOISE,
    Verdict.EXACT,
)  # worst first


@dataclass(frozen=True, eq=False)
class Quality:
    """What is left of the samples, and what that is: noise, or something that a better model would explain.

    All are arrays with one entry per output; NaN where something is not known.

    Attributes
    ----------
    r_squared
        1 less the squared error over the variance: 1 is perfect, 0 as good as the mean.
    left_out_r_squared
        The same on left-out samples, each predicted by a fit to all others (copies left out with it), to first order.
    noise
        The standard deviation of the noise, in the units of the output: from repeated samples where inputs repeat,
        otherwise from residuals and degrees of freedom, without what inputs predict.
    predictable
        The share of the squares of the residuals that inputs predict; 0 where chance would do as well.
    verdicts
        One `Verdict` per output.
    repeated
        Whether inputs repeat with other outputs, so that noise is known without a model.
    """

    r_squared: Float[ndarray, " n"]
    left_out_r_squared: Float[ndarray, " n"]
    noise: Float[ndarray, " n"]
    predictable: Float[ndarray, " n"]
    verdicts: tuple[Verdict, ...]
    repeated: bool

    @property
    def verdict(self) -> Verdict:
        """The worst of the outputs."""
        return min(self.verdicts, key=_ORDER.index)

    def __str__(self) -> str:
        rows = zip(self.verdicts, self.r_squared, self.left_out_r_squared, self.noise, strict=True)
        return "\n".join(
            f"{verdict.value}: R² {r:.4g}, {left:.4g} on left-out samples, noise {noise:.3g}"
            for verdict, r, left, noise in rows
        )


def quality(model: Decoupling, samples: Samples, at: Linearisation | None) -> Quality:
    """Judge a model by samples in memory; `at` is what is known of its parameters there, if that is known."""
    n, X = model.n_outputs, samples.X
    unknown = np.full(n, np.nan)
    if samples.F is not None:
        data, R = samples.F[:, :, None], (samples.F - model.values(X))[:, :, None]
        spread = samples.F - samples.F.mean(axis=0)
        total = np.sum(spread**2, axis=0)
    elif samples.J is not None:
        data, R = samples.J, samples.J - model.jacobians(X)
        total = np.sum(data**2, axis=(0, 2))
    else:
        return Quality(unknown, unknown, unknown, unknown, (Verdict.UNKNOWN,) * n, repeated=False)
    squares = np.sum(R**2, axis=(0, 2))
    r_squared = _r_squared(squares, total)
    exact = squares <= _ROUNDING**2 * np.maximum(total, np.finfo(float).tiny)
    used = None if at is None else leave_one_out(at)
    left = unknown if used is None else _r_squared(squares * used.rise**2, total)
    once = without_copies(samples)
    X, R, data = X[once], R[once], data[once]
    squares = np.sum(R**2, axis=(0, 2))
    freedom = R[:, 0].size * np.ones(n) - (0.0 if used is None else used.used)
    noise = np.sqrt(squares / freedom) if used is not None and np.all(freedom >= 1.0) else unknown
    place = repeated_places(X) if samples.F is not None else None
    if place is not None:
        around, n_noise = noise_of_repeated(data[:, :, 0], place)
        noise, share = np.sqrt(around / n_noise), share_beyond_noise(squares, freedom, around, n_noise)
    else:
        share = predictable_shares(X, R, data)
        if samples.F is not None and samples.J is not None:
            agreeing = agreeing_shares(X, R[:, :, 0], samples.J[once] - model.jacobians(X))
            share = np.where(agreeing > 0.0, np.fmax(share, agreeing), share)
        noise = noise * np.sqrt(1.0 - np.where(np.isnan(share), 0.0, share))  # what inputs predict is none
    n_used = 0.0 if used is None else used.share * samples.n_samples / len(once)
    overfitted = np.zeros(n, dtype=bool) if used is None else (used.rise > _RISE) & (n_used > _USED)
    untested = np.zeros(n, dtype=bool) if used is None else np.isnan(used.rise)
    verdicts = tuple(
        _verdict(bool(exact[i]), bool(untested[i]), bool(overfitted[i]), float(share[i])) for i in range(n)
    )
    return Quality(r_squared, left, noise, share, verdicts, repeated=place is not None)


def _r_squared(squares: Float[ndarray, " n"], total: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    return 1.0 - np.divide(squares, total, out=np.where(squares > 0.0, np.inf, 0.0), where=total > 0.0)


def _verdict(exact: bool, untested: bool, overfitted: bool, share: float) -> Verdict:
    if untested:
        return Verdict.UNTESTED
    if exact:
        return Verdict.EXACT
    if overfitted:
        return Verdict.OVERFITTED
    if np.isnan(share):
        return Verdict.UNKNOWN
    return Verdict.BETTER if share >= _MUCH else Verdict.NOISE
