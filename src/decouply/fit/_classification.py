"""Models of log-odds: a shape, its ridge and its parameters, and how good they are.

Least squares to indicators of the classes give a start for every shape. Likelihood takes over from there, with a ridge
that grows step by step; validation errors, to first order, choose the shape and the ridge.

Is a model better than guessing, and could these samples give a better one? Three things are looked at: the likelihood
of validation samples beside that of the shares of the classes alone. The same likelihood beside that of the fitted
samples, which tells whether chance was fitted. And whether inputs still predict by how much a class that was seen
differs from its probability (`_noise_tests`), which a better model would explain.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from .._support._errors import InputError, silenced
from .._support._machine import one_thread
from .._support._progress import progress_callback
from .._support._time_limit import OUT_OF_TIME, deadline_after, now
from ..model._decoupling import Decoupling
from ..model._units import Units
from ..samples._duplicates import n_copies, without_copies
from ..samples._model_errors import canonical_at
from ..samples._samples import Samples
from ..solvers import VarPro
from ..solvers.least_squares._fitting_problem import model_of
from ..solvers.least_squares._levenberg_marquardt import DescentOptions, descend
from ..solvers.least_squares._logistic_deviance import Deviance, log_likelihoods, probabilities
from ..solvers.least_squares._parameters import Parameters, parameters_of
from ..solvers.problem._prepared_samples import PreparedSamples
from ..solvers.problem._problem import Problem
from ._fit_one_shape import fit_one_shape
from ._settings import Settings
from ._simplification import without_functions
from .quality._noise_tests import predictable_shares
from .quality._quality import Grade, Verdict, percent
from .select._growth import MIN_SECONDS, N_STARTS
from .select._select import MAX_RANK

RIDGES = (1.0, 3.0, 10.0, 30.0)  # below 1, data that can be separated look better than they are
FIRST_DEGREE = 3  # of all ranks
_PAYS = 0.98  # times the error on left-out samples: a larger shape must get below
_SHARE_OF_ROUNDING = 1e-9  # relative errors below are rounding
_OTHER_DEGREES = (1, 2, 5)  # tried with the best rank
_START_RIDGE = 1e-6  # of least squares
_STEEP = 4.0  # log-odds per probability, at one half
_STEPS, _SETTLES_AT = 100, 1e-5  # for every ridge ...
_LAST_STEPS, _LAST_SETTLES_AT = 500, 1e-13  # ... and for the one that is chosen
_IDLE = 1e-9  # of the largest contribution: a function that a ridge has made zero
_PER_PARAMETER = 3.0  # samples, at least: a class tells less than a number
_GUESSING = 0.98  # times the deviance of the shares alone: a model must get below on left-out samples ...
_SURE = 2.0  # ... by so many standard errors of the difference
_RISE, _BY = 1.5, 0.1  # of the deviance on left-out samples, and that relative to guessing: if both, chance was fitted
_SEPARATED = 0.02  # of samples that may be on the wrong side when left out
_MUCH = 0.01  # of the variance of the classes that is missed and could be predicted; less is what a ridge does


# The fit


@dataclass(frozen=True)
class LogisticFit:
    """A model of log-odds and how well it predicts.

    Attributes
    ----------
    decoupling
        Log-odds of the second of two classes, or of all classes up to a common number.
    ridge
        The penalty on squared parameters, beside -2 log p of all samples.
    deviance, left_out_deviance
        Means of -2 log p of the class that was seen: on the samples, and on validation samples.
    left_out
        Log-odds of every sample by a fit without it, to first order.
    note
        Which shapes were compared.
    """

    decoupling: Decoupling
    ridge: float
    deviance: float
    left_out_deviance: float
    left_out: Float[ndarray, "S n"]
    note: str

    @property
    def n_parameters(self) -> int:
        return self.decoupling.n_parameters


def fit_logistic(
    samples: Samples, settings: Settings, *, ridge: float | None, progress: bool | Callable[..., None]
) -> LogisticFit:
    """Fit log-odds to samples whose F is 0 or 1 (two classes), or a 1 among zeros for each class.

    If the ranks of the settings are None, one layer of up to four functions is chosen; so is a ridge that is None. Out
    of time, the fit is the best so far.
    """
    deadline = deadline_after(settings.max_seconds)
    ridges = RIDGES if ridge is None else (ridge,)
    once = without_copies(samples)
    n_seen = len(once) if samples.weights is None else float(np.sum(samples.weights[once]))
    tried: list[LogisticFit] = []

    def attempt(asked: Settings) -> LogisticFit:
        start = dataclasses.replace(
            asked,
            solver=VarPro(ridge=_START_RIDGE),
            n_starts=N_STARTS if asked.n_starts is None else asked.n_starts,
            max_seconds=None if asked.max_seconds is None else max(deadline - now(), MIN_SECONDS),
        )
        with silenced() if tried else nullcontext(), progress_callback(progress, "Classes") as report, one_thread():
            least_squares = fit_one_shape(samples, start, progress=report)
            tried.append(_most_likely(samples, least_squares.decoupling, ridges, report, deadline))
        return tried[-1]

    def is_determined(asked: Settings) -> bool:
        """Whether there are enough samples for a shape, and time for it."""
        n_numbers = n_seen * max(1, samples.n_outputs - 1)
        return _PER_PARAMETER * asked.n_free(samples) <= n_numbers and now() < deadline

    def attempt_shape(rank: int, degree: int | None) -> LogisticFit | None:
        asked = dataclasses.replace(settings, ranks=rank, degrees=degree)
        return attempt(asked) if not tried or is_determined(asked) else None

    if settings.ranks is not None:
        return dataclasses.replace(attempt(settings), note=OUT_OF_TIME if now() > deadline else "")
    chooses_degree = settings.degrees is None and (settings.basis is None or isinstance(settings.basis, type))
    first = settings.degrees
    if chooses_degree:
        first = FIRST_DEGREE if is_determined(dataclasses.replace(settings, ranks=1, degrees=FIRST_DEGREE)) else 1
    best, rank = attempt_shape(1, first), 1
    assert best is not None  # the first shape is always tried
    while (
        rank < MAX_RANK and best.left_out_deviance > _SHARE_OF_ROUNDING
    ):  # each must predict left-out samples better than the one before
        rank += 1
        larger = attempt_shape(rank, first)
        if larger is None or larger.left_out_deviance >= _PAYS * best.left_out_deviance:
            break
        best = larger
    for degree in _OTHER_DEGREES if chooses_degree else ():
        if degree != first:
            attempt_shape(best.decoupling.ranks[0], degree)
    allowed = max(min(one.left_out_deviance for one in tried) / _PAYS, _SHARE_OF_ROUNDING)
    chosen = min((one for one in tried if one.left_out_deviance <= allowed), key=lambda one: one.n_parameters)
    words = ", ".join(f"{row.decoupling.g[0].in_words}: {row.left_out_deviance:.3g}" for row in tried)
    used = _without_idle(chosen.decoupling, samples.X)
    n_idle = chosen.decoupling.ranks[0] - used.ranks[0]
    idle = f" The ridge made {n_idle} of {chosen.decoupling.ranks[0]} functions zero; dropped." if n_idle else ""
    late = f" {OUT_OF_TIME}" if now() > deadline else ""
    note = f"Deviance in cross-validation: {words}.{idle}{late}"
    return dataclasses.replace(chosen, decoupling=used, note=note)


def _without_idle(model: Decoupling, X: Float[ndarray, "S m"]) -> Decoupling:
    """The model of one layer without functions that a ridge has brought to nothing; at least one stays."""
    parts = np.ptp(model.g[0].values(model.arguments(X)[0]), axis=0) * np.abs(model.W[1]).max(axis=0)
    idle = np.flatnonzero(parts <= _IDLE * parts.max())
    return without_functions(model, 0, idle.tolist(), X) if 0 < idle.size < model.ranks[0] else model


def deviance_without(samples: Samples, model: Decoupling, ridge: float, l: int, j: int) -> float:
    """The mean of -2 log p without function j of layer l, the rest of the layer and all that follows fitted again."""
    if model.ranks[l] == 1 and model.linear is None:  # nothing but the shares of the classes is left
        return null_deviance(samples)
    if model.ranks[l] == 1:
        return np.nan
    smaller = without_functions(model, l, [j], samples.X).without_inner_constants()
    return _most_likely(
        samples, smaller, (ridge,), lambda **_: None, math.inf, steep=1.0, n_fixed_layers=l + 1
    ).deviance


def null_deviance(samples: Samples) -> float:
    """The mean of -2 log p if every sample is given the shares of the classes."""
    assert samples.F is not None
    weights = np.ones(len(samples)) if samples.weights is None else samples.weights
    shares = weights @ samples.F / weights.sum()
    odds = np.broadcast_to(log_shares(shares), samples.F.shape)
    return float(-2.0 * weights @ log_likelihoods(odds, samples.F) / weights.sum())


def _most_likely(
    samples: Samples,
    start: Decoupling,
    ridges: Sequence[float],
    report: Callable[..., None],
    deadline: float,
    *,
    steep: float = _STEEP,
    n_fixed_layers: int = 0,
) -> LogisticFit:
    """Descend from a model of indicators, or of log-odds themselves with `steep` = 1, with larger and larger ridges.

    The matrices of the first `n_fixed_layers`, and the functions between them, stay as they are.
    """
    layers = tuple(g.layer for g in start.g)
    linear = start.linear is not None
    y = samples.F
    assert y is not None
    weights = np.ones(len(y)) if samples.weights is None else samples.weights
    shares = weights @ y / weights.sum()
    units = _standardised_units(samples.X, weights, shares)
    problem = Problem(PreparedSamples.in_units(samples, units, standard=True), layers, linear=linear)
    around_mean = units.to_given(_around_mean(units.to_standard(start)))
    theta = parameters_of(problem, around_mean)
    for part in (theta.W[-1], theta.A):
        if part is not None:
            part *= steep
    centre, copies = log_shares(shares), n_copies(samples)

    def descended(theta: Parameters, ridge: float, max_steps: int, settles_at: float) -> tuple[Deviance, Parameters]:
        k = n_fixed_layers
        n_fixed = sum(p.size for p in (*theta.W[:k], *theta.b[:k], *theta.c[: max(k - 1, 0)]))
        cost = Deviance(problem.X, y, weights, copies, centre, layers, linear, ridge, n_fixed)
        ended = descend(
            cost.linearise,
            cost.after_step,
            theta,
            DescentOptions(max_steps=max_steps, exact=0.0, settles_at=settles_at),
            deadline=deadline,
            progress=lambda value: report(stage="likelihood", objective=value),
        )
        return cost, ended.theta

    found = []
    for ridge in sorted(ridges):  # upwards: a large ridge drops functions for good
        cost, theta = descended(theta, ridge, _STEPS, _SETTLES_AT)
        found.append((cost.mean_deviance(cost.leave_one_out_log_odds(theta)), ridge, theta))
    _, ridge, theta = min(found, key=lambda row: row[0])
    cost, theta = descended(theta, ridge, _LAST_STEPS, _LAST_SETTLES_AT)
    left_out = cost.leave_one_out_log_odds(theta)
    units = dataclasses.replace(units, y_centre=centre)
    of_odds = dataclasses.replace(problem, prepared=PreparedSamples.in_units(samples, units, standard=True))
    model = canonical_at(model_of(of_odds, theta, problem.X, None), samples)
    deviance = float(-2.0 * weights @ log_likelihoods(model.values(samples.X), y) / weights.sum())
    return LogisticFit(model, ridge, deviance, cost.mean_deviance(left_out), left_out, "")


def _around_mean(model: Decoupling) -> Decoupling:
    """The same model of standardised inputs on domains with their middle at 0, as far as its bases allow that.

    What a ridge does must not depend on if the functions of a start happen to have their middle.
    """
    for l in range(model.n_layers):
        model = model.without_inner_constants()
        g = list(model.g)
        reach = np.abs(g[l].domain).max(axis=1)
        try:
            g[l] = g[l].on_domain(np.stack([-reach, reach], axis=1))
        except InputError:  # functions whose span depends on their domain
            continue
        model = model.with_parts(g=g)
    return model


def _standardised_units(X: Float[ndarray, "S m"], weights: Float[ndarray, " S"], shares: Float[ndarray, " n"]) -> Units:
    """Each input by itself has mean 0 and deviation 1, and shares of classes are taken off.

    In whitened units, a ridge would allow large weights along directions in which inputs hardly vary.
    """
    mean = weights @ X / weights.sum()
    std = np.sqrt(weights @ (X - mean) ** 2 / weights.sum())
    std = np.where(std > 0.0, std, 1.0)
    return Units(mean, np.diag(1.0 / std), np.diag(std), shares, np.ones(len(shares)))


def log_shares(shares: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """Log-odds that predict the shares of the classes, whatever the inputs."""
    return np.log(shares) - (np.log1p(-shares) if len(shares) == 1 else np.mean(np.log(shares)))


# Its quality


@dataclass(frozen=True, eq=False)
class ClassQuality:
    """How well classes are distinguished.

    Attributes
    ----------
    accuracy, left_out_accuracy : float
        The share of samples whose class is the most probable one: of all samples, and of samples that are left out, to
        first order.
    largest_share : float
        The accuracy of always answering with the most frequent class.
    deviance, left_out_deviance, null_deviance : float
        Means of -2 log p of the class that was seen: on the samples, on validation samples, and with the shares of the
        classes as probabilities.
    predictable : float
        Of the variance of the classes (indicators, 0 or 1), the share that the model misses and inputs still predict.
        0 if chance would do as well, NaN if samples are too few to tell.
    confusion : (K, K)
        How many validation samples of each class (rows) are given each class (columns).
    verdict : Verdict
        A `Verdict`.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> y = X[:, 0] + 0.5 * X[:, 1] > 0
    >>> model = dc.DecouplingClassifier(ranks=1, degrees=1, ridge=1.0, n_starts=1).fit(X, y)
    >>> bool(model.quality_.accuracy > 0.95)
    True
    """

    accuracy: float
    left_out_accuracy: float
    largest_share: float
    deviance: float
    left_out_deviance: float
    null_deviance: float
    predictable: float
    confusion: Int[ndarray, "K K"]
    verdict: Verdict

    @property
    def explained(self) -> float:
        """The share of the deviance of guessing that the model takes away on validation samples: 0 is guessing."""
        return 1.0 - self.left_out_deviance / self.null_deviance

    def __str__(self) -> str:
        return (
            f"{self.verdict.word}: accuracy {self.accuracy:.3g}, {self.left_out_accuracy:.3g} in cross-validation "
            f"({self.largest_share:.3g} by always answering with the most frequent class)"
        )


def class_quality(found: LogisticFit, samples: Samples) -> ClassQuality:
    """Judge a model of log-odds by samples whose F is 0 or 1, or a 1 among zeros."""
    assert samples.F is not None
    weights = np.ones(len(samples)) if samples.weights is None else samples.weights
    weights = weights / weights.sum()
    odds = found.decoupling.values(samples.X)
    seen, given, apart = (_classes(values) for values in (samples.F - 0.5, odds, found.left_out))
    n_classes = max(2, samples.n_outputs)
    confusion = np.zeros((n_classes, n_classes), dtype=int)
    np.add.at(confusion, (seen, apart), 1)
    missed = samples.F - probabilities(odds)
    once = without_copies(samples)
    shares = predictable_shares(samples.X[once], missed[once, :, None], samples.F[once, :, None])
    shares = shares * np.mean(missed**2, axis=0) / np.var(samples.F, axis=0)
    known = shares[~np.isnan(shares)]
    predictable = float(known.max()) if known.size else np.nan
    accuracy, left = float(weights @ (seen == given)), float(weights @ (seen == apart))
    null = null_deviance(samples)
    sure = _gain(found.left_out[once], samples.F[once], weights[once]) > _SURE
    most = float(np.bincount(seen, weights, n_classes).max())
    right = (
        f"In cross-validation, {percent(left)} of the samples get the right class ({percent(most)} by always answering "
        "with the most frequent one)"
    )
    grade, why = _grade(accuracy, left, found.deviance, found.left_out_deviance, null, predictable, sure=sure)
    return ClassQuality(
        accuracy,
        left,
        most,
        found.deviance,
        found.left_out_deviance,
        null,
        predictable,
        confusion,
        Verdict(grade, f"{right}; {why}."),
    )


def _classes(odds: Float[ndarray, "S n"]) -> Int[ndarray, " S"]:
    """The most probable class of each sample."""
    return (odds[:, 0] > 0.0).astype(int) if odds.shape[1] == 1 else np.argmax(odds, axis=1)


def _gain(odds: Float[ndarray, "S n"], F: Float[ndarray, "S n"], weights: Float[ndarray, " S"]) -> float:
    """By how many of its standard errors the likelihood of log-odds is above that of the shares of the classes."""
    weights = weights / weights.sum()
    shares = np.broadcast_to(log_shares(weights @ F), F.shape)
    gain = log_likelihoods(odds, F) - log_likelihoods(shares, F)
    error = np.sqrt(np.sum((weights * (gain - weights @ gain)) ** 2))
    return float(weights @ gain / max(error, np.finfo(float).tiny))


def _grade(
    accuracy: float,
    left: float,
    deviance: float,
    left_out_deviance: float,
    null: float,
    predictable: float,
    *,
    sure: bool,
) -> tuple[Grade, str]:
    if accuracy > 1.0 - _SHARE_OF_ROUNDING and left > 1.0 - _SEPARATED:
        return Grade.EXACT, "the classes are separated, so the ridge decides how sure the probabilities are"
    if left_out_deviance > max(_RISE * deviance, deviance + _BY * null):
        return (
            Grade.UNTESTED,
            "the deviance there is far higher: use fewer functions or more samples",
        )
    if left_out_deviance > _GUESSING * null:
        return Grade.POOR, "the probabilities are no better than guessing"
    if predictable >= _MUCH:
        return Grade.BETTER, f"the inputs predict a further {percent(predictable)} of the variance: try more functions"
    if not sure:
        return Grade.UNTESTED, "the probabilities are perhaps no better than guessing"
    if np.isnan(predictable):
        return Grade.UNTESTED, "another model may do better"
    return Grade.NOISE, "the remaining errors look like chance"
