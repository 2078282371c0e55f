"""Exact recovery: how often VarPro finds the very system that made the data, and what noise does to it.

Every run has new points and, for random systems, a new system. A data set counts as recovered when every e_i on 1000
fresh points is at most 1e-6 percent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy import ndarray

from .. import __version__, systems
from ..fit._decouple import decouple
from ..model._decoupling import Decoupling
from ..model._factor_match import factor_match
from ..report._style import COLOURS, house_style, new_figure
from ..samples._metrics import relative_rmse
from ..samples._samples import Samples
from ..solvers import Constr, TwoStage, VarPro
from ._runs import run_all
from ._writing import write_experiment

RECOVERED = 1e-6  # percent
N_FRESH = 1000
NOISE = (1e-6, 1e-4, 1e-2)


@dataclass(frozen=True)
class Case:
    """A kind of system with the share of data sets that should be recovered."""

    name: str
    make: Callable[[np.random.Generator], Decoupling]
    n_samples: int
    target: str
    jacobians: bool = True
    n_starts: int | None = None
    timed: bool = False  # against one run of TwoStage(Constr()) on the same data


def _random(dims: tuple[int, ...], degrees: tuple[int, ...]) -> Callable[[np.random.Generator], Decoupling]:
    return lambda rng: systems.random_system(dims, degrees, rng=rng)


CASES = (
    Case("f1", lambda _: systems.f1(), 30, "30 of 30", timed=True),
    Case("f2", lambda _: systems.f2(), 30, "30 of 30", timed=True),
    Case("f3", lambda _: systems.f3(), 30, "30 of 30", timed=True),
    Case("two-layer 4-3-3-4, degrees 3,3", _random((4, 3, 3, 4), (3, 3)), 60, "29 of 30"),
    Case("three-layer 3-2-2-2-3, degrees 3,2,2", _random((3, 2, 2, 2, 3), (3, 2, 2)), 60, "28 of 30"),
    Case("four-layer 3-2-2-2-2-3, degrees 2,2,2,2", _random((3, 2, 2, 2, 2, 3), (2, 2, 2, 2)), 100, "aim: 20 of 30"),
    Case("single-layer 5-4-5, degree 3, one start", _random((5, 4, 5), (3,)), 60, "30 of 30", n_starts=1),
    Case("f2 from values only", lambda _: systems.f2(), 200, "25 of 30", jacobians=False),
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
    seconds: float
    reference_seconds: float  # of TwoStage(Constr()), NaN where not measured
    n_starts: int
    steps: int


@dataclass(frozen=True)
class NoiseRun:
    """One noisy data set: error of the recovered function, and of a fit that starts at the truth, in percent."""

    case: str
    level: float
    run: int
    error: float
    error_from_truth: float


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
    tasks = [RecoveryTask(case.name, 0.0, run, seed, max_seconds) for case in CASES for run in range(n_runs)]
    if noise:
        tasks += [
            RecoveryTask(case.name, level, run, seed, max_seconds)
            for case in CASES[:3]
            for level in NOISE
            for run in range(n_runs)
        ]
    found = run_all(tasks, work, store=store, n_jobs=n_jobs, progress=progress)
    runs = tuple(RecoveryRun(**_numbers(found[task])) for task in tasks if not task.level)
    noisy = tuple(NoiseRun(**_numbers(found[task])) for task in tasks if task.level)
    return Recovery(runs, noisy, seed)


def _numbers(outcome: dict[str, Any]) -> dict[str, Any]:
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
    began = time.perf_counter()
    result = decouple(
        samples,
        system.ranks,
        system.degrees,
        solver=VarPro(max_seconds=max_seconds),
        n_starts=case.n_starts,
        rng=rng,
        progress=False,
    )
    seconds, reference = time.perf_counter() - began, float("nan")
    if case.timed:
        validation = Samples(fresh[: case.n_samples], F=system(fresh[: case.n_samples]))
        began = time.perf_counter()
        decouple(
            samples,
            system.ranks,
            system.degrees,
            solver=TwoStage(Constr()),
            validation=validation,
            rng=rng,
            progress=False,
        )
        reference = time.perf_counter() - began
    return RecoveryRun(
        case.name,
        run,
        float(np.max(relative_rmse(system(fresh), result.decoupling(fresh)))),
        1.0 - factor_match(system, result.decoupling, fresh),
        seconds,
        reference,
        len(result.starts),
        len(result.history),
    )


def run_noise(index: int, level: float, run: int, seed: int) -> NoiseRun:
    """One noisy data set of one of the paper's systems."""
    case = CASES[index]
    rng = np.random.default_rng([seed, 100 + index, run, round(-np.log10(level))])
    system = case.make(rng)
    X, fresh = _points(rng, system, case.n_samples), _points(rng, system, N_FRESH)
    F, J = system(X), system.jacobian(X)
    noisy = Samples(
        X,
        F=F + level * np.sqrt(np.mean(F**2)) * rng.normal(size=F.shape),
        J=J + level * np.sqrt(np.mean(J**2)) * rng.normal(size=J.shape),
    )

    def error(solver: VarPro, n_starts: int | None) -> float:
        result = decouple(
            noisy, system.ranks, system.degrees, solver=solver, n_starts=n_starts, rng=rng, progress=False
        )
        return float(np.max(relative_rmse(system(fresh), result.decoupling(fresh))))

    return NoiseRun(case.name, level, run, error(VarPro(), None), error(VarPro(start=system), 1))


