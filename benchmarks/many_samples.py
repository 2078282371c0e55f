"""Many samples with their Jacobians in a file: S = 20000, n = 10, m = 512, by 50 iterations of Proj from one start."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

import decouply as dc

from .machine import table, verdict

WIDTHS, S, RANK, DEGREE, ITERATIONS = (512, 256, 128, 64, 10), 20_000, 12, 4, 50
PORTION = 500
LIMIT_SECONDS, LIMIT_GIB = 300, 2


def network(X: np.ndarray, W: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Values and Jacobians of a ReLU network, going back from the output."""
    z, active = X, []
    for l, w in enumerate(W):
        z = z @ w.T
        if l < len(W) - 1:
            active.append(z > 0)
            z = z * active[-1]
    J = np.broadcast_to(W[-1], (len(X), *W[-1].shape))
    for w, mask in zip(W[-2::-1], active[::-1], strict=True):
        J = ((J * mask[:, None, :]).reshape(-1, w.shape[0]) @ w).reshape(len(X), -1, w.shape[1])
    return z, J


def stored_samples(dtype: str) -> dc.Samples:
    """Samples of a random network; the rows of its Jacobians span 256 of 512 dimensions."""
    rng = np.random.default_rng(0)
    W = [rng.normal(size=(rows, columns)) * np.sqrt(2.0 / columns) for columns, rows in pairwise(WIDTHS)]
    X, F = rng.normal(size=(S, WIDTHS[0])), np.empty((S, WIDTHS[-1]))

    def chunks() -> Iterator[np.ndarray]:
        for first in range(0, S, PORTION):
            part = slice(first, first + PORTION)
            F[part], J = network(X[part], W)
            yield J

    stored = dc.StoredJacobians(chunks(), shape=(S, WIDTHS[-1], WIDTHS[0]), dtype=dtype)
    return dc.Samples(X, F=F, J=stored)


def measure(dtype: str) -> tuple[float, float, float, float]:
    """Seconds of writing and of decoupling, peak of the resident memory in GiB, Error(J)."""
    began = time.perf_counter()
    samples = stored_samples(dtype)
    written = time.perf_counter()
    solver = dc.Proj(max_steps=ITERATIONS, patience=ITERATIONS)
    result = dc.decouple(samples, RANK, DEGREE, solver=solver, n_starts=1, progress=False)
    done = time.perf_counter()
    return written - began, done - written, _peak(), result.error_jacobian


def _peak() -> float:
    """Peak of the resident memory of this process in GiB; `getrusage` would count its parent before the fork."""
    status = Path("/proc/self/status")
    if status.is_file():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1024**2
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def section(_: Path) -> str:
    rows = []
    for dtype in ("float64", "float32"):
        # In a process of its own, so that the peak is that of this measurement alone.
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.many_samples", dtype], capture_output=True, text=True, check=True
        )
        writing, seconds, peak, error = (float(word) for word in done.stdout.split())
        rows.append(
            [
                dtype,
                f"{writing:.1f} s",
                f"{seconds:.1f} s",
                verdict(seconds, LIMIT_SECONDS),
                f"{peak:.2f} GiB",
                verdict(peak, LIMIT_GIB),
                f"{error:.3f}",
            ]
        )
    size = S * WIDTHS[0] * WIDTHS[-1] * 8 / 1024**3
    return (
        f"## Many samples: {'-'.join(map(str, WIDTHS))}, S = {S}, r = {RANK}, degree {DEGREE}\n\n"
        f"Jacobians of a random ReLU network in a file (`dc.StoredJacobians`); as an array they would take {size:.2f} "
        f"GiB. `Proj`, {ITERATIONS} iterations, one start; the peak is that of the resident memory of the whole "
        "process.\n\n"
        + table(["stored as", "writing", "decoupling", "target", "peak memory", "target", "Error(J)"], rows)
    )


if __name__ == "__main__":
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        print(*measure(sys.argv[1]))
