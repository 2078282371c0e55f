"""NARX models: y(t) = f(x(t)) with x(t) = (u(t), ..., u(t - n_u), y(t - 1), ..., y(t - n_y)).

They predict one step ahead from measured outputs, or run freely on their own past outputs. For a simulation a model is
written out once as straight-line arithmetic on Python floats and compiled. Past inputs and outputs are the states of
the model: `as_state_space` writes one step of it.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ..._support._arguments import read_array
from ..._support._errors import InputError, pluralised
from ...bases import Monomial
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ...samples._samples import Samples
from ...write._formula import formula
from ...write._record_file import Record
from ...write._source import compiled
from ..free_run._step import StepArrays
from ..signals._records import Range, Signals, warn_of_escape, with_channels


@dataclass(frozen=True)
class Lags:
    """The regressors of a NARX model, in the order above; within one time all channels in turn."""

    n_u: int
    n_y: int
    n_inputs: int
    n_outputs: int

    @property
    def longest(self) -> int:
        """Samples that must have passed before the first prediction."""
        return max(self.n_u, self.n_y)

    @property
    def n_regressors(self) -> int:
        return (self.n_u + 1) * self.n_inputs + self.n_y * self.n_outputs

    @property
    def n_states(self) -> int:
        """Past inputs and outputs that enter: all regressors but u(t)."""
        return self.n_regressors - self.n_inputs

    @property
    def names(self) -> tuple[str, ...]:
        """u(t), u(t-1), ..., y(t-1), ...; channels are numbered if there are several."""
        past_u = [(t, i) for t in range(self.n_u + 1) for i in range(self.n_inputs)]
        past_y = [(t, i) for t in range(1, self.n_y + 1) for i in range(self.n_outputs)]
        return tuple(
            [_name("u", i, self.n_inputs, t) for t, i in past_u] + [_name("y", i, self.n_outputs, t) for t, i in past_y]
        )

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(_name("y", i, self.n_outputs, 0) for i in range(self.n_outputs))

    def repeated(self, of_u: ndarray, of_y: ndarray) -> Float[ndarray, " m"]:
        """One number per channel becomes one per regressor."""
        return np.concatenate([np.tile(of_u, self.n_u + 1), np.tile(of_y, self.n_y)])

    def input_windows(self, u: Float[ndarray, "T inputs"], first: int) -> Float[ndarray, "steps window"]:
        """The input part of the regressors for the times first, ..., T - 1."""
        return np.concatenate([u[first - k : len(u) - k] for k in range(self.n_u + 1)], axis=1)

    def regressors(
        self, u: Float[ndarray, "T inputs"], y: Float[ndarray, "T outputs"], first: int | None = None
    ) -> Float[ndarray, "steps m"]:
        """All regressors for the times first, ..., T - 1; by default from the first possible time on."""
        start = self.longest if first is None else first
        past = [y[start - k : len(y) - k] for k in range(1, self.n_y + 1)]
        return np.concatenate([self.input_windows(u, start), *past], axis=1)

    def of_records(self, signals: Signals) -> Float[ndarray, "S m"]:
        """All regressors of all records in turn, which must be longer than the longest lag."""
        shortest = min(len(record) for record in signals.u)
        if shortest <= self.longest:
            raise InputError(
                f"`u` must be longer than the longest lag, {self.longest} samples. Got {shortest}: give longer "
                "records or lower `n_u` and `n_y`."
            )
        return np.concatenate([self.regressors(u, y) for u, y in zip(signals.u, signals.y, strict=True)])


def _name(letter: str, channel: int, n_channels: int, lag: int) -> str:
    number = str(channel + 1) if n_channels > 1 else ""
    return f"{letter}{number}(t-{lag})" if lag else f"{letter}{number}(t)"


def as_state_space(of_regressors: StepArrays, lags: Lags) -> StepArrays:
    """One step (x, u) -> (x+, y) with x = (u(t - 1), ..., u(t - n_u), y(t - 1), ..., y(t - n_y)): the same model.

    The newest output enters the state as it leaves: its rows stand in W_L twice, see `repeated_outputs`.
    """
    n, m, p = lags.n_states, lags.n_inputs, lags.n_outputs
    first_y, order = lags.n_u * m, _states_first(lags)
    linear, offset = np.zeros((n + p, n + m)), np.zeros(n + p)
    W = np.zeros((n + p, of_regressors.W[-1].shape[1]))
    linear[:first_y, n:][:m] = np.eye(m)[: min(m, first_y)]  # u(t) is the newest past input
    for begin, end, size in ((0, first_y, m), (first_y, n, p)):  # older ones move on
        linear[np.arange(begin + size, end), np.arange(begin, max(begin, end - size))] = 1.0
    copies = repeated_outputs(lags)
    for rows in (list(range(n, n + p)), list(copies)):
        source = [copies.get(row, row) - n for row in rows]
        linear[rows] = of_regressors.linear[source][:, order]
        offset[rows], W[rows] = of_regressors.offset[source], of_regressors.W[-1][source]
    return StepArrays((of_regressors.W[0][:, order], *of_regressors.W[1:-1], W), of_regressors.g, linear, offset)


def as_narx(step: StepArrays, lags: Lags) -> StepArrays:
    """The inverse of `as_state_space`: the map from regressors to outputs."""
    n, order = lags.n_states, np.argsort(_states_first(lags))
    W = (step.W[0][:, order], *step.W[1:-1], step.W[-1][n:])
    return replace(step, W=W, linear=step.linear[n:][:, order], offset=step.offset[n:])


def repeated_outputs(lags: Lags) -> dict[int, int]:
    """Rows of (x+, y) that hold the newest output as a state, and the rows of the output itself."""
    newest = lags.n_u * lags.n_inputs
    return {newest + i: lags.n_states + i for i in range(lags.n_outputs if lags.n_y else 0)}


def _states_first(lags: Lags) -> Int[ndarray, " m"]:
    """The order of regressors as (x, u): u(t) comes last."""
    return np.r_[np.arange(lags.n_inputs, lags.n_regressors), np.arange(lags.n_inputs)]


Step = Callable[..., Sequence[float]]


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
        return cls(lags, lags.of_records(signals), Range.of("u", signals.u), Range.of("y", signals.y), signals.flat)

    def record(self) -> Record:
        """For files."""
        ranges = {name: np.stack([of.low, of.high]) for name, of in (("u", self.u), ("y", self.y))}
        return Record.of({"X": self.X, **ranges}, lags=asdict(self.lags), flat=self.flat)

    @classmethod
    def of_record(cls, record: Record) -> Training:
        """The inverse of `record`."""
        lags, arrays = Lags(**record["lags"]), record.arrays
        training = cls(lags, arrays["X"], Range(*arrays["u"]), Range(*arrays["y"]), bool(record["flat"]))
        sizes = (arrays["X"].shape[1], len(training.u.low), len(training.y.low))
        if sizes != (lags.n_regressors, lags.n_inputs, lags.n_outputs):
            raise ValueError("arrays of other sizes than the lags ask for")
        if not all(np.all(of.low < of.high) for of in (training.u, training.y)):
            raise ValueError("ranges of signals that do not vary")
        return training

    @property
    def middle(self) -> Float[ndarray, " m"]:
        """The middle of the range of every regressor."""
        return self.lags.repeated(self.u.middle, self.y.middle)

    @property
    def half_width(self) -> Float[ndarray, " m"]:
        """Half the width of the range of every regressor."""
        return self.lags.repeated(self.u.half_width, self.y.half_width)


class AbstractNARX(abc.ABC):
    """y(t) = f(x(t)) with x(t) = (u(t), ..., u(t - n_u), y(t - 1), ..., y(t - n_y)).

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 200)
    >>> y = np.zeros(200)
    >>> for t in range(1, 200):
    ...     y[t] = 0.5 * y[t - 1] + u[t] - 0.2 * y[t - 1] ** 3
    >>> model = dc.sysid.PolynomialNARX(n_u=0, n_y=1, degree=3).fit(u, y)
    >>> isinstance(model, dc.sysid.AbstractNARX), model.lags.names
    (True, ('u(t)', 'y(t-1)'))
    """

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
        return self.lags.of_records(self._read(u, y))

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
            predicted[self.lags.longest :] = self(self.lags.of_records(signals))
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
        inputs = with_channels("u", u, lags.n_inputs)
        nothing = lags.longest == 0 and read_array("`y_init` must be an array", y_init).size == 0
        given = np.zeros((0, lags.n_outputs)) if nothing else with_channels("y_init", y_init, lags.n_outputs)
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

    def _read(self, u: Any, y: Any) -> Signals:
        """Records with the channels of this model."""
        signals, lags = Signals.read(u, y), self.lags
        for name, got, wanted in (("u", signals.n_inputs, lags.n_inputs), ("y", signals.n_outputs, lags.n_outputs)):
            if got != wanted:
                raise InputError(f"`{name}` must have {pluralised(wanted, 'channel')}, as in training. Got {got}.")
        return signals

    def _shaped(self, outputs: ndarray) -> ndarray:
        return outputs[:, 0] if self.trained_on.flat else outputs


def step_of(model: Decoupling) -> Step:
    """A decoupling as a fast function of numbers; bases that cannot be written out are evaluated as they are."""
    if all(basis.writable for g in model.g for basis in g.layer.bases):
        plain = model.with_names(None, None)  # names of users have no place in the source
        return compiled(formula(plain, "python", jacobian=False))
    return lambda *x: model.values(np.array([x]))[0].tolist()


def free_run(
    step: Step,
    lags: Lags,
    u: Float[ndarray, "T inputs"],
    y_init: Float[ndarray, "k outputs"],
    limits: Range,
) -> tuple[Float[ndarray, "T outputs"], int | None]:
    """Outputs for all times, the first ones as given; and the time at which they left the limits, if they did.

    From that time on the outputs are NaN.
    """
    first = len(y_init)
    y = np.full((len(u), lags.n_outputs), np.nan)
    y[:first] = y_init
    windows = lags.input_windows(u, first).tolist()
    past = y_init[::-1][: lags.n_y].ravel().tolist()
    keep = len(past) - lags.n_outputs
    bounds = list(zip(limits.low.tolist(), limits.high.tolist(), strict=True))
    rows = []
    stopped = None
    with np.errstate(all="ignore"):  # what overflows inside a step is out of bounds after it
        for t, window in enumerate(windows):
            new = step(*window, *past)
            if not all(lo <= value <= hi for value, (lo, hi) in zip(new, bounds, strict=True)):  # false for NaN as well
                stopped = first + t
                break
            rows.append(new)
            if lags.n_y:
                past = [*new, *past[:keep]]
    if rows:
        y[first : first + len(rows)] = rows
    return y, stopped


def linear_model(lags: Lags, signals: Signals) -> Decoupling:
    """A linear model to compare with: least squares for y(t) on a constant and the regressors, of all records."""
    X = lags.of_records(signals)
    Y = np.concatenate([y[lags.longest :] for y in signals.y])
    middle, size = X.mean(axis=0), X.std(axis=0)
    size = np.where(size > 0.0, size, 1.0)
    slopes = np.linalg.lstsq((X - middle) / size, Y - Y.mean(axis=0), rcond=None)[0].T / size
    nothing = Functions(Monomial(1), np.zeros((1, 2)))
    return Decoupling(
        [np.zeros((1, X.shape[1])), np.zeros((Y.shape[1], 1))],
        [nothing],
        linear=slopes,
        offset=Y.mean(axis=0) - slopes @ middle,
    )