def _points(rng: np.random.Generator, system: Decoupling, count: int) -> ndarray:
    return rng.uniform(-1.0, 1.0, (count, system.n_inputs))


def recovery_markdown(recovery: Recovery) -> str:
    """Both tables."""
    lines = [
        f"Recovered: every e_i ≤ {RECOVERED:g} % on {N_FRESH} fresh points (seed {recovery.seed}). Time against one "
        "run of `TwoStage(Constr())` on the same data.",
        "",
        "| system | S | recovered | target | largest 1 − match | median time | ratio (target ≤ 5) | starts | steps |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        runs = [run for run in recovery.runs if run.case == case.name]
        good = [run for run in runs if run.worst_error <= RECOVERED]
        mismatch = f"{max(max(run.mismatch, 0.0) for run in good):.0e}" if good else "–"
        ratio = f"{np.median([run.seconds / run.reference_seconds for run in runs]):.2f}" if case.timed else ""
        starts = [run.n_starts for run in runs]
        lines.append(
            f"| {case.name} | {case.n_samples} | **{len(good)} of {len(runs)}** | {case.target} | {mismatch} | "
            f"{np.median([run.seconds for run in runs]):.2f} s | {ratio} | median {np.median(starts):.0f}, at most "
            f"{max(starts)} | {np.median([run.steps for run in runs]):.0f} |"
        )
    if recovery.noise:
        lines += [
            "",
            "Noise on values and Jacobians, relative to their root mean square. Errors are the largest e_i on fresh, "
            "clean points; *from the truth* is a fit that starts at the true system.",
            "",
            "| system | noise | median error | median error from the truth | median ratio | ratio ≤ 3 |",
            "|---|---|---|---|---|---|",
        ]
        for name in dict.fromkeys(run.case for run in recovery.noise):
            for level in NOISE:
                some = [run for run in recovery.noise if (run.case, run.level) == (name, level)]
                ratios = np.array([run.error / run.error_from_truth for run in some])
                lines.append(
                    f"| {name} | {level:.0e} | {np.median([r.error for r in some]):.2g} % | "
                    f"{np.median([r.error_from_truth for r in some]):.2g} % | {np.median(ratios):.2f} | "
                    f"{np.count_nonzero(ratios <= 3)} of {len(ratios)} |"
                )
    return "\n".join(lines)


def write_recovery(recovery: Recovery, directory: Path) -> None:
    """recovery.json, recovery.md and recovery.png."""
    write_experiment(directory, "recovery", recovery.content(), recovery_markdown(recovery), recovery_figure(recovery))


def recovery_figure(recovery: Recovery) -> Figure:
    """The worst e_i of every data set, case by case, and below it what noise does."""
    with house_style():
        figure = new_figure(8.0, 6.0 if recovery.noise else 3.4)
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
            low, high = axes[1].get_xlim()
            line = np.array([max(low, 1e-7), high])
            axes[1].plot(line, 3 * line, color="black", linestyle=(0, (3, 2)), linewidth=1, label="3 times")
            axes[1].set_xscale("log")
            axes[1].set_yscale("log")
            axes[1].set_xlabel("error of a fit started at the truth, %")
            axes[1].set_ylabel("error of VarPro, %")
            axes[1].legend(frameon=False)
    return figure
