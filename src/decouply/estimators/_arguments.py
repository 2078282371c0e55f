"""What scikit-learn makes of data and weights; errors of objects that it meets on the way become ours."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import read_array
from .._support._errors import InputError
from .._support._messages import short_repr
from .._support._optional_packages import needed
from ..samples._samples import Samples

needed("sklearn.utils.validation:validate_data", "sklearn", "dc.DecouplingRegressor")  # scikit-learn 1.6 brought it
from sklearn.utils.validation import _check_sample_weight, validate_data  # noqa: E402


def validated(estimator: Any, *arrays: Any, **options: Any) -> Any:
    """Arrays as scikit-learn checks them; its own errors pass."""
    try:
        return validate_data(estimator, *(_taken(array) for array in arrays), **options)
    except (ValueError, TypeError):
        raise
    except Exception as error:
        raise InputError(
            f"`X` and `y` must be arrays of numbers that fit into memory. Got {short_repr(error)}."
        ) from error


def as_weights(sample_weight: Any, X: ndarray) -> Float[ndarray, " S"]:
    """Weights as scikit-learn checks them; numbers that no float holds, and negative ones, are refused."""
    try:
        weights = np.asarray(_check_sample_weight(_taken(sample_weight), X, dtype=np.float64))
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


def weighted(samples: Samples, weights: Float[ndarray, " S"]) -> Samples:
    """Samples with their weights; those with weight 0 are left out: they must not count in any way."""
    kept = weights > 0.0
    if np.count_nonzero(kept) < 2:
        raise InputError(
            f"`sample_weight` must be above 0 for at least 2 samples. Got {int(np.count_nonzero(kept))} such samples."
        )
    some = samples.take(kept)
    return Samples(some.X, F=some.F, J=some.J, weights=weights[kept], inputs=some.inputs, outputs=some.outputs)


def _taken(value: Any) -> Any:
    """Tensors as arrays, and masked arrays without masked entries; the rest is for scikit-learn to look at.

    Scikit-learn itself drops the mask, and takes what is behind it for numbers.
    """
    if isinstance(value, Number):
        raise InputError(f"`X` and `y` must be arrays, one row per sample. Got {short_repr(value)}.")
    is_tensor = type(value).__module__.partition(".")[0] == "torch"
    ours = is_tensor or isinstance(value, np.ma.MaskedArray)
    return read_array("Arrays must have numbers", value) if ours else value
