"""Benchmarks of nonlinear system identification, cut as their official splits say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from .._support._errors import DataError
from ._downloads import RemoteFile, Source, fetch
from ._record import Record

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
    (Source("http://www.ee.kth.se/~hjalmars/ifac_tc11_benchmarks/2009_wienerhammerstein/WienerHammerBenchMark.mat"),),
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


@dataclass(frozen=True)
class Silverbox:
    """The Silverbox: an electronic Duffing oscillator (Wigren and Schoukens 2013), in volts, at 610.35 Hz.

    Attributes
    ----------
    train
        Random-phase odd multisines.
    multisine
        Test: two further realisations of the same.
    arrow
        Test: noise whose amplitude grows beyond that of the training data.
    arrow_no_extrapolation
        Test: the part of `arrow` that stays within it. It is a prefix of `arrow`, not an independent record.
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
    """One record to learn from and one to be judged on."""

    train: Record
    test: Record


def silverbox() -> Silverbox:
    """The Silverbox benchmark, by the official split; nothing is subtracted from the signals.

    Examples
    --------
    >>> import decouply as dc
    >>> d = dc.data.silverbox()  # doctest: +SKIP
    >>> u, y = d.train  # doctest: +SKIP
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
    """The Wiener-Hammerstein benchmark of 2009 (Schoukens, Suykens and Ljung): filter, diode, filter; in volts."""
    u, y = _columns(fetch(WIENER_HAMMERSTEIN), "uBenchMark", "yBenchMark")
    dt = 1.0 / 51200.0
    return Benchmark(
        Record("Wiener-Hammerstein, training", u[5200:105200], y[5200:105200], dt),
        Record("Wiener-Hammerstein, test", u[105200:184000], y[105200:184000], dt, 50),
    )


def cascaded_tanks() -> Benchmark:
    """Cascaded water tanks with overflow (Schoukens, Mattsson, Wigren and Noël), in volts, every 4 s."""
    u, y, u_test, y_test = _columns(fetch(CASCADED_TANKS), "uEst", "yEst", "uVal", "yVal")
    return Benchmark(
        Record("Cascaded tanks, training", u, y, 4.0), Record("Cascaded tanks, test", u_test, y_test, 4.0, 50)
    )


def emps() -> Benchmark:
    """EMPS, a linear drive with friction in closed loop (Janot, Gautier and Brunot): motor command to position in m."""
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
