"""The paper's Silverbox figure: decouplings of one polynomial NARX model, ranks 2 to 6, 30 runs each.

Every run draws 200 new training regressors; all algorithms and ranks of a run get the same ones. Two errors are
taken on the multisine test: how far the decoupling is from the NARX model at the regressors of the test record (model
approximation), and how far its free run is from the measured outputs (simulation), both in percent of the spread.
The five algorithms of the paper run as it says: one start, data as given, in volts. VarPro runs as
`PolynomialNARX.decouple` has it by default.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray

from decouply import __version__
from decouply._support._errors import DecouplingWarning, SolverError
from decouply.data import Silverbox, silverbox
from decouply.report._style import COLOURS, house_style, new_figure
from decouply.samples._model_errors import relative_rmse
from decouply.solvers import AbstractSolver, Constr, Hollander, Proj, TwoStage, Zniyed
from decouply.sysid import PolynomialNARX
from experiments.harness import run_all, write_experiment

RANKS = (2, 3, 4, 5, 6)
DEGREE = 3
N_SAMPLES = 200
LEFT = ("Zniyed", "TS-Zniyed", "TS-PROJ-CMPT-1", "VarPro")
RIGHT = ("Hollander", "TS-CONSTR-CMPT-1", "VarPro")
ALGORITHMS = tuple(dict.fromkeys((*LEFT, *RIGHT)))
QUANTITIES = ("model approximation error", "simulation error")
# What VarPro should reach: medians in percent, by quantity and rank.
TARGETS = {(0, 3): 0.10, (0, 4): 0.035, (1, 3): 1.0, (1, 4): 0.92}


@dataclass(frozen=True)
class SilverboxTask:
    """One decoupling of the reference model."""

    algorithm: str
    rank: int
    run: int
    seed: int
    n_samples: int = N_SAMPLES
    version: str = __version__


@dataclass(frozen=True)
class RefineTask:
    """The decoupling of one run by VarPro, refined on the simulation error of the training record."""

    rank: int
    run: int
    seed: int
    max_steps: int
    version: str = __version__


@dataclass(frozen=True)
class SilverboxFigure:
    """All runs: the two errors in percent, by algorithm and rank; and refined models with their errors in mV."""

    n_runs: int
    seed: int
    reference_percent: float
    reference_mv: tuple[float, ...]
    reference_parameters: int
    runs: dict[tuple[str, int], Float[ndarray, "runs 2"]]
    refined: dict[RefineTask, dict[str, Any]]

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted({rank for _, rank in self.runs}))

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        cells = []
        for (algorithm, rank), values in self.runs.items():
            for i, quantity in enumerate(QUANTITIES):
                median, mean, diverged = statistics(values[:, i])
                cells.append(
                    {
                        "algorithm": algorithm,
                        "rank": rank,
                        "quantity": quantity,
                        "median": median,
                        "mean": mean,
                        "diverged": diverged,
                        "runs": values[:, i].tolist(),
                    }
                )
        return {
            "n_runs": self.n_runs,
            "seed": self.seed,
            "reference": {
                "relative_rmse_percent": self.reference_percent,
                "rmse_mv": self.reference_mv,
                "n_parameters": self.reference_parameters,
            },
            "cells": cells,
            "refined": [{"rank": task.rank, "run": task.run, **outcome} for task, outcome in self.refined.items()],
        }


def statistics(values: Float[ndarray, " runs"]) -> tuple[float, float, int]:
    """Median over all runs (a diverged one counts as the worst), mean over the others, number of diverged runs."""
    finite = np.isfinite(values)
    median = float(np.median(np.where(finite, values, np.inf)))
    mean = float(values[finite].mean()) if finite.any() else math.inf
    return median, mean, int(np.sum(~finite))


@cache
def _reference() -> tuple[Silverbox, PolynomialNARX]:
    """The data and the model that is decoupled, once per process."""
    data = silverbox()
    return data, PolynomialNARX(n_u=1, n_y=3, degree=DEGREE).fit(*data.train)


def run_silverbox(
    *,
    n_runs: int,
    seed: int,
    n_jobs: int,
    ranks: tuple[int, ...] = RANKS,
    n_refined: int = 5,
    refine_steps: int = 60,
    store: Path | None = None,
    progress: Callable[..., None] = lambda **_: None,
) -> SilverboxFigure:
    """Run everything that `store` does not have yet."""
    data, narx = _reference()
    tasks = [SilverboxTask(a, rank, run, seed) for run in range(n_runs) for a in ALGORITHMS for rank in ranks]
    refinements = [RefineTask(3, run, seed, refine_steps) for run in range(min(n_refined, n_runs))]
    every: list[SilverboxTask | RefineTask] = [*tasks, *refinements]
    found = run_all(every, work, store=store, n_jobs=n_jobs, progress=progress)
    runs = {
        (a, rank): np.array([found[SilverboxTask(a, rank, run, seed)]["errors"] for run in range(n_runs)], dtype=float)
        for a in ALGORITHMS
        for rank in ranks
    }
    simulated = [narx.simulate(test.u, test.y_init) for test in data.tests]
    return SilverboxFigure(
        n_runs,
        seed,
        data.multisine.relative_rmse(simulated[0]),
        tuple(1e3 * test.rmse(y) for test, y in zip(data.tests, simulated, strict=True)),
        narx.n_parameters,
        runs,
        {task: found[task] for task in refinements},
    )


def work(task: SilverboxTask | RefineTask) -> dict[str, Any]:
    """One task; a failure of a solver or a simulation that escapes gives infinite errors (None in JSON)."""
    return _refine(task) if isinstance(task, RefineTask) else _decouple(task)


def _decouple(task: SilverboxTask) -> dict[str, Any]:
    data, narx = _reference()
    test = data.multisine
    X = narx.regressors(*test)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DecouplingWarning)  # escapes are counted below
            decoupled = narx.decouple(
                task.rank,
                DEGREE,
                solver=solver_of(task.algorithm),
                n_samples=task.n_samples,
                as_given=task.algorithm != "VarPro",
                n_starts=None if task.algorithm == "VarPro" else 1,
                rng=np.random.default_rng([task.seed, task.run]),
                progress=False,
            )
            simulated = decoupled.simulate(test.u, test.y_init)
    except SolverError:
        return {"errors": [None, None]}
    return {"errors": [float(relative_rmse(narx(X), decoupled(X))[0]), test.relative_rmse(simulated)]}


def solver_of(algorithm: str) -> AbstractSolver | None:
    """The solver behind a name of the figure; None is the default of `PolynomialNARX.decouple`."""
    return {
        "Zniyed": Zniyed(lam=1e-4),
        "TS-Zniyed": TwoStage(Zniyed()),
        "TS-PROJ-CMPT-1": TwoStage(Proj(weighted_projection=False)),
        "Hollander": Hollander(),
        "TS-CONSTR-CMPT-1": TwoStage(Constr()),
        "VarPro": None,
    }[algorithm]


def _refine(task: RefineTask) -> dict[str, Any]:
    data, narx = _reference()
    rng = np.random.default_rng([task.seed, task.run])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DecouplingWarning)
        decoupled = narx.decouple(task.rank, DEGREE, rng=rng, progress=False)
        before = [1e3 * test.rmse(decoupled.simulate(test.u, test.y_init)) for test in data.tests]
        try:
            refined = decoupled.refine(*data.train, max_steps=task.max_steps, progress=False)
            after = [1e3 * test.rmse(refined.simulate(test.u, test.y_init)) for test in data.tests]
        except SolverError:
            after = [math.inf] * len(data.tests)
    return {"n_parameters": decoupled.n_parameters, "before_mv": before, "after_mv": after}


# What a person sees


def silverbox_markdown(figure: SilverboxFigure) -> str:
    """Two tables: median and mean by algorithm and rank, and the refined models."""
    lines = [
        f"Reference: polynomial NARX, {figure.reference_parameters} coefficients, {figure.reference_percent:.3f} % "
        f"({figure.reference_mv[0]:.3f} mV) in free run on the multisine test, {figure.reference_mv[1]:.3f} mV on the "
        f"arrow, {figure.reference_mv[2]:.3f} mV on the arrow without extrapolation.",
    ]
    for i, quantity in enumerate(QUANTITIES):
        lines += [
            "",
            f"{quantity.capitalize()} in percent, median (mean) over {figure.n_runs} runs, seed {figure.seed}; "
            "*k×* marks k diverged runs, left out of the mean; ✓ a target that VarPro reaches, ✗ one that it misses.",
            "",
            f"| algorithm | {' | '.join(f'r = {rank}' for rank in figure.ranks)} |",
            f"|---|{'---|' * len(figure.ranks)}",
        ]
        for algorithm in ALGORITHMS:
            cells = [_cell(figure, algorithm, rank, i) for rank in figure.ranks]
            lines.append(f"| {algorithm} | {' | '.join(cells)} |")
    medians = [statistics(figure.runs["VarPro", rank][:, 0])[0] for rank in figure.ranks]
    rises = any(after > before for before, after in pairwise(medians))
    lines += ["", f"The model approximation error of VarPro {'rises' if rises else 'never rises'} with the rank."]
    if figure.refined:
        lines += [
            "",
            'Rank 3 by VarPro, then `refine(on="simulation")` on the training record: RMSE in mV on the three tests.',
            "",
            "| run | parameters | | multisine | arrow | arrow, no extrapolation |",
            "|---|---|---|---|---|---|",
            f"| reference NARX | {figure.reference_parameters} | | {_mv(figure.reference_mv)} |",
        ]
        for task, outcome in figure.refined.items():
            lines.append(f"| {task.run} | {outcome['n_parameters']} | before | {_mv(outcome['before_mv'])} |")
            lines.append(f"| | | after | {_mv(outcome['after_mv'])} |")
        errors = np.array([outcome["after_mv"] for outcome in figure.refined.values()], dtype=float)
        middle = np.median(np.where(np.isfinite(errors), errors, np.inf), axis=0)
        lines.append(f"| median | | after | {_mv(middle)} |")
    return "\n".join(lines)


def _cell(figure: SilverboxFigure, algorithm: str, rank: int, i: int) -> str:
    median, mean, diverged = statistics(figure.runs[algorithm, rank][:, i])
    text = f"**{median:.3g}** ({mean:.3g})" + (f" *{diverged}×*" if diverged else "")
    target = TARGETS.get((i, rank)) if algorithm == "VarPro" else None
    return text if target is None else f"{text} {'✓' if median <= target else '✗'}"


def _mv(values: Any) -> str:
    return " | ".join("diverged" if v is None or not math.isfinite(v) else f"{v:.3f}" for v in values)


def write_silverbox(figure: SilverboxFigure, directory: Path) -> None:
    """silverbox.json, silverbox.md and silverbox.png."""
    write_experiment(directory, "silverbox", figure.content(), silverbox_markdown(figure), silverbox_figure(figure))


def silverbox_figure(figure: SilverboxFigure) -> Figure:
    """The paper's four panels: medians solid, means dotted; red lines at 1 % and at the error of the NARX model."""
    colours = dict(zip(ALGORITHMS, COLOURS, strict=False))
    markers = dict(zip(ALGORITHMS, "osD^vX", strict=True))
    with house_style():
        canvas = new_figure(9.0, 6.4)
        axes = canvas.subplots(2, 2, sharex=True, sharey="row")
        for column, algorithms in enumerate((LEFT, RIGHT)):
            for row in range(len(QUANTITIES)):
                ax = axes[row, column]
                for algorithm in algorithms:
                    table = np.array([statistics(figure.runs[algorithm, rank][:, row])[:2] for rank in figure.ranks])
                    style = {"color": colours[algorithm], "linewidth": 1.4}
                    ax.plot(
                        figure.ranks,
                        table[:, 0],
                        "-",
                        marker=markers[algorithm],
                        markersize=4,
                        label=algorithm,
                        **style,
                    )
                    ax.plot(figure.ranks, table[:, 1], ":", **style)
                level = 1.0 if row == 0 else figure.reference_percent
                ax.axhline(level, color="#C00000", linestyle=(0, (2, 2)), linewidth=1.1)
                label = "1 %" if row == 0 else f"NARX model, {level:.2f} %"
                ax.annotate(
                    label,
                    (1.0, level),
                    xycoords=("axes fraction", "data"),
                    ha="right",
                    va="bottom" if row == 0 else "top",
                    color="#C00000",
                    fontsize=7,
                )
                ax.set_yscale("log")
                ax.yaxis.set_major_formatter("{x:g}")
                ax.yaxis.set_minor_formatter("{x:g}" if row == 1 else "")
                ax.set_xticks(figure.ranks)
                if row == 1:
                    ax.set_xlabel("rank r")
                else:
                    ax.legend(frameon=False, fontsize=7)
            axes[0, column].set_title("projection and VarPro" if column == 0 else "constraint and VarPro", fontsize=9)
        for row, quantity in enumerate(QUANTITIES):
            axes[row, 0].set_ylabel(f"{quantity} (%)")
        canvas.suptitle(f"Silverbox, {figure.n_runs} runs: medians solid, means dotted", fontsize=10)
    return canvas
