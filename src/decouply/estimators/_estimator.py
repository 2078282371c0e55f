"""What the estimators share: parameters as settings, data as scikit-learn checks them, predictions beyond the data.

Functions that keep their last value ("constant") are bounded one by one, and that is a trap. If large functions cancel
each other, one that stops before the others leaves what it should have cancelled. So by default ("bounded") functions
continue linearly, which keeps such sums together, and inputs are clipped half a range beyond the training range. The
same holds for predictions of a regressor. Each input may be within its range, while no sample has their combination,
and a sum of functions can be anything there. Models that predict validation samples very well are trusted within the
bounds of the inputs, and follow their formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_counts, is_word, read_array
from .._support._errors import InputError, short_repr
from .._support._machine import free_memory
from .._support._optional_packages import needed
from ..fit._settings import Settings, needs_degree
from ..model._decoupling import Decoupling
from ..model._functions import OUTSIDE, Functions, Outside
from ..samples._samples import Samples

needed("sklearn.utils.validation:validate_data", "sklearn", "dc.DecouplingRegressor")  # scikit-learn 1.6 brought it
from sklearn.utils import check_random_state  # noqa: E402
from sklearn.utils.validation import _check_sample_weight, validate_data  # noqa: E402

BOUNDED = "bounded"
DEGREE = 3  # of the functions, if nothing else is asked for
_MARGIN = 0.5  # of the range, on either side
_SAME = 1e-9  # of a domain: arguments that are so near to its end are within


class DecouplingEstimator:
    """Parameters of both estimators, as settings of a fit."""

    ranks: Any
    degrees: Any
    basis: Any
    linear: Any
    outside: Any
    solver: Any
    n_starts: Any
    ridge: Any
    max_seconds: Any
    random_state: Any
    n_jobs: Any
    verbose: Any

    def _settings(self, basis: Any) -> Settings:
        """What is asked for, with functions in a basis; ranks and degrees are None if the data choose them."""
        chosen, degrees = is_word(self.ranks, ("auto",)), self.degrees
        if chosen and degrees is not None:
            degrees = max(as_counts("degrees", degrees))
        if not chosen and degrees is None and isinstance(basis, type) and needs_degree(basis):
            degrees = (DEGREE,) * np.size(self.ranks)
        return Settings(
            None if chosen else self.ranks,
            degrees,
            basis,
            self.linear,
            n_starts=self.n_starts,
            rng=int(check_random_state(0 if self.random_state is None else self.random_state).randint(2**31)),
            max_seconds=self.max_seconds,
        )


def validate_arrays(estimator: Any, *arrays: Any, **options: Any) -> Any:
    """Arrays as scikit-learn checks them; its own errors pass."""
    try:
        return validate_data(estimator, *(_plain_array(array) for array in arrays), **options)
    except (ValueError, TypeError):
        raise
    except Exception as error:
        raise InputError(
            f"`X` and `y` must be arrays of numbers that fit into memory. Got {short_repr(error)}."
        ) from error


def as_weights(sample_weight: Any, X: ndarray) -> Float[ndarray, " S"]:
    """Weights as scikit-learn checks them; numbers that no float holds, and negative ones, are refused."""
    try:
        weights = np.asarray(_check_sample_weight(_plain_array(sample_weight), X, dtype=np.float64))
    except (ValueError, TypeError):
        raise
    except Exception as error:
        raise InputError(
            f"`sample_weight` must hold finite numbers that fit into memory. Got {short_repr(error)}."
        ) from error
    if np.any(weights < 0.0):
        raise InputError(f"`sample_weight` must hold numbers of at least 0. Got {weights.min():.3g}.")
    return weights


def as_targets(y: ndarray) -> ndarray:
    """Targets as scikit-learn leaves them: fields and long floats pass there, and texts that are numbers."""
    if y.dtype.kind not in "fiubUS":
        raise InputError(f"`y` must hold real numbers. Got entries of type {y.dtype}.")
    long = y.dtype.kind == "f" and y.dtype.itemsize > np.dtype(np.float64).itemsize
    if long and np.any(np.abs(y) > np.finfo(np.float64).max):
        raise InputError("`y` must hold numbers that fit into a 64-bit float. Got larger ones.")
    return y


def with_sample_weights(samples: Samples, weights: Float[ndarray, " S"]) -> Samples:
    """Samples with their weights. Those with weight 0 are left out: they must not count in any way."""
    kept = weights > 0.0
    if np.count_nonzero(kept) < 2:
        raise InputError(
            f"`sample_weight` must be above 0 for at least 2 samples. Got {int(np.count_nonzero(kept))} such samples."
        )
    some = samples.take(kept)
    return Samples(some.X, F=some.F, J=some.J, weights=weights[kept], inputs=some.inputs, outputs=some.outputs)


def _plain_array(value: Any) -> Any:
    """Tensors as arrays, and masked arrays without masked entries; the rest is for scikit-learn to look at.

    Scikit-learn itself drops the mask, and takes what is behind it for numbers.
    """
    if isinstance(value, Number):
        raise InputError(f"`X` and `y` must be arrays, one row per sample. Got {short_repr(value)}.")
    # Scikit-learn would add up all numbers of one that repeats a few, which takes hours.
    if isinstance(value, np.ndarray) and 0 in value.strides and value.nbytes > free_memory():
        raise InputError(f"Arrays must fit into memory. Got shape {value.shape}, which takes {value.nbytes:.3g} bytes.")
    is_tensor = type(value).__module__.partition(".")[0] == "torch"
    ours = is_tensor or isinstance(value, np.ma.MaskedArray)
    return read_array("Arrays must have numbers", value) if ours else value


@dataclass(frozen=True)
class Bounds:
    """How far the columns of a table may go."""

    low: Float[ndarray, " columns"]
    high: Float[ndarray, " columns"]

    @classmethod
    def around(cls, table: Float[ndarray, "S columns"], *, bounded: bool) -> Bounds:
        """The ranges of the columns and half of them on either side; everything unless `bounded`."""
        if not bounded:
            return cls(np.full(table.shape[1], -np.inf), np.full(table.shape[1], np.inf))
        low, high = table.min(axis=0), table.max(axis=0)
        margin = _MARGIN * (high - low)
        return cls(low - margin, high + margin)

    def within(self, table: Float[ndarray, "S columns"]) -> Float[ndarray, "S columns"]:
        return np.clip(table, self.low, self.high)


def as_outside(outside: object) -> str:
    """Check the parameter of an estimator."""
    if not is_word(outside, (BOUNDED, *OUTSIDE)):
        raise InputError(f"`outside` must be one of {', '.join((BOUNDED, *OUTSIDE))}. Got {short_repr(outside)}.")
    return str(outside)


def with_tails(model: Decoupling, X: Float[ndarray, "S m"], outside: str, *, exact: bool) -> Decoupling:
    """The same model at X, with tails for the layers whose domains are the range that X visits.

    Other domains are parameters, or parts that the user gave: cut off there, the functions would change at X itself.
    """
    tails: dict[str, Outside] = {"linear": "linear", "constant": "constant", "extend": "extend"}
    wanted = tails.get(outside, "extend" if exact else "linear")
    layers = []
    for g, u in zip(model.g, model.inner_inputs(X), strict=True):
        slack = _SAME * g.half_width
        within = np.all(u >= g.domain[:, 0] - slack) and np.all(u <= g.domain[:, 1] + slack)
        tailed = within and not np.any(g.layer.free_domain)
        layers.append(Functions(g.layer.bases, g.C, g.domain, wanted) if tailed else g)
    return model.with_parts(g=layers)
