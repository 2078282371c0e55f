"""Samples of a Python function: values, and Jacobians by a complex step or by central differences.

What all functions of other libraries have in common: points go in, real and finite numbers must come out.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ..._support._arguments import as_array, is_word, read_array
from ..._support._errors import InputError, as_errors, warn
from ..._support._messages import short_repr
from .._samples import Differences, Samples, VectorFunction

_CHECKED_POINTS = 30


def sample_function(f: VectorFunction, X: object, jac: VectorFunction | Differences | None) -> Samples:
    """See `Samples.from_function`."""
    if not callable(f):
        raise InputError(f"`f` must be a function that maps (S, m) to (S, n). Got {short_repr(f)}.")
    points = as_array("X", X, ("S", "m"))
    if points.size == 0:
        raise InputError(f"`X` must hold at least one point with at least one coordinate. Got shape {points.shape}.")
    F = _values(f, points)
    if callable(jac):
        return Samples(points, F=F, J=jac(points))
    if is_word(jac, ("central",)):
        return Samples(points, F=F, J=_central(f, points))
    if is_word(jac, ("complex-step",)):
        return Samples(points, F=F, J=_complex_step(f, points))
    if jac is not None:
        raise InputError(f'`jac` must be a function, "complex-step" or "central". Got {short_repr(jac)}.')
    checked = points[:: -(-len(points) // _CHECKED_POINTS)]
    central = _central(f, checked)
    try:
        with as_errors(np.exceptions.ComplexWarning):
            tolerance = 1e-6 * float(np.max(np.abs(central), initial=0.0))
            agrees = np.allclose(_complex_step(f, checked), central, rtol=1e-6, atol=tolerance)
            reason = "its complex step disagrees with central differences"
    except Exception as error:  # whatever a user's function does when it meets complex numbers
        agrees, reason = False, f"it does not take complex numbers ({error})"
    if agrees:
        return Samples(points, F=F, J=_complex_step(f, points))
    warn(
        f'The Jacobian of `f` is taken by central differences: {reason}. Give `jac="central"` to accept this, or '
        "a function for exact Jacobians.",
        stacklevel=3,
    )
    return Samples(points, F=F, J=_central(f, points))


def _values(f: VectorFunction, X: ndarray) -> ndarray:
    values = np.array(
        read_array("`f` must map an array of shape (S, m) to one of shape (S, n)", f(X))
    )  # f may use it again
    if values.ndim != 2 or values.shape[0] != X.shape[0]:
        raise InputError(
            f"`f` must map an array of shape (S, m) to one of shape (S, n). Got {values.shape} for {X.shape}."
        )
    return values


def _complex_step(f: VectorFunction, X: ndarray, step: float = 1e-20) -> ndarray:
    columns = []
    for j in range(X.shape[1]):
        moved = X.astype(complex)
        moved[:, j] += 1j * step
        columns.append(np.imag(_values(f, moved)) / step)
    return np.stack(columns, axis=-1)


def _central(f: VectorFunction, X: ndarray) -> ndarray:
    """Fourth-order central differences; the step balances truncation against rounding."""
    columns = []
    for j in range(X.shape[1]):
        h = np.zeros_like(X)
        h[:, j] = np.finfo(float).eps ** 0.2 * np.maximum(1.0, np.abs(X[:, j]))
        at = [_values(f, X + k * h) for k in (1, -1, 2, -2)]
        with np.errstate(all="ignore"):  # what is not finite is told by `Samples`
            columns.append((8 * (at[0] - at[1]) - (at[2] - at[3])) / (12 * h[:, j : j + 1]))
    return np.stack(columns, axis=-1)


def as_filled_points(X: object) -> Float[ndarray, "S m"]:
    points = as_array("X", X, ("S", "m"))
    if points.size == 0:
        raise InputError(f"`X` must hold at least one point with at least one coordinate. Got shape {points.shape}.")
    return points


def check_finite_at(name: str, what: str, values: ndarray, points: Float[ndarray, "S m"]) -> None:
    """Name the first point where a value or derivative is NaN or infinite."""
    bad = ~np.isfinite(values.reshape(len(points), -1)).all(axis=1)
    if bad.any():
        raise InputError(
            f"`{name}` must have finite {what} at all points. NaN or infinity at {first_of(bad, points)}: leave such "
            "points out."
        )


def first_of(bad: Bool[ndarray, " S"], points: Float[ndarray, "S m"]) -> str:
    """How many points are bad, and which is the first."""
    s = int(np.argmax(bad))
    first = np.array2string(points[s], precision=6, threshold=8)
    return f"{int(np.count_nonzero(bad))} of {len(points)} points, the first is X[{s}] = {first}"
