"""From signals as measured to signals in [-1, 1], where solvers and derivatives are at home, and back.

Every channel is shifted by its centre and divided by its size, inputs and outputs alike; past outputs are regressors,
so a model of the scaled signals can run freely on them. Such a model becomes one of the measured signals exactly: the
shift of the regressors is taken up by the functions of the first layer, the sizes by W_0 and W_L, and the centre of the
outputs by the constants of the last layer.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._errors import InputError
from ..model._decoupling import Decoupling
from ..model._scaling import in_given_units, plus_constants
from ..samples._samples import Samples
from ._lags import Lags
from ._signals import Signals

_TOLERANCE = 1e-9
_LARGEST = 1e100  # of signals: their products are added up


@dataclass(frozen=True, eq=False)
class Units:
    """Centre and size of every channel of the inputs and of the outputs."""

    u_centre: Float[ndarray, " inputs"]
    u_size: Float[ndarray, " inputs"]
    y_centre: Float[ndarray, " outputs"]
    y_size: Float[ndarray, " outputs"]

    @classmethod
    def of(cls, signals: Signals) -> Units:
        """The units in which the training records fill [-1, 1]."""
        parts = []
        for name, records in (("u", signals.u), ("y", signals.y)):
            low, high = (
                np.min([r.min(axis=0) for r in records], axis=0),
                np.max([r.max(axis=0) for r in records], axis=0),
            )
            size = high / 2.0 - low / 2.0
            reach = np.maximum(np.abs(low), np.abs(high))
            for i in range(len(size)):
                channel = f"`{name}[:, {i}]`" if len(size) > 1 else f"`{name}`"
                if size[i] == 0.0:
                    raise InputError(
                        f"{channel} must vary. It is {low[i]:g} throughout: nothing can be learnt from a constant."
                    )
                if reach[i] > _LARGEST or size[i] < 1.0 / _LARGEST:
                    raise InputError(
                        f"{channel} must lie within ±{_LARGEST:g} and vary by more than {1.0 / _LARGEST:g}. Got the "
                        f"range [{low[i]:g}, {high[i]:g}]: choose other units."
                    )
            parts += [low / 2.0 + high / 2.0, size]
        return cls(*parts)

    @classmethod
    def measured(cls, lags: Lags) -> Units:
        """The units of the measurement: nothing is changed."""
        return cls(np.zeros(lags.n_inputs), np.ones(lags.n_inputs), np.zeros(lags.n_outputs), np.ones(lags.n_outputs))

    def uncentred(self, *, outputs_only: bool) -> Units:
        """The same sizes, with the outputs, or all signals, where they are."""
        u_centre = self.u_centre if outputs_only else np.zeros_like(self.u_centre)
        return dataclasses.replace(self, u_centre=u_centre, y_centre=np.zeros_like(self.y_centre))

    def centre(self, lags: Lags) -> Float[ndarray, " m"]:
        return lags.repeated(self.u_centre, self.y_centre)

    def size(self, lags: Lags) -> Float[ndarray, " m"]:
        return lags.repeated(self.u_size, self.y_size)

    def scaled(self, signals: Signals) -> Signals:
        return dataclasses.replace(
            signals,
            u=tuple((u - self.u_centre) / self.u_size for u in signals.u),
            y=tuple((y - self.y_centre) / self.y_size for y in signals.y),
        )

    def scaled_regressors(self, X: Float[ndarray, "S m"], lags: Lags) -> Float[ndarray, "S m"]:
        return (X - self.centre(lags)) / self.size(lags)

    def scaled_samples(self, samples: Samples, lags: Lags) -> Samples:
        F = None if samples.F is None else (samples.F - self.y_centre) / self.y_size
        J = None if samples.J is None else samples.J * self.size(lags) / self.y_size[:, None]
        return Samples(self.scaled_regressors(samples.X, lags), F=F, J=J)

    def in_measured_units(self, model: Decoupling, lags: Lags) -> Decoupling | None:
        """A model of scaled signals as one of measured signals; None where no constants give the centre of y."""
        moved = in_given_units(model, self.centre(lags), self.size(lags), self.y_size)
        complete, rest = plus_constants(moved, self.y_centre, _TOLERANCE)
        return None if np.linalg.norm(rest) > _TOLERANCE * np.linalg.norm(self.y_centre) else complete
