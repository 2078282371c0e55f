"""How many random systems VarPro recovers, and how long that takes, over ranks and layers.

A system of rank r and L layers has widths r + 1, r, ..., r, r + 1 and functions of degree 2. It is recovered when
every e_i on 1000 fresh points is at most 1e-6 percent.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from decouply import systems
from decouply._support._errors import pluralised
from decouply.report._style import new_figure
from decouply.samples._samples import Samples
from decouply.solvers import VarPro
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown, matching
from experiments.solver.recovery import N_FRESH, RECOVERED, fit_and_compare

RANKS, LAYERS, DEGREE = tuple(range(2, 9)), (1, 2, 3, 4), 2
N_SAMPLES = {1: 200, 2: 200, 3: 400, 4: 400}  # by layers: enough for the equations of all but four layers of rank 5


def tasks(
    *, seed: int, n_runs: int, max_seconds: float, ranks: tuple[int, ...] = RANKS, layers: tuple[int, ...] = LAYERS
) -> list[Task]:
    return grid(n_layers=layers, rank=ranks, run=range(n_runs), seed=seed, max_seconds=max_seconds)


def work(rank: int, n_layers: int, run: int, seed: int, max_seconds: float) -> Outcome:
    """One data set."""
    rng = np.random.default_rng([seed, rank, n_layers, run])
    dims = (rank + 1, *(rank,) * n_layers, rank + 1)
    system = systems.random_system(dims, (DEGREE,) * n_layers, rng=rng)
    X, fresh = (rng.uniform(-1.0, 1.0, (count, system.n_inputs)) for count in (N_SAMPLES[n_layers], N_FRESH))
    samples = Samples(X, F=system(X), J=system.jacobian(X))
    result, error, seconds = fit_and_compare(system, samples, fresh, VarPro(max_seconds=max_seconds), rng)
    return {"worst_error": error, "seconds": seconds, "found_by": result.found_by}


def _cell(content: Content, rank: int, n_layers: int) -> tuple[int, int, float]:
    """How many were recovered, of how many, and the median time."""
    runs = matching(content["runs"], rank=rank, n_layers=n_layers)
    good = int(np.sum(column(runs, "worst_error") <= RECOVERED))
    return good, len(runs), float(np.median(column(runs, "seconds"))) if runs else np.nan


def _words(good: int, n: int, seconds: float, between: str) -> str:
    return f"{good} of {n}{between}{seconds:.2g} s" if n else "–"  # not measured


def table(content: Content) -> str:
    """Share recovered and median time, ranks down and layers across."""
    ranks, layers = (sorted({run[name] for run in content["runs"]}) for name in ("rank", "n_layers"))
    intro = (
        f"Recovered: every e_i ≤ {RECOVERED:g} % on {N_FRESH} fresh points; median processor time, one thread. "
        f"Seed {content['seed']}, at most {content['max_seconds']:g} s of processor time for the search of one data "
        "set."
    )
    rows = [[str(r), *(_words(*_cell(content, r, L), ", ") for L in layers)] for r in ranks]
    return "\n\n".join([intro, markdown(["rank", *(pluralised(L, "layer") for L in layers)], rows)])


def figure(content: Content) -> Figure:
    """One square per rank and number of layers: dark where all are recovered, with the median time in it."""
    ranks, layers = (sorted({run[name] for run in content["runs"]}) for name in ("rank", "n_layers"))
    cells = [[_cell(content, r, L) for r in ranks] for L in layers]
    share = np.array([[good / max(n, 1) for good, n, _ in row] for row in cells])
    canvas = new_figure(7.0, 3.6)
    axes = canvas.subplots()
    axes.imshow(share, cmap="Blues", vmin=0.0, vmax=1.3, aspect="auto", origin="lower")
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            ink = "white" if share[i, j] > 0.6 else "black"
            axes.text(j, i, _words(*cell, "\n"), ha="center", va="center", fontsize=8, color=ink)
    axes.set_xticks(range(len(ranks)), [str(r) for r in ranks])
    axes.set_yticks(range(len(layers)), [str(L) for L in layers])
    axes.grid(visible=False)
    axes.set_xlabel("rank of every layer")
    axes.set_ylabel("layers")
    axes.set_title("Systems recovered, and median time", fontsize=10)
    return canvas


RECOVERY_BY_DEPTH = Experiment.of(
    globals(),
    "recovery-by-depth",
    "How deep and wide a system may be to be recovered.",
    options=(
        Option("n_runs", 3, "Data sets per rank and number of layers."),
        Option("max_seconds", 20.0, "Of the processor, per data set."),
    ),
)
