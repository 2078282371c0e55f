"""Passes over a store by 1, 2, 4 and 8 worker processes, and fits in which a worker is killed.

python -m benchmarks.cluster --output docs/scale          # times, bytes, a model of time, the picture
python -m benchmarks.cluster --kills 20                   # a worker killed by -9 at random moments
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import pickle
import random
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster

import decoupling as dc
from decoupling.solvers._overview import Extent
from decoupling.solvers._parameters import parameters_of
from decoupling.solvers._streamed import gradient_task
from decoupling.solvers._whole import Whole

from .scale import ONE, batches

WORKERS, SAMPLES, REPEATS = (1, 2, 4, 8), (30_000, 60_000, 120_000), 2
TASKS = {"gradient": gradient_task}
BILLION, HUNDRED = 1e9, 100
MESSAGES = 256  # of a pass at most, see samples/_data.py


def make(directory: str, count: int) -> dc.Samples:
    return dc.Samples.from_batches(batches(ONE, True, count), store=f"{directory}/{count}.zarr", progress=False)


def cluster_of(n_workers: int) -> LocalCluster:
    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    )


def arguments(samples: dc.Samples) -> tuple:
    """What a pass over these samples is given."""
    model = dc.systems.random_system((10, *ONE[0], 2), ONE[1], rng=7)
    layers = tuple(g.layer for g in model.g)
    whole = Whole.of(samples, layers, None, Extent.of(samples.data), linear=False, standard=True)
    problem = whole.problem_of(samples.pilot(500))
    theta = [p[None] for p in parameters_of(problem, model)]
    return whole.overview.frame(1.0), layers, False, theta


def measured() -> list[dict]:
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        stores = {count: make(directory, count) for count in SAMPLES}
        given = {count: arguments(samples) for count, samples in stores.items()}
        for n_workers in WORKERS:
            with cluster_of(n_workers) as cluster, Client(cluster) as client:
                client.wait_for_workers(n_workers)
                for count, samples in stores.items():
                    for name, task in TASKS.items():
                        samples.data.reduce(task, *given[count])  # workers import and open what they need
                        times = []
                        for _ in range(REPEATS):
                            began = time.perf_counter()
                            out = samples.data.reduce(task, *given[count])
                            times.append(time.perf_counter() - began)
                        rows.append(
                            {
                                "workers": n_workers,
                                "samples": count,
                                "pass": name,
                                "seconds": min(times),
                                "messages": len(samples.data.spans()),
                                "bytes_out": len(pickle.dumps(given[count])),
                                "bytes_back": sum(a.nbytes for a in out),
                            }
                        )
                        print(rows[-1], flush=True)
    return rows


def time_model(rows: list[dict], name: str, cores: int) -> dict[str, float]:
    """seconds = start + per_message * messages + per_sample * samples / min(workers, cores), by least squares."""
    some = [row for row in rows if row["pass"] == name]
    table = [[1.0, row["messages"], row["samples"] / min(row["workers"], cores)] for row in some]
    weights = np.array([1.0 / row["seconds"] for row in some])
    start, per_message, per_sample = _nonnegative(np.array(table) * weights[:, None], np.ones(len(some)))
    return {
        "start": start,
        "per_message": per_message,
        "per_sample": per_sample,
        "billion_on_hundred": start + per_message * MESSAGES + per_sample * BILLION / HUNDRED,
    }


def _nonnegative(table: np.ndarray, wanted: np.ndarray) -> tuple[float, float, float]:
    from scipy.optimize import nnls

    start, per_message, per_sample = nnls(table, wanted)[0]
    return float(start), float(per_message), float(per_sample)


def picture(rows: list[dict], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for count in SAMPLES:
        some = [row for row in rows if row["samples"] == count and row["pass"] == "gradient"]
        axes[0].plot([r["workers"] for r in some], [r["seconds"] for r in some], "o-", label=f"{count:,} samples")
    for n_workers in WORKERS:
        some = [row for row in rows if row["workers"] == n_workers and row["pass"] == "gradient"]
        axes[1].plot([r["samples"] for r in some], [r["seconds"] for r in some], "o-", label=f"{n_workers} workers")
    for axis, label in zip(axes, ("worker processes", "samples"), strict=True):
        axis.set(xlabel=label, ylabel="seconds of a pass", xscale="log", yscale="log")
        axis.legend(frameon=False)
        axis.grid(alpha=0.3)
    axes[0].set_xticks(WORKERS, [str(n) for n in WORKERS])
    figure.savefig(path, dpi=120)


def kills(count: int) -> dict[str, int]:
    """Fits to a store during which a worker is killed by -9 at a random moment; how many give the same model."""
    chance, same = random.Random(0), 0
    with tempfile.TemporaryDirectory() as directory, cluster_of(2) as cluster, Client(cluster) as client:
        samples = make(directory, 20_000)
        began = time.perf_counter()
        wanted = _parameters(samples)
        seconds = time.perf_counter() - began
        for k in range(count):
            pid = chance.choice(_processes(client))
            timer = threading.Timer(chance.uniform(0.0, seconds), os.kill, (pid, signal.SIGKILL))
            timer.start()
            found = _parameters(samples)
            timer.join()
            same += bool(np.array_equal(found, wanted))
            print(f"{k + 1}: {same} the same", flush=True)
    return {"kills": count, "same": same}


def _processes(client: Client) -> list[int]:
    """Of both workers, once the one that was killed is back."""
    while True:
        client.wait_for_workers(2, timeout=120)
        found = client.run(os.getpid, on_error="return")  # the scheduler may not have missed the dead one yet
        alive = [pid for pid in found.values() if isinstance(pid, int)]
        if len(alive) == 2:
            return alive
        time.sleep(0.5)


def _parameters(samples: dc.Samples) -> np.ndarray:
    model = dc.decouple(samples, *ONE, n_starts=8, progress=False).decoupling
    return np.concatenate([a.ravel() for a in (*model.W, *(g.C for g in model.g))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=None)
    parser.add_argument("--kills", type=int, default=0)
    asked = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    content: dict = {}
    if asked.output is not None:
        asked.output.mkdir(parents=True, exist_ok=True)
        rows = measured()
        cores = len(os.sched_getaffinity(0))
        models = {name: time_model(rows, name, cores) for name in TASKS}
        content = {"cores": cores, "rows": rows, "models": models}
        picture(rows, asked.output / "scale.png")
    if asked.kills:
        content |= kills(asked.kills)
    if asked.output is not None:
        (asked.output / "scale.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: value for key, value in content.items() if key != "rows"}))


if __name__ == "__main__":
    main()
