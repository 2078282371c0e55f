"""Regression on small tables, ours beside what people use: R² on held-out samples, and the time it took.

Each data set is split several times into training samples (three quarters) and test samples. All methods see the same
splits, and choose their options within the training samples. Needs the extra sklearn; GAM and KAN are measured where
the packages pygam and pykan are installed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy import ndarray

from decouply._support._blas_threads import one_thread
from decouply.report._style import new_figure
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, markdown, matching
from experiments.regression.datasets import SETS
from experiments.regression.methods import METHODS, OURS, fitted_values, is_installed

_TRAINED_ON = 0.75  # of the samples


def tasks(
    *, seed: int, n_splits: int, data: Sequence[str] | None = None, methods: Sequence[str] = tuple(METHODS)
) -> list[Task]:
    return [
        {"data": one.name, "method": method, "split": split, "seed": seed}
        for method in methods  # the slowest ones come last
        if is_installed(method)
        for one in SETS
        if data is None or one.name in data
        for split in range(n_splits)
    ]


def work(data: str, method: str, split: int, seed: int) -> Outcome:
    """One method on one split, with the time of the processor, on one thread, tuning included."""
    make = next(one.make for one in SETS if one.name == data)
    X, y = make(seed)
    order = np.random.default_rng([seed, split]).permutation(len(X))
    train, test = np.split(order, [round(_TRAINED_ON * len(X))])
    began = time.process_time()
    with one_thread():
        predicted = fitted_values(method, split, X[train], y[train], X[test])
    seconds = time.process_time() - began
    r_squared = 1.0 - float(np.sum((y[test] - predicted) ** 2) / np.sum((y[test] - y[test].mean()) ** 2))
    return {"r_squared": r_squared, "seconds": seconds}


def content(runs: list[Task], *, seed: int, methods: Sequence[str] = tuple(METHODS), **_: Any) -> Content:
    missing = [method for method in methods if not is_installed(method)]
    return {"seed": seed, "missing": missing, "runs": runs}


def _scores(content: Content, data: str, method: str) -> Float[ndarray, " splits"]:
    """R² of all splits."""
    return column(matching(content["runs"], data=data, method=method), "r_squared")


def _names(content: Content) -> tuple[list[str], list[str]]:
    """Data sets and methods that have runs, in the order of the lists."""
    data, methods = ({run[key] for run in content["runs"]} for key in ("data", "method"))
    return [one.name for one in SETS if one.name in data], [method for method in METHODS if method in methods]


def is_level(content: Content, data: str, method: str) -> bool:
    """Whether a method has the best mean, or is behind it by no more than the spread.

    The spread is the standard deviation of the differences, or that of the best method's scores where it is
    smaller: a method must not become level by failing now and then.
    """
    best = max((_scores(content, data, one) for one in _names(content)[1]), key=lambda scores: float(np.mean(scores)))
    behind = best - _scores(content, data, method)
    return bool(np.mean(behind) <= min(np.std(behind), np.std(best)))


def table(content: Content) -> str:
    """Mean and deviation of R² over the splits; bold where a method is the best or level with it."""
    data, methods = _names(content)

    def cell(one: str, method: str) -> str:
        scores = _scores(content, one, method)
        numbers = f"{np.mean(scores):.3f} ± {np.std(scores):.3f}"
        marked = f"**{numbers}**" if is_level(content, one, method) else numbers
        return f"{marked}, {max(column(matching(content['runs'], data=one, method=method), 'seconds')):.1f} s"

    rows = [[one, *(cell(one, method) for method in methods)] for one in data]
    level = [sum(is_level(content, one, method) for one in data) for method in methods]
    rows.append(["best or level", *(f"{count} of {len(data)}" for count in level)])
    n_splits = 1 + max(run["split"] for run in content["runs"])
    lines = [
        f"R² on test samples, mean ± standard deviation over {n_splits} splits (seed {content['seed']}); longest "
        "time of a fit with its tuning. **Bold**: the best mean, or behind it by no more than the spread.",
        "",
        *markdown(["data", *methods], rows),
    ]
    if content["missing"]:
        lines += ["", f"Not installed, and not measured: {', '.join(content['missing'])}."]
    return "\n".join(lines)


def figure(content: Content) -> Figure:
    """One panel per data set: R² of every split, a row for each method."""
    data, methods = _names(content)
    canvas = new_figure(9.0, 1.0 + 0.28 * len(methods))
    panels = np.atleast_1d(canvas.subplots(1, len(data), sharey=True))
    for axes, one in zip(panels, data, strict=True):
        for row, method in enumerate(methods):
            scores = _scores(content, one, method)
            colour = "C0" if method == OURS else "0.5"
            axes.plot(scores, np.full(len(scores), row), "o", color=colour, alpha=0.5, markersize=4)
            axes.plot(np.mean(scores), row, "|", color=colour, markersize=14, markeredgewidth=2)
        axes.set_title(one, fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(2))
        axes.set_xlabel("R²")
    panels[0].set_yticks(range(len(methods)), methods)
    panels[0].invert_yaxis()
    return canvas


REGRESSION = Experiment(
    "regression",
    "Regression on small tables, compared with other methods.",
    tasks,
    work,
    table,
    figure,
    options=(Option("n_splits", 5, "Splits into training and test samples.", least=2),),
    content=content,
)
