"""Exact recovery: how often VarPro finds the very system that made the data, and what noise does to it.

Every run has new points and, for random systems, a new system. A data set counts as recovered when every e_i on 1000
fresh points is at most 1e-6 percent.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy import ndarray

from decouply import __version__, systems
from decouply._support._time_limit import by_processor_time
from decouply.fit._decouple import decouple
from decouply.model._decoupling import Decoupling
from decouply.model._factor_match import factor_match
from decouply.report._style import COLOURS, house_style, new_figure
from decouply.samples._model_errors import relative_rmse
from decouply.samples._samples import Samples
from decouply.solvers import VarPro
from experiments.harness import run_all, write_experiment

RECOVERED = 1e-6  # percent
N_FRESH = 1000
NOISE = (1e-2, 5e-2, 1e-1)


@dataclass(frozen=True)
class Case:
    """A kind of system, and what we want of it."""

    name: str
    make: Callable[[np.random.Generator], Decoupling]
    n_samples: int
    target: str
    jacobians: bool = True
    share: float = 1.0  # of the data sets that are asked for: large systems take long
    seconds: float = 60.0  # of the processor, at most, for one data set


def _random(dims: tuple[int, ...], degrees: tuple[int, ...]) -> Callable[[np.random.Generator], Decoupling]:
    return lambda rng: systems.random_system(dims, degrees, rng=rng)


def _f1(_: np.random.Generator) -> Decoupling:
    return systems.f1()


def _f2(_: np.random.Generator) -> Decoupling:
    return systems.f2()


def _f3(_: np.random.Generator) -> Decoupling:
    return systems.f3()


_SOME = 1 / 3
CASES = (
    Case("f1", _f1, 30, "all, ≤ 0.06 s"),
    Case("f2", _f2, 30, "all, ≤ 0.06 s"),
    Case("f3", _f3, 30, "all, ≤ 0.06 s"),
    Case("4-3-3-4, degrees 3", _random((4, 3, 3, 4), (3, 3)), 60, "all, ≤ 0.1 s"),
    Case("6-4-4-6, degrees 3", _random((6, 4, 4, 6), (3, 3)), 120, "all, ≤ 0.3 s"),
    Case("8-6-6-8, degrees 3", _random((8, 6, 6, 8), (3, 3)), 450, "all, ≤ 5 s", share=_SOME, seconds=30.0),
    Case(
        "8-6-6-8, degrees 3, few samples", _random((8, 6, 6, 8), (3, 3)), 200, "all, ≤ 15 s", share=_SOME, seconds=30.0
    ),
    Case("20-10-20, degree 3", _random((20, 10, 20), (3,)), 60, "all, ≤ 0.5 s"),
    Case("3-2-2-2-3, degrees 3,2,2", _random((3, 2, 2, 2, 3), (3, 2, 2)), 60, "all, ≤ 0.3 s"),
    Case(
        "5-4-4-4-5, degrees 2", _random((5, 4, 4, 4, 5), (2, 2, 2)), 120, "9 of 10 in 30 s", share=_SOME, seconds=30.0
    ),
    Case("3-2-2-2-2-3, degrees 2", _random((3, 2, 2, 2, 2, 3), (2,) * 4), 100, "28 of 30, ≤ 3 s", seconds=30.0),
    Case("4-3-3-3-3-4, degrees 2", _random((4, 3, 3, 3, 3, 4), (2,) * 4), 200, "5 of 10 in 60 s", share=_SOME),
    Case("3-2-2-2-2-2-3, degrees 2", _random((3, 2, 2, 2, 2, 2, 3), (2,) * 5), 200, "5 of 10 in 60 s", share=_SOME),
    Case("f1, values only", _f1, 30, "all, ≤ 0.5 s", jacobians=False),
    Case("f2, values only", _f2, 30, "all, ≤ 0.5 s", jacobians=False),
    Case("f3, values only", _f3, 200, "all, ≤ 0.5 s", jacobians=False),
    Case("f3, values only, few samples", _f3, 60, "measured", jacobians=False),
)


@dataclass(frozen=True)
class RecoveryTask:
    """One data set of a case, noisy if `level` is above 0."""

    case: str
    level: float
    run: int
    seed: int
    max_seconds: float
    version: str = __version__


@dataclass(frozen=True)
class RecoveryRun:
    """One data set."""

    case: str
    run: int
    worst_error: float  # percent
    mismatch: float  # 1 - factor_match
    seconds: float  # of the processor, on one thread
    n_starts: int
    found_by: str


@dataclass(frozen=True)
class NoiseRun:
    """One noisy data set: error of the recovered function, and of a fit without ridge from the truth, in percent."""

    case: str
    level: float
    run: int
    error: float
    error_from_truth: float
    ridge: float
    seconds: float


@dataclass(frozen=True)
class Recovery:
    """All runs."""

    runs: tuple[RecoveryRun, ...]
    noise: tuple[NoiseRun, ...]
    seed: int

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "seed": self.seed,
            "recovery": [asdict(run) for run in self.runs],
            "noise": [asdict(run) for run in self.noise],
        }


def run_recovery(
    *,
    n_runs: int,
    seed: int,
    n_jobs: int,
    max_seconds: float,
    noise: bool = True,
    store: Path | None = None,
    progress: Callable[..., None] = lambda **_: None,
) -> Recovery:
    """Run all cases; what is found depends on the seed only, as long as no start is cut off by `max_seconds`."""
    tasks = [
        RecoveryTask(case.name, 0.0, run, seed, min(case.seconds, max_seconds))
        for case in CASES
        for run in range(max(1, round(case.share * n_runs)))
    ]
    if noise:
        tasks += [
            RecoveryTask(case.name, level, run, seed, max_seconds)
            for case in CASES[:3]
            for level in NOISE
            for run in range(n_runs)
        ]
    found = run_all(tasks, work, store=store, n_jobs=n_jobs, progress=progress)
    runs = tuple(RecoveryRun(**numbers(found[task])) for task in tasks if not task.level)
    noisy = tuple(NoiseRun(**numbers(found[task])) for task in tasks if task.level)
    return Recovery(runs, noisy, seed)


def numbers(outcome: dict[str, Any]) -> dict[str, Any]:
    """What JSON has no number for was NaN."""
    return {name: float("nan") if value is None else value for name, value in outcome.items()}


def work(task: RecoveryTask) -> dict[str, Any]:
    """One task."""
    index = [case.name for case in CASES].index(task.case)
    if task.level:
        return asdict(run_noise(index, task.level, task.run, task.seed))
    return asdict(run_case(index, task.run, task.seed, task.max_seconds))


def run_case(index: int, run: int, seed: int, max_seconds: float) -> RecoveryRun:
    """One data set of one case."""
    case = CASES[index]
    rng = np.random.default_rng([seed, index, run])
    system = case.make(rng)
    X, fresh = _points(rng, system, case.n_samples), _points(rng, system, N_FRESH)
    samples = Samples(X, F=system(X), J=system.jacobian(X) if case.jacobians else None)
    began = time.process_time()
    with by_processor_time():
        result = decouple(
            samples,
            system.ranks,
            system.degrees,
            solver=VarPro(max_seconds=max_seconds),
            rng=rng,
            progress=False,
        )
    return RecoveryRun(
        case.name,
        run,
        float(np.max(relative_rmse(system(fresh), result.decoupling(fresh)))),
        1.0 - factor_match(system, result.decoupling, fresh),
        time.process_time() - began,
        len(result.starts),
        result.found_by,
    )


def run_noise(index: int, level: float, run: int, seed: int) -> NoiseRun:
    """One noisy data set of one of the paper's systems."""
    case = CASES[index]
    rng = np.random.default_rng([seed, 100 + index, run, round(1e4 * level)])
    system = case.make(rng)
    X, fresh = _points(rng, system, case.n_samples), _points(rng, system, N_FRESH)
    F, J = system(X), system.jacobian(X)
    noisy = Samples(
        X,
        F=F + level * np.sqrt(np.mean(F**2)) * rng.normal(size=F.shape),
        J=J + level * np.sqrt(np.mean(J**2)) * rng.normal(size=J.shape),
    )

    def fit(solver: VarPro, n_starts: int | None) -> tuple[float, float]:
        with by_processor_time():
            result = decouple(
                noisy, system.ranks, system.degrees, solver=solver, n_starts=n_starts, rng=rng, progress=False
            )
        return float(np.max(relative_rmse(system(fresh), result.decoupling(fresh)))), result.ridge

    began = time.process_time()
    error, ridge = fit(VarPro(), None)
    seconds = time.process_time() - began
    from_truth, _ = fit(VarPro(start=system, ridge=0.0), 1)
    return NoiseRun(case.name, level, run, error, from_truth, ridge, seconds)


