"""How many files and functions of the package a call walks through: `python tools/walk.py [PATH ...]`.

A reader who follows a fit has to open as many. Paths: one-layer, two-stage, spline, report; all without a name.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import decouply as dc

PACKAGE = str(Path(dc.__file__).parent)


def walked(call: Callable[[], Any]) -> tuple[int, int, int]:
    """Distinct files, distinct functions and changes of file during a call. Imports are not counted."""
    functions: set[tuple[str, str, int]] = set()
    last, changes = "", 0

    def trace(frame: FrameType, event: str, _: Any) -> None:
        nonlocal last, changes
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE) or code.co_name == "<module>":
            return
        if not code.co_name.startswith("<"):
            functions.add((code.co_filename, code.co_qualname, code.co_firstlineno))
        changes += code.co_filename != last
        last = code.co_filename

    sys.setprofile(trace)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len({file for file, *_ in functions}), len(functions), changes


def _points(count: int, n_inputs: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1.0, 1.0, (count, n_inputs))


def one_layer() -> None:
    """Jacobians of two functions of mixtures: one eigenvalue problem."""
    X = _points(50, 2)
    a, b = X[:, 0] + 2.0 * X[:, 1], X[:, 0] - X[:, 1]
    slopes = np.stack([3.0 * a**2, -2.0 * b], axis=1)
    W_0, W_1 = np.array([[1.0, 2.0], [1.0, -1.0]]), np.array([[1.0, 1.0], [2.0, -3.0]])
    samples = dc.Samples(X, J=W_1 * slopes[:, None, :] @ W_0)
    dc.decouple(samples, ranks=2, degrees=3, rng=0, progress=False)


def two_stage() -> None:
    """Two layers by the paper's projection, with λ chosen in two stages."""
    truth = dc.systems.f2()
    X = _points(40, truth.n_inputs)
    samples = dc.Samples(X, F=truth(X), J=truth.jacobian(X))
    dc.decouple(samples, ranks=(2, 2), degrees=(3, 3), solver=dc.TwoStage(dc.Proj()), n_starts=2, rng=0, progress=False)


def spline() -> None:
    """A spline from noisy values."""
    X = _points(120, 2)
    F = np.tanh(3.0 * X[:, :1] - X[:, 1:]) + 0.02 * np.random.default_rng(1).normal(size=(120, 1))
    dc.decouple(dc.Samples(X, F=F), ranks=1, basis=dc.Spline(8), n_starts=4, rng=0, progress=False)


def report() -> None:
    """`decouply fit data.csv --report page.html`."""
    from click.testing import CliRunner

    from decouply.cli._main import decouply

    with tempfile.TemporaryDirectory() as folder:
        table, page = Path(folder, "data.csv"), Path(folder, "page.html")
        X = _points(80, 2)
        y = (X[:, 0] + 2.0 * X[:, 1]) ** 3
        np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="a,b,y", comments="")
        words = ["fit", table, "--inputs", "a,b", "--outputs", "y", "--ranks", "1", "--degrees", "3", "--report", page]
        done = CliRunner().invoke(decouply, [str(word) for word in words], catch_exceptions=False)
        if done.exit_code:
            raise SystemExit(done.output)


PATHS = {"one-layer": one_layer, "two-stage": two_stage, "spline": spline, "report": report}


def main(names: list[str]) -> None:
    print(f"{'path':<12}{'files':>8}{'functions':>12}{'file changes':>15}")
    for name in names or PATHS:
        PATHS[name]()  # what the first call imports and compiles is not part of the way
        print("{:<12}{:>8}{:>12}{:>15}".format(name, *walked(PATHS[name])))


if __name__ == "__main__":
    main(sys.argv[1:])
