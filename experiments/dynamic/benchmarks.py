"""Decoupled state space on the benchmarks of nonlinear system identification, several seeds each.

Official splits; the start of a fit is chosen on the last quarter of the training record, and nothing of a test record
but its first outputs, from which the initial state is found, enters a model. The sizes of the models were chosen by
training data alone, with other seeds (`_choice.py`).
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
from decouply.report._style import COLOURS, house_style, new_figure
from experiments.dynamic.model_pool import POOLS, QUICK_POOLS, Candidate, Pool
from experiments.harness import run_all, write_experiment

N_RUNS = 5
_SILVERBOX = (0.225, 0.29, 0.217)


@dataclass(frozen=True)
class Case:
    """One class of models of one benchmark, and the one of its candidates that held-back training data chose.

    Attributes
    ----------
    pool
        The benchmark and its candidates, by name.
    candidate
        What `python -m experiments benchmarks --choose` chose among those that are small enough.
    targets
        Errors to reach, one per test.
    most_free, most_canonical
        How many numbers may be free in the fit, and how many the canonical form may have.
    """

    pool: str
    candidate: Candidate
    targets: tuple[float, ...]
    most_free: float = math.inf
    most_canonical: float = math.inf

    @property
    def about(self) -> Pool:
        """The records, and the unit of errors."""
        return (POOLS | QUICK_POOLS)[self.pool]


CASES: dict[str, Case] = {
    "Silverbox, at most 24 free": Case(
        "Silverbox, causal", Candidate(2, "quintic, state-tanh"), _SILVERBOX, most_free=24
    ),
    "Silverbox, at most 33": Case(
        "Silverbox, causal", Candidate(4, "quintic, state-tanh"), (0.21, 0.3, 0.208), most_canonical=33
    ),
    "Silverbox, oversampled": Case(
        "Silverbox, oversampled", Candidate(2, "cubic, state-tanh, state-tanh", oversample=2), (0.215, 0.27, 0.21)
    ),
    "Cascaded tanks": Case("Cascaded tanks", Candidate(2, "tanh, tanh", feedthrough=False, n_starts=30), (0.26,)),
    "Wiener-Hammerstein": Case(
        "Wiener-Hammerstein", Candidate(6, "spline-20", feedback=False, n_starts=3, max_steps=400), (0.26,)
    ),
    "Wiener-Hammerstein, oversampled": Case(
        "Wiener-Hammerstein, oversampled",
        Candidate(6, "spline-20", oversample=2, feedback=False, n_starts=3, max_steps=400),
        (0.26,),
    ),
    "EMPS": Case(
        "EMPS",
        Candidate(2, "tanh, state-tanh", feedthrough=False, integrating=True, n_starts=3),
        (3.0,),
    ),
}
QUICK: dict[str, Case] = {"Oscillator": Case("Oscillator", Candidate(2, "cubic", n_starts=1), (0.0015,))}


@dataclass(frozen=True)
class BenchmarkTask:
    """One fit."""

    case: str
    candidate: Candidate
    run: int
    seed: int
    version: str = __version__


@dataclass(frozen=True)
class Benchmarks:
    """All fits: errors on the tests, counts of parameters, seconds."""

    cases: dict[str, Case]
    n_runs: int
    seed: int
    runs: dict[str, list[dict[str, Any]]]

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {"n_runs": self.n_runs, "seed": self.seed, "cases": [self._case(name) for name in self.cases]}

    def errors(self, name: str, what: str = "errors") -> np.ndarray:
        """Runs by tests, infinite where a fit or a free run failed."""
        rows = [[math.inf if e is None else e for e in run[what]] for run in self.runs[name]]
        return np.array(rows, dtype=float)

    def _case(self, name: str) -> dict[str, Any]:
        case, errors = self.cases[name], self.errors(name)
        median = np.median(errors, axis=0)
        return {
            "name": name,
            "model": case.candidate.words,
            "unit": case.about.unit,
            "targets": case.targets,
            "median": median.tolist(),
            "best": errors.min(axis=0).tolist(),
            "worst": errors.max(axis=0).tolist(),
            "reached": [bool(m <= t) for m, t in zip(median, case.targets, strict=True)],
            "runs": self.runs[name],
        }


def run_benchmarks(
    *,
    n_runs: int,
    seed: int,
    n_jobs: int,
    cases: dict[str, Case] | None = None,
    store: Path | None = None,
    progress: Callable[..., None] = lambda **_: None,
) -> Benchmarks:
    """Run everything that `store` does not have yet."""
    chosen = CASES if cases is None else cases
    tasks = [BenchmarkTask(name, case.candidate, run, seed) for name, case in chosen.items() for run in range(n_runs)]
    found = run_all(tasks, work, store=store, n_jobs=n_jobs, progress=progress)
    runs = {
        name: [found[BenchmarkTask(name, case.candidate, run, seed)] for run in range(n_runs)]
        for name, case in chosen.items()
    }
    return Benchmarks(chosen, n_runs, seed, runs)


def work(task: BenchmarkTask) -> dict[str, Any]:
    """One fit and its errors; infinite where there is no model or its free run escapes."""
    case = (CASES | QUICK)[task.case]
    train, tests = case.about.records()
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DecouplingWarning)  # escapes are counted below
        try:
            model = case.candidate.fitted(train, np.random.default_rng([task.seed, task.run]))
        except SolverError:
            return {"errors": [math.inf] * len(tests), "training": math.inf, "seconds": time.process_time() - began}
        seconds = time.process_time() - began
        errors = [case.about.scale * test.rmse(model.simulate(test.u, test.y_init)) for test in tests]
    return {
        "errors": errors,
        "training": case.about.scale * float(model.fitted.rmse[0]),
        "linear": case.about.scale * float(model.fitted.linear_rmse[0]),
        "n_free": model.n_parameters,
        "n_parameters": model.n_canonical,
        "start": next(row.start for row in model.starts if row.chosen),
        "seconds": seconds,
    }


# What a person sees


def benchmarks_markdown(found: Benchmarks) -> str:
    """One row per model and test."""
    lines = [
        f"Free-run errors on the tests: median (best to worst) over {pluralised(found.n_runs, 'seed')}, seed "
        f"{found.seed}. ✓ marks a target that the median reaches, ✗ one that it misses. *Training* and *linear* are "
        "the errors of the model and of the linear model with as many states on the training record. Parameters are "
        "those of the canonical form, and in brackets those that were free in the fit. Seconds are of one thread.",
        "",
        "| model | test | error | target | training | linear | parameters | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, case in found.cases.items():
        errors, runs = found.errors(name), found.runs[name]
        whole = [run for run in runs if "n_free" in run]
        about = " | | | |"
        if whole:
            training, linear, seconds = (
                np.median([run[key] for run in whole]) for key in ("training", "linear", "seconds")
            )
            counts = f"{whole[0]['n_parameters']} ({whole[0]['n_free']})"
            about = f" {training:.3g} | {linear:.3g} | {counts} | {seconds:.0f} |"
        for i, (test, target) in enumerate(zip(case.about.records()[1], case.targets, strict=True)):
            median = float(np.median(errors[:, i]))
            shown = spread_in_words(errors[:, i], case.about.unit, 3)
            mark = "✓" if median <= target else "✗"
            first, last = (f"{name} ({case.candidate.words})", about) if i == 0 else ("", " | | | |")
            record = test.name.removeprefix(f"{name.split(',')[0]}, ")
            lines.append(f"| {first} | {record} | {shown}\N{NO-BREAK SPACE}{mark} | {target:g} |{last}")
    return "\n".join(lines)


def spread_in_words(errors: Float[ndarray, " runs"], unit: str, digits: int) -> str:
    """Median (best to worst), with a word for runs that diverged."""
    numbers = (float(np.median(errors)), float(errors.min()), float(errors.max()))
    median, best, worst = (f"{x:.{digits}g}" if math.isfinite(x) else "diverged" for x in numbers)
    span = f"({best} to {worst}) {unit}".replace(" ", "\N{NO-BREAK SPACE}")
    return f"**{median}** {span}"


def write_benchmarks(found: Benchmarks, directory: Path) -> None:
    """benchmarks.json, benchmarks.md and benchmarks.png."""
    write_experiment(directory, "benchmarks", found.content(), benchmarks_markdown(found), benchmarks_figure(found))


def benchmarks_figure(found: Benchmarks) -> Figure:
    """Errors of all runs as a share of their targets: below the line they reach them."""
    labels: list[str] = []
    with house_style():
        canvas = new_figure(7.0, 0.45 * sum(len(c.targets) for c in found.cases.values()) + 1.2)
        ax = canvas.subplots()
        for k, (name, case) in enumerate(found.cases.items()):
            errors = found.errors(name)
            for i, target in enumerate(case.targets):
                at = np.full(len(errors), len(labels))
                share = errors[:, i] / target
                ax.plot(
                    share[np.isfinite(share)], at[np.isfinite(share)], "o", color=COLOURS[k % len(COLOURS)], alpha=0.6
                )
                labels.append(name + (f", test {i + 1}" if len(case.targets) > 1 else ""))
        ax.axvline(1.0, color="#C00000", linewidth=1.0)
        ax.set_yticks(range(len(labels)), labels)
        ax.invert_yaxis()
        ax.set_xlabel("error as a share of its target, one dot per seed")
    return canvas
