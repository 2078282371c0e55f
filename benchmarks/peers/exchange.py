"""What passes between the scripts of the peers and the run that scores them: two .npz files.

DATA.npz holds `u_train`, `y_train`, `sampling_time`, the names of the `tests`, and for each TEST `u_TEST` and
`y_init_TEST`: its first outputs, which may start a simulation and are not scored. The other outputs of the tests are
not in the file, so no peer can use them. OUT.npz holds `y_TEST`, as long as `u_TEST`, `n_parameters` and `seconds` (of
processor time for fitting).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import decouply as dc


@dataclass(frozen=True)
class Contest:
    """One data set: a record to learn from and tests, with the unit that errors are shown in.

    Attributes
    ----------
    title
        The heading on the page, with its link.
    tests
        What the tests are called in files and in the table.
    """

    title: str
    tests: tuple[str, ...]
    records: Callable[[], tuple[dc.data.Record, tuple[dc.data.Record, ...]]]
    unit: str
    scale: float


def _silverbox() -> tuple[dc.data.Record, tuple[dc.data.Record, ...]]:
    data = dc.data.silverbox()
    return data.train, data.tests


def _pair(benchmark: dc.data.Benchmark) -> tuple[dc.data.Record, tuple[dc.data.Record, ...]]:
    return benchmark.train, (benchmark.test,)


CONTESTS = {
    "silverbox": Contest("Silverbox", ("multisine", "arrow", "arrow_no_extrapolation"), _silverbox, "mV", 1e3),
    "tanks": Contest("Cascaded tanks", ("test",), lambda: _pair(dc.data.cascaded_tanks()), "V", 1.0),
    "wiener-hammerstein": Contest(
        "Wiener-Hammerstein 2009", ("test",), lambda: _pair(dc.data.wiener_hammerstein()), "mV", 1e3
    ),
}


@dataclass(frozen=True)
class Row:
    """One line of a table: a model with its scores, or why there are none."""

    model: str
    n_parameters: int = 0
    rmse: tuple[float, ...] = ()
    seconds: float = 0.0
    failure: str = ""
    ours: bool = False
    n_minimal: int = 0  # without redundant numbers, where it is known
    earlier: bool = False  # kept from a run before seconds were those of the processor


def write_data(contest: Contest, path: Path) -> None:
    train, tests = contest.records()
    arrays = {
        "u_train": train.u,
        "y_train": train.y,
        "sampling_time": np.array(train.sampling_time),
        "tests": np.array(contest.tests),
    }
    for name, test in zip(contest.tests, tests, strict=True):
        arrays |= {f"u_{name}": test.u, f"y_init_{name}": test.y_init}
    np.savez(path, **arrays)


def scored(model: str, contest: Contest, path: Path) -> Row:
    """The row of a peer whose script wrote `path`."""
    with np.load(path) as out:
        tests = zip(contest.tests, contest.records()[1], strict=True)
        rmse = tuple(contest.scale * test.rmse(out[f"y_{name}"]) for name, test in tests)
        return Row(model, int(out["n_parameters"]), rmse, float(out["seconds"]))
