"""Do the Jacobians pay? Our layer from a decoupling of values and Jacobians, and from a random start, side by side.

The network is that of `python -m experiments mnist-students`, with few and many inputs, with short and long training;
processor time counts what the start takes. Beside it a part that is a decoupling of five functions of degree 3: there
Jacobians give the part itself.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from decouply.bases import Monomial
from decouply.fit._decouple import decouple
from decouply.model._decoupling import Decoupling
from decouply.model._functions import Functions
from decouply.nn import DecoupledLayer, sample
from decouply.nn.layer._decoupled_layer import layer_on
from decouply.report._style import COLOURS, new_figure
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown, matching
from experiments.networks.students import draw, refine_layer, untrained_layer
from experiments.networks.trained_networks import CASES, Original, original

STARTS = ("Jacobians", "random")
INPUTS = (20, 50, 100, 200, 20_000)
STEPS = (100, 1000)
EXACT = "exact part"
_EXACT_SIZES = (20, 5, 10)
_FAILED = 3.0  # times the smallest distance of all draws


def tasks(
    *,
    seed: int,
    n_runs: int,
    inputs: tuple[int, ...] = INPUTS,
    steps: tuple[int, ...] = STEPS,
    epochs: int | None = None,
) -> list[Task]:
    shared = {"start": STARTS, "run": range(n_runs), "seed": seed, "epochs": epochs}
    on_mnist = [
        task for n in inputs for count in steps for task in grid(part="mnist", n_inputs=n, steps=count, **shared)
    ]
    return on_mnist + [task for count in steps for task in grid(part=EXACT, n_inputs=200, steps=count, **shared)]


def begin(*, folder: str, seed: int, epochs: int | None = None, **_: Any) -> dict[str, Any]:
    """Train the network if it does not lie in the folder."""
    at = original("mnist", folder, seed, epochs)
    return {"score": at.score(at.part)}


def work(
    part: str, start: str, n_inputs: int, steps: int, run: int, seed: int, epochs: int | None, folder: str
) -> Outcome:
    """Distance from the original and processor time, of the start and of all."""
    if part == EXACT:
        at, ranks = exact_part(seed + run), (_EXACT_SIZES[1],)
    else:
        at, ranks = original("mnist", folder, seed, epochs), (CASES["mnist"].sizes[0].rank,)
    X, rng = draw(seed, run, at, n_inputs)
    began = time.process_time()
    if part == EXACT and start == "Jacobians":
        found = decouple(sample(at.part, X, progress=False), ranks, (3,), rng=rng, progress=False)
        layer = layer_on(found.decoupling, X.double().numpy(), "extend")
    else:
        basis = Monomial(3) if part == EXACT else None
        layer = untrained_layer(at, X, ranks, basis, rng, random=start == "random")
    start_seconds = time.process_time() - began
    layer = refine_layer(at, layer, X, CASES["mnist"].training, steps, rng)
    seconds = time.process_time() - began
    drop = at.score(at.part) - at.score(layer)
    return {"distance": at.distance(layer), "drop": drop, "seconds": seconds, "start_seconds": start_seconds}


def exact_part(seed: int) -> Original:
    """A part that is itself a decoupling: 20 inputs, five functions of degree 3, ten outputs."""
    rng = np.random.default_rng([seed, 19])
    m, r, n = _EXACT_SIZES
    C = rng.normal(size=(r, 4)) * [0.0, 1.0, 0.7, 0.5]
    g = Functions(Monomial(3), C, (-1.0, 1.0), "extend")
    W = [rng.normal(size=(r, m)) / np.sqrt(m), rng.normal(size=(n, r))]
    part = nn.Sequential(DecoupledLayer(Decoupling(W, [g])))
    X = torch.tensor(rng.uniform(-1.0, 1.0, size=(4000, m)), dtype=torch.float32)
    with torch.no_grad():
        F = part(X)
    return Original(part, X[:2000], F[:2000], X[2000:], F[2000:], in_classes=False)


def content(runs: list[Task], *, n_runs: int, seed: int, score: float, **_: Any) -> Content:
    names, measured = ("part", "start", "n_inputs", "steps"), ("distance", "drop", "seconds", "start_seconds")
    cells: list[dict[str, Any]] = []
    for key in dict.fromkeys(tuple(run[name] for name in names) for run in runs):
        cell: dict[str, Any] = dict(zip(names, key, strict=True))
        some = [{what: run[what] for what in measured} for run in matching(runs, **cell)]
        least = min(column(matching(runs, **(cell | {"start": start})), "distance").min() for start in STARTS)
        failed = int(np.sum(column(some, "distance") > _FAILED * least))
        cells.append(cell | {"failed": failed, "runs": some})
    return {"n_runs": n_runs, "seed": seed, "score": score, "cells": cells}


def table(content: Content) -> str:
    """Both starts beside each other."""
    rows = []
    for first, second in zip(content["cells"][::2], content["cells"][1::2], strict=True):
        row = [first["part"], str(first["n_inputs"]), str(first["steps"])]
        for cell in (first, second):
            far, seconds = column(cell["runs"], "distance"), column(cell["runs"], "seconds")
            row += [f"**{np.median(far):.2g}** ({np.max(far):.2g})", str(cell["failed"]), f"{np.median(seconds):.1f}"]
        rows.append(row)
    columns = ["from Jacobians", "failed", "seconds", "random start", "failed", "seconds"]
    intro = (
        f"Distance from the original on the test inputs: the KL divergence, or for the exact part the squared relative "
        f"error. Median (worst) of {content['n_runs']} draws; *failed* are draws three times as far as the best of "
        f"both. Seconds are of one processor, start included; seed {content['seed']}."
    )
    return "\n\n".join([intro, markdown(["part", "inputs", "steps", *columns], rows)])


def figure(content: Content) -> Figure:
    """Divergence against processor time, one panel per number of inputs."""
    cells = matching(content["cells"], part="mnist")
    numbers = sorted({cell["n_inputs"] for cell in cells})
    canvas = new_figure(2.6 * len(numbers), 3.2)
    axes = canvas.subplots(1, len(numbers), sharey=True, squeeze=False)[0]
    for ax, n in zip(axes, numbers, strict=True):
        for colour, start in zip(COLOURS, STARTS, strict=False):
            some = [cell["runs"] for cell in matching(cells, start=start, n_inputs=n)]
            points = [(column(runs, "seconds"), column(runs, "distance")) for runs in some]
            medians = [(float(np.median(x)), float(np.median(y))) for x, y in points]
            ax.plot(*zip(*medians, strict=True), "-", color=colour, label=start)
            for x, y in points:
                ax.plot(x, y, "o", color=colour, alpha=0.5, markersize=3)
        ax.set_yscale("log")
        ax.set_title(f"{n} inputs", fontsize=9)
        ax.set_xlabel("processor seconds")
    axes[0].set_ylabel("KL divergence")
    axes[-1].legend(fontsize=7)
    return canvas


JACOBIAN_START = Experiment.of(
    globals(),
    "jacobian-start",
    "Whether Jacobians pay off as starts for networks.",
    options=(Option("n_runs", 5, "Draws of inputs."),),
    quick={"n_runs": 1, "inputs": (200,), "steps": (100,), "epochs": 1},
)
