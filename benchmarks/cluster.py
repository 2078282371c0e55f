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
from scipy.optimize import nnls

import decouply as dc
from decouply.samples._portions import groups
from decouply.solvers.least_squares._parameters import parameters_of
from decouply.solvers.problem._problem import Problem
from decouply.solvers.varpro._streamed_gauss_newton import gradient_task, normal_task

from .scale import ONE, batches

WORKERS, SAMPLES, REPEATS = (1, 2, 4, 8), (30_000, 60_000, 120_000), 2
TASKS = {"gradient": gradient_task, "normal matrix": normal_task}
BILLION, HUNDRED = 1e9, 100
CORES = len(os.sched_getaffinity(0))
MESSAGES = 256  # of a pass at most, see samples/_portions.py


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
    whole = Problem.build(samples, layers)
    problem = whole.of_pilot(samples.pilot(500))
    theta = parameters_of(problem, model)
    return whole.prepared.row_scaling(1.0), layers, False, theta


def timed_task(portion: object, name: str, small: tuple) -> tuple[np.ndarray, ...]:
    """A task with the processor time that it took, reading not included."""
    began = time.process_time()
    found = TASKS[name](portion, *small)
    return (*found, np.array([time.process_time() - began]))


def only_read(*_: object) -> tuple[np.ndarray]:
    """Only the samples are read."""
    return (np.zeros(1),)


def measure_passes() -> list[dict]:
    """Passes by 1, 2, 4 and 8 worker processes: seconds, processor time in the tasks, and a pass that only reads."""
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        stores = {count: make(directory, count) for count in SAMPLES}
        given = {count: arguments(samples) for count, samples in stores.items()}
        for n_workers in WORKERS:
            with cluster_of(n_workers) as cluster, Client(cluster) as client:
                client.wait_for_workers(n_workers)
                for count, samples in stores.items():
                    samples.data.reduce(only_read, *given[count])  # workers import and open what they need
                    reading, _ = _shortest(samples, only_read, given[count])
                    for name in TASKS:
                        seconds, out = _shortest(samples, timed_task, (name, given[count]))
                        rows.append(
                            {
                                "workers": n_workers,
                                "samples": count,
                                "pass": name,
                                "seconds": seconds,
                                "worked": float(out[-1][0]),
                                "reading": reading,
                                "messages": len(groups(samples.data.spans())),
                                "bytes_out": len(pickle.dumps(given[count])),
                                "bytes_back": sum(a.nbytes for a in out[:-1]),
                            }
                        )
                        print(rows[-1], flush=True)
    return rows


def _shortest(samples: dc.Samples, task: object, small: tuple) -> tuple[float, tuple]:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        out = samples.data.reduce(task, *small)
        times.append(time.perf_counter() - began)
    return min(times), out


def time_model(rows: list[dict], name: str) -> dict[str, float]:
    """seconds = per_message * messages + (per_sample + reading) * samples / workers, for workers with a core each.

    `per_sample` is processor time in the tasks, the median over all runs. The other two come from passes that only
    read, by least squares over the runs with no more workers than cores.
    """
    some = [row for row in rows if row["pass"] == name]
    few = [row for row in some if row["workers"] <= CORES]
    table = np.array([[row["messages"], row["samples"] / row["workers"]] for row in few])
    weights = np.array([1.0 / row["reading"] for row in few])
    per_message, reading = map(float, nnls(table * weights[:, None], np.ones(len(few)))[0])
    per_sample = float(np.median([row["worked"] / row["samples"] for row in some]))
    return {
        "per_message": per_message,
        "reading": reading,
        "per_sample": per_sample,
        "billion_on_hundred": per_message * MESSAGES + (per_sample + reading) * BILLION / HUNDRED,
    }


def picture(rows: list[dict], model: dict[str, float], path: Path) -> None:
    """Measured passes and the model: against workers, and against samples up to a billion."""
    import matplotlib.pyplot as plt

    def predict_seconds(samples: np.ndarray, workers: np.ndarray, per_message: int) -> np.ndarray:
        messages = np.minimum(MESSAGES, np.ceil(samples / per_message))
        work = (model["per_sample"] + model["reading"]) * samples / np.minimum(workers, messages)
        return model["per_message"] * messages + work

    some = [row for row in rows if row["pass"] == "gradient"]
    portion = max(row["samples"] // row["messages"] for row in some)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    many = np.geomspace(1, 128, 40)
    for k, count in enumerate((SAMPLES[-1], 10**7, 10**9)):
        axes[0].plot(many, predict_seconds(np.array(float(count)), many, portion), f"C{k}-", label=f"{count:,} samples")
    here = [row for row in some if row["samples"] == SAMPLES[-1]]
    axes[0].plot([r["workers"] for r in here], [r["seconds"] for r in here], "C0o", label=f"measured, {CORES} cores")
    sizes = np.geomspace(SAMPLES[0], 1e9, 40)
    for k, n in enumerate((1, 2, 8, HUNDRED)):
        axes[1].plot(sizes, predict_seconds(sizes, np.array(float(n)), portion), f"C{k}-", label=f"{n} workers")
        found = [row for row in some if row["workers"] == n]
        axes[1].plot([r["samples"] for r in found], [r["seconds"] for r in found], f"C{k}o")
    for axis, label in zip(axes, ("workers", "samples"), strict=True):
        axis.set(xlabel=label, ylabel="seconds of a pass", xscale="log", yscale="log")
        axis.legend(frameon=False, fontsize=8)
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def kills(count: int) -> dict[str, int]:
    """Fits to a store during which a worker is killed by -9 at a random moment; how many give the same model.

    Every fit has a cluster of its own: a killed worker that Dask does not start again (its nanny gives up now and then)
    must not decide about the next fit.
    """
    chance, same = random.Random(0), 0
    with tempfile.TemporaryDirectory() as directory:
        samples = make(directory, 20_000)
        began = time.perf_counter()
        wanted = _parameters(samples)
        seconds = time.perf_counter() - began
        for k in range(count):
            with cluster_of(2) as cluster, Client(cluster) as client:
                client.wait_for_workers(2, timeout=120)
                pid = chance.choice(list(client.run(os.getpid).values()))
                timer = threading.Timer(chance.uniform(0.0, seconds), os.kill, (pid, signal.SIGKILL))
                timer.start()
                found = _parameters(samples)
                unfinished = timer.is_alive()
                timer.join()
            same += bool(np.array_equal(found, wanted))
            print(f"{k + 1}: {same} the same{', the kill came after the fit' if unfinished else ''}", flush=True)
    return {"kills": count, "same": same}


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
        rows = measure_passes()
        models = {name: time_model(rows, name) for name in TASKS}
        content = {"cores": CORES, "rows": rows, "models": models}
        picture(rows, models["gradient"], asked.output / "scale.png")
    if asked.kills:
        content |= kills(asked.kills)
    if asked.output is not None:
        (asked.output / "scale.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: value for key, value in content.items() if key != "rows"}))


if __name__ == "__main__":
    main()