def _points(rng: np.random.Generator, system: Decoupling, count: int) -> ndarray:
    return rng.uniform(-1.0, 1.0, (count, system.n_inputs))


def recovery_markdown(recovery: Recovery) -> str:
    """Both tables."""
    lines = [
        f"Recovered: every e_i ≤ {RECOVERED:g} % on {N_FRESH} fresh points (seed {recovery.seed}). Times and limits "
        "are those of the processor, on one thread.",
        "",
        "| system | S | recovered | target | median time | longest | largest 1 − match | found by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        runs = [run for run in recovery.runs if run.case == case.name]
        if not runs:
            continue
        good = [run for run in runs if run.worst_error <= RECOVERED]
        mismatch = f"{max(max(run.mismatch, 0.0) for run in good):.0e}" if good else "–"
        times = [run.seconds for run in runs]
        ways = Counter("random starts" if run.found_by.startswith("random") else run.found_by for run in good)
        lines.append(
            f"| {case.name} | {case.n_samples} | **{len(good)} of {len(runs)}** | {case.target} | "
            f"{np.median(times):.2g} s | {max(times):.2g} s | {mismatch} | "
            f"{', '.join(f'{way} {count}' for way, count in ways.most_common())} |"
        )
    if recovery.noise:
        lines += [
            "",
            "Noise on values and Jacobians, relative to their root mean square. Errors are the largest e_i on fresh, "
            "clean points; *from the truth* is a fit without ridge that starts at the true system.",
            "",
            "| system | noise | median error | from the truth | median ratio | above 3 times | median time |",
            "|---|---|---|---|---|---|---|",
        ]
        for name in dict.fromkeys(run.case for run in recovery.noise):
            for level in NOISE:
                some = [run for run in recovery.noise if (run.case, run.level) == (name, level)]
                if not some:
                    continue
                ratios = np.array([run.error / run.error_from_truth for run in some])
                lines.append(
                    f"| {name} | {level:.0e} | {np.median([r.error for r in some]):.2g} % | "
                    f"{np.median([r.error_from_truth for r in some]):.2g} % | {np.median(ratios):.2f} | "
                    f"{np.count_nonzero(ratios > 3)} of {len(ratios)} | {np.median([r.seconds for r in some]):.1f} s |"
                )
    return "\n".join(lines)


def write_recovery(recovery: Recovery, directory: Path) -> None:
    """recovery.json, recovery.md and recovery.png."""
    write_experiment(directory, "recovery", recovery.content(), recovery_markdown(recovery), recovery_figure(recovery))


def recovery_figure(recovery: Recovery) -> Figure:
    """The worst e_i of every data set, case by case, and below it what noise does."""
    with house_style():
        figure = new_figure(8.0, 8.0 if recovery.noise else 5.0)
        axes = figure.subplots(2 if recovery.noise else 1, 1, squeeze=False)[:, 0]
        for position, case in enumerate(CASES):
            errors = np.array([run.worst_error for run in recovery.runs if run.case == case.name])
            offsets = np.linspace(-0.3, 0.3, len(errors))
            axes[0].plot(
                errors.clip(1e-14), position + offsets, ".", color=COLOURS[position % len(COLOURS)], markersize=5
            )
        axes[0].axvline(RECOVERED, color="black", linestyle=(0, (3, 2)), linewidth=1)
        axes[0].set_yticks(range(len(CASES)), [case.name for case in CASES], fontsize=8)
        axes[0].invert_yaxis()
        axes[0].set_xscale("log")
        axes[0].set_xlabel("largest $e_i$ in % on fresh points; left of the dashes: recovered")
        if recovery.noise:
            for i, name in enumerate(dict.fromkeys(run.case for run in recovery.noise)):
                some = [run for run in recovery.noise if run.case == name]
                x, y = [run.error_from_truth for run in some], [run.error for run in some]
                axes[1].plot(x, y, ".", color=COLOURS[i], label=name, markersize=5)
            axes[1].set_xscale("log")
            axes[1].set_yscale("log")
            line = np.array(axes[1].get_xlim())
            axes[1].plot(line, 3 * line, color="black", linestyle=(0, (3, 2)), linewidth=1, label="3 times")
            axes[1].set_xlim(*line)
            axes[1].set_xlabel("error of a fit started at the truth, %")
            axes[1].set_ylabel("error of VarPro, %")
            axes[1].legend(frameon=False)
    return figure
