"""The cliff: how many random systems VarPro recovers, and how long that takes, over ranks and layers.

A system of rank r and L layers has widths r + 1, r, ..., r, r + 1 and functions of degree 2. It is recovered when
every e_i on 1000 fresh points is at most 1e-6 percent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from decouply import __version__, systems
from decouply._support._time_limit import by_processor_time
from decouply.fit._decouple import decouple
from decouply.report._style import house_style, new_figure
from decouply.samples._model_errors import relative_rmse
from decouply.samples._samples import Samples
from decouply.solvers import VarPro
from experiments.harness import run_all, write_experiment
from experiments.solver.recovery import N_FRESH, RECOVERED, numbers

RANKS, LAYERS, DEGREE = tuple(range(2, 9)), (1, 2, 3, 4), 2
N_SAMPLES = {1: 200, 2: 200, 3: 400, 4: 400}  # by layers: enough for the equations of all but four layers of rank 5


@dataclass(frozen=True)
class CliffTask:
    """One data set."""

    rank: int
    n_layers: int
    run: int
    seed: int
    max_seconds: float
    version: str = __version__


@dataclass(frozen=True)
class CliffRun:
    """What became of it."""

    rank: int
    n_layers: int
    run: int
    worst_error: float  # percent
    seconds: float  # of the processor, on one thread
    found_by: str


@dataclass(frozen=True)
class Cliff:
    """All runs."""

    runs: tuple[CliffRun, ...]
    seed: int
    max_seconds: float

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {"seed": self.seed, "max_seconds": self.max_seconds, "runs": [asdict(run) for run in self.runs]}

    def cell(self, rank: int, n_layers: int) -> tuple[int, int, float]:
        """How many were recovered, of how many, and the median time."""
        some = [run for run in self.runs if (run.rank, run.n_layers) == (rank, n_layers)]
        good = sum(run.worst_error <= RECOVERED for run in some)
        return good, len(some), float(np.median([run.seconds for run in some])) if some else float("nan")


def run_cliff(
    *,
    n_runs: int,
    seed: int,
    n_jobs: int,
    max_seconds: float,
    ranks: tuple[int, ...] = RANKS,
    layers: tuple[int, ...] = LAYERS,
    store: Path | None = None,
    progress: Callable[..., None] = lambda **_: None,
) -> Cliff:
    """Every rank with every number of layers."""
    tasks = [CliffTask(r, L, run, seed, max_seconds) for L in layers for r in ranks for run in range(n_runs)]
    found = run_all(tasks, work, store=store, n_jobs=n_jobs, progress=progress)
    runs = tuple(CliffRun(**numbers(found[task])) for task in tasks)
    return Cliff(runs, seed, max_seconds)


def work(task: CliffTask) -> dict[str, Any]:
    """One task."""
    r, L = task.rank, task.n_layers
    rng = np.random.default_rng([task.seed, r, L, task.run])
    system = systems.random_system((r + 1, *(r,) * L, r + 1), (DEGREE,) * L, rng=rng)
    X, fresh = (rng.uniform(-1.0, 1.0, (count, system.n_inputs)) for count in (N_SAMPLES[L], N_FRESH))
    samples = Samples(X, F=system(X), J=system.jacobian(X))
    began = time.process_time()
    solver = VarPro(max_seconds=task.max_seconds)
    with by_processor_time():
        result = decouple(samples, system.ranks, system.degrees, solver=solver, rng=rng, progress=False)
    worst = float(np.max(relative_rmse(system(fresh), result.decoupling(fresh))))
    return asdict(CliffRun(r, L, task.run, worst, time.process_time() - began, result.found_by))


def cliff_markdown(cliff: Cliff) -> str:
    """Share recovered and median time, ranks down and layers across."""
    ranks, layers = (sorted({getattr(run, name) for run in cliff.runs}) for name in ("rank", "n_layers"))
    lines = [
        f"Recovered: every e_i ≤ {RECOVERED:g} % on {N_FRESH} fresh points; median processor time, one thread. "
        f"Seed {cliff.seed}, at most {cliff.max_seconds:g} s of processor time for the search of one data set.",
        "",
        "| rank | " + " | ".join(f"{L} layer{'s' * (L > 1)}" for L in layers) + " |",
        "|---|" + "---|" * len(layers),
    ]
    for r in ranks:
        cells = [cliff.cell(r, L) for L in layers]
        lines.append(f"| {r} | " + " | ".join(_words(*cell, ", ") for cell in cells) + " |")
    return "\n".join(lines)


def _words(good: int, n: int, seconds: float, between: str) -> str:
    return f"{good} of {n}{between}{seconds:.2g} s" if n else "–"  # not measured


def write_cliff(cliff: Cliff, directory: Path) -> None:
    """cliff.json, cliff.md and cliff.png."""
    write_experiment(directory, "cliff", cliff.content(), cliff_markdown(cliff), cliff_figure(cliff))


def cliff_figure(cliff: Cliff) -> Figure:
    """One square per rank and number of layers: dark where all are recovered, with the median time in it."""
    ranks, layers = (sorted({getattr(run, name) for run in cliff.runs}) for name in ("rank", "n_layers"))
    cells = [[cliff.cell(r, L) for r in ranks] for L in layers]
    share = np.array([[good / max(n, 1) for good, n, _ in row] for row in cells])
    with house_style():
        figure = new_figure(7.0, 3.6)
        axes = figure.subplots()
        axes.imshow(share, cmap="Blues", vmin=0.0, vmax=1.3, aspect="auto", origin="lower")
        for i, row in enumerate(cells):
            for j, (good, n, seconds) in enumerate(row):
                ink = "white" if share[i, j] > 0.6 else "black"
                axes.text(j, i, _words(good, n, seconds, "\n"), ha="center", va="center", fontsize=8, color=ink)
        axes.set_xticks(range(len(ranks)), [str(r) for r in ranks])
        axes.set_yticks(range(len(layers)), [str(L) for L in layers])
        axes.grid(visible=False)
        axes.set_xlabel("rank of every layer")
        axes.set_ylabel("layers")
        axes.set_title("Systems recovered, and median time", fontsize=10)
    return figure
