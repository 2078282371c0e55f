"""Data of any size: VarPro with a pilot and passes over everything, the estimator, limits of memory.

python -m benchmarks.scale          # prints the section that `make bench` puts into docs/benchmarks/speed.md
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

import decouply as dc

from .problems import table, verdict

M, N, NOISE, PORTION = 10, 2, 0.05, 50_000
ONE, TWO = ((5,), (5,)), ((4, 4), (3, 3))
SEED, MORE = 101, (102, 103)  # choices were made on other ones ...
FRESH = (104, 105, 106)  # ... and for two layers on those, too
LIMITS = (0.125, 0.25, 0.5)  # GiB
PATIENT = 3600.0  # seconds: nothing here is to be cut off by the clock of a busy machine

# what is asked, shape, whether Jacobians are known, samples, seconds, GiB, seed
ROWS = (
    ("VarPro, values", ONE, False, 1_000_000, 15, 1, SEED),
    ("VarPro, values and Jacobians", ONE, True, 100_000, 10, 1, SEED),
    ("VarPro, values and Jacobians", ONE, True, 1_000_000, 60, 1, SEED),
    *(("VarPro, values and Jacobians", TWO, True, 100_000, 30, 1, seed) for seed in FRESH),
)


def _peak() -> float:
    """Peak of the resident memory of this process in GiB; `getrusage` would count its parent before the fork."""
    status = Path("/proc/self/status")
    if status.is_file():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1024**2
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def batches(shape: tuple, jacobians: bool, count: int, seed: int = SEED):
    """Noisy samples of a random system, a portion at a time."""
    ranks, degrees = shape
    f = dc.systems.random_system((M, *ranks, N), degrees, rng=seed)
    rng = np.random.default_rng(seed)
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


def samples_in_memory(shape: tuple, jacobians: bool, count: int, seed: int) -> dc.Samples:
    """The same samples in memory."""
    parts = list(zip(*batches(shape, jacobians, count, seed), strict=True))
    X, F, J = (None if part[0] is None else np.concatenate(part) for part in parts)
    return dc.Samples(X, F=F, J=J)


def make(path: str, shape: tuple, jacobians: bool, count: int, seed: int = SEED) -> None:
    dc.Samples.from_batches(batches(shape, jacobians, count, seed), store=path, progress=False)


# Measurements, each in a process of its own


def fit(path: str, shape: tuple) -> dict[str, object]:
    samples = dc.Samples.from_zarr(path)
    began = time.process_time()
    result = dc.decouple(samples, *shape, solver=dc.VarPro(max_seconds=PATIENT), progress=False)
    seconds = time.process_time() - began
    return {"seconds": seconds, "peak": _peak(), "note": result.notes[-1], "error": result.error_values}


def against_all(shape: tuple, count: int, seed: int) -> dict[str, object]:
    """The pilot that would be taken of more samples against a search of all samples, in one process."""
    samples = samples_in_memory(shape, False, count, seed)
    out: dict[str, object] = {}
    for name, pilot in (("pilot", 770), ("all", None)):
        solver = dc.VarPro(pilot=pilot, max_seconds=PATIENT)
        began = time.process_time()
        result = dc.decouple(samples, *shape, solver=solver, progress=False)
        out[name], out[f"{name} error"] = time.process_time() - began, result.error_values
    return out


def memory_of_search(gib: float) -> dict[str, float]:
    """What a search adds to the memory of a process, against the limit that it was given."""
    samples = samples_in_memory(ONE, False, 10_000, SEED)
    solver = dc.VarPro(pilot=None, memory=gib * 1024**3, max_seconds=PATIENT, max_steps=3, polish_steps=3, ridge=0.0)
    dc.decouple(samples.take(np.arange(300)), *ONE, solver=solver, n_starts=32, progress=False)  # all is imported
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = _peak()
    dc.decouple(samples, *ONE, solver=solver, n_starts=32, progress=False)
    return {"added": _peak() - before}


def regressor(count: int, n_columns: int) -> dict[str, object]:
    f = dc.systems.random_system((n_columns, 3, 1), (3,), rng=SEED)
    rng = np.random.default_rng(SEED)
    X = rng.uniform(-1, 1, (count, n_columns))
    y = f(X)[:, 0]
    y = y + NOISE * y.std() * rng.normal(size=count)
    began, worked = time.perf_counter(), time.process_time()
    model = dc.DecouplingRegressor(ranks=3, degrees=3, random_state=0).fit(X, y)
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    return {"seconds": seconds, "worked": worked, "peak": _peak(), "score": model.score(X, y)}


def places(directory: str) -> dict[str, float]:
    """The largest difference of parameters between memory, a store, and collections; relative to the largest."""
    import dask.array as da

    samples = samples_in_memory(ONE, True, 30_000, SEED)
    stored = samples.to_zarr(f"{directory}/places.zarr", progress=False)
    rows = stored.data.spans()[0][1]
    arrays = [da.from_zarr(f"{directory}/places.zarr", component=name).rechunk({0: rows}) for name in "XFJ"]
    found = {}
    for name, some in (("memory", samples), ("store", stored), ("Dask", dc.Samples.from_dask(*arrays))):
        model = dc.decouple(some, *ONE, n_starts=8, progress=False).decoupling
        found[name] = np.concatenate([a.ravel() for a in (*model.W, *(g.C for g in model.g))])
    largest = np.abs(found["memory"]).max()
    return {name: float(np.abs(found[name] - found["memory"]).max() / largest) for name in ("store", "Dask")}


def alone(*arguments: object) -> dict:
    """In a process of its own, so that the peak is that of this measurement alone."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", json.dumps(arguments)], capture_output=True, text=True, check=True
    )
    print(arguments, done.stdout.strip(), flush=True)
    return json.loads(done.stdout)


