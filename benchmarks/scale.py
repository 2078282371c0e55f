"""Data of any size: VarPro with a pilot and passes over everything, from memory and from a Zarr store."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import decoupling as dc

from .machine import table, verdict
from .many_samples import _peak

M, N, NOISE, PORTION = 10, 2, 0.05, 50_000
ONE, TWO = ((5,), (5,)), ((4, 4), (3, 3))
SEED = 101  # choices were made on other ones

# what is asked, shape, whether Jacobians are known, samples, seconds, GiB
ROWS = (
    ("VarPro, values", ONE, False, 1_000_000, 15, 1),
    ("VarPro, values and Jacobians", ONE, True, 100_000, 10, 1),
    ("VarPro, values and Jacobians", ONE, True, 1_000_000, 60, 1),
    ("VarPro, values and Jacobians", TWO, True, 100_000, 30, 1),
)


def batches(shape: tuple, jacobians: bool, count: int):
    """Noisy samples of a random system, a portion at a time."""
    ranks, degrees = shape
    f = dc.systems.random_system((M, *ranks, N), degrees, rng=SEED)
    rng = np.random.default_rng(SEED)
    probe = rng.uniform(-1, 1, (10_000, M))
    of_F, of_J = NOISE * f(probe).std(axis=0), NOISE * f.jacobian(probe).std()
    for first in range(0, count, PORTION):
        X = rng.uniform(-1, 1, (min(PORTION, count - first), M))
        F = f(X)
        J = f.jacobian(X) if jacobians else None
        yield (
            X,
            F + of_F * rng.normal(size=F.shape),
            None if J is None else J + of_J * rng.normal(size=J.shape),
        )


def make(path: str, shape: tuple, jacobians: bool, count: int) -> None:
    dc.Samples.from_batches(batches(shape, jacobians, count), store=path, progress=False)


def fit(path: str, shape: tuple) -> dict[str, object]:
    samples = dc.Samples.from_zarr(path)
    began = time.process_time()
    result = dc.decouple(samples, *shape, progress=False)
    seconds = time.process_time() - began
    return {"seconds": seconds, "peak": _peak(), "note": result.notes[-1], "error": result.error_values}


def sweeps(path: str, shape: tuple) -> dict[str, object]:
    """Seconds of one sweep of Proj over everything, from runs with three sweeps and with one."""
    samples = dc.Samples.from_zarr(path)
    times = []
    for steps in (1, 3):
        began = time.process_time()
        dc.decouple(samples, *shape, solver=dc.Proj(max_steps=steps, min_steps=steps), n_starts=1, progress=False)
        times.append(time.process_time() - began)
    return {"seconds": (times[1] - times[0]) / 2, "peak": _peak(), "note": "", "error": 0.0}


def against_all(shape: tuple, count: int) -> dict[str, object]:
    """The pilot against a search of all samples, in one process."""
    X, F = (np.concatenate(parts) for parts in list(zip(*batches(shape, False, count), strict=True))[:2])
    samples = dc.Samples(X, F=F)
    out: dict[str, object] = {}
    for name, pilot in (("pilot", 770), ("all", None)):
        began = time.process_time()
        result = dc.decouple(samples, *shape, solver=dc.VarPro(pilot=pilot), progress=False)
        out[name], out[f"{name} error"] = time.process_time() - began, result.error_values
    return out


def regressor(count: int, n_columns: int) -> dict[str, object]:
    f = dc.systems.random_system((n_columns, 3, 1), (3,), rng=SEED)
    rng = np.random.default_rng(SEED)
    X = rng.uniform(-1, 1, (count, n_columns))
    y = f(X)[:, 0]
    y = y + NOISE * y.std() * rng.normal(size=count)
    began = time.perf_counter()
    model = dc.DecouplingRegressor(ranks=3, degrees=3, random_state=0).fit(X, y)
    return {"seconds": time.perf_counter() - began, "peak": _peak(), "score": model.score(X, y)}


def alone(*arguments: object) -> dict[str, object]:
    """In a process of its own, so that the peak is that of this measurement alone."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", json.dumps(arguments)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def section(_: Path) -> str:
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        for name, shape, jacobians, count, seconds, gib in ROWS:
            path = f"{directory}/{len(rows)}.zarr"
            alone("make", path, shape, jacobians, count)
            found = alone("fit", path, shape)
            rows.append(_row(f"{name}, ranks {shape[0]}", count, found, seconds, gib))
        swept = {}
        for count in (250_000, 1_000_000):
            path = f"{directory}/sweep-{count}.zarr"
            alone("make", path, ONE, True, count)
            swept[count] = alone("sweeps", path, ONE)
            found = swept[count]
            rows.append(
                [
                    "one sweep of Proj",
                    f"{count:.0e}",
                    f"{found['seconds']:.1f} s",
                    "",
                    f"{found['peak']:.2f} GiB",
                    verdict(found["peak"], 1),
                ]
            )
    both = alone("against_all", ONE, 10_000)
    ratio = both["pilot"] / both["all"]
    apart = abs(both["pilot error"] / both["all error"] - 1.0)
    estimator = alone("regressor", 100_000, 20)
    growth = swept[1_000_000]["seconds"] / swept[250_000]["seconds"]
    return (
        f"## Data of any size: m = {M}, n = {N}, {NOISE:.0%} noise\n\n"
        "Samples in a Zarr store, read in portions; processor time on one thread, and the peak of the resident memory "
        "of the whole process.\n\n"
        + table(["what", "samples", "time", "target", "peak memory", "target"], rows)
        + f"\n\nFour times the samples take {growth:.1f} times as long in a sweep.\n\n"
        f"A pilot and passes over 10 000 samples against a search of all of them, one layer, values only: "
        f"{both['pilot']:.1f} s against {both['all']:.1f} s, a ratio of {ratio:.2f} ({verdict(ratio, 0.15)}); Error(F) "
        f"differs by {apart:.1e} of itself ({verdict(apart, 1e-4)}).\n\n"
        f"`DecouplingRegressor(ranks=3, degrees=3)`, 100 000 rows of 20 columns: {estimator['seconds']:.1f} s "
        f"({verdict(estimator['seconds'], 60)}), {estimator['peak']:.2f} GiB."
    )


def _row(name: str, count: int, found: dict, seconds: float, gib: float) -> list[str]:
    return [
        name,
        f"{count:.0e}",
        f"{found['seconds']:.1f} s",
        verdict(found["seconds"], seconds),
        f"{found['peak']:.2f} GiB",
        verdict(found["peak"], gib),
    ]


if __name__ == "__main__":
    from threadpoolctl import threadpool_limits

    what, *rest = json.loads(sys.argv[1])
    rest = [tuple(map(tuple, item)) if isinstance(item, list) else item for item in rest]
    with threadpool_limits(1):
        print(json.dumps(globals()[what](*rest) or {}))
