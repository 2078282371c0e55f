"""Records in standard units, as a free run over all of them needs them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ._records import Range, Signals

_MIRRORED_SAMPLES = 200  # at both ends of a record before its spectrum is extended: the ends would ring without them


@dataclass(frozen=True, eq=False)
class RecordBatch:
    """Records, or windows of them, in standard units; inputs may be sampled `oversample` times as often as outputs."""

    u: tuple[Float[ndarray, "_ inputs"], ...]
    y: tuple[Float[ndarray, "_ outputs"], ...]
    oversample: int = 1

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def all_u(self) -> Float[ndarray, "T inputs"]:
        return np.concatenate(self.u)

    @cached_property
    def all_y(self) -> Float[ndarray, "S outputs"]:
        return np.concatenate(self.y)

    @cached_property
    def input_lists(self) -> tuple[list[Any], ...]:
        """The inputs of every record as Python numbers, or lists of them if there are several inputs."""
        return tuple((u[:, 0] if u.shape[1] == 1 else u).tolist() for u in self.u)

    @cached_property
    def offsets(self) -> Int[ndarray, " records"]:
        """Where each record begins among all inputs."""
        return np.cumsum([0] + [len(u) for u in self.u[:-1]])

    @cached_property
    def measured_times(self) -> Int[ndarray, " S"]:
        """The times among all inputs at which outputs were measured."""
        return np.concatenate(
            [b + self.oversample * np.arange(len(y)) for b, y in zip(self.offsets.tolist(), self.y, strict=True)]
        )

    def default_initial_states(self, n: int, n_integrators: int) -> Float[ndarray, "records n"]:
        """0, but the first outputs for states that are outputs."""
        x0 = np.zeros((len(self), n))
        x0[:, :n_integrators] = [y[0, :n_integrators] for y in self.y]
        return x0

    def at_measured_times(self) -> RecordBatch:
        """The same with inputs as often as outputs."""
        return self if self.oversample == 1 else RecordBatch(tuple(a[:: self.oversample] for a in self.u), self.y)

    def truncated(self, lengths: list[int]) -> RecordBatch:
        """The beginning of every record, `lengths` outputs long."""
        u = tuple(a[: k * self.oversample] for a, k in zip(self.u, lengths, strict=True))
        return RecordBatch(u, tuple(b[:k] for b, k in zip(self.y, lengths, strict=True)), self.oversample)

    def first_samples(self, count: int) -> RecordBatch:
        """The first `count` outputs of all records together, at least one record."""
        u, y, left = [], [], count
        for a, b in zip(self.u, self.y, strict=True):
            if left <= 0:
                break
            u.append(a[: left * self.oversample])
            y.append(b[:left])
            left -= len(b)
        return RecordBatch(tuple(u), tuple(y), self.oversample)

    def windows(self, length: int | None) -> RecordBatch:
        """The same outputs in windows of about this many; whole records if it is None."""
        if length is None:
            return self
        u, y = [], []
        for a, b in zip(self.u, self.y, strict=True):
            cuts = np.linspace(0, len(b), max(1, round(len(b) / length)) + 1).round().astype(int)
            for i, j in pairwise(cuts.tolist()):
                u.append(a[i * self.oversample : j * self.oversample])
                y.append(b[i:j])
        return RecordBatch(tuple(u), tuple(y), self.oversample)


@dataclass(frozen=True, eq=False)
class SignalUnits:
    """u' = (u - u_mean) / u_size and y' = (y - y_mean) / y_size, by mean and standard deviation of training records."""

    u_mean: Float[ndarray, " inputs"]
    u_size: Float[ndarray, " inputs"]
    y_mean: Float[ndarray, " outputs"]
    y_size: Float[ndarray, " outputs"]
    oversample: int = 1

    @classmethod
    def of(cls, signals: Signals, oversample: int) -> SignalUnits:
        """The units of these records; inputs and outputs must vary."""
        Range.of("u", signals.u)
        Range.of("y", signals.y)
        u, y = np.concatenate(signals.u), np.concatenate(signals.y)
        return cls(u.mean(axis=0), u.std(axis=0), y.mean(axis=0), y.std(axis=0), oversample)

    def inputs(self, u: Float[ndarray, "T inputs"]) -> Float[ndarray, "_ inputs"]:
        """Inputs of the recursion: in standard units, `oversample` times as many."""
        return upsampled((u - self.u_mean) / self.u_size, self.oversample)

    def outputs(self, y: Float[ndarray, "*T outputs"]) -> Float[ndarray, "*T outputs"]:
        return (y - self.y_mean) / self.y_size

    def batch(self, signals: Signals) -> RecordBatch:
        """The records in standard units, inputs `oversample` times as often as outputs."""
        u, y = (self.inputs(a) for a in signals.u), (self.outputs(b) for b in signals.y)
        return RecordBatch(tuple(u), tuple(y), self.oversample)

    def interpolated_batch(self, signals: Signals) -> RecordBatch:
        """The same with outputs as often as inputs, by interpolation."""
        u = (self.inputs(a) for a in signals.u)
        y = (upsampled(self.outputs(b), self.oversample) for b in signals.y)
        return RecordBatch(tuple(u), tuple(y))


def upsampled(signal: Float[ndarray, "T channels"], factor: int) -> Float[ndarray, "_ channels"]:
    """Band-limited interpolation: `factor` times as many samples, every `factor`-th of them as given.

    It looks ahead: a sample in between depends on what follows.
    """
    if factor == 1:
        return signal
    from scipy.signal import resample

    pad = min(_MIRRORED_SAMPLES, len(signal) - 1)
    padded = np.concatenate([signal[pad:0:-1], signal, signal[-2 : -pad - 2 : -1]])
    fine: ndarray = resample(padded, len(padded) * factor)
    fine = fine[pad * factor : (pad + len(signal)) * factor]
    fine[::factor] = signal
    return fine