# The section


def section(_: Path) -> str:
    with tempfile.TemporaryDirectory() as directory:
        rows = [_fit_row(directory, *row) for row in ROWS]
        apart = alone("places", directory)
    both = [alone("against_all", ONE, 10_000, seed) for seed in (SEED, *MORE)]
    ratio = median(one["pilot"] / one["all"] for one in both)
    error = max(abs(one["pilot error"] / one["all error"] - 1.0) for one in both)
    estimator = alone("regressor", 100_000, 20)
    shares = {gib: alone("memory_of_search", gib)["added"] / gib for gib in LIMITS}
    return "\n\n".join(
        [
            f"## Data of any size: m = {M}, n = {N}, {NOISE:.0%} noise",
            "Samples in a Zarr store, read in portions; processor time on one thread, and the peak of the resident "
            "memory of the whole process. Systems are random, with seeds that nothing was chosen on.",
            table(["what", "samples", "seed", "time", "target", "peak memory", "target"], rows),
            "A pilot and passes over 10 000 samples against a search of all of them, one layer, values only, three "
            f"systems: ratios of processor time {_list_numbers(one['pilot'] / one['all'] for one in both)}, the median "
            f"{ratio:.2f} ({verdict(ratio, 0.15)}); Error(F) differs by at most {error:.1e} of itself "
            f"({verdict(error, 1e-4)}).",
            "Memory, a store and Dask collections, 30 000 samples with Jacobians: parameters differ by at most "
            f"{max(apart.values()):.1e} of the largest ({verdict(max(apart.values()), 1e-12)}).",
            f"`DecouplingRegressor(ranks=3, degrees=3)`, 100 000 rows of 20 columns: {estimator['worked']:.1f} s of "
            f"processor time ({verdict(estimator['worked'], 60)}), {estimator['seconds']:.1f} s by the clock, "
            f"{estimator['peak']:.2f} GiB.",
            "`VarPro(memory=...)`, 32 starts on 10 000 values, all at once: what the fit adds to the process is "
            f"{_list_numbers(shares.values())} times the limit of {_list_numbers(LIMITS)} GiB "
            f"({verdict(max(shares.values()), 1.2)}).",
        ]
    )


def _fit_row(
    directory: str, name: str, shape: tuple, jacobians: bool, count: int, seconds: float, gib: float, seed: int
):
    path = f"{directory}/{count}-{len(shape[0])}-{jacobians}-{seed}.zarr"
    alone("make", path, shape, jacobians, count, seed)
    found = alone("fit", path, shape)
    return [
        f"{name}, ranks {shape[0]}",
        f"{count:.0e}",
        str(seed),
        f"{found['seconds']:.1f} s",
        verdict(found["seconds"], seconds),
        f"{found['peak']:.2f} GiB",
        verdict(found["peak"], gib),
    ]


def _list_numbers(values) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


if __name__ == "__main__":
    from threadpoolctl import threadpool_limits

    if len(sys.argv) == 1:
        print(section(Path("docs/speed")))
        sys.exit()
    what, *rest = json.loads(sys.argv[1])
    rest = [tuple(map(tuple, item)) if isinstance(item, list) else item for item in rest]
    with threadpool_limits(1):
        print(json.dumps(globals()[what](*rest) or {}))
