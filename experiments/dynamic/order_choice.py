"""Sizes of dynamic models, chosen by training data alone.

Every candidate is fitted to the first three quarters of a training record, of which it holds back a part of its own to
choose among its starts, and is scored in free run on the last quarter; its initial state comes from the first outputs
there. Short records have a second fold: fitted to the last three quarters, scored on the first. The smallest median
over the seeds is chosen. Of a test record, the number of its first outputs is used alone.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray

from decouply import __version__
from decouply._support._errors import DecouplingWarning, SolverError
from decouply._support._messages import pluralised
from decouply.data import Record
from decouply.report._style import COLOURS, house_style, new_figure
from experiments.dynamic.benchmarks import CASES, Case, spread_in_words
from experiments.dynamic.model_pool import POOLS, QUICK_POOLS, Candidate, Pool
from experiments.harness import run_all, write_experiment

N_CHOICE_RUNS = 3
_HELD_BACK = 0.25


@dataclass(frozen=True)
class ChoiceTask:
    """One fit of one candidate."""

    pool: str
    candidate: Candidate
    run: int
    fold: int
    seed: int
    version: str = __version__


@dataclass(frozen=True)
class Choice:
    """Held-back errors of all candidates, and what they choose for every case."""

    cases: dict[str, Case]
    n_runs: int
    seed: int
    runs: dict[str, dict[Candidate, list[dict[str, Any]]]]

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "n_runs": self.n_runs,
            "seed": self.seed,
            "chosen": {name: self.chosen(name).words for name in self.cases},
            "pools": {
                pool: [
                    {"candidate": c.words, "median": self.median(pool, c), "runs": runs} for c, runs in found.items()
                ]
                for pool, found in self.runs.items()
            },
        }

    def errors(self, pool: str, candidate: Candidate) -> Float[ndarray, " runs"]:
        """Held-back errors of every seed, over all folds; infinite where a fit or a free run failed."""
        by_run: dict[int, list[float]] = {}
        for run in self.runs[pool][candidate]:
            by_run.setdefault(run["run"], []).append(math.inf if run["error"] is None else run["error"])
        return np.array([np.sqrt(np.mean(np.square(some))) for some in by_run.values()])

    def median(self, pool: str, candidate: Candidate) -> float:
        """The error that candidates are compared by."""
        return float(np.median(self.errors(pool, candidate)))

    def counts(self, pool: str, candidate: Candidate) -> tuple[int, int] | None:
        """Numbers of the canonical form and those free in the fit; None where every fit failed."""
        return next(((r["n_parameters"], r["n_free"]) for r in self.runs[pool][candidate] if "n_free" in r), None)

    def chosen(self, name: str) -> Candidate:
        """The candidate of a case with the smallest error among those that are small enough."""
        case = self.cases[name]
        small = [c for c in self.runs[case.pool] if self._fits(case, c)]
        return min(small, key=lambda c: self.median(case.pool, c))

    def _fits(self, case: Case, candidate: Candidate) -> bool:
        counts = self.counts(case.pool, candidate)
        return counts is not None and counts[0] <= case.most_canonical and counts[1] <= case.most_free


def run_choice(
    *,
    n_runs: int,
    seed: int,
    n_jobs: int,
    cases: dict[str, Case] | None = None,
    store: Path | None = None,
    progress: Callable[..., None] = lambda **_: None,
) -> Choice:
    """Run everything that `store` does not have yet."""
    wanted = CASES if cases is None else cases
    pools = {case.pool: _pool(case.pool) for case in wanted.values()}
    tasks = {name: {c: _tasks(name, c, n_runs, seed) for c in pool.candidates} for name, pool in pools.items()}
    every = [task for by_candidate in tasks.values() for some in by_candidate.values() for task in some]
    found = run_all(every, work, store=store, n_jobs=n_jobs, progress=progress)
    runs = {
        name: {c: [{"run": t.run, "fold": t.fold} | found[t] for t in some] for c, some in by_candidate.items()}
        for name, by_candidate in tasks.items()
    }
    return Choice(wanted, n_runs, seed, runs)


def _tasks(name: str, candidate: Candidate, n_runs: int, seed: int) -> list[ChoiceTask]:
    pool = _pool(name)
    runs = range(min(n_runs, pool.most_runs))
    return [ChoiceTask(name, candidate, run, fold, seed) for run in runs for fold in range(pool.n_folds)]


def _pool(name: str) -> Pool:
    return (POOLS | QUICK_POOLS)[name]


def work(task: ChoiceTask) -> dict[str, Any]:
    """One fit and its error on held-back data, infinite where there is no model or its free run escapes."""
    pool = _pool(task.pool)
    train, held = parts(pool, task.fold)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DecouplingWarning)  # escapes are counted below
        try:
            model = task.candidate.fitted(train, np.random.default_rng([task.seed, task.run]))
        except SolverError:
            return {"error": math.inf, "seconds": time.process_time() - began}
        seconds = time.process_time() - began
        error = pool.scale * held.rmse(model.simulate(held.u, held.y_init))
    return {"error": error, "n_parameters": model.n_canonical, "n_free": model.n_parameters, "seconds": seconds}


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


# What a person sees


def choice_markdown(found: Choice) -> str:
    """One table per benchmark, one row per candidate, the best first."""
    lines = [
        "Free-run errors on the last quarter of the training record: median (best to worst) over "
        f"{pluralised(found.n_runs, 'seed')} unless said otherwise, seed {found.seed}. Candidates are fitted to the "
        "first "
        "three quarters; with two folds also to the last three, and errors are those over both quarters that were held "
        "back. Parameters are those of the canonical form, and in brackets those that were free in the fit. *state-* "
        "marks a function of the state alone that acts on the state alone; *spline-20* has 20 pieces. Seconds are of "
        "one fit and one thread.",
    ]
    for pool, runs in found.runs.items():
        about, cases = _pool(pool), {name: case for name, case in found.cases.items() if case.pool == pool}
        fewer = [f"first {about.n_samples} samples"] * (about.n_samples is not None)
        fewer += [pluralised(about.most_runs, "seed")] * (about.most_runs < found.n_runs)
        fewer += ["two folds"] * (about.n_folds > 1)
        begun = f" ({', '.join(fewer)})" if fewer else ""
        lines += [
            "",
            f"**{pool}**{begun}",
            "",
            "| candidate | held-back error | parameters | seconds | chosen for |",
            "|---|---|---|---|---|",
        ]
        for candidate in sorted(runs, key=lambda c: found.median(pool, c)):
            errors = found.errors(pool, candidate)
            shown = spread_in_words(errors, about.unit, 4)
            counts = found.counts(pool, candidate)
            size = "" if counts is None else f"{counts[0]} ({counts[1]})"
            seconds = float(np.median([run["seconds"] for run in runs[candidate]]))
            by = ", ".join(name for name in cases if found.chosen(name) == candidate)
            lines.append(f"| {candidate.words} | {shown} | {size} | {seconds:.0f} | {by} |")
    return "\n".join(lines)


def write_choice(found: Choice, directory: Path) -> None:
    """choice.json, choice.md and choice.png."""
    write_experiment(directory, "choice", found.content(), choice_markdown(found), choice_figure(found))


def choice_figure(found: Choice) -> Figure:
    """Held-back errors over the number of parameters, one panel per benchmark; what was chosen is ringed."""
    n_rows = math.ceil(len(found.runs) / 2)
    with house_style():
        canvas = new_figure(8.0, 2.8 * n_rows)
        axes = canvas.subplots(n_rows, 2, squeeze=False).ravel()
        for ax, (pool, runs) in zip(axes, found.runs.items(), strict=False):
            chosen = [found.chosen(name) for name, case in found.cases.items() if case.pool == pool]
            for candidate in runs:
                counts, error = found.counts(pool, candidate), found.median(pool, candidate)
                if counts is None or not math.isfinite(error):
                    continue
                ax.plot(counts[0], error, "o", color=COLOURS[0], alpha=0.7)
                if candidate in chosen:
                    ax.plot(counts[0], error, "o", color=COLOURS[1], markersize=12, fillstyle="none")
            ax.set_yscale("log")
            ax.set_title(pool)
            ax.set_xlabel("parameters, canonical")
            ax.set_ylabel(f"held-back error, {_pool(pool).unit}")
        for ax in axes[len(found.runs) :]:
            ax.set_axis_off()
    return canvas
