"""The paper's Table 1: two-layer decouplings of f1, f2 and f3 by TS-PROJ-CMPT-2 and TS-CONSTR-CMPT-2.

Three variants are run on the same data. "as printed" is the paper's protocol: the data as given, plain projection, one
start for each value of lam, and the iterate at which the stopping rule ends. "best iterate" differs in one thing: of
each run the iterate with the lowest objective is kept. "ours" uses standard units, the weighted projection, the best
iterate and several starts for each lam, in one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from decouply import systems
from decouply.fit._decouple import decouple
from decouply.model._decoupling import Decoupling
from decouply.report._style import COLOURS, new_figure
from decouply.samples._samples import Samples
from decouply.solvers import Constr, Proj, Stopping, TwoStage
from decouply.solvers.alternating._loop import WhichIterate
from experiments.harness import Content, Experiment, Option, Outcome, Task, grid, markdown, matching

SYSTEMS: dict[str, Callable[[], Decoupling]] = {"f1": systems.f1, "f2": systems.f2, "f3": systems.f3}
ALGORITHMS = ("PROJ", "CONSTR")
VARIANTS = ("as printed", "best iterate", "ours")
N_SAMPLES = 30

# Mean, median and standard deviation as printed in the paper.
PAPER: dict[tuple[str, str], dict[str, tuple[float, float, float]]] = {
    ("f1", "PROJ"): {
        "Error(J)": (0.0337, 0.0138, 0.0517),
        "Error(F)": (0.0938, 0.0565, 0.108),
        "e_1 (%)": (0.887, 0.922, 0.178),
        "e_2 (%)": (0.874, 0.908, 0.173),
    },
    ("f1", "CONSTR"): {
        "Error(J)": (0.00398, 0.00247, 0.0055),
        "Error(F)": (0.0352, 0.0152, 0.0782),
        "e_1 (%)": (0.997, 0.856, 0.781),
        "e_2 (%)": (1.02, 0.88, 0.929),
    },
    ("f2", "PROJ"): {
        "Error(J)": (0.00143, 0.000412, 0.00203),
        "Error(F)": (0.00862, 0.00153, 0.0154),
        "e_1 (%)": (0.807, 0.816, 0.239),
        "e_2 (%)": (0.806, 0.816, 0.24),
        "e_3 (%)": (0.807, 0.815, 0.239),
    },
    ("f2", "CONSTR"): {
        "Error(J)": (0.000268, 4.54e-5, 0.000596),
        "Error(F)": (0.0018, 0.000312, 0.00429),
        "e_1 (%)": (0.904, 0.92, 0.218),
        "e_2 (%)": (0.904, 0.916, 0.218),
        "e_3 (%)": (0.904, 0.921, 0.218),
    },
    ("f3", "PROJ"): {
        "Error(J)": (0.0067, 0.00127, 0.00979),
        "Error(F)": (0.0187, 0.00176, 0.0371),
        "e_1 (%)": (1.03, 1.04, 0.0585),
        "e_2 (%)": (1.03, 1.04, 0.0572),
        "e_3 (%)": (1.03, 1.04, 0.0578),
    },
    ("f3", "CONSTR"): {
        "Error(J)": (0.00717, 0.000498, 0.0179),
        "Error(F)": (0.0509, 0.00434, 0.1),
        "e_1 (%)": (0.983, 1.02, 0.483),
        "e_2 (%)": (0.976, 1.03, 0.482),
        "e_3 (%)": (0.979, 1.03, 0.482),
    },
}
STATISTICS = ("mean", "median", "std")


def tasks(*, seed: int, n_runs: int, n_starts: int) -> list[Task]:
    shared = {"system": tuple(SYSTEMS), "algorithm": ALGORITHMS, "run": range(n_runs), "seed": seed}
    counts = {variant: n_starts if variant == "ours" else 1 for variant in VARIANTS}
    return [task for variant in VARIANTS for task in grid(variant=variant, **shared, n_starts=counts[variant])]


def work(system: str, algorithm: str, variant: str, run: int, n_starts: int, seed: int) -> Outcome:
    """New samples, new validation points, one decoupling."""
    truth = SYSTEMS[system]()
    rng = np.random.default_rng([seed, int(system[1:]), run])
    samples, validation = (
        Samples(X, F=truth(X), J=truth.jacobian(X))
        for X in (rng.uniform(-1.0, 1.0, (N_SAMPLES, truth.n_inputs)) for _ in range(2))
    )
    ours = variant == "ours"
    which: WhichIterate = "last" if variant == "as printed" else "best"
    stopping = Stopping(iterate=which)
    constr = algorithm == "CONSTR"
    inner = Constr(stopping=stopping) if constr else Proj(weighted_projection=ours, stopping=stopping)
    result = decouple(
        samples,
        truth.ranks,
        truth.degrees,
        solver=TwoStage(inner),
        as_given=not ours,
        n_starts=n_starts,
        validation=validation,
        rng=rng,
        progress=False,
    )
    return {"errors": [result.error_jacobian, result.error_values, *result.relative_rmse(validation).tolist()]}


def content(runs: list[Task], *, n_runs: int, n_starts: int, seed: int) -> Content:
    """Mean, median and standard deviation of each quantity, beside the paper's."""
    cells: list[dict[str, Any]] = []
    for variant in VARIANTS:
        for (system, algorithm), paper in PAPER.items():
            some = matching(runs, system=system, algorithm=algorithm, variant=variant)
            for i, (quantity, printed) in enumerate(paper.items()):
                values = np.array([run["errors"][i] for run in some], dtype=float)
                spread = values.std(ddof=1) if len(values) > 1 else 0.0
                cell: Task = {"system": system, "algorithm": algorithm, "variant": variant, "quantity": quantity}
                cell |= dict(zip(STATISTICS, (values.mean(), np.median(values), spread), strict=True))
                cells.append(cell | {"paper": dict(zip(STATISTICS, printed, strict=True)), "runs": values})
    return {"n_runs": n_runs, "n_starts": n_starts, "seed": seed, "cells": cells}


