"""Which start values, damping and schedule serve VarPro best: `python -m benchmarks.strategies` (about ten minutes).

Measured is the share of starts that become exact within 150 steps without their last layer, over fresh data sets, and
for the halving schedule the time until a data set is solved. The table goes to docs/strategies.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from numpy import ndarray

import decoupling as dc
from decoupling.bases import LayerBasis
from decoupling.solvers import Problem, _levenberg, _search
from decoupling.solvers._chain import Parameters
from decoupling.solvers._levenberg import descend
from decoupling.solvers._parameters import blank_parameters
from decoupling.solvers._residuals import Eliminated
from decoupling.solvers._rows import Rows

from .machine import table

EXACT = 1e-20
N_STARTS, STEPS = 32, 150
Draw = Callable[[np.random.Generator, tuple[int, ...]], ndarray]


def random_system(dims: tuple[int, ...], degrees: tuple[int, ...]) -> Callable[[np.random.Generator], dc.Decoupling]:
    return lambda rng: dc.systems.random_system(dims, degrees, rng=rng)


CASES: dict[str, tuple[Callable[[np.random.Generator], dc.Decoupling], int]] = {
    "f1": (lambda _: dc.systems.f1(), 30),
    "f2": (lambda _: dc.systems.f2(), 30),
    "f3": (lambda _: dc.systems.f3(), 30),
    "4-3-3-4": (random_system((4, 3, 3, 4), (3, 3)), 60),
    "3-2-2-2-3": (random_system((3, 2, 2, 2, 3), (3, 2, 2)), 60),
}
STARTS: dict[str, dc.AbstractStart] = {
    "orthonormal (default)": dc.Orthonormal(),
    "normal": dc.Normal(),
    "uniform in [-1, 1]": dc.Uniform(-1.0, 1.0),
    "uniform in [0.1, 10]": dc.Uniform(0.1, 10.0),
}


def data(case: str, seed: int) -> tuple[dc.Decoupling, dc.Samples, np.random.Generator]:
    make, S = CASES[case]
    rng = np.random.default_rng([seed, list(CASES).index(case), 999])
    system = make(rng)
    X = rng.uniform(-1.0, 1.0, (S, system.n_inputs))
    return system, dc.Samples(X, F=system(X), J=system.jacobian(X)), rng


def reduced(samples: dc.Samples, system: dc.Decoupling, degrees: tuple[int, ...]) -> tuple[Problem, Eliminated]:
    layers = tuple(LayerBasis.of(dc.Monomial(d), r) for d, r in zip(degrees, system.ranks, strict=True))
    problem = Problem.build(samples, layers)
    return problem, Eliminated(Rows.of(problem, 1.0), layers)


def run(residuals: Eliminated, theta: Parameters, steps: int) -> tuple[Parameters, ndarray]:
    end = descend(
        residuals.linearise,
        residuals.normalise,
        theta,
        max_steps=steps,
        exact=-1.0,
        deadline=np.inf,
        progress=lambda _: None,
    )
    return end.theta, end.cost


def draw(problem: Problem, start: dc.AbstractStart, rng: np.random.Generator) -> Parameters:
    coefficients = dc.Normal() if isinstance(start, dc.Orthonormal) else start
    blank = blank_parameters(problem)[:-2]
    return [
        np.stack([(start if i % 2 == 0 else coefficients).draw(rng, p.shape[1:]) for _ in range(N_STARTS)])
        for i, p in enumerate(blank)
    ]


def share(case: str, seed: int, start: str, damping: float, continued: bool) -> float:
    """Share of exact starts on one data set."""
    _levenberg.descend.__kwdefaults__["first_damping"] = damping
    system, samples, rng = data(case, seed)
    problem, residuals = reduced(samples, system, system.degrees)
    if not continued:
        _, cost = run(residuals, draw(problem, STARTS[start], rng), STEPS)
        return float(np.mean(cost < EXACT))
    low_problem, low = reduced(samples, system, tuple(min(2, d) for d in system.degrees))
    theta, _ = run(low, draw(low_problem, STARTS[start], rng), 40)
    wide = [p.shape[1:] for p in blank_parameters(problem)[:-2]]
    theta = [np.pad(t, ((0, 0), (0, 0), (0, shape[-1] - t.shape[-1]))) for t, shape in zip(theta, wide, strict=True)]
    _, cost = run(residuals, theta, STEPS - 40)
    return float(np.mean(cost < EXACT))


def solve_time(case: str, seed: int, halve_every: int, batch_size: int) -> tuple[float, bool]:
    """Seconds until one data set is solved, and whether it was."""
    _search._HALVE_EVERY = halve_every
    system, samples, rng = data(case, seed)
    began = time.perf_counter()
    solver = dc.VarPro(batch_size=batch_size, max_seconds=30)
    result = dc.decouple(samples, system.ranks, system.degrees, solver=solver, rng=rng, progress=False)
    return time.perf_counter() - began, result.status is dc.Status.EXACT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="docs/strategies.md")
    parser.add_argument("--runs", type=int, default=10, help="data sets per case")
    arguments = parser.parse_args()
    seeds = range(arguments.runs)
    variants = [(name, name, 1e-2, False) for name in STARTS]
    variants += [(f"first damping {d:g}", "orthonormal (default)", d, False) for d in (1e-6, 1.0)]
    variants += [("degree continuation: 40 steps with degree 2 first", "orthonormal (default)", 1e-2, True)]
    with Parallel(n_jobs=2) as parallel:
        rows = []
        for label, start, damping, continued in variants:
            cells = [
                f"{np.mean(parallel(delayed(share)(c, s, start, damping, continued) for s in seeds)):.3f}"
                for c in CASES
            ]
            rows.append([label, *cells])
            print(rows[-1], flush=True)
        shares = table(["variant", *CASES], rows)
        rows = []
        for halve_every, batch_size in ((30, 32), (30, 8), (15, 32), (60, 32), (10_000, 32)):
            label = f"halving every {halve_every} steps" if halve_every < STEPS else "no halving"
            cells = []
            for case in CASES:
                found = parallel(delayed(solve_time)(case, s, halve_every, batch_size) for s in seeds)
                cells.append(
                    f"{np.mean([t for t, _ in found]):.2f} s, {sum(good for _, good in found)} of {len(found)}"
                )
            rows.append([f"{label}, batches of {batch_size}", *cells])
            print(rows[-1], flush=True)
        times = table(["variant", *CASES], rows)
    Path(arguments.output).write_text(
        "# Strategies of VarPro\n\nWritten by `python -m benchmarks.strategies`: do not edit. "
        f"{arguments.runs} fresh data sets per column.\n\n"
        f"## Share of {N_STARTS} starts that become exact within {STEPS} steps\n\n{shares}\n\n"
        "Damping starts at 0.01 by default.\n\n"
        f"## Mean time to the solution, and data sets solved within 30 s\n\n{times}\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
