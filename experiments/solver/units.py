"""Other units: how often VarPro recovers a system whose inputs and outputs are moved, scaled and rotated.

A data set counts as recovered when every e_i on 1000 fresh points is at most 1e-6 percent or, for inputs far from 0,
what their rounding allows: 3000 roundings of their size, relative to their half-range. The data sets, and the seeds of
the starts, are the same in all units.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from decouply import systems
from decouply.fit._decouple import decouple
from decouply.model._decoupling import Decoupling
from decouply.samples._model_errors import relative_rmse
from decouply.samples._samples import Samples
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown, matching
from experiments.solver.recovery import N_FRESH, RECOVERED

_ROUNDINGS = 3000.0

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


def tasks(*, seed: int, n_runs: int) -> list[Task]:
    changes = tuple(change.name for change in CHANGES)
    return grid(system=tuple(SYSTEMS), change=changes, run=range(n_runs), seed=seed)


def work(system: str, change: str, run: int, seed: int) -> Outcome:
    """One fit and its error on fresh points."""
    make, n_samples = SYSTEMS[system]
    units = next(one for one in CHANGES if one.name == change)
    rng = np.random.default_rng([seed, list(SYSTEMS).index(system), run])
    truth = make(rng)
    points, fresh = (rng.uniform(-1.0, 1.0, (count, truth.n_inputs)) for count in (n_samples, N_FRESH))
    A, b, D, e = units.draw(truth.n_inputs, truth.n_outputs, np.random.default_rng([seed, run]))
    X, F = points @ A.T + b, truth(points) * D + e
    J = D[:, None] * (truth.jacobian(points) @ np.linalg.inv(A))
    began = time.process_time()
    result = decouple(Samples(X, F=F, J=J), truth.ranks, truth.degrees, rng=run, progress=False)
    errors = relative_rmse(truth(fresh) * D + e, result.decoupling(fresh @ A.T + b))
    return {
        "worst_error": float(np.max(errors)),
        "allowed": max(RECOVERED, 100.0 * _ROUNDINGS * float(np.finfo(float).eps) * units.moved),
        "seconds": time.process_time() - began,
        "n_starts": len(result.starts),
    }


def table(content: Content) -> str:
    """How many data sets were recovered, systems by units."""
    rows = []
    for system in SYSTEMS:
        cells = [matching(content["runs"], system=system, change=change.name) for change in CHANGES]
        good = [int(np.sum(column(runs, "worst_error") <= column(runs, "allowed"))) for runs in cells]
        rows.append([system, *(f"{n} of {len(runs)}" for n, runs in zip(good, cells, strict=True))])
    return markdown(["system", *(change.name for change in CHANGES)], rows)


UNITS = Experiment.of(
    globals(),
    "units",
    "Whether a change of units changes the answer.",
    options=(Option("n_runs", 10, "Data sets per system and choice of units."),),
)
