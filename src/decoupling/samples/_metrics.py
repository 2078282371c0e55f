"""How far a decoupling is from the function, as defined in the paper."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._checks import as_array
from .._support._errors import InputError


def error_jacobian(J: object, J_hat: object) -> float:
    """||J - J_hat||^2 / ||J||^2."""
    return relative_square([_pair("J", J, J_hat, ("S", "n", "m"))])


def error_values(F: object, F_hat: object) -> float:
    """||F - F_hat||^2 / ||F||^2."""
    return relative_square([_pair("F", F, F_hat, ("S", "n"))])


def relative_rmse(F: object, F_hat: object) -> Float[ndarray, " n"]:
    """e_i in percent: 100 sqrt(sum (f_i - f_hat_i)^2 / sum (f_i - mean f_i)^2), one per output.

    An output that is constant over the samples has no spread to compare with: its e_i is 0 when it is met exactly and
    infinite otherwise.
    """
    values, fitted = _pair("F", F, F_hat, ("S", "n"))
    return 100.0 * np.sqrt(
        ratio(np.sum((values - fitted) ** 2, axis=0), np.sum((values - values.mean(axis=0)) ** 2, axis=0))
    )


def _pair(name: str, given: object, fitted: object, axes: tuple[str, ...]) -> tuple[ndarray, ndarray]:
    first, second = as_array(name, given, axes), as_array(f"{name}_hat", fitted, axes)
    if first.shape != second.shape or first.size == 0:
        raise InputError(
            f"`{name}` and `{name}_hat` must have the same shape and at least one entry. "
            f"Got {first.shape} and {second.shape}."
        )
    return first, second


def relative_square(pairs: Iterable[tuple[ndarray, ndarray]]) -> float:
    """||given - fitted||^2 / ||given||^2 of arrays that come in portions."""
    error = size = 0.0
    for given, fitted in pairs:
        error += float(np.sum((given - fitted) ** 2))
        size += float(np.sum(given**2))
    return float(ratio(np.asarray(error), np.asarray(size)))


def ratio(error: ndarray, size: ndarray) -> ndarray:
    """What is off relative to a size; where there is no size, 0 for what is met exactly and infinite otherwise."""
    return np.where(size > 0.0, error / np.where(size > 0.0, size, 1.0), np.where(error > 0.0, np.inf, 0.0))
