"""What all NARX models do: predict one step ahead from measured outputs, or run on their own."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import read_array
from ..._support._errors import InputError
from ..._support._messages import pluralised
from ...samples._samples import Samples
from ..signals._records import Range, Signals, as_signal, warn_of_escape
from ._regressors import Lags
from ._simulation import Step, free_run

_RANGE_FACTOR = 10.0  # a simulation stops when it is this many times as far from the middle as any training output


@dataclass(frozen=True, eq=False)
class Training:
    """What a model was trained on.

    Attributes
    ----------
    lags
        Which regressors the model takes.
    X : (S, m)
        The regressors of all training records.
    u, y
        The ranges of inputs and outputs.
    flat
        Whether the outputs were one-dimensional, so that those of the model are too.
    """

    lags: Lags
    X: Float[ndarray, "S m"]
    u: Range
    y: Range
    flat: bool

    @classmethod
    def of(cls, signals: Signals, lags: Lags) -> Training:
        X = np.concatenate([lags.regressors(u, y) for u, y in zip(signals.u, signals.y, strict=True)])
        return cls(lags, X, Range.of("u", signals.u), Range.of("y", signals.y), signals.flat)

    @property
    def middle(self) -> Float[ndarray, " m"]:
        """The middle of the range of every regressor."""
        return self.lags.repeated(self.u.middle, self.y.middle)

    @property
    def half_width(self) -> Float[ndarray, " m"]:
        """Half the width of the range of every regressor."""
        return self.lags.repeated(self.u.half_width, self.y.half_width)

    @property
    def believable(self) -> Range:
        """Outputs beyond this are taken for those of an unstable model."""
        return self.y.widened(_RANGE_FACTOR)


class AbstractNARX(abc.ABC):
    """y(t) = f(x(t)) with x(t) = (u(t), ..., u(t - n_u), y(t - 1), ..., y(t - n_y))."""

    @property
    @abc.abstractmethod
    def trained_on(self) -> Training:
        """Lags, regressors and ranges of the training records."""

    @property
    @abc.abstractmethod
    def limits(self) -> Range:
        """A simulation stops when its outputs leave these."""

    @abc.abstractmethod
    def __call__(self, X: object) -> Float[ndarray, "S n"]:
        """Values f(x) at regressors X (S, m)."""

    @abc.abstractmethod
    def jacobian(self, X: object) -> Float[ndarray, "S n m"]:
        """Jacobians of f at regressors X."""

    @abc.abstractmethod
    def _step(self) -> Step:
        """f as a fast function of numbers."""

    @property
    @abc.abstractmethod
    def n_parameters(self) -> int:
        """Numbers that training determines."""

    @property
    def lags(self) -> Lags:
        """Which regressors f takes."""
        return self.trained_on.lags

    def regressors(self, u: object, y: object) -> Float[ndarray, "S m"]:
        """x(t) for every time that has a full past, of all records in turn."""
        signals = self._read(u, y)
        return np.concatenate([self.lags.regressors(a, b) for a, b in zip(signals.u, signals.y, strict=True)])

    def samples(self, X: object) -> Samples:
        """Exact values and Jacobians of f at regressors X, ready to be decoupled."""
        return Samples(X, F=self(X), J=self.jacobian(X), inputs=self.lags.names, outputs=self.lags.output_names)

    def predict_one_step(self, u: object, y: object) -> ndarray:
        """Predict every y(t) from the measured past; the first outputs, which have none, are those given."""
        signals = self._read(u, y)
        if len(signals.u) > 1:
            raise InputError(f"`u` and `y` must be one record here. Got {len(signals.u)}: predict each on its own.")
        predicted = signals.y[0].copy()
        with np.errstate(all="ignore"):  # inputs far outside the training range may give infinity, which says it all
            predicted[self.lags.longest :] = self(self.lags.regressors(signals.u[0], signals.y[0]))
        return self._shaped(predicted)

    def simulate(self, u: object, y_init: Any) -> ndarray:
        """Run on from the outputs `y_init`, with the model's own outputs as its past.

        Parameters
        ----------
        u : (T,) or (T, inputs)
            Inputs, from the time of the first entry of `y_init` on.
        y_init : (k,) or (k, outputs)
            Outputs at the first k times, k at least the longest lag; k = 50 is common for benchmarks.

        Returns
        -------
        (T,) or (T, outputs)
            Outputs at all times, the first k those given. When they leave `limits` the simulation stops with a
            warning that names the step, and the rest is NaN.
        """
        lags = self.lags
        inputs = as_signal("u", u)
        empty = lags.longest == 0 and _is_empty(y_init)  # nothing is looked back on
        given = np.zeros((0, lags.n_outputs)) if empty else as_signal("y_init", y_init)
        for name, array, channels in (("u", inputs, lags.n_inputs), ("y_init", given, lags.n_outputs)):
            if array.shape[1] != channels:
                raise InputError(
                    f"`{name}` must have {pluralised(channels, 'channel')}, as in training. Got shape {array.shape}."
                )
        if len(given) < lags.longest:
            raise InputError(
                f"`y_init` must hold at least {lags.longest} outputs, the longest lag. Got {len(given)}: give the "
                "first measured outputs, for example y[:50]."
            )
        if len(inputs) < len(given):
            raise InputError(f"`u` must be at least as long as `y_init`. Got {len(inputs)} and {len(given)} samples.")
        outputs, stopped = free_run(self._step(), lags, inputs, given, self.limits)
        if stopped is not None:
            warn_of_escape(type(self).__name__, stopped, len(inputs), self.limits)
        return self._shaped(outputs)

    def _read(self, u: Any, y: Any, what: str = "") -> Signals:
        """Check records for this model; `what` names them where they are not `u` and `y` themselves."""
        signals = Signals.read(u, y)
        lags = self.lags
        for name, got, wanted in (("u", signals.n_inputs, lags.n_inputs), ("y", signals.n_outputs, lags.n_outputs)):
            if got != wanted:
                raise InputError(
                    f"`{what or name}` must have {pluralised(wanted, 'channel')}, as in training. Got {got}."
                )
        for record in signals.u:
            lags.check_length(what or "u", len(record))
        return signals

    def _shaped(self, outputs: ndarray) -> ndarray:
        return outputs[:, 0] if self.trained_on.flat else outputs


def _is_empty(value: Any) -> bool:
    return read_array("`y_init` must be an array", value).size == 0
