"""What a model does at samples, wherever they are: its errors as defined in the paper, and its canonical form.

Both are sums over portions. Data without a size to compare with, all zeros, are compared with 1: the residual is then
the mean square itself, and no error is infinite.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_array
from .._support._errors import InputError, warn
from ..model._canonical_form import Visits, canonical_form_by, net_of_slopes
from ..model._decoupling import Decoupling
from ._portions import Join, Portion
from ._samples import Samples

_AT_ONCE = 50_000  # samples


def canonical_at(model: Decoupling, samples: Samples) -> Decoupling:
    """`model.canonical` at the points of the samples."""
    if samples.in_memory and samples.n_samples <= _AT_ONCE:
        return model.canonical(samples.X)
    S, L = samples.n_samples, model.n_layers
    joins: tuple[Join, ...] = ("min",) * L + ("max",) * L + ("sum",) * (2 * L)

    def net(plain: Decoupling) -> Decoupling:
        return net_of_slopes(plain, samples.data.reduce(slopes_task, plain)[0] / S)

    def visits_of(plain: Decoupling) -> Visits:
        found = samples.data.reduce(visits_task, plain, join=joins)
        low, high, squares, shares = (found[k * L : (k + 1) * L] for k in range(4))
        return Visits(S, low, high, squares, shares)

    return canonical_form_by(model, net, visits_of)


def slopes_task(portion: Portion, model: Decoupling) -> tuple[ndarray]:
    """Sums of the slopes of a single layer."""
    return (model.g[0].slopes(model.arguments(portion.X)[0]).sum(axis=0),)


def visits_task(portion: Portion, model: Decoupling) -> tuple[ndarray, ...]:
    """What a portion adds to the visits of a model, layer by layer."""
    visits = Visits.of(model, portion.X)
    return (*visits.low, *visits.high, *visits.squares, *visits.shares)


def value_squares(model: Decoupling, samples: Samples) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
    """||f_i - f_hat_i||^2 and ||f_i||^2 for every output."""
    off, _, size = samples.data.reduce(value_task, model, np.zeros(samples.n_outputs))
    return off, size


def jacobian_squares(model: Decoupling, samples: Samples) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
    """||J_i - J_hat_i||^2 and ||J_i||^2 for every output."""
    off, size = samples.data.reduce(jacobian_task, model)
    return off, size


def relative_rmse_at(model: Decoupling, samples: Samples) -> Float[ndarray, " n"]:
    """e_i in percent on these samples; see `relative_rmse`."""
    if (samples.n_inputs, samples.n_outputs) != (model.n_inputs, model.n_outputs):
        raise InputError(
            f"`samples` must have {model.n_inputs} inputs and {model.n_outputs} outputs, like the model. Got "
            f"{samples.n_inputs} and {samples.n_outputs}."
        )
    (total,) = samples.data.reduce(sum_task)
    off, spread, size = samples.data.reduce(value_task, model, total / samples.n_samples)
    return percents(off, spread, size, samples.n_samples)


def sum_task(portion: Portion) -> tuple[ndarray]:
    """Sums of the values."""
    assert portion.F is not None
    return (portion.F.sum(axis=0),)


def value_task(portion: Portion, model: Decoupling, centre: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Squares of what a model leaves of the values, of the values around a centre, and of the values."""
    assert portion.F is not None
    left = portion.F - model.values(portion.X)
    return np.sum(left**2, axis=0), np.sum((portion.F - centre) ** 2, axis=0), np.sum(portion.F**2, axis=0)


def jacobian_task(portion: Portion, model: Decoupling) -> tuple[ndarray, ndarray]:
    """The same for Jacobians."""
    assert portion.J is not None
    left = portion.J - model.jacobians(portion.X)
    return np.sum(left**2, axis=(0, 2)), np.sum(portion.J**2, axis=(0, 2))


_NO_SPREAD = 1e-13  # of the size of a column: it is constant


