"""Records of inputs and outputs: checked, held back in part, and in the standard units of a fit.

A record is one experiment; there may be several, each with one channel or more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ..._support._arguments import as_number, read_array
from ..._support._errors import InputError, pluralised, short_repr, warn

_LARGEST = 1e100  # of signals: their products are added up
_UNEVEN = 0.1  # of a step: times that were rounded differ by less
_BELIEVABLE_REACH = 10.0  # how many times as far from the middle as any training output a simulation may go


@dataclass(frozen=True, eq=False)
class Range:
    """The smallest interval that holds all samples of a channel, for every channel."""

    low: Float[ndarray, " channels"]
    high: Float[ndarray, " channels"]

    @classmethod
    def of(cls, name: str, records: tuple[Float[ndarray, "_ channels"], ...]) -> Range:
        """The range of records in which every channel varies; `name` is what the user calls them."""
        low = np.min([r.min(axis=0) for r in records], axis=0)
        high = np.max([r.max(axis=0) for r in records], axis=0)
        found = cls(low, high)
        for i, (a, b, half) in enumerate(zip(low, high, found.half_width, strict=True)):
            channel = f"`{name}[:, {i}]`" if len(low) > 1 else f"`{name}`"
            if a == b:
                raise InputError(
                    f"{channel} must vary. It is {a + 0.0:g} throughout: nothing can be learnt from a constant."
                )
            if max(abs(a), abs(b)) > _LARGEST or half < 1.0 / _LARGEST:
                raise InputError(
                    f"{channel} must lie within ±{_LARGEST:g} and vary by more than {1.0 / _LARGEST:g}. Got the "
                    f"range [{a:g}, {b:g}]: choose other units."
                )
        return found

    @property
    def middle(self) -> Float[ndarray, " channels"]:
        return self.low / 2.0 + self.high / 2.0

    @property
    def half_width(self) -> Float[ndarray, " channels"]:
        return self.high / 2.0 - self.low / 2.0

    @property
    def believable(self) -> Range:
        """Outputs beyond this are taken for those of an unstable model."""
        reach = _BELIEVABLE_REACH * self.half_width
        return Range(self.middle - reach, self.middle + reach)


@dataclass(frozen=True)
class Signals:
    """One or more records of the same channels: inputs `u` and outputs `y`, (T, channels) each."""

    u: tuple[Float[ndarray, "_ inputs"], ...]
    y: tuple[Float[ndarray, "_ outputs"], ...]
    flat: bool = False  # whether the outputs were given as one-dimensional arrays
    begins: tuple[int, ...] = ()  # times at which the pieces of records with gaps begin
    gaps: str = ""  # a sentence about gaps at which records were cut
    sampling_time: float | None = None  # seconds between samples, if the user gave them

    @classmethod
    def read(cls, u: Any, y: Any, *, gaps: bool = False) -> Signals:
        """Check records that a user gave. A list of records is several records, an array is one.

        With `gaps`, samples may be NaN or infinite.
        """
        inputs, outputs = _records("u", u, gaps), _records("y", y, gaps)
        if len(inputs) != len(outputs):
            raise InputError(f"`u` and `y` must hold as many records. Got {len(inputs)} and {len(outputs)}.")
        for k, (a, b) in enumerate(zip(inputs, outputs, strict=True)):
            if len(a) != len(b):
                where = f" in record {k}" if len(inputs) > 1 else ""
                raise InputError(
                    f"`u` and `y` must have the same length{where}. Got {len(a)} and {len(b)} samples: cut the longer "
                    "one to the time both were measured."
                )
        for name, records in (("u", inputs), ("y", outputs)):
            channels = {r.shape[1] for r in records}
            if len(channels) > 1:
                raise InputError(f"`{name}` must have the same channels in every record. Got {sorted(channels)}.")
        first = y[0] if _several(y) else y
        return cls(inputs, outputs, np.ndim(first) == 1)

    @classmethod
    def without_gaps(cls, u: Any, y: Any, sampling_time: Any = None) -> Signals:
        """Records that a user gave, cut at their gaps. Short pieces are left out: each has its own initial state."""
        given = cls.read(u, y, gaps=True)
        if sampling_time is not None:
            given = replace(given, sampling_time=_seconds_per_sample(sampling_time, [len(a) for a in given.u]))
        found = []  # record, begin, end
        for k, (a, b) in enumerate(zip(given.u, given.y, strict=True)):
            whole = np.concatenate([[False], np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1), [False]])
            found += [(k, *cut) for cut in np.flatnonzero(np.diff(whole)).reshape(-1, 2).tolist()]
        total, lengths = sum(len(a) for a in given.u), [end - begin for _, begin, end in found]
        if sum(lengths) == total:
            return given
        if not found:
            raise InputError("`u` and `y` must hold numbers. Every sample has NaN or infinity in some channel.")
        kept = [cut for cut, n in zip(found, lengths, strict=True) if n >= min(_SHORTEST_BLOCK, max(lengths))]
        u, y = (tuple(signal[k][begin:end] for k, begin, end in kept) for signal in (given.u, given.y))
        sentence = (
            f"Gaps: {total - sum(lengths)} of {pluralised(total, 'sample')} have NaN or infinity. The fit uses "
            f"{pluralised(len(kept), 'piece')} without gaps, {pluralised(sum(map(len, u)), 'sample')} in all"
        )
        if len(kept) < len(found):
            sentence += f", and leaves out {len(found) - len(kept)} shorter than {_SHORTEST_BLOCK} samples"
        begins = tuple(begin for _, begin, _ in kept)
        return replace(given, u=u, y=y, begins=begins, gaps=f"{sentence}.")

    def remarks(self) -> list[str]:
        """What a user should know of the records: gaps, and inputs of two values."""
        remarks = [self.gaps] if self.gaps else []
        for i in range(self.n_inputs):
            if len(np.unique(np.concatenate(self.u)[:, i])) == 2:
                name = f"u[:, {i}]" if self.n_inputs > 1 else "u"
                remarks.append(
                    f"`{name}` has only two values, which say nothing about curves of the input: record more levels."
                )
        return remarks

    def without_delay(self, delay: int) -> Signals:
        """Every output beside the input `delay` samples before it."""
        if delay == 0:
            return self
        return replace(self, u=tuple(u[:-delay] for u in self.u), y=tuple(y[delay:] for y in self.y))

    @property
    def n_inputs(self) -> int:
        return int(self.u[0].shape[1])

    @property
    def n_outputs(self) -> int:
        return int(self.y[0].shape[1])


def as_signal(name: str, value: Any, gaps: bool = False) -> Float[ndarray, "T channels"]:
    """One record as a float64 array (T, channels); one-dimensional ones become one channel."""
    rule = f"`{name}` must be a record of shape (T,) or (T, channels) of real numbers"
    if isinstance(value, np.ma.MaskedArray):
        value = np.ma.filled(value.astype(float), np.nan)  # what is masked is a gap
    given = read_array(rule, value)
    try:
        with np.errstate(over="ignore"):  # what no float64 holds becomes infinite, and is told below
            array = np.array(given, dtype=np.float64) if given.dtype.kind in "fiubO" else None
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InputError(f"{rule}. It cannot be read as one: {error}.") from error
    if array is None:
        raise InputError(f"{rule}. Got entries of type {given.dtype}.")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"{rule}. Got shape {array.shape}.")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size and not gaps:
        raise InputError(
            f"`{name}` must not have gaps. Got {pluralised(bad.size, 'sample')} with NaN or infinity, the first at "
            f"{bad[0]}, the last at {bad[-1]}: cut the record there and give the pieces as a list of records."
        )
    array.flags.writeable = False
    return array


def with_channels(name: str, value: Any, channels: int) -> Float[ndarray, "T channels"]:
    """One record as an array that has as many channels as those of the training."""
    signal = as_signal(name, value)
    if signal.shape[1] != channels:
        raise InputError(
            f"`{name}` must have {pluralised(channels, 'channel')}, as in training. Got shape {signal.shape}."
        )
    return signal


def _several(value: Any) -> bool:
    """Whether a list holds records rather than samples: arrays, or sequences longer than there are of them."""
    if not isinstance(value, list | tuple) or not value:
        return False
    if all(isinstance(v, ndarray) and v.ndim for v in value):
        return True
    return all(hasattr(v, "__len__") and not isinstance(v, str) and len(v) > len(value) for v in value)


def _records(name: str, value: Any, gaps: bool) -> tuple[ndarray, ...]:
    if _several(value):
        records = [as_signal(f"{name}[{k}]", record, gaps) for k, record in enumerate(value)]
    else:
        records = [as_signal(name, value, gaps)]
    for record in records:
        if not len(record):
            raise InputError(f"`{name}` must hold samples. Got a record of shape {record.shape}.")
        if record.shape[1] > record.shape[0] > 0:
            raise InputError(f"`{name}` must have time along the first axis. Got shape {record.shape}: transpose it.")
    return tuple(records)


def _seconds_per_sample(given: Any, lengths: list[int]) -> float:
    """From a number, or from the times of all samples, which may be NaN where they are not known."""
    if not isinstance(given, list | tuple) and np.ndim(given) == 0:
        return as_number("sampling_time", given, above=True)
    records = _records("sampling_time", given, gaps=True)
    if [len(times) for times in records] != lengths or any(times.shape[1] > 1 for times in records):
        raise InputError(
            "`sampling_time` must be a number of seconds, or hold the time of every sample of `u`. Got shape "
            f"{', '.join(str(times.shape) for times in records)} for {', '.join(map(str, lengths))} samples."
        )
    known = [np.flatnonzero(np.isfinite(times[:, 0])) for times in records]
    steps = np.concatenate([np.diff(times[at, 0]) / np.diff(at) for times, at in zip(records, known, strict=True)])
    if not steps.size or not np.abs(steps - steps.mean()).max() <= _UNEVEN * steps.mean() > 0.0:
        shown = f"Steps are {steps.min():.4g} to {steps.max():.4g} s" if steps.size else "No two of them are known"
        raise InputError(
            f"`sampling_time` must hold times in equal steps. {shown}: interpolate the record, or give the rows that "
            "are missing as NaN."
        )
    return float(f"{steps.mean():.12g}")  # 0.01, not 0.009999999999999998


def held_back(signals: Signals, validation: Any, least: int) -> tuple[Signals, Signals]:
    """Records to fit, and records of at least `least` samples that choose among models."""
    is_share = isinstance(validation, float | int) and not isinstance(validation, bool)
    parts = tuple(validation) if isinstance(validation, Iterable) and getattr(validation, "ndim", 1) != 0 else ()
    if not (0.0 < validation < 1.0 if is_share else len(parts) == 2):
        raise InputError(
            f"`validation` must be a share between 0 and 1, or a record (u, y). Got {short_repr(validation)}."
        )
    if is_share:
        longest = int(np.argmax([len(record) for record in signals.u]))
        cut = round((1.0 - validation) * len(signals.u[longest]))
        held = Signals((signals.u[longest][cut:],), (signals.y[longest][cut:],))
        u, y = list(signals.u), list(signals.y)
        u[longest], y[longest] = u[longest][:cut], y[longest][:cut]
        signals = Signals(tuple(u), tuple(y))
    else:
        held = Signals.read(*parts)
        if (held.n_inputs, held.n_outputs) != (signals.n_inputs, signals.n_outputs):
            raise InputError(
                f"`validation` must have {signals.n_inputs} inputs and {signals.n_outputs} outputs, like the records. "
                f"Got {held.n_inputs} and {held.n_outputs}."
            )
    shortest = min(len(record) for record in held.u)
    if shortest < least:
        raise InputError(
            f"`validation` must leave at least {pluralised(least, 'sample')} to validate a model of this size. Got "
            f"{shortest}: give longer records, a larger share, or a separate record, or ask for a smaller model."
        )
    return signals, held


def warn_of_escape(name: str, stopped: int, n_steps: int, limits: Range) -> None:
    """Warn that a simulation left the range in which the model means anything, and where."""
    ranges = ", ".join(f"[{lo:.4g}, {hi:.4g}]" for lo, hi in zip(limits.low, limits.high, strict=True))
    warn(
        f"The simulation of {name} left the range {ranges} at step {stopped} of {n_steps} and was stopped there; the "
        "outputs from that step on are NaN. The model is unstable on this input, or the input is far larger than the "
        "training data; a decoupled model stays finite with `with_outside`.",
        stacklevel=3,
    )


_BLOCKS, _SHORTEST_BLOCK = 10, 60  # that a record is cut into; an initial state is found from some samples of one
_HELD_BACK = 0.25  # of a record that is too short for blocks
_TAPS, _TAPS_TOLERANCE = 16, 1e-8  # of filters between samples; weights that samples do not determine stay 0
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
        """The place where each record begins among all inputs."""
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


def parted(batch: RecordBatch) -> tuple[RecordBatch, RecordBatch]:
    """Records to fit and records that judge: the last part, and the part in which signals are largest.

    Short records are cut once.
    """
    total = sum(len(y) for y in batch.y)
    length = max(total // _BLOCKS, _SHORTEST_BLOCK)
    blocks: list[tuple[int, int, int]] = []  # record, begin, end
    for k, y in enumerate(batch.y):
        cuts = np.linspace(0, len(y), max(1, round(len(y) / length)) + 1).round().astype(int).tolist()
        blocks += [(k, a, b) for a, b in pairwise(cuts)]
    if len(blocks) < _BLOCKS // 2:
        k = int(np.argmax([len(y) for y in batch.y]))
        cut = round((1.0 - _HELD_BACK) * len(batch.y[k]))
        blocks = [(i, 0, len(y)) for i, y in enumerate(batch.y) if i != k] + [(k, 0, cut), (k, cut, len(batch.y[k]))]
        held = {len(blocks) - 1}
    else:
        sizes = [
            max(float(np.abs(batch.y[k][a:b]).max(axis=0).sum() + np.abs(batch.u[k][a:b]).max(axis=0).sum()), 0.0)
            for k, a, b in blocks
        ]
        held = {len(blocks) - 1, int(np.argmax(sizes[:-1]))}
    joined: list[tuple[int, int, int]] = []
    for i, (k, a, b) in enumerate(blocks):
        if i in held:
            continue
        if joined and joined[-1][0] == k and joined[-1][2] == a:
            joined[-1] = (k, joined[-1][1], b)
        else:
            joined.append((k, a, b))

    def batch_of(parts: list[tuple[int, int, int]]) -> RecordBatch:
        return RecordBatch(tuple(batch.u[k][a:b] for k, a, b in parts), tuple(batch.y[k][a:b] for k, a, b in parts))

    return batch_of(joined), batch_of([blocks[i] for i in sorted(held)])


@dataclass(frozen=True, eq=False)
class SignalUnits:
    """u' = (u - u_mean) / u_size and y' = (y - y_mean) / y_size, by mean and standard deviation of training records.

    Between samples inputs are interpolated with limited bandwidth, or predicted from present and past ones by `filters`
    of shape (inputs, oversample - 1, taps).
    """

    u_mean: Float[ndarray, " inputs"]
    u_size: Float[ndarray, " inputs"]
    y_mean: Float[ndarray, " outputs"]
    y_size: Float[ndarray, " outputs"]
    oversample: int = 1
    filters: Float[ndarray, "inputs between taps"] | None = None

    @classmethod
    def of(cls, signals: Signals, oversample: int, *, causal: bool = False) -> SignalUnits:
        """The units of these records; inputs and outputs must vary."""
        Range.of("u", signals.u)
        Range.of("y", signals.y)
        u, y = np.concatenate(signals.u), np.concatenate(signals.y)
        units = cls(u.mean(axis=0), u.std(axis=0), y.mean(axis=0), y.std(axis=0), oversample)
        if not causal or oversample == 1:
            return units
        return replace(
            units, filters=prediction_filters([(a - units.u_mean) / units.u_size for a in signals.u], oversample)
        )

    def inputs(self, u: Float[ndarray, "T inputs"]) -> Float[ndarray, "_ inputs"]:
        """Inputs of the recursion: in standard units, `oversample` times as many."""
        signal = (u - self.u_mean) / self.u_size
        if self.filters is None:
            return upsampled(signal, self.oversample)
        between = np.einsum("tik,ijk->tji", _recent_samples(signal, self.filters.shape[2]), self.filters)
        return np.concatenate([signal[:, None], between], axis=1).reshape(-1, signal.shape[1])

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


def prediction_filters(records: list[Float[ndarray, "_ inputs"]], factor: int) -> Float[ndarray, "inputs between taps"]:
    """For the times between t and t + 1, weights of the samples from t - 14 to t + 1: least squares to `upsampled`.

    An output at t + 1 may depend on what lies in between, since all these samples are known then.
    """
    filters = []
    for i in range(records[0].shape[1]):
        A = np.concatenate([_recent_samples(u, _TAPS)[:, i] for u in records])
        B = np.concatenate([upsampled(u, factor)[:, i].reshape(-1, factor)[:, 1:] for u in records])
        filters.append(np.linalg.lstsq(A, B, rcond=_TAPS_TOLERANCE)[0].T)
    return np.array(filters)


def _recent_samples(signal: Float[ndarray, "T channels"], taps: int) -> Float[ndarray, "T channels taps"]:
    """The samples up to t + 1 for every t; the ends of the record are held."""
    held = np.concatenate([np.repeat(signal[:1], taps - 2, axis=0), signal, signal[-1:]])
    return np.lib.stride_tricks.sliding_window_view(held, taps, axis=0)
