"""What passes between the scripts of the peers and the run that scores them: two .npz files.

DATA.npz holds `u_train`, `y_train`, `sampling_time`, and for each test `u_TEST` and `y_init_TEST`: its first outputs,
which may start a simulation and are not scored. The other outputs of the tests are not in the file, so no peer can
use them. OUT.npz holds `y_TEST`, as long as `u_TEST`, `n_parameters` and `seconds` (of fitting).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import decoupling as dc

TESTS = ("multisine", "arrow", "arrow_no_extrapolation")


@dataclass(frozen=True)
class Row:
    """One line of the table: a model with its scores, or why there are none."""

    model: str
    n_parameters: int = 0
    rmse_mv: tuple[float, ...] = ()
    seconds: float = 0.0
    failure: str = ""
    ours: bool = False


def write_data(data: dc.data.Silverbox, path: Path) -> None:
    arrays = {"u_train": data.train.u, "y_train": data.train.y, "sampling_time": np.array(data.train.sampling_time)}
    for name, test in zip(TESTS, data.tests, strict=True):
        arrays |= {f"u_{name}": test.u, f"y_init_{name}": test.y_init}
    np.savez(path, **arrays)


def scored(model: str, data: dc.data.Silverbox, path: Path) -> Row:
    """The row of a peer whose script wrote `path`."""
    with np.load(path) as out:
        rmse = [1e3 * test.rmse(out[f"y_{name}"]) for name, test in zip(TESTS, data.tests, strict=True)]
        return Row(model, int(out["n_parameters"]), tuple(rmse), float(out["seconds"]))
