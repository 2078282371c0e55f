"""Equivariance: how often VarPro recovers a system when its inputs and outputs are given in other units.

A data set counts as recovered when every e_i on 1000 fresh points is at most 1e-6 percent or, for inputs far from 0,
what their rounding allows: 3000 roundings of their size, relative to their half-range.
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

from decouply import __version__, systems
from decouply.fit._decouple import decouple
from decouply.model._decoupling import Decoupling
from decouply.report._style import COLOURS, house_style, new_figure
from decouply.samples._model_errors import relative_rmse
from decouply.samples._samples import Samples
from experiments.harness import run_all, write_experiment

RECOVERED = 1e-6  # percent
_ROUNDINGS = 3000.0
N_FRESH = 1000

SYSTEMS: dict[str, tuple[Callable[[np.random.Generator], Decoupling], int]] = {
    "f1": (lambda _: systems.f1(), 30),
    "f2": (lambda _: systems.f2(), 30),
    "one layer, 3-2-3": (lambda rng: systems.random_system((3, 2, 3), (3,), rng=rng), 30),
    "three layers, 3-2-2-2-3": (lambda rng: systems.random_system((3, 2, 2, 2, 3), (3, 2, 2), rng=rng), 60),
}


@dataclass(frozen=True)
class Change:
    """Other units: inputs moved by half-ranges and scaled by factors of up to 10^decades, rotated; outputs changed."""

    name: str
    moved: float = 0.0
    decades: float = 0.0
    rotated: bool = False
    outputs: bool = False

    def draw(self, m: int, n: int, rng: np.random.Generator) -> tuple[ndarray, ndarray, ndarray, ndarray]:
        """A, b, D and e of x -> A x + b and f -> D f + e; inputs lie in [-1, 1]."""
        A = np.linalg.qr(rng.normal(size=(m, m)))[0] if self.rotated else np.eye(m)
        A = np.diag(10.0 ** rng.uniform(-self.decades, self.decades, m)) @ A
        b = self.moved * np.abs(A).max(axis=1)
        D = 10.0 ** rng.uniform(-6.0, 6.0, n) if self.outputs else np.ones(n)
        return A, b, D, D * rng.normal(size=n) if self.outputs else np.zeros(n)


CHANGES = (
    Change("as they are"),
    Change("moved by 3", moved=3.0),
    Change("by 30", moved=30.0),
    Change("by 1e3", moved=1e3),
    Change("by 1e6", moved=1e6),
    Change("scaled by 1e-6 to 1e6", decades=6.0),
    Change("rotated", rotated=True),
    Change("outputs scaled and moved", outputs=True),
)


@dataclass(frozen=True)
class EquivarianceTask:
    """One data set in one set of units."""

    system: str
    change: str
    run: int
    seed: int
    version: str = __version__


@dataclass(frozen=True)
class EquivarianceRun:
    """What came of it."""

    system: str
    change: str
    run: int
    worst_error: float  # percent
    allowed: float  # percent
    seconds: float
    n_starts: int


@dataclass(frozen=True)
class Equivariance:
    """All runs."""

    runs: tuple[EquivarianceRun, ...]
    seed: int

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {"seed": self.seed, "runs": [asdict(run) for run in self.runs]}

    def of(self, system: str, change: str) -> list[EquivarianceRun]:
        return [run for run in self.runs if (run.system, run.change) == (system, change)]


def run_equivariance(
    *,
    n_runs: int,
    seed: int,
    n_jobs: int,
    store: Path | None = None,
    progress: Callable[..., None] = lambda **_: None,
) -> Equivariance:
    """Run all systems in all units; the data sets, and the seeds of the starts, are the same in all of them."""
    tasks = [
        EquivarianceTask(system, change.name, run, seed)
        for system in SYSTEMS
        for change in CHANGES
        for run in range(n_runs)
    ]
    found = run_all(tasks, work, store=store, n_jobs=n_jobs, progress=progress)
    return Equivariance(tuple(EquivarianceRun(**found[task]) for task in tasks), seed)


def work(task: EquivarianceTask) -> dict[str, Any]:
    """One fit and its error on fresh points."""
    make, n_samples = SYSTEMS[task.system]
    change = next(c for c in CHANGES if c.name == task.change)
    rng = np.random.default_rng([task.seed, list(SYSTEMS).index(task.system), task.run])
    system = make(rng)
    points, fresh = (rng.uniform(-1.0, 1.0, (count, system.n_inputs)) for count in (n_samples, N_FRESH))
    A, b, D, e = change.draw(system.n_inputs, system.n_outputs, np.random.default_rng([task.seed, task.run]))
    X, F = points @ A.T + b, system(points) * D + e
    J = D[:, None] * (system.jacobian(points) @ np.linalg.inv(A))
    began = time.process_time()
    result = decouple(Samples(X, F=F, J=J), system.ranks, system.degrees, rng=task.run, progress=False)
    errors = relative_rmse(system(fresh) * D + e, result.decoupling(fresh @ A.T + b))
    allowed = max(RECOVERED, 100.0 * _ROUNDINGS * float(np.finfo(float).eps) * change.moved)
    run = EquivarianceRun(
        task.system,
        task.change,
        task.run,
        float(np.max(errors)),
        allowed,
        time.process_time() - began,
        len(result.starts),
    )
    return asdict(run)


def equivariance_markdown(table: Equivariance) -> str:
    """How many data sets were recovered, systems by units."""
    lines = ["| system | " + " | ".join(c.name for c in CHANGES) + " |", "|---|" + "---|" * len(CHANGES)]
    for system in SYSTEMS:
        cells = []
        for change in CHANGES:
            runs = table.of(system, change.name)
            cells.append(f"{sum(r.worst_error <= r.allowed for r in runs)} of {len(runs)}")
        lines.append(f"| {system} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_equivariance(table: Equivariance, directory: Path) -> None:
    """Numbers, table and picture."""
    write_experiment(directory, "equivariance", table.content(), equivariance_markdown(table), _picture(table))


def _picture(table: Equivariance) -> Figure:
    """Worst error of every data set, by units."""
    with house_style():
        figure = new_figure(8.0, 3.6)
        axes = figure.subplots()
        for i, system in enumerate(SYSTEMS):
            for k, change in enumerate(CHANGES):
                errors = [max(run.worst_error, 1e-16) for run in table.of(system, change.name)]
                axes.semilogy(
                    np.full(len(errors), k + 0.15 * (i - 1.5)),
                    errors,
                    ".",
                    color=COLOURS[i],
                    label=system if not k else None,
                )
        axes.set_xticks(range(len(CHANGES)), [c.name for c in CHANGES], rotation=20, ha="right")
        axes.set_ylabel("worst e_i on fresh points (%)")
        axes.legend(fontsize="small")
    return figure
