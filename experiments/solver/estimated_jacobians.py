"""What estimated Jacobians cost.

The same data are decoupled with exact Jacobians (noisy like the values), from values alone, and with Jacobians that are
estimated from the values. Errors are the worst e_i on fresh points without noise, times those of the processor.
"""

from __future__ import annotations

import time

import numpy as np

from decouply import systems
from decouply._support._machine import one_thread
from decouply.fit._decouple import decouple
from decouply.samples._estimation import estimate_jacobians
from decouply.samples._model_errors import error_jacobian, relative_rmse
from decouply.samples._samples import Samples
from decouply.solvers import AbstractSolver, Proj, TwoStage, VarPro
from experiments.harness import Content, Experiment, Outcome, Task, grid, markdown, matching

SYSTEMS = {"f1": systems.f1, "f2": systems.f2}
SIZES, NOISES, N_FRESH = (200, 1000), (0.0, 1e-2), 2000
N_STARTS, MAX_SECONDS = 64, 60.0  # of VarPro
WAYS = ("exact J, VarPro", "values only, VarPro", "estimated J, VarPro", "estimated J, TwoStage(Proj)")


def tasks(*, seed: int, sizes: tuple[int, ...] = SIZES) -> list[Task]:
    return grid(system=tuple(SYSTEMS), n_samples=sizes, noise=NOISES, way=WAYS, seed=seed)


def work(system: str, n_samples: int, noise: float, way: str, seed: int) -> Outcome:
    """One fit; noise is in shares of the standard deviation of each entry."""
    truth = SYSTEMS[system]()
    rng = np.random.default_rng([n_samples, round(1e6 * noise), seed])
    X = rng.uniform(-1.0, 1.0, (n_samples, truth.n_inputs))
    F, J = (a + noise * a.std(axis=0) * rng.normal(size=a.shape) for a in (truth(X), truth.jacobian(X)))
    samples = Samples(X, F=F, J=J if way.startswith("exact") else None)
    off = None
    if way.startswith("estimated"):
        samples = estimate_jacobians(samples)
        off = 100.0 * float(np.sqrt(error_jacobian(truth.jacobian(X), np.asarray(samples.J))))
    solver: AbstractSolver = VarPro(max_seconds=MAX_SECONDS)
    n_starts: int | None = N_STARTS
    validation = None
    if way.endswith("TwoStage(Proj)"):
        solver, n_starts = TwoStage(Proj()), None
        samples, validation = samples.split(0.2)
    began = time.process_time()
    with one_thread():
        shape = truth.ranks, truth.degrees
        result = decouple(samples, *shape, solver=solver, n_starts=n_starts, validation=validation, progress=False)
    seconds = time.process_time() - began
    fresh = np.random.default_rng(99).uniform(-1.0, 1.0, (N_FRESH, truth.n_inputs))
    error = float(np.max(relative_rmse(truth(fresh), result.decoupling(fresh))))
    return {"error": error, "seconds": seconds, "error_of_jacobians": off}


def table(content: Content) -> str:
    """One row for each set of data."""
    rows = []
    for system, S, noise in dict.fromkeys((run["system"], run["n_samples"], run["noise"]) for run in content["runs"]):
        runs = {run["way"]: run for run in matching(content["runs"], system=system, n_samples=S, noise=noise)}
        cells = [f"{runs[way]['error']:.2g} %, {runs[way]['seconds']:.1f} s" for way in WAYS]
        rows.append([system, str(S), f"{noise:g}", f"{runs[WAYS[2]]['error_of_jacobians']:.2g} %", *cells])
    intro = (
        f"Cells: the worst e_i on {N_FRESH} fresh points without noise, and the time of the processor. VarPro had at "
        f"most {N_STARTS} starts and {MAX_SECONDS:g} s; noise is in shares of the standard deviation; the error of J "
        "is the root of Error(J)."
    )
    return "\n\n".join([intro, markdown(["system", "S", "noise", "error of estimated J", *WAYS], rows)])


ESTIMATED_JACOBIANS = Experiment.of(
    globals(),
    "estimated-jacobians",
    "What it costs to estimate Jacobians from values.",
    quick={"sizes": (200,)},
)
