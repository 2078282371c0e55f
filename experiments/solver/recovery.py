"""Exact recovery: how often VarPro finds the very system that made the data, and what noise does to it.

Every run has new points and, for random systems, a new system. A data set counts as recovered when every e_i on 1000
fresh points is at most 1e-6 percent. What is found depends on the seed alone, as long as no start is cut off by the
limit of time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy import ndarray

from decouply import systems
from decouply._support._time_limit import by_processor_time
from decouply.fit._decouple import decouple
from decouply.fit._result import Result
from decouply.model._decoupling import Decoupling
from decouply.model._factor_match import factor_match
from decouply.report._style import COLOURS, new_figure
from decouply.samples._model_errors import relative_rmse
from decouply.samples._samples import Samples
from decouply.solvers import VarPro
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown, matching

RECOVERED = 1e-6  # percent
N_FRESH = 1000
NOISE = (1e-2, 5e-2, 1e-1)


@dataclass(frozen=True)
class Case:
    """A kind of system."""

    name: str
    make: Callable[[np.random.Generator], Decoupling]
    n_samples: int
    jacobians: bool = True
    share: float = 1.0  # of the data sets that are asked for: large systems take long
    seconds: float = 60.0  # of the processor, at most, for one data set
    unequal: bool = False  # a random system whose layers have different widths


def _random(dims: tuple[int, ...], degrees: tuple[int, ...]) -> Callable[[np.random.Generator], Decoupling]:
    return lambda rng: systems.random_system(dims, degrees, rng=rng)


def _unequal(name: str, degrees: tuple[int, ...]) -> Case:
    dims = tuple(int(width) for width in name.split(",")[0].split("-"))
    return Case(name, _random(dims, degrees), 100, share=_SOME, seconds=20.0, unequal=True)


_SOME = 1 / 3
CASES = (
    Case("f1", lambda _: systems.f1(), 30),
    Case("f2", lambda _: systems.f2(), 30),
    Case("f3", lambda _: systems.f3(), 30),
    Case("4-3-3-4, degrees 3", _random((4, 3, 3, 4), (3, 3)), 60),
    Case("6-4-4-6, degrees 3", _random((6, 4, 4, 6), (3, 3)), 120),
    Case("8-6-6-8, degrees 3", _random((8, 6, 6, 8), (3, 3)), 450, share=_SOME, seconds=30.0),
    Case("8-6-6-8, degrees 3, few samples", _random((8, 6, 6, 8), (3, 3)), 200, share=_SOME, seconds=30.0),
    Case("20-10-20, degree 3", _random((20, 10, 20), (3,)), 60),
    Case("3-2-2-2-3, degrees 3,2,2", _random((3, 2, 2, 2, 3), (3, 2, 2)), 60),
    Case("5-4-4-4-5, degrees 2", _random((5, 4, 4, 4, 5), (2, 2, 2)), 120, share=_SOME, seconds=30.0),
    Case("3-2-2-2-2-3, degrees 2", _random((3, 2, 2, 2, 2, 3), (2,) * 4), 100, seconds=30.0),
    Case("4-3-3-3-3-4, degrees 2", _random((4, 3, 3, 3, 3, 4), (2,) * 4), 200, share=_SOME),
    Case("3-2-2-2-2-2-3, degrees 2", _random((3, 2, 2, 2, 2, 2, 3), (2,) * 5), 200, share=_SOME),
    Case("f1, values only", lambda _: systems.f1(), 30, jacobians=False),
    Case("f2, values only", lambda _: systems.f2(), 30, jacobians=False),
    Case("f3, values only", lambda _: systems.f3(), 200, jacobians=False),
    Case("f3, values only, few samples", lambda _: systems.f3(), 60, jacobians=False),
    _unequal("3-3-1, degree 3", (3,)),
    _unequal("3-4-2, degree 3", (3,)),
    _unequal("2-3-2, degree 3", (3,)),
    _unequal("2-4-3, degree 4", (4,)),
    _unequal("2-2-2-1, degrees 3", (3, 3)),
    _unequal("3-2-2-1, degrees 3", (3, 3)),
    _unequal("2-2-3-2, degrees 3", (3, 3)),
    _unequal("2-2-3-4, degrees 3", (3, 3)),
    _unequal("2-3-2-2, degrees 3", (3, 3)),
    _unequal("4-3-2-3, degrees 3,4", (3, 4)),
    _unequal("4-2-3-2-4, degrees 3", (3, 3, 3)),
    _unequal("4-3-2-3-4, degrees 3", (3, 3, 3)),
)


def tasks(*, seed: int, widths_seed: int, n_runs: int, max_seconds: float, noise: bool) -> list[Task]:
    exact = [
        task
        for case in CASES
        for task in grid(
            case=case.name,
            run=range(max(1, round(case.share * n_runs))),
            seed=widths_seed if case.unequal else seed,
            max_seconds=min(case.seconds, max_seconds),
        )
    ]
    few = tuple(case.name for case in CASES[:3])
    return exact + grid(case=few, level=NOISE, run=range(n_runs), seed=seed) * noise


def work(case: str, run: int, seed: int, level: float = 0.0, max_seconds: float = 60.0) -> Outcome:
    """One data set of a case, with noise if `level` is above 0.

    Noise is relative to the root mean square of values and Jacobians. Its error is told beside that of a fit without
    ridge that starts at the true system.
    """
    index = [one.name for one in CASES].index(case)
    about = CASES[index]
    rng = np.random.default_rng([seed, 100 + index, run, round(1e4 * level)] if level else [seed, index, run])
    system = about.make(rng)
    X, fresh = (rng.uniform(-1.0, 1.0, (count, system.n_inputs)) for count in (about.n_samples, N_FRESH))
    F, J = system(X), system.jacobian(X) if about.jacobians else None
    if level:
        assert J is not None
        F, J = (a + level * np.sqrt(np.mean(a**2)) * rng.normal(size=a.shape) for a in (F, J))
    samples = Samples(X, F=F, J=J)

    solver = VarPro() if level else VarPro(max_seconds=max_seconds)
    result, error, seconds = fit_and_compare(system, samples, fresh, solver, rng)
    if level:
        from_truth = fit_and_compare(system, samples, fresh, VarPro(start=system, ridge=0.0), rng, 1)[1]
        return {"error": error, "error_from_truth": from_truth, "ridge": result.ridge, "seconds": seconds}
    return {
        "worst_error": error,
        "mismatch": 1.0 - factor_match(system, result.decoupling, fresh),
        "seconds": seconds,
        "n_starts": len(result.starts),
        "found_by": result.found_by,
    }


def fit_and_compare(
    system: Decoupling,
    samples: Samples,
    fresh: ndarray,
    solver: VarPro,
    rng: np.random.Generator,
    n_starts: int | None = None,
) -> tuple[Result, float, float]:
    """A fit with the shape of the system, the largest e_i at fresh points, and the processor time of both."""
    began = time.process_time()
    with by_processor_time():
        result = decouple(
            samples, system.ranks, system.degrees, solver=solver, n_starts=n_starts, rng=rng, progress=False
        )
    error = float(np.max(relative_rmse(system(fresh), result.decoupling(fresh))))
    return result, error, time.process_time() - began


def content(runs: list[Task], *, seed: int, widths_seed: int, **_: Any) -> Content:
    return {
        "seed": seed,
        "widths_seed": widths_seed,
        "recovery": [run for run in runs if "level" not in run],
        "noise": [run for run in runs if "level" in run],
    }


def table(content: Content) -> str:
    """What was recovered, and what noise does."""
    intro = (
        f"Recovered: every e_i ≤ {RECOVERED:g} % on {N_FRESH} fresh points (seed {content['seed']}). Times and limits "
        "are those of the processor, on one thread."
    )
    exact = [intro, _recovered(content, unequal=False)]
    if any(case.unequal and matching(content["recovery"], case=case.name) for case in CASES):
        about_widths = f"Layers of unequal widths, among them single outputs (seed {content['widths_seed']}):"
        exact += [about_widths, _recovered(content, unequal=True)]
    if not content["noise"]:
        return "\n\n".join(exact)
    rows = []
    for name in dict.fromkeys(run["case"] for run in content["noise"]):
        for level in NOISE:
            some = matching(content["noise"], case=name, level=level)
            error, from_truth = column(some, "error"), column(some, "error_from_truth")
            medians = (
                f"{np.median(error):.2g} %",
                f"{np.median(from_truth):.2g} %",
                f"{np.median(error / from_truth):.2f}",
            )
            far = f"{np.count_nonzero(error > 3 * from_truth)} of {len(some)}"
            rows.append([name, f"{level:.0e}", *medians, far, f"{np.median(column(some, 'seconds')):.1f} s"])
    head = ["system", "noise", "median error", "from the truth", "median ratio", "above 3 times", "median time"]
    about_noise = (
        "Noise on values and Jacobians, relative to their root mean square. Errors are the largest e_i on fresh, "
        "clean points; *from the truth* is a fit without ridge that starts at the true system."
    )
    return "\n\n".join([*exact, about_noise, markdown(head, rows)])


def _recovered(content: Content, *, unequal: bool) -> str:
    """A row for every case that was run."""
    rows = []
    for case in CASES:
        runs = matching(content["recovery"], case=case.name)
        if not runs or case.unequal != unequal:
            continue
        good = [run for run, error in zip(runs, column(runs, "worst_error"), strict=True) if error <= RECOVERED]
        times = column(runs, "seconds")
        ways = Counter("random starts" if run["found_by"].startswith("random") else run["found_by"] for run in good)
        rows.append(
            [
                case.name,
                str(case.n_samples),
                f"**{len(good)} of {len(runs)}**",
                f"{np.median(times):.2g} s",
                f"{max(times):.2g} s",
                f"{max(0.0, *column(good, 'mismatch')):.0e}" if good else "–",
                ", ".join(f"{way} {count}" for way, count in ways.most_common()),
            ]
        )
    head = ["system", "S", "recovered", "median time", "longest", "largest 1 − match", "found by"]
    return markdown(head, rows)


def figure(content: Content) -> Figure:
    """The worst e_i of every data set, case by case, and below it what noise does."""
    noise = content["noise"]
    heights = [0.2 * len(CASES) + 1.0, *([4.0] if noise else [])]
    canvas = new_figure(8.0, sum(heights))
    axes = canvas.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for position, case in enumerate(CASES):
        errors = column(matching(content["recovery"], case=case.name), "worst_error", failed=np.nan).clip(1e-14)
        offsets = np.linspace(-0.3, 0.3, len(errors))
        axes[0].plot(errors, position + offsets, ".", color=COLOURS[position % len(COLOURS)], markersize=5)
    axes[0].axvline(RECOVERED, color="black", linestyle=(0, (3, 2)), linewidth=1)
    axes[0].set_yticks(range(len(CASES)), [case.name for case in CASES], fontsize=8)
    axes[0].invert_yaxis()
    axes[0].set_xscale("log")
    axes[0].set_xlabel("largest $e_i$ in % on fresh points; left of the dashes: recovered")
    if noise:
        for i, name in enumerate(dict.fromkeys(run["case"] for run in noise)):
            some = matching(noise, case=name)
            x, y = column(some, "error_from_truth"), column(some, "error")
            axes[1].plot(x, y, ".", color=COLOURS[i], label=name, markersize=5)
        axes[1].set_xscale("log")
        axes[1].set_yscale("log")
        line = np.array(axes[1].get_xlim())
        axes[1].plot(line, 3 * line, color="black", linestyle=(0, (3, 2)), linewidth=1, label="3 times")
        axes[1].set_xlim(*line)
        axes[1].set_xlabel("error of a fit started at the truth, %")
        axes[1].set_ylabel("error of VarPro, %")
        axes[1].legend(frameon=False)
    return canvas


RECOVERY = Experiment.of(
    globals(),
    "recovery",
    "How often the true system is found, for one to five layers and with noise.",
    options=(
        Option("n_runs", 30, "Data sets per system."),
        Option("widths_seed", 0, "Random seed of systems of unequal widths.", least=0),
        Option("noise", True, "Whether noisy data are tried as well."),
        Option("max_seconds", 60.0, "Of the processor, per data set."),
    ),
)
