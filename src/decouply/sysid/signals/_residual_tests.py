"""How good a dynamic model is: percent fit, tests of its residuals, and the noise that no model can explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import ndtri

from ..._support._arguments import as_count
from ..._support._errors import InputError
from ._records import as_signal

_SAME_PERIOD = 0.05  # of the spread of the input: what two periods may differ by, as measured
_LEVEL = 0.99


def percent_fit(y: object, y_hat: object) -> Float[ndarray, " outputs"]:
    """The fit 100 (1 - ||y - y_hat|| / ||y - mean y||) of every output, as in MATLAB's `compare`; 100 is perfect.

    Parameters
    ----------
    y : array (T,) or (T, n_y)
        Measured outputs.
    y_hat : array of the same shape
        Simulated outputs.

    Returns
    -------
    array (n_y,)
        One number per output, in percent.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> dc.sysid.percent_fit(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.5]))
    array([64.64466094])
    """
    a, b = as_signal("y", y), _simulated("y_hat", y_hat)
    if a.shape != b.shape:
        raise InputError(f"`y` and `y_hat` must have the same shape. Got {a.shape} and {b.shape}.")
    spread = np.linalg.norm(a - a.mean(axis=0), axis=0)
    if not spread.all():
        raise InputError("`y` must vary for an error relative to its standard deviation. It is constant.")
    return 100.0 * (1.0 - np.linalg.norm(a - b, axis=0) / spread)


def noise_floor(u: object, y: object, period: int | None = None) -> Float[ndarray, " outputs"] | None:
    """The standard deviation of the noise of each output, from repeated periods; None if the input does not repeat.

    What differs between periods of the same input, once the system has settled, cannot be explained by any model. The
    first period is left out when there are three or more, since it holds the transient.

    Parameters
    ----------
    u : array (T,) or (T, n_u)
        Inputs.
    y : array (T,) or (T, n_y)
        Measured outputs.
    period : int, optional
        Samples per period. Without it the period is found from the input.

    Returns
    -------
    array (n_y,) or None
        One standard deviation per output; None if the input does not repeat.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.tile(np.random.default_rng(0).normal(size=50), 4)
    >>> y = u**2 + 0.1 * np.repeat([1.0, -1.0, 1.0, -1.0], 50)
    >>> dc.sysid.noise_floor(u, y).round(3)
    array([0.115])
    """
    inputs, outputs = as_signal("u", u), as_signal("y", y)
    if len(inputs) != len(outputs):
        raise InputError(f"`u` and `y` must have the same length. Got {len(inputs)} and {len(outputs)} samples.")
    length = _period(inputs) if period is None else as_count("period", period, least=2)
    if length is None or len(outputs) < 2 * length:
        return None
    count = len(outputs) // length
    folded = outputs[: count * length].reshape(count, length, -1)[1 if count > 2 else 0 :]
    scatter = folded - folded.mean(axis=0)
    return np.sqrt(np.sum(scatter**2, axis=(0, 1)) / ((len(folded) - 1) * length))


def _period(u: Float[ndarray, "T inputs"]) -> int | None:
    """The shortest shift, up to half the record, after which the input repeats to within a few percent."""
    T = len(u)
    centred = u - u.mean(axis=0)
    spectrum = np.fft.rfft(centred, 2 * T, axis=0)
    products = np.fft.irfft(np.sum(np.abs(spectrum) ** 2, axis=1))[:T]
    squares = np.concatenate([[0.0], np.cumsum(np.sum(centred**2, axis=1))])
    shifts = np.arange(1, T // 2 + 1)
    # ||u(t + k) - u(t)||^2 over the times that both have.
    differences = (squares[T] - squares[shifts]) + squares[T - shifts] - 2.0 * products[shifts]
    relative = differences / np.maximum(squares[T - shifts], 1e-300)
    repeats = np.flatnonzero(relative < _SAME_PERIOD**2)
    return int(shifts[repeats[0]]) if repeats.size and repeats[0] > 0 else None


@dataclass(frozen=True, eq=False)
class ResidualTests:
    """Correlations of residuals with themselves and with inputs; those of a perfect model lie within the band.

    Attributes
    ----------
    auto : (lags, outputs)
        Autocorrelation at the lags 1, 2, ...: outside the band the noise is not white, or dynamics are missing.
    cross : (lags + 1, outputs, inputs)
        Correlation of the residual at t with the input at t - k, k = 0, 1, ...: outside the band the model misses
        something that the input explains.
    band : float
        Half the width of the 99 % band.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).normal(size=500)
    >>> tests = dc.sysid.residual_tests(u, np.sin(np.arange(500) / 10))
    >>> tests.is_white, tests.auto.shape
    (False, (25, 1))
    """

    auto: Float[ndarray, "lags outputs"]
    cross: Float[ndarray, "more outputs inputs"]
    band: float

    @property
    def is_white(self) -> bool:
        """Whether all autocorrelations but 1 in 20 stay within the band, and those within twice the band."""
        return self._within(self.auto, 0.05)

    @property
    def is_independent(self) -> bool:
        """Whether all correlations with the input but 1 in 10 do; those of a coloured input move together."""
        return self._within(self.cross, 0.1)

    def _within(self, values: ndarray, share: float) -> bool:
        size = np.abs(values) / self.band
        return bool(np.mean(size > 1.0) <= share and size.max() <= 2.0)

    def in_words(self) -> str:
        white = "white" if self.is_white else "not white: noise has a colour, or dynamics are missing"
        free = (
            "no linear correlation with the input (functions of it were not tested)"
            if self.is_independent
            else "a linear correlation with the input, which a richer model may explain"
        )
        return f"The residuals are {white}; they have {free}."


def residual_tests(u: object, e: object, lags: int = 25) -> ResidualTests:
    """Test residuals e = y - y_hat of a simulation against themselves and the inputs.

    Parameters
    ----------
    u : array (T,) or (T, n_u)
        Inputs.
    e : array (T,) or (T, n_y)
        Residuals.
    lags : int
        Number of lags of the correlations.

    Returns
    -------
    ResidualTests
        Correlations, and whether they look like those of noise.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u, e = np.random.default_rng(0).normal(size=(2, 500))
    >>> tests = dc.sysid.residual_tests(u, e)
    >>> tests.is_white
    True
    """
    inputs, errors = as_signal("u", u), _simulated("e", e)
    k = as_count("lags", lags)
    if len(inputs) != len(errors) or len(errors) <= 2 * k:
        raise InputError(
            f"`u` and `e` must have the same length, more than twice `lags`. Got {len(inputs)}, {len(errors)} and {k}."
        )
    T = len(errors)
    a, b = _scaled(errors), _scaled(inputs)
    auto = np.stack([np.sum(a[j:] * a[: T - j], axis=0) / T for j in range(1, k + 1)])
    cross = np.stack([a[j:].T @ b[: T - j] / T for j in range(k + 1)])
    return ResidualTests(auto, cross, float(ndtri(0.5 + _LEVEL / 2.0) / np.sqrt(T)))


def _simulated(name: str, value: object) -> Float[ndarray, "T channels"]:
    """A signal that a simulation was part of: what is not finite is no gap of a record."""
    signal = as_signal(name, value, gaps=True)
    bad = np.flatnonzero(~np.isfinite(signal).all(axis=1))
    if bad.size:
        raise InputError(
            f"`{name}` must be finite. Got NaN or infinity from sample {bad[0]} on: that is where a "
            "simulation has diverged."
        )
    return signal


def _scaled(signal: Float[ndarray, "T channels"]) -> Float[ndarray, "T channels"]:
    centred = signal - signal.mean(axis=0)
    size = centred.std(axis=0)
    return centred / np.where(size > 0.0, size, 1.0)
