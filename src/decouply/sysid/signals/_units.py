"""Signals of a state-space model in standard units, and one step of the model in those and in the measured ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...model._units import Units
from ..free_run._simulation import Pieces
from ._records import Range, Signals

_PAD = 200  # samples that are mirrored at the ends of a record before its spectrum is extended


@dataclass(frozen=True, eq=False)
class Standard:
    """u' = (u - u_mean) / u_size and y' = (y - y_mean) / y_size, by the spread of the training records."""

    u_mean: Float[ndarray, " inputs"]
    u_size: Float[ndarray, " inputs"]
    y_mean: Float[ndarray, " outputs"]
    y_size: Float[ndarray, " outputs"]
    oversample: int

    @classmethod
    def of(cls, signals: Signals, oversample: int) -> Standard:
        """The units of these records; inputs and outputs must vary."""
        Range.of("u", signals.u)
        Range.of("y", signals.y)
        u, y = np.concatenate(signals.u), np.concatenate(signals.y)
        return cls(u.mean(axis=0), u.std(axis=0), y.mean(axis=0), y.std(axis=0), oversample)

    def inputs(self, u: Float[ndarray, "T inputs"]) -> Float[ndarray, "_ inputs"]:
        """Inputs of the recursion: in standard units, `oversample` times as many."""
        return upsampled((u - self.u_mean) / self.u_size, self.oversample)

    def outputs(self, y: Float[ndarray, "T outputs"]) -> Float[ndarray, "T outputs"]:
        return (y - self.y_mean) / self.y_size

    def pieces(self, signals: Signals) -> Pieces:
        u, y = (self.inputs(a) for a in signals.u), (self.outputs(b) for b in signals.y)
        return Pieces(tuple(u), tuple(y), self.oversample)

    def slow(self, signals: Signals) -> Pieces:
        """The same with outputs as often as inputs, by interpolation."""
        u = (self.inputs(a) for a in signals.u)
        y = (upsampled(self.outputs(b), self.oversample) for b in signals.y)
        return Pieces(tuple(u), tuple(y))

    def measured(self, step: Decoupling, n: int) -> Decoupling:
        """One step in standard units as one in measured units; the states stay as they are."""
        return plain(self._units(n).to_given(step))

    def standard(self, step: Decoupling, n: int) -> Decoupling:
        """The inverse of `measured`."""
        return plain(self._units(n).to_standard(step))

    def _units(self, n: int) -> Units:
        none, one = np.zeros(n), np.ones(n)
        size = np.concatenate([one, self.u_size])
        return Units(
            np.concatenate([none, self.u_mean]),
            np.diag(1.0 / size),
            np.diag(size),
            np.concatenate([none, self.y_mean]),
            np.concatenate([one, self.y_size]),
        )


def plain(step: Decoupling) -> Decoupling:
    """The same step with all constants of its last layer in the offset, and a linear part in any case."""
    last = step.g[-1]
    C = last.C.copy()
    C[:, 0] = 0.0
    offset = step.W[-1] @ last.constants
    return step.with_parts(
        g=[*step.g[:-1], last.with_coefficients(C)],
        linear=np.zeros((step.n_outputs, step.n_inputs)) if step.linear is None else step.linear,
        offset=offset if step.offset is None else offset + step.offset,
    )


def upsampled(signal: Float[ndarray, "T channels"], factor: int) -> Float[ndarray, "_ channels"]:
    """Band-limited interpolation: `factor` times as many samples, every `factor`-th of them as given.

    It looks ahead: a sample in between depends on what follows.
    """
    if factor == 1:
        return signal
    from scipy.signal import resample

    pad = min(_PAD, len(signal) - 1)
    padded = np.concatenate([signal[pad:0:-1], signal, signal[-2 : -pad - 2 : -1]])
    fine: ndarray = resample(padded, len(padded) * factor)
    fine = fine[pad * factor : (pad + len(signal)) * factor]
    fine[::factor] = signal
    return fine