def table(content: Content) -> str:
    """PROJ and CONSTR side by side as printed, then every variant beside the paper's numbers."""

    def statistics(system: str, algorithm: str, variant: str, quantity: str) -> list[float]:
        (cell,) = matching(content["cells"], system=system, algorithm=algorithm, variant=variant, quantity=quantity)
        return [cell[name] for name in STATISTICS]

    rows: list[list[str]] = []
    for system in SYSTEMS:
        rows.append([f"**{system}**", *[""] * 6])
        for quantity in PAPER[system, "PROJ"]:
            pair = [statistics(system, algorithm, "as printed", quantity) for algorithm in ALGORITHMS]
            lower = [min(both) for both in zip(*pair, strict=True)]
            marked = (zip(one, lower, strict=True) for one in pair)
            rows.append([quantity, *(_bold(value, value == least) for one in marked for value, least in one)])
    as_printed = (
        f"*As printed*, {content['n_runs']} runs (seed {content['seed']}): data as given, plain projection, one start "
        "per λ, last iterate. The lower of two means, medians and deviations is bold."
    )
    head = ["", "PROJ: mean", "median", "deviation", "CONSTR: mean", "median", "deviation"]
    printed = markdown(head, rows)
    rows = []
    for (system, algorithm), paper in PAPER.items():
        for quantity, in_paper in paper.items():
            every = [in_paper, *(statistics(system, algorithm, variant, quantity) for variant in VARIANTS)]
            lowest = min(median for _, median, _ in every)
            cells = [f"{m:.3g} / {_bold(median, median == lowest)} / {d:.2g}" for m, median, d in every]
            for k, (_, median, _) in enumerate(every[1:], start=1):
                cells[k] += " ✓" if quantity.startswith("Error") and median <= in_paper[1] else ""
            rows.append([system, algorithm, quantity, *cells])
    about_variants = (
        "Mean / median / deviation of all variants, the lowest median of a row bold. *Best iterate*: as printed, but "
        f"of each run the best iterate. *Ours*: standard units, weighted projection, best iterate, "
        f"{content['n_starts']} starts per λ. ✓ marks a median of Error(J) or Error(F) at or below the paper's."
    )
    beside = markdown(["system", "algorithm", "quantity", "paper", *VARIANTS], rows)
    return "\n\n".join([as_printed, printed, about_variants, beside])


def _bold(value: float, bold: bool) -> str:
    return f"**{value:.3g}**" if bold else f"{value:.3g}"


def figure(content: Content) -> Figure:
    """All runs as box plots with points; the paper's medians as black dashes."""
    kinds = [(algorithm, variant) for algorithm in ALGORITHMS for variant in VARIANTS]
    canvas = new_figure(11.0, 5.6)
    axes = canvas.subplots(2, len(SYSTEMS), sharey="row")
    for row, quantity in enumerate(("Error(J)", "Error(F)")):
        for column, system in enumerate(SYSTEMS):
            ax = axes[row, column]
            for position, (algorithm, variant) in enumerate(kinds):
                (cell,) = matching(
                    content["cells"], system=system, algorithm=algorithm, variant=variant, quantity=quantity
                )
                colour = COLOURS[VARIANTS.index(variant)]
                values = np.maximum(cell["runs"], 1e-30)
                box = ax.boxplot(values, positions=[position], widths=0.7, patch_artist=True, showfliers=False)
                box["boxes"][0].set(facecolor=colour, alpha=0.35)
                box["medians"][0].set(color=colour, linewidth=2)
                offsets = np.linspace(-0.25, 0.25, len(values))
                ax.plot(position + offsets, values, ".", color=colour, alpha=0.6, markersize=3)
                ends = position - 0.42, position + 0.42
                ax.hlines(cell["paper"]["median"], *ends, color="black", linestyle=(0, (3, 2)), linewidth=1.2)
            ax.set_yscale("log")
            labels = [f"{algorithm}, {variant}" for algorithm, variant in kinds] if row == 1 else [""] * len(kinds)
            ax.set_xticks(range(len(kinds)), labels, fontsize=7, rotation=90)
            ax.grid(visible=False, axis="x")
            if row == 0:
                ax.set_title(system)
        axes[row, 0].set_ylabel(quantity)
    canvas.suptitle(f"{content['n_runs']} runs each; dashes: the paper's medians", fontsize=9)
    return canvas


TABLE1 = Experiment.of(
    globals(),
    "table1",
    "Table 1 of the paper: PROJ and CONSTR on three two-layer systems.",
    options=(Option("n_runs", 30, "Data sets per system."), Option("n_starts", 8, "Starts of our own variant.")),
    quick={"n_runs": 3, "n_starts": 2},
)
