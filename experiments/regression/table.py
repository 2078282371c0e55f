"""Regression on small tables, ours beside what people use: R² on held-out samples, and the time it took.

Each data set is split five times into training samples (three quarters) and test samples. All methods see the same
splits, and choose their options within the training samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy import ndarray

from decouply import __version__
from decouply._support._blas_threads import one_thread
from decouply.report._style import house_style, new_figure
from experiments.harness import run_all, write_experiment
from experiments.regression.datasets import SETS
from experiments.regression.methods import METHODS, OURS, fitted_values, is_installed

N_SPLITS = 5
_TRAINED_ON = 0.75  # of the samples


@dataclass(frozen=True)
class RegressionTask:
    """One method on one split."""

    data: str
    method: str
    split: int
    seed: int
    version: str = __version__


@dataclass(frozen=True)
class RegressionRun:
    """What became of it."""

    data: str
    method: str
    split: int
    r_squared: float  # on the test samples
    seconds: float  # of the processor, on one thread, tuning included


@dataclass(frozen=True)
class RegressionTable:
    """All runs, and the methods that were not there."""

    runs: tuple[RegressionRun, ...]
    missing: tuple[str, ...]
    seed: int

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {"seed": self.seed, "missing": list(self.missing), "runs": [asdict(run) for run in self.runs]}

    @property
    def data(self) -> list[str]:
        return [one.name for one in SETS if any(run.data == one.name for run in self.runs)]

    @property
    def methods(self) -> list[str]:
        return [name for name in METHODS if any(run.method == name for run in self.runs)]

    def scores(self, data: str, method: str) -> Float[ndarray, " splits"]:
        """R² of all splits."""
        return np.array([run.r_squared for run in self.runs if (run.data, run.method) == (data, method)])

    def seconds(self, data: str, method: str) -> float:
        """The longest of all splits."""
        return max(run.seconds for run in self.runs if (run.data, run.method) == (data, method))

    def best(self, data: str) -> str:
        """The method with the highest mean."""
        return max(self.methods, key=lambda method: float(np.mean(self.scores(data, method))))

    def is_level(self, data: str, method: str) -> bool:
        """Whether a method is the best one, or behind it by no more than the spread.

        The spread is the standard deviation of the differences, or that of the best method's scores where it is
        smaller: a method must not become level by failing now and then.
        """
        best = self.scores(data, self.best(data))
        behind = best - self.scores(data, method)
        return bool(np.mean(behind) <= min(np.std(behind), np.std(best)))


def run_regression(
    *,
    seed: int,
    n_jobs: int,
    n_splits: int = N_SPLITS,
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    store: Path | None = None,
    progress: Callable[..., None] = lambda **_: None,
) -> RegressionTable:
    """Every method on every split of every data set."""
    wanted = list(METHODS) if methods is None else list(methods)
    missing = tuple(method for method in wanted if not is_installed(method))
    tasks = [
        RegressionTask(one.name, method, split, seed)
        for method in wanted  # the slowest ones come last
        if method not in missing
        for one in SETS
        if data is None or one.name in data
        for split in range(n_splits)
    ]
    found = run_all(tasks, work, store=store, n_jobs=n_jobs, progress=progress)
    return RegressionTable(tuple(RegressionRun(**found[task]) for task in tasks), missing, seed)


def work(task: RegressionTask) -> dict[str, Any]:
    """One task."""
    make = next(one.make for one in SETS if one.name == task.data)
    X, y = make(task.seed)
    order = np.random.default_rng([task.seed, task.split]).permutation(len(X))
    train, test = np.split(order, [round(_TRAINED_ON * len(X))])
    began = time.process_time()
    with one_thread():
        predicted = fitted_values(task.method, task.split, X[train], y[train], X[test])
    seconds = time.process_time() - began
    r_squared = 1.0 - float(np.sum((y[test] - predicted) ** 2) / np.sum((y[test] - y[test].mean()) ** 2))
    return asdict(RegressionRun(task.data, task.method, task.split, r_squared, seconds))


def regression_markdown(table: RegressionTable) -> str:
    """Mean and deviation of R² over the splits; bold where a method is the best or level with it."""
    lines = [
        f"R² on test samples, mean ± standard deviation over {_n_splits(table)} splits (seed {table.seed}); longest "
        "time of a fit with its tuning. **Bold**: the best mean, or behind it by no more than the spread.",
        "",
        "| data | " + " | ".join(table.methods) + " |",
        "|---|" + "---|" * len(table.methods),
    ]
    lines += [
        f"| {data} | " + " | ".join(_cell(table, data, method) for method in table.methods) + " |"
        for data in table.data
    ]
    lines.append("| best or level | " + " | ".join(_count(table, method) for method in table.methods) + " |")
    if table.missing:
        lines += ["", f"Not installed, and not measured: {', '.join(table.missing)}."]
    return "\n".join(lines)


def _n_splits(table: RegressionTable) -> int:
    return 1 + max(run.split for run in table.runs)


def _cell(table: RegressionTable, data: str, method: str) -> str:
    scores = table.scores(data, method)
    numbers = f"{np.mean(scores):.3f} ± {np.std(scores):.3f}"
    marked = f"**{numbers}**" if table.is_level(data, method) else numbers
    return f"{marked}, {table.seconds(data, method):.1f} s"


def _count(table: RegressionTable, method: str) -> str:
    return f"{sum(table.is_level(data, method) for data in table.data)} of {len(table.data)}"


def write_regression(table: RegressionTable, directory: Path) -> None:
    """regression.json, regression.md and regression.png."""
    write_experiment(directory, "regression", table.content(), regression_markdown(table), regression_figure(table))


def regression_figure(table: RegressionTable) -> Figure:
    """One panel per data set: R² of every split, a row for each method."""
    with house_style():
        figure = new_figure(9.0, 1.0 + 0.28 * len(table.methods))
        panels = np.atleast_1d(figure.subplots(1, len(table.data), sharey=True))
        for axes, data in zip(panels, table.data, strict=True):
            for row, method in enumerate(table.methods):
                scores = table.scores(data, method)
                colour = "C0" if method == OURS else "0.5"
                axes.plot(scores, np.full(len(scores), row), "o", color=colour, alpha=0.5, markersize=4)
                axes.plot(np.mean(scores), row, "|", color=colour, markersize=14, markeredgewidth=2)
            axes.set_title(data, fontsize=9)
            axes.xaxis.set_major_locator(MaxNLocator(2))
            axes.set_xlabel("R²")
        panels[0].set_yticks(range(len(table.methods)), table.methods)
        panels[0].invert_yaxis()
    return figure
