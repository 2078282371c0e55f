"""Sizes of dynamic models, chosen by training data alone.

Every candidate is fitted to the first three quarters of a training record, of which it holds back a part of its own to
choose among its starts, and is scored in free run on the last quarter; its initial state comes from the first outputs
there. Short records have a second fold: fitted to the last three quarters, scored on the first. The smallest median
over the seeds is chosen. Of a test record, the number of its first outputs is used alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray

from decouply._support._errors import pluralised
from decouply.data import Record
from decouply.report._style import COLOURS, new_figure
from experiments.dynamic.benchmarks import CASES, ONLY, QUICK, Case, cases_called, spread_in_words
from experiments.dynamic.model_pool import POOLS, QUICK_POOLS, Candidate, Pool
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown

_HELD_BACK = 0.25


def _pools(only: Sequence[str]) -> dict[str, Pool]:
    return {case.pool: case.about for case in cases_called(only).values()}


def tasks(*, seed: int, n_runs: int, only: Sequence[str]) -> list[Task]:
    return [
        task
        for name, pool in _pools(only).items()
        for candidate in pool.candidates
        for task in grid(
            pool=name,
            candidate=asdict(candidate),
            run=range(min(n_runs, pool.most_runs)),
            fold=range(pool.n_folds),
            seed=seed,
        )
    ]


def work(pool: str, candidate: dict[str, Any], run: int, fold: int, seed: int) -> Outcome:
    """One fit and its error on held-back data."""
    about = (POOLS | QUICK_POOLS)[pool]
    train, held = parts(about, fold)
    rng = np.random.default_rng([seed, run])
    model, (error,), seconds = Candidate(**candidate).fit(train, [held], about.scale, rng)
    counts = {} if model is None else {"n_parameters": model.n_canonical, "n_free": model.n_parameters}
    return {"error": error, "seconds": seconds} | counts


def parts(pool: Pool, fold: int) -> tuple[Record, Record]:
    """Three quarters of the training record, or of its beginning, and the other: the last, or the first in fold 1."""
    train, tests = pool.records()
    end = len(train) if pool.n_samples is None else pool.n_samples
    cut = round((_HELD_BACK if fold else 1.0 - _HELD_BACK) * end)
    before, after = slice(0, cut), slice(cut, end)
    fitted, held = (after, before) if fold else (before, after)
    return (
        Record(f"{train.name}, fitted", train.u[fitted], train.y[fitted], train.sampling_time),
        Record(f"{train.name}, held back", train.u[held], train.y[held], train.sampling_time, tests[0].n_init),
    )


def content(runs: list[Task], *, n_runs: int, seed: int, only: Sequence[str]) -> Content:
    """Held-back errors of all candidates, and what they choose for every case."""
    pools: dict[str, list[dict[str, Any]]] = {}
    for name, pool in _pools(only).items():
        pools[name] = []
        for one in pool.candidates:
            some = [run for run in runs if run["pool"] == name and run["candidate"] == asdict(one)]
            some = [{key: value for key, value in run.items() if key not in ("pool", "candidate")} for run in some]
            pools[name].append({"candidate": one.words, "median": float(np.median(errors(some))), "runs": some})
    chosen = {name: best(pools[case.pool], case) for name, case in cases_called(only).items()}
    return {"n_runs": n_runs, "seed": seed, "chosen": chosen, "pools": pools}


def errors(runs: list[Task]) -> Float[ndarray, " runs"]:
    """Held-back errors of every seed, over all folds; infinite where a fit or a free run failed."""
    by_run: dict[int, list[float]] = {}
    for run, error in zip(runs, column(runs, "error"), strict=True):
        by_run.setdefault(run["run"], []).append(error)
    return np.array([np.sqrt(np.mean(np.square(some))) for some in by_run.values()])


def best(rows: list[dict[str, Any]], case: Case) -> str:
    """The candidate with the smallest error among those that are small enough for a case."""
    small = []
    for row in rows:
        counts = _counts(row)
        if counts is not None and counts[0] <= case.most_canonical and counts[1] <= case.most_free:
            small.append(row)
    return str(min(small, key=_median)["candidate"])


def _counts(row: dict[str, Any]) -> tuple[int, int] | None:
    """Numbers of the canonical form and those free in the fit; None where every fit failed."""
    return next(((run["n_parameters"], run["n_free"]) for run in row["runs"] if "n_free" in run), None)


def _median(row: dict[str, Any]) -> float:
    return math.inf if row["median"] is None else row["median"]


def table(content: Content) -> str:
    """One table per benchmark, one row per candidate, the best first."""
    blocks = [
        "Free-run errors on the last quarter of the training record: median (best to worst) over "
        f"{pluralised(content['n_runs'], 'seed')} unless said otherwise, seed {content['seed']}. Candidates are fitted "
        "to the first three quarters; with two folds also to the last three, and errors are those over both quarters "
        "that were held back. Parameters are those of the canonical form, and in brackets those that were free in the "
        "fit. *state-* marks a function of the state alone that acts on the state alone; *spline-20* has 20 pieces. "
        "Seconds are of one fit and one thread.",
    ]
    for name, candidates in content["pools"].items():
        about = (POOLS | QUICK_POOLS)[name]
        fewer = [f"first {about.n_samples} samples"] * (about.n_samples is not None)
        fewer += [pluralised(about.most_runs, "seed")] * (about.most_runs < content["n_runs"])
        fewer += ["two folds"] * (about.n_folds > 1)
        rows = []
        for row in sorted(candidates, key=_median):
            counts = _counts(row)
            size = "" if counts is None else f"{counts[0]} ({counts[1]})"
            seconds = float(np.median(column(row["runs"], "seconds")))
            shown = spread_in_words(errors(row["runs"]), about.unit, 4)
            rows.append([row["candidate"], shown, size, f"{seconds:.0f}", ", ".join(_chosen_for(content, name, row))])
        title = f"**{name}**" + (f" ({', '.join(fewer)})" if fewer else "")
        head = ["candidate", "validation error", "parameters", "seconds", "chosen for"]
        blocks += [title, markdown(head, rows)]
    return "\n\n".join(blocks)


def _chosen_for(content: Content, pool: str, row: dict[str, Any]) -> list[str]:
    """The cases of a pool that take this candidate."""
    known = CASES | QUICK
    return [n for n, words in content["chosen"].items() if known[n].pool == pool and words == row["candidate"]]


def figure(content: Content) -> Figure:
    """Held-back errors over the number of parameters, one panel per benchmark; what was chosen is ringed."""
    pools = content["pools"]
    n_rows = math.ceil(len(pools) / 2)
    canvas = new_figure(8.0, 2.8 * n_rows)
    axes = canvas.subplots(n_rows, 2, squeeze=False).ravel()
    for ax, (name, rows) in zip(axes, pools.items(), strict=False):
        for row in rows:
            counts = _counts(row)
            if counts is None or row["median"] is None:
                continue
            ax.plot(counts[0], row["median"], "o", color=COLOURS[0], alpha=0.7)
            if _chosen_for(content, name, row):
                ax.plot(counts[0], row["median"], "o", color=COLOURS[1], markersize=12, fillstyle="none")
        ax.set_yscale("log")
        ax.set_title(name)
        ax.set_xlabel("parameters, canonical")
        ax.set_ylabel(f"validation error, {(POOLS | QUICK_POOLS)[name].unit}")
    for ax in axes[len(pools) :]:
        ax.set_axis_off()
    return canvas


ORDER_CHOICE = Experiment.of(
    globals(),
    "order-choice",
    "The sizes of the models of `benchmarks`, chosen by validation data.",
    options=(Option("n_runs", 3, "Seeds per candidate."), ONLY),
    quick={"n_runs": 1, "only": tuple(QUICK)},
)