def error_jacobian(J: object, J_hat: object) -> float:
    """The relative squared error ||J - J_hat||^2 / ||J||^2; if J is 0, the mean square of J_hat.

    Parameters
    ----------
    J, J_hat : array (S, n, m)
        Jacobians, and those of a model.

    Returns
    -------
    float
        0 if the Jacobians agree.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> J = np.ones((4, 2, 3))
    >>> round(dc.error_jacobian(J, 0.9 * J), 6)
    0.01
    """
    return _relative_square(*_pair("J", J, J_hat, ("S", "n", "m")))


def error_values(F: object, F_hat: object) -> float:
    """The relative squared error ||F - F_hat||^2 / ||F||^2; if F is 0, the mean square of F_hat.

    Parameters
    ----------
    F, F_hat : array (S, n)
        Values, and those of a model.

    Returns
    -------
    float
        0 if the values agree.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> F = np.ones((4, 2))
    >>> round(dc.error_values(F, 0.9 * F), 6)
    0.01
    """
    return _relative_square(*_pair("F", F, F_hat, ("S", "n")))


def relative_rmse(F: object, F_hat: object) -> Float[ndarray, " n"]:
    """The error e_i of every output in percent: 100 sqrt(sum (f_i - f_hat_i)^2 / sum (f_i - mean f_i)^2).

    An output that is constant over the samples has no spread to compare with: it is compared with its size, and with 1
    if it is 0.

    Parameters
    ----------
    F, F_hat : array (S, n)
        Values, and those of a model.

    Returns
    -------
    array (n,)
        One number per output, in percent.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> F = np.array([[0.0], [1.0], [2.0]])
    >>> dc.relative_rmse(F, F + 0.1).round(2)
    array([12.25])
    """
    values, fitted = _pair("F", F, F_hat, ("S", "n"))
    with np.errstate(over="ignore", invalid="ignore"):
        unit = _unit(np.max(np.abs(values), axis=0))
        values, fitted = values / unit, fitted / unit
        around = values - values.mean(axis=0)
        off, spread, size = (np.sum(table**2, axis=0) for table in (values - fitted, around, values))
        return _with_warning(percents(off, spread, size, len(values)))


def _pair(name: str, given: object, fitted: object, axes: tuple[str, ...]) -> tuple[ndarray, ndarray]:
    first, second = as_array(name, given, axes), as_array(f"{name}_hat", fitted, axes)
    if first.shape != second.shape or first.size == 0:
        raise InputError(
            f"`{name}` and `{name}_hat` must have the same shape and at least one entry. "
            f"Got {first.shape} and {second.shape}."
        )
    return first, second


def _relative_square(given: ndarray, fitted: ndarray) -> float:
    """||given - fitted||^2 / ||given||^2, with squares of numbers of about 1 only."""
    unit = _unit(np.max(np.abs(given)))
    with np.errstate(over="ignore", invalid="ignore"):
        given, fitted = given / unit, fitted / unit
        off, size = np.sum((given - fitted) ** 2), np.sum(given**2)
    return float(_with_warning(ratio(off, size, given.size)))


def _unit(largest: ndarray | np.floating) -> ndarray:
    """The power of two below numbers, which can be divided by without rounding; 1 for 0."""
    return np.where(largest > 0.0, np.ldexp(1.0, np.frexp(largest)[1] - 1), 1.0)


def ratio(off: ndarray | np.floating, size: ndarray | np.floating, count: int) -> ndarray:
    """Squares that are left, relative to those that were there, or to 1 for each of `count` if these are 0."""
    return np.asarray(off / np.where(size > 0.0, size, count))


def percents(off: ndarray, spread: ndarray, size: ndarray, count: int) -> ndarray:
    """e_i from sums of squares over `count` samples: the residual, what varies, and all of it."""
    return 100.0 * np.sqrt(ratio(off, np.where(spread > _NO_SPREAD**2 * size, spread, size), count))


def _with_warning(error: ndarray) -> ndarray:
    if not np.all(np.isfinite(error)):
        far = "The error is too large for a float: what was fitted is more than 1e150 times as large as the data."
        warn(far, stacklevel=4)
    return error
