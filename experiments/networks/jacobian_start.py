"""Do the Jacobians pay? Our layer from a decoupling of values and Jacobians, and from a random start, side by side.

The network is that of `python -m experiments mnist --students`, with few and many inputs, with short and long training;
processor time counts what the start takes. Beside it a part that is a decoupling of five functions of degree 3: there
Jacobians give the part itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from decouply import __version__
from decouply.bases import Monomial
from decouply.fit._decouple import decouple
from decouply.model._decoupling import Decoupling
from decouply.model._functions import Functions
from decouply.nn import DecoupledLayer, sample
from decouply.nn.layer._decoupled_layer import layer_on
from decouply.report._style import COLOURS, house_style, new_figure
from experiments.harness import run_all, write_experiment
from experiments.networks.students import begun, draw, refined
from experiments.networks.trained_networks import CASES, Original, original

STARTS = ("Jacobians", "random")
INPUTS = (20, 50, 100, 200, 20_000)
STEPS = (100, 1000)
EXACT = "exact part"
_EXACT_SIZES = (20, 5, 10)
_FAILED = 3.0  # times the smallest distance of all draws


@dataclass(frozen=True)
class StartTask:
    """One layer."""

    part: str
    start: str
    n_inputs: int
    steps: int
    run: int
    seed: int
    epochs: int | None = None
    version: str = __version__


@dataclass(frozen=True)
class StartCell:
    """All draws with one start, number of inputs and number of steps."""

    part: str
    start: str
    n_inputs: int
    steps: int
    runs: list[dict[str, Any]]

    def values(self, what: str) -> np.ndarray:
        return np.array([np.inf if run[what] is None else run[what] for run in self.runs], dtype=float)


@dataclass(frozen=True)
class StartTable:
    """What came of every start."""

    n_runs: int
    seed: int
    score: float
    cells: list[StartCell]

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        cells = []
        for cell in self.cells:
            told: dict[str, Any] = {name: getattr(cell, name) for name in ("part", "start", "n_inputs", "steps")}
            for what in ("distance", "drop", "seconds"):
                told |= {f"median_{what}": float(np.median(cell.values(what)))}
                told |= {f"worst_{what}": float(np.max(cell.values(what)))}
            cells.append(told | {"failed": failed(self, cell), "runs": cell.runs})
        return {"n_runs": self.n_runs, "seed": self.seed, "score": self.score, "cells": cells}


def failed(table: StartTable, cell: StartCell) -> int:
    """Draws that end three times as far from the original as the best draw of either start does."""
    alike = [c for c in table.cells if (c.part, c.n_inputs, c.steps) == (cell.part, cell.n_inputs, cell.steps)]
    least = min(float(np.min(c.values("distance"))) for c in alike)
    return int(np.sum(cell.values("distance") > _FAILED * least))


def run_starts(
    *,
    n_runs: int,
    seed: int,
    n_jobs: int,
    store: Path,
    inputs: tuple[int, ...] = INPUTS,
    steps: tuple[int, ...] = STEPS,
    epochs: int | None = None,
    progress: Callable[..., None] = lambda **_: None,
) -> StartTable:
    """Train the network if it does not lie beside `store`, and run everything that `store` does not have."""
    progress(stage="training the network", done=0, total=None)
    folder = str(store.parent)
    at = original("mnist", folder, seed, epochs)
    keys = [("mnist", n, count) for n in inputs for count in steps] + [(EXACT, 200, count) for count in steps]
    tasks = {
        (part, start, n, count): [StartTask(part, start, n, count, run, seed, epochs) for run in range(n_runs)]
        for part, n, count in keys
        for start in STARTS
    }
    every = [task for some in tasks.values() for task in some]
    found = run_all(every, partial(work, folder=folder), store=store, n_jobs=n_jobs, progress=progress)
    cells = [StartCell(*key, [found[task] for task in some]) for key, some in tasks.items()]
    return StartTable(n_runs, seed, at.score(at.part), cells)


def work(task: StartTask, folder: str) -> dict[str, Any]:
    """Distance from the original and processor time, of the start and of all."""
    if task.part == EXACT:
        at, ranks = exact(task.seed + task.run), (_EXACT_SIZES[1],)
    else:
        at, ranks = original("mnist", folder, task.seed, task.epochs), (CASES["mnist"].sizes[0].rank,)
    X, rng = draw(task.seed, task.run, at, task.n_inputs)
    began = time.process_time()
    if task.part == EXACT and task.start == "Jacobians":
        found = decouple(sample(at.part, X, progress=False), ranks, (3,), rng=rng, progress=False)
        layer = layer_on(found.decoupling, X.double().numpy(), "extend")
    else:
        basis = Monomial(3) if task.part == EXACT else None
        layer = begun(at, X, ranks, basis, rng, random=task.start == "random")
    start = time.process_time() - began
    layer = refined(at, layer, X, CASES["mnist"].training, task.steps, rng)
    seconds = time.process_time() - began
    drop = at.score(at.part) - at.score(layer)
    return {"distance": at.distance(layer), "drop": drop, "seconds": seconds, "start_seconds": start}


def exact(seed: int) -> Original:
    """A part that is itself a decoupling: 20 inputs, five functions of degree 3, ten outputs."""
    rng = np.random.default_rng([seed, 19])
    m, r, n = _EXACT_SIZES
    C = rng.normal(size=(r, 4)) * [0.0, 1.0, 0.7, 0.5]
    g = Functions(Monomial(3), C, (-1.0, 1.0), "extend")
    W = [rng.normal(size=(r, m)) / np.sqrt(m), rng.normal(size=(n, r))]
    part: nn.Module = DecoupledLayer(Decoupling(W, [g]))
    X = torch.tensor(rng.uniform(-1.0, 1.0, size=(4000, m)), dtype=torch.float32)
    with torch.no_grad():
        F = part(X)
    return Original(part, X[:2000], F[:2000], X[2000:], F[2000:], in_classes=False)


# What a person sees


def starts_markdown(table: StartTable) -> str:
    """Both starts beside each other."""
    lines = [
        f"Distance from the original on the test inputs: the KL divergence, or for the exact part the squared relative "
        f"error. Median (worst) of {table.n_runs} draws; *failed* are draws three times as far as the best of both. "
        f"Seconds are of one processor, start included; seed {table.seed}.",
        "",
        "| part | inputs | steps | from Jacobians | failed | seconds | random start | failed | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for first, second in zip(table.cells[::2], table.cells[1::2], strict=True):
        told = []
        for cell in (first, second):
            far = cell.values("distance")
            told += [f"**{np.median(far):.2g}** ({np.max(far):.2g})", str(failed(table, cell))]
            told += [f"{np.median(cell.values('seconds')):.1f}"]
        lines.append(f"| {first.part} | {first.n_inputs} | {first.steps} | {' | '.join(told)} |")
    return "\n".join(lines)


def starts_figure(table: StartTable) -> Figure:
    """Divergence against processor time, one panel per number of inputs."""
    numbers = sorted({cell.n_inputs for cell in table.cells if cell.part == "mnist"})
    with house_style():
        figure = new_figure(2.6 * len(numbers), 3.2)
        axes = figure.subplots(1, len(numbers), sharey=True, squeeze=False)[0]
        for ax, n in zip(axes, numbers, strict=True):
            for k, start in enumerate(STARTS):
                some = [c for c in table.cells if (c.part, c.start, c.n_inputs) == ("mnist", start, n)]
                spent = [float(np.median(c.values("seconds"))) for c in some]
                ax.plot(
                    spent, [float(np.median(c.values("distance"))) for c in some], "-", color=COLOURS[k], label=start
                )
                for c in some:
                    ax.plot(c.values("seconds"), c.values("distance"), "o", color=COLOURS[k], alpha=0.5, markersize=3)
            ax.set_yscale("log")
            ax.set_title(f"{n} inputs", fontsize=9)
            ax.set_xlabel("processor seconds")
        axes[0].set_ylabel("KL divergence")
        axes[-1].legend(fontsize=7)
    return figure


def write_starts(table: StartTable, directory: Path) -> None:
    """starts.json, starts.md and starts.png."""
    write_experiment(directory, "starts", table.content(), starts_markdown(table), starts_figure(table))
