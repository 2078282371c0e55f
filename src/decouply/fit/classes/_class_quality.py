"""How good a model of classes is: is it better than guessing, and could these samples give a better one?

Three things are looked at: the likelihood of validation samples beside that of the shares of the classes alone. The
same likelihood beside that of the fitted samples, which tells whether chance was fitted. And whether inputs still
predict by how much a class that was seen differs from its probability (`_predictable`), which a better model would
explain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ...samples._duplicates import without_copies
from ...samples._samples import Samples
from ...solvers.least_squares._logistic_deviance import log_likelihoods, probabilities
from ..quality._noise_tests import predictable_shares
from ..quality._quality import Grade, Verdict, percent
from ._logistic import LogisticFit, log_shares, null_deviance

_GUESSING = 0.98  # times the deviance of the shares alone: a model must get below on left-out samples ...
_SURE = 2.0  # ... by so many standard errors of the difference
_RISE, _BY = 1.5, 0.1  # of the deviance on left-out samples, and that relative to guessing: if both, chance was fitted
_SEPARATED = 0.02  # of samples that may be on the wrong side when left out
_ROUNDING = 1e-9
_MUCH = 0.01  # of the variance of the classes that is missed and could be predicted; less is what a ridge does


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
            f"{self.verdict.word}: accuracy {self.accuracy:.3g}, {self.left_out_accuracy:.3g} on left-out samples "
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
        f"{percent(left)} of left-out samples are given the right class ({percent(most)} by always answering with the "
        "most frequent one)"
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
    if accuracy > 1.0 - _ROUNDING and left > 1.0 - _SEPARATED:
        return Grade.EXACT, "the classes are separated, so the ridge decides how sure the probabilities are"
    if left_out_deviance > max(_RISE * deviance, deviance + _BY * null):
        return (
            Grade.UNTESTED,
            "their deviance is far higher: use fewer functions or more samples",
        )
    if left_out_deviance > _GUESSING * null:
        return Grade.POOR, "their probabilities are no better than guessing"
    if predictable >= _MUCH:
        return Grade.BETTER, f"the inputs predict a further {percent(predictable)} of the variance: try more functions"
    if not sure:
        return Grade.UNTESTED, "their probabilities are perhaps no better than guessing"
    if np.isnan(predictable):
        return Grade.UNTESTED, "another model may do better"
    return Grade.NOISE, "what the probabilities miss looks like chance"
