"""Decoupled state space on the benchmarks of nonlinear system identification, several seeds each.

Official splits; the start of a fit is chosen on the last quarter of the training record, and nothing of a test record
but its first outputs, from which the initial state is found, enters a model. The sizes of the models were chosen with
other seeds.
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
from matplotlib.figure import Figure

from .. import __version__
from .._support._errors import DecouplingWarning, SolverError
from ..bases import Monomial, Spline, Tanh
from ..data import Record, cascaded_tanks, emps, silverbox, wiener_hammerstein
from ..report._style import COLOURS, house_style, new_figure
from ..sysid import DecoupledStateSpace, StateFunction
from ._runs import run_all
from ._writing import write_experiment

N_RUNS = 5
_TANH = StateFunction(Tanh())


def _oscillator(n: int, seed: int) -> Record:
    """A cubic oscillator of our own, simulated: a benchmark that needs no files."""
    u = np.random.default_rng(seed).uniform(-1.0, 1.0, n)
    y = np.zeros(n)
    for t in range(2, n):
        y[t] = 1.2 * y[t - 1] - 0.5 * y[t - 2] + 0.3 * u[t - 1] - 0.1 * y[t - 1] ** 3
    noise = 1e-3 * np.random.default_rng(seed + 1).standard_normal(n)
    return Record("Oscillator", u, y + noise, 1.0, 50)


def _pair(benchmark: Any) -> tuple[Record, tuple[Record, ...]]:
    return benchmark.train, (benchmark.test,)


def _of_silverbox() -> tuple[Record, tuple[Record, ...]]:
    data = silverbox()
    return data.train, data.tests


@dataclass(frozen=True)
class Case:
    """One model of one benchmark.

    Attributes
    ----------
    records
        The training record and the tests.
    model, fit
        Options of `DecoupledStateSpace` and of its `fit`.
    unit, scale
        What errors are shown in.
    targets
        Errors to reach, one per test.
    """

    records: Callable[[], tuple[Record, tuple[Record, ...]]]
    model: dict[str, Any]
    fit: dict[str, Any]
    unit: str
    scale: float
    targets: tuple[float, ...]


_SILVERBOX = (0.225, 0.29, 0.217)
CASES: dict[str, Case] = {
    "Silverbox, 2 functions": Case(
        _of_silverbox, {"n_states": 2, "functions": [Monomial(5), _TANH]}, {}, "mV", 1e3, _SILVERBOX
    ),
    "Silverbox, 3 functions": Case(
        _of_silverbox, {"n_states": 2, "functions": [Monomial(3), _TANH, _TANH]}, {}, "mV", 1e3, _SILVERBOX
    ),
    "Silverbox, 4 states": Case(
        _of_silverbox, {"n_states": 4, "functions": [Monomial(3), _TANH]}, {}, "mV", 1e3, (0.21, 0.3, 0.208)
    ),
    "Silverbox, oversampled": Case(
        _of_silverbox,
        {"n_states": 2, "functions": [Monomial(3), _TANH], "oversample": 2},
        {},
        "mV",
        1e3,
        (0.215, 0.27, 0.21),
    ),
    "Cascaded tanks": Case(
        lambda: _pair(cascaded_tanks()),
        {"n_states": 2, "functions": [Tanh(), Tanh()], "feedthrough": False},
        {"n_starts": 30},
        "V",
        1.0,
        (0.26,),
    ),
    "Wiener-Hammerstein": Case(
        lambda: _pair(wiener_hammerstein()),
        {"n_states": 6, "functions": [Spline(20)], "feedback": False, "oversample": 2},
        {"n_starts": 3, "max_steps": 400},
        "mV",
        1e3,
        (0.26,),
    ),
    "EMPS": Case(
        lambda: _pair(emps()),
        {"n_states": 2, "functions": [_TANH, _TANH], "feedthrough": False, "integrating": True},
        {"n_starts": 3},
        "mm",
        1e3,
        (3.0,),
    ),
}
QUICK: dict[str, Case] = {
    "Oscillator": Case(
        lambda: (_oscillator(800, 0), (_oscillator(300, 7),)),
        {"n_states": 2, "functions": [Monomial(3)]},
        {"n_starts": 1},
        "1",
        1.0,
        (0.0015,),
    )
}


@dataclass(frozen=True)
class BenchmarkTask:
    """One fit."""

    case: str
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
            "unit": case.unit,
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
    tasks = [BenchmarkTask(name, run, seed) for name in chosen for run in range(n_runs)]
    found = run_all(tasks, work, store=store, n_jobs=n_jobs, progress=progress)
    runs = {name: [found[BenchmarkTask(name, run, seed)] for run in range(n_runs)] for name in chosen}
    return Benchmarks(chosen, n_runs, seed, runs)


def work(task: BenchmarkTask) -> dict[str, Any]:
    """One fit and its errors; infinite where there is no model or its free run escapes."""
    case = (CASES | QUICK)[task.case]
    train, tests = case.records()
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DecouplingWarning)  # escapes are counted below
        try:
            model = DecoupledStateSpace(**case.model).fit(
                *train, rng=np.random.default_rng([task.seed, task.run]), progress=False, **case.fit
            )
        except SolverError:
            return {"errors": [math.inf] * len(tests), "training": math.inf, "seconds": time.process_time() - began}
        seconds = time.process_time() - began
        errors = [case.scale * test.rmse(model.simulate(test.u, test.y_init)) for test in tests]
    return {
        "errors": errors,
        "training": case.scale * float(model.fitted.rmse[0]),
        "linear": case.scale * float(model.fitted.linear_rmse[0]),
        "n_free": model.n_parameters,
        "n_parameters": model.n_canonical,
        "start": next(row.start for row in model.starts if row.chosen),
        "seconds": seconds,
    }


# What a person sees


def benchmarks_markdown(found: Benchmarks) -> str:
    """One row per model and test."""
    lines = [
        f"Free-run errors on the tests: median (best to worst) over {found.n_runs} seeds, seed {found.seed}. ✓ marks a "
        "target that the median reaches, ✗ one that it misses. *Training* and *linear* are the errors of the model and "
        "of the linear model with as many states on the training record. Parameters are those of the canonical form, "
        "and in brackets those that were free in the fit. Seconds are of one thread.",
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
        for i, (test, target) in enumerate(zip(case.records()[1], case.targets, strict=True)):
            median = float(np.median(errors[:, i]))
            shown = f"{_shown(median)} ({_shown(errors[:, i].min())} to {_shown(errors[:, i].max())}) {case.unit}"
            mark = "✓" if median <= target else "✗"
            first, last = (name, about) if i == 0 else ("", " | | | |")
            lines.append(f"| {first} | {test.name} | **{shown}** {mark} | {target:g} |{last}")
    return "\n".join(lines)


def _shown(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "diverged"


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
