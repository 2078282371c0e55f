"""The paper's Table 1: two-layer decouplings of f1, f2 and f3 by TS-PROJ-CMPT-2 and TS-CONSTR-CMPT-2.

Three variants are run on the same data. "as printed" is the paper's protocol: the data as given, plain projection, one
start for each value of lam, and the iterate at which the rule of stopping ends. "best iterate" differs in one thing: of
each run the iterate with the lowest objective is kept. "ours" uses standard units, the weighted projection, the best
iterate and several starts for each lam, in one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray

from decouply import __version__, systems
from decouply.fit._decouple import decouple
from decouply.model._decoupling import Decoupling
from decouply.report._style import COLOURS, house_style, new_figure
from decouply.samples._samples import Samples
from decouply.solvers import Constr, Proj, TwoStage
from decouply.solvers.alternating._loop import WhichIterate
from experiments.harness import run_all, write_experiment

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


@dataclass(frozen=True)
class Task:
    """One decoupling of one data set."""

    system: str
    algorithm: str
    variant: str
    run: int
    n_starts: int
    seed: int
    version: str = __version__


@dataclass(frozen=True)
class Table1:
    """All runs: Error(J), Error(F) and every e_i, by system, algorithm and variant."""

    n_runs: int
    n_starts: int
    seed: int
    runs: dict[tuple[str, str, str], Float[ndarray, "runs quantities"]]

    def summary(self, system: str, algorithm: str, variant: str) -> Float[ndarray, "quantities 3"]:
        """Mean, median and standard deviation of each quantity."""
        values = self.runs[system, algorithm, variant]
        spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
        return np.stack([values.mean(axis=0), np.median(values, axis=0), spread], axis=1)

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        cells = []
        for (system, algorithm, variant), values in self.runs.items():
            names = list(PAPER[system, algorithm])
            statistics = self.summary(system, algorithm, variant)
            for i, name in enumerate(names):
                cells.append(
                    {
                        "system": system,
                        "algorithm": algorithm,
                        "variant": variant,
                        "quantity": name,
                        **dict(zip(("mean", "median", "std"), statistics[i].tolist(), strict=True)),
                        "paper": dict(zip(("mean", "median", "std"), PAPER[system, algorithm][name], strict=True)),
                        "runs": values[:, i].tolist(),
                    }
                )
        return {"n_runs": self.n_runs, "n_starts": self.n_starts, "seed": self.seed, "cells": cells}


def run_table1(
    *,
    n_runs: int,
    n_starts: int,
    seed: int,
    n_jobs: int,
    store: Path | None = None,
    progress: Callable[..., None] = lambda **_: None,
) -> Table1:
    """Run everything; the result depends on the seed only, not on the number of processes."""
    tasks = [
        Task(system, algorithm, variant, run, n_starts if variant == "ours" else 1, seed)
        for variant in VARIANTS
        for system in SYSTEMS
        for algorithm in ALGORITHMS
        for run in range(n_runs)
    ]
    found = run_all(tasks, work, store=store, n_jobs=n_jobs, progress=progress)
    values = {task: np.array(outcome["errors"], dtype=float) for task, outcome in found.items()}
    cells = {(t.system, t.algorithm, t.variant): np.empty(0) for t in tasks}
    for key in cells:
        cells[key] = np.stack([values[t] for t in tasks if (t.system, t.algorithm, t.variant) == key])
    return Table1(n_runs, n_starts, seed, cells)


def work(task: Task) -> dict[str, Any]:
    """New samples, new validation points, one decoupling."""
    system = SYSTEMS[task.system]()
    data_rng = np.random.default_rng([task.seed, int(task.system[1:]), task.run])
    samples, validation = (_sampled(system, data_rng) for _ in range(2))
    ours = task.variant == "ours"
    which: WhichIterate = "last" if task.variant == "as printed" else "best"
    inner = Constr(iterate=which) if task.algorithm == "CONSTR" else Proj(weighted_projection=ours, iterate=which)
    result = decouple(
        samples,
        system.ranks,
        system.degrees,
        solver=TwoStage(inner),
        as_given=not ours,
        n_starts=task.n_starts,
        validation=validation,
        rng=data_rng,
        progress=False,
    )
    return {"errors": [result.error_jacobian, result.error_values, *result.relative_rmse(validation).tolist()]}


def _sampled(system: Decoupling, rng: np.random.Generator) -> Samples:
    X = rng.uniform(-1.0, 1.0, (N_SAMPLES, system.n_inputs))
    return Samples(X, F=system(X), J=system.jacobian(X))


def table1_markdown(table: Table1) -> str:
    """The table in the paper's form, then all variants beside the paper's numbers."""
    return f"{_in_the_form_of_the_paper(table)}\n\n{_beside_the_paper(table)}"


def _in_the_form_of_the_paper(table: Table1) -> str:
    """PROJ and CONSTR side by side as printed; of each mean, median and deviation the lower one is bold."""
    lines = [
        f"*As printed*, {table.n_runs} runs (seed {table.seed}): data as given, plain projection, one start per λ, "
        "last iterate. The lower of two means, medians and deviations is bold.",
        "",
        "| | PROJ: mean | median | deviation | CONSTR: mean | median | deviation |",
        "|---|---|---|---|---|---|---|",
    ]
    for system in SYSTEMS:
        lines.append(f"| **{system}** | | | | | | |")
        pair = [table.summary(system, algorithm, "as printed") for algorithm in ALGORITHMS]
        for i, name in enumerate(PAPER[system, "PROJ"]):
            lower = np.minimum(pair[0][i], pair[1][i])
            cells = [
                f"**{value:.3g}**" if value == least else f"{value:.3g}"
                for statistics in pair
                for value, least in zip(statistics[i], lower, strict=True)
            ]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _beside_the_paper(table: Table1) -> str:
    """Every variant beside the paper's numbers; medians of Error(J) and Error(F) at or below the paper's are marked."""
    lines = [
        "Mean / median / deviation of all variants, the lowest median of a row bold. *Best iterate*: as printed, but "
        f"of each run the best iterate. *Ours*: standard units, weighted projection, best iterate, {table.n_starts} "
        "starts per λ. ✓ marks a median of Error(J) or Error(F) at or below the paper's.",
        "",
        f"| system | algorithm | quantity | paper | {' | '.join(VARIANTS)} |",
        f"|---|---|---|---|{'---|' * len(VARIANTS)}",
    ]
    for system in SYSTEMS:
        for algorithm in ALGORITHMS:
            for i, (name, paper) in enumerate(PAPER[system, algorithm].items()):
                rows = [paper, *(tuple(table.summary(system, algorithm, variant)[i]) for variant in VARIANTS)]
                lowest = min(row[1] for row in rows)
                cells = [_cell(*row, bold=row[1] == lowest) for row in rows]
                for k, row in enumerate(rows[1:], start=1):
                    cells[k] += " ✓" if name.startswith("Error") and row[1] <= paper[1] else ""
                lines.append(f"| {system} | {algorithm} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(mean: float, median: float, spread: float, *, bold: bool) -> str:
    middle = f"**{median:.3g}**" if bold else f"{median:.3g}"
    return f"{mean:.3g} / {middle} / {spread:.2g}"


def write_table1(table: Table1, directory: Path) -> None:
    """table1.json, table1.md and table1.png."""
    write_experiment(directory, "table1", table.content(), table1_markdown(table), table1_figure(table))


def table1_figure(table: Table1) -> Figure:
    """All runs as box plots with points; the paper's medians as black dashes."""
    kinds = [(algorithm, variant) for algorithm in ALGORITHMS for variant in VARIANTS]
    with house_style():
        figure = new_figure(11.0, 5.6)
        axes = figure.subplots(2, len(SYSTEMS), sharey="row")
        for row, quantity in enumerate(("Error(J)", "Error(F)")):
            for column, system in enumerate(SYSTEMS):
                ax = axes[row, column]
                for position, (algorithm, variant) in enumerate(kinds):
                    colour = COLOURS[VARIANTS.index(variant)]
                    values = np.maximum(table.runs[system, algorithm, variant][:, row], 1e-30)
                    box = ax.boxplot(values, positions=[position], widths=0.7, patch_artist=True, showfliers=False)
                    box["boxes"][0].set(facecolor=colour, alpha=0.35)
                    box["medians"][0].set(color=colour, linewidth=2)
                    offsets = np.linspace(-0.25, 0.25, len(values))
                    ax.plot(position + offsets, values, ".", color=colour, alpha=0.6, markersize=3)
                    paper = PAPER[system, algorithm][quantity][1]
                    ends = position - 0.42, position + 0.42
                    ax.hlines(paper, *ends, color="black", linestyle=(0, (3, 2)), linewidth=1.2)
                ax.set_yscale("log")
                labels = [f"{algorithm}, {variant}" for algorithm, variant in kinds] if row == 1 else [""] * len(kinds)
                ax.set_xticks(range(len(kinds)), labels, fontsize=7, rotation=90)
                ax.grid(visible=False, axis="x")
                if row == 0:
                    ax.set_title(system)
            axes[row, 0].set_ylabel(quantity)
        figure.suptitle(f"{table.n_runs} runs each; dashes: the paper's medians", fontsize=9)
    return figure
