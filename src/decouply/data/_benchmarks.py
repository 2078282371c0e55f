"""Benchmarks of nonlinear system identification, cut as their official splits say, and how a simulation is scored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_array, as_count, as_number, read_array
from .._support._errors import DataError, InputError, short_repr
from ._downloads import RemoteFile, Source, fetch

_RAW = "https://raw.githubusercontent.com"
_DRIVE = "https://drive.usercontent.google.com/download?export=download&id="

SILVERBOX = RemoteFile(
    "silverbox/SNLS80mV.mat",
    "5c7413a52255af0cb4e2f93fb6903beb92b08965ba1e6ad0a6ffedfed8477ed4",
    (
        Source(f"{_DRIVE}17iS-6oBUUgrmiAcrZoG9S5sOaljZnDSy", "SNLS80mV.mat"),
        Source(f"{_RAW}/biaslab/nsi-silverbox/728f07e4539d4f7da76a4778b52a756260b488ac/data/Silverbox/SNLS80mV.mat"),
    ),
)
WIENER_HAMMERSTEIN = RemoteFile(
    "wiener-hammerstein-2009/WienerHammerBenchMark.mat",
    "096e6128687efb664d146d28fc17db4c5a94f247c4b3a2e451319be1efb25ae2",
    (Source("https://www.ee.kth.se/~hjalmars/ifac_tc11_benchmarks/2009_wienerhammerstein/WienerHammerBenchMark.mat"),),
)
CASCADED_TANKS = RemoteFile(
    "cascaded-tanks/dataBenchmark.mat",
    "cb2f88d4388be4d3f2a24c6402fba804976aac5f2e1f26cda59ea0a38d016eab",
    (
        Source(
            "https://data.4tu.nl/file/d4810b78-6cdd-48fe-8950-9bd601e5f47f/3b697e42-01a4-4979-a370-813a456c36f5",
            "dataBenchmark.mat",
        ),
        Source(f"{_DRIVE}1HnQf_gu0g_UlggoBqy2s34l9YJiFdN01", "dataBenchmark.mat"),
    ),
)
_EMPS_FOLDER = f"{_RAW}/forgi86/sysid-neural-continuous/93afc131780fb1d5477472935a18ac8405683890/examples/EMPS/data"
_EMPS_ARCHIVE = f"{_DRIVE}1zwoXYa9-3f8NQ0ohzmjpF7UxbNgRTHkS"
EMPS_TRAIN = RemoteFile(
    "emps/DATA_EMPS.mat",
    "6cf6814ae14618795da0101aae2bb97ff0c6351b0501b5492751b02b07facf7e",
    (Source(f"{_EMPS_FOLDER}/DATA_EMPS.mat"), Source(_EMPS_ARCHIVE, "DATA_EMPS.mat")),
)
EMPS_TEST = RemoteFile(
    "emps/DATA_EMPS_PULSES.mat",
    "0eab75bb1f6b16228ee78791343a88bf9bfd9a51036ac9807d7b5fc11c0e1704",
    (Source(f"{_EMPS_FOLDER}/DATA_EMPS_PULSES.mat"), Source(_EMPS_ARCHIVE, "DATA_EMPS_PULSES.mat")),
)


@dataclass(frozen=True, eq=False)
class Record:
    """Inputs and outputs of one experiment, copies of what is given; ``u, y = record`` works.

    Parameters
    ----------
    name : str
        What tables call it.
    u, y : array (T,) or (T, channels)
        Inputs and outputs.
    sampling_time : float
        Seconds between samples.
    n_init : int
        The first outputs of a test record, which may be used to start a simulation and do not count in its score.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> record = dc.data.Record("pump", u=np.zeros(3), y=np.ones(3), sampling_time=0.1)
    >>> u, y = record
    >>> y
    array([1., 1., 1.])
    """

    name: str
    u: Float[ndarray, "T *inputs"]
    y: Float[ndarray, "T *outputs"]
    sampling_time: float
    n_init: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(f"`name` must be a text. Got {short_repr(self.name)}.")
        for name in ("u", "y"):
            given = read_array(f"`{name}` must be an array of real numbers", getattr(self, name))
            value = np.array(as_array(name, given, ("T", "channels") if given.ndim == 2 else ("T",)))
            if value.size == 0:
                raise InputError(f"`{name}` must be a signal with at least one entry. Got none.")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "sampling_time", as_number("sampling_time", self.sampling_time, above=True))
        object.__setattr__(self, "n_init", as_count("n_init", self.n_init, least=0))
        if len(self.u) != len(self.y) or self.n_init >= len(self.y):
            raise InputError(
                f"`u` and `y` must have the same length, above `n_init`. Got {len(self.u)}, {len(self.y)} and "
                f"{self.n_init}."
            )

    @classmethod
    def of(cls, data: Any) -> Record:
        """A record of the package `nonlinear_benchmarks`: anything with u, y, sampling_time and, for tests, the length
        of the window that a simulation may start from."""
        try:
            window = getattr(data, "state_initialization_window_length", None)
            return cls(str(data.name), data.u, data.y, float(data.sampling_time), int(window or 0))
        except Exception as error:  # whatever a foreign object does when it is asked for its parts
            raise InputError(
                f"`data` must be a record of nonlinear_benchmarks with inputs, outputs and a sampling time. Got "
                f"{type(data).__name__}: {error}."
            ) from error

    def __iter__(self) -> Iterator[Float[ndarray, "T *channels"]]:
        return iter((self.u, self.y))

    def __len__(self) -> int:
        return len(self.u)

    @property
    def y_init(self) -> Float[ndarray, "k *outputs"]:
        """The outputs that a simulation may start from."""
        return self.y[: self.n_init]

    def rmse(self, y_hat: object) -> float:
        """Root mean square error of simulated outputs, in units of y, without the initial window.

        Several outputs count together; `relative_rmse` gives each of them the same weight.
        """
        half = self._half_error(y_hat)
        return 2.0 * _norm(half / np.sqrt(half.size))

    def relative_rmse(self, y_hat: object) -> float:
        """The same in percent of the standard deviation of y, of each output its own."""
        scored = self.y[self.n_init :]
        scale = np.max(np.abs(scored), axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        spread = np.std(scored / scale, axis=0)
        if not np.all(spread):
            raise InputError("`y` must vary for an error relative to its standard deviation. It is constant.")
        return 200.0 * _norm(self._half_error(y_hat) / scale / spread / np.sqrt(scored.size))

    def _half_error(self, y_hat: object) -> Float[ndarray, "_ *outputs"]:
        """Half of the error: twice the largest number is none."""
        given = read_array("`y_hat` must be an array of real numbers", y_hat)
        if given.dtype.kind not in "fiu":
            raise InputError(f"`y_hat` must be an array of real numbers. Got entries of type {given.dtype}.")
        several = self.y.shape[1:] not in ((), (1,))
        if given.size != self.y.size or (several and given.shape != self.y.shape):
            size = f"have shape {self.y.shape}" if several else f"hold {self.y.size} outputs"
            raise InputError(f"`y_hat` must {size}, like the record. Got shape {given.shape}.")
        with np.errstate(over="ignore", invalid="ignore"):  # simulations may diverge
            return (self.y / 2.0 - given.astype(float).reshape(self.y.shape) / 2.0)[self.n_init :]

    def __repr__(self) -> str:
        return f"Record({self.name!r}, {len(self)} samples every {self.sampling_time:.6g} s, n_init={self.n_init})"


def _norm(x: Float[ndarray, "k *outputs"]) -> float:
    """The Euclidean norm, also if its square is too large for a float."""
    largest = float(np.max(np.abs(x), initial=0.0))
    return largest * float(np.linalg.norm(x.ravel() / largest)) if 0.0 < largest < np.inf else largest


@dataclass(frozen=True)
class Silverbox:
    """The Silverbox: an electronic Duffing oscillator (Wigren and Schoukens 2013), in volts, at 610.35 Hz.

    Attributes
    ----------
    train : Record
        Random-phase odd multisines.
    multisine : Record
        Test: two further realisations of the same.
    arrow : Record
        Test: noise whose amplitude grows beyond that of the training data.
    arrow_no_extrapolation : Record
        Test: the part of `arrow` that stays within it. It is a prefix of `arrow`, not an independent record.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> record = dc.data.Record("short", u=np.zeros(3), y=np.ones(3), sampling_time=0.1)
    >>> dc.data.Silverbox(record, record, record, record).train.name
    'short'
    """

    train: Record
    multisine: Record
    arrow: Record
    arrow_no_extrapolation: Record

    @property
    def tests(self) -> tuple[Record, Record, Record]:
        return self.multisine, self.arrow, self.arrow_no_extrapolation


@dataclass(frozen=True)
class Benchmark:
    """One record to learn from and one to be judged on.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> record = dc.data.Record("short", u=np.zeros(3), y=np.ones(3), sampling_time=0.1)
    >>> dc.data.Benchmark(train=record, test=record).test.y
    array([1., 1., 1.])
    """

    train: Record
    test: Record


def silverbox() -> Silverbox:
    """The Silverbox benchmark, by the official split; nothing is subtracted from the signals.

    Returns
    -------
    Silverbox
        The training record and three test records.

    Examples
    --------
    >>> import decouply as dc
    >>> d = dc.data.silverbox()  # doctest: +SKIP
    >>> u, y = d.train  # doctest: +SKIP
    >>> len(u)  # doctest: +SKIP
    65062
    """
    u, y = _columns(fetch(SILVERBOX), "V1", "V2")
    dt = 2**14 / 1e7

    def cut(name: str, begin: int, end: int, n_init: int = 50) -> Record:
        return Record(f"Silverbox, {name}", u[begin:end], y[begin:end], dt, n_init)

    return Silverbox(
        cut("training", 40650, 105712, 0),
        cut("multisine test", 105712, 127400),
        cut("arrow test", 100, 40575),
        cut("arrow test without extrapolation", 100, 32100),
    )


def wiener_hammerstein() -> Benchmark:
    """The Wiener-Hammerstein benchmark of 2009 (Schoukens, Suykens and Ljung): filter, diode, filter. In volts.

    Returns
    -------
    Benchmark
        A record to learn from, and one to be judged on.

    Examples
    --------
    >>> import decouply as dc
    >>> d = dc.data.wiener_hammerstein()  # doctest: +SKIP
    >>> len(d.train.u), len(d.test.u)  # doctest: +SKIP
    (100000, 78800)
    """
    u, y = _columns(fetch(WIENER_HAMMERSTEIN), "uBenchMark", "yBenchMark")
    dt = 1.0 / 51200.0
    return Benchmark(
        Record("Wiener-Hammerstein, training", u[5200:105200], y[5200:105200], dt),
        Record("Wiener-Hammerstein, test", u[105200:184000], y[105200:184000], dt, 50),
    )


def cascaded_tanks() -> Benchmark:
    """Cascaded water tanks with overflow (Schoukens, Mattsson, Wigren and Noël), in volts, every 4 s.

    Returns
    -------
    Benchmark
        A record to learn from, and one to be judged on.

    Examples
    --------
    >>> import decouply as dc
    >>> d = dc.data.cascaded_tanks()  # doctest: +SKIP
    >>> d.train.y.shape  # doctest: +SKIP
    (1024,)
    """
    u, y, u_test, y_test = _columns(fetch(CASCADED_TANKS), "uEst", "yEst", "uVal", "yVal")
    return Benchmark(
        Record("Cascaded tanks, training", u, y, 4.0), Record("Cascaded tanks, test", u_test, y_test, 4.0, 50)
    )


def emps() -> Benchmark:
    """EMPS, a linear drive with friction in closed loop (Janot, Gautier and Brunot): motor command to position in m.

    Returns
    -------
    Benchmark
        A record to learn from, and one to be judged on.

    Examples
    --------
    >>> import decouply as dc
    >>> d = dc.data.emps()  # doctest: +SKIP
    >>> d.train.sampling_time  # doctest: +SKIP
    0.001
    """
    records = []
    for file, name, n_init in ((EMPS_TRAIN, "training", 0), (EMPS_TEST, "test", 20)):
        u, y = _columns(fetch(file), "vir", "qm")
        records.append(Record(f"EMPS, {name}", u, y, 1e-3, n_init))
    return Benchmark(*records)


def _columns(path: Path, *names: str) -> list[ndarray]:
    """Variables of a MATLAB file as vectors of float64."""
    from scipy.io import loadmat

    content: dict[str, Any] = loadmat(path)
    missing = [name for name in names if name not in content]
    if missing:
        raise DataError(f"`{path}` must hold the variables {', '.join(names)}. Missing: {', '.join(missing)}.")
    return [np.array(content[name], dtype=np.float64).ravel() for name in names]
