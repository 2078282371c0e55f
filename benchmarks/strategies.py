"""Which start values, damping and schedule serve the random starts of VarPro best: `python -m benchmarks.strategies`.

Starts that are read from the data are left out: this is what remains where they lead nowhere. Measured is the share of
starts that become exact within 150 steps without their last layer, over fresh data sets, and for batches and halving
the time of the processor until a data set is solved. The tables go to docs/strategies.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

import decouply as dc
from decouply._support._progress import silent
from decouply._support._time_limit import by_processor_time
from decouply.bases import LayerBasis
from decouply.solvers import Problem
from decouply.solvers.least_squares._fitting_problem import Equations
from decouply.solvers.least_squares._levenberg_marquardt import descend
from decouply.solvers.varpro import _search
from decouply.solvers.varpro._parallel_batches import run_batches
from decouply.solvers.varpro._search import Search, SearchOptions

from .machine import table

EXACT = 1e-20
N_STARTS, STEPS = 32, 150
SECONDS = 30.0
NEVER = (10_000,)


@dataclass(frozen=True)
class Case:
    """A kind of system, and what is known of it."""

    make: Callable[[np.random.Generator], dc.Decoupling]
    n_samples: int
    jacobians: bool = True


def _random(dims: tuple[int, ...], degrees: tuple[int, ...]) -> Callable[[np.random.Generator], dc.Decoupling]:
    return lambda rng: dc.systems.random_system(dims, degrees, rng=rng)


CASES = {
    "f1": Case(lambda _: dc.systems.f1(), 30),
    "f2": Case(lambda _: dc.systems.f2(), 30),
    "f3": Case(lambda _: dc.systems.f3(), 30),
    "f3, values": Case(lambda _: dc.systems.f3(), 200, jacobians=False),
    "4-3-3-4": Case(_random((4, 3, 3, 4), (3, 3)), 60),
    "3-2-2-2-3": Case(_random((3, 2, 2, 2, 3), (3, 2, 2)), 60),
}
STARTS: dict[str, dc.AbstractStart] = {
    "orthonormal (default)": dc.Orthonormal(),
    "normal": dc.Normal(),
    "uniform in [-1, 1]": dc.Uniform(-1.0, 1.0),
    "uniform in [0.1, 10]": dc.Uniform(0.1, 10.0),
}
DAMPINGS = (1e-6, 1e-2, 1.0)
SCHEDULES: dict[str, tuple[int, ...]] = {
    "10, 20, 40, 80 (default)": _search._HALVINGS,
    "8, 16, 32, 64": (8, 16, 32, 64),
    "15, 30, 45, ...": tuple(range(15, 10_000, 15)),
    "30, 60, 90, ...": tuple(range(30, 10_000, 30)),
    "never": NEVER,
}
BATCHES = (8, 32, 64)


def searched(case: str, seed: int, start: dc.AbstractStart, batch_size: int) -> Search:
    """A search of fresh data that has begun nothing yet."""
    known = CASES[case]
    rng = np.random.default_rng([seed, list(CASES).index(case), 999])
    system = known.make(rng)
    X = rng.uniform(-1.0, 1.0, (known.n_samples, system.n_inputs))
    samples = dc.Samples(X, F=system(X), J=system.jacobian(X) if known.jacobians else None)
    layers = tuple(LayerBasis.of(dc.Monomial(d), r) for d, r in zip(system.degrees, system.ranks, strict=True))
    equations = Equations(Problem.build(samples, layers), lam=1.0, ridge=0.0, fixed={})
    defaults = dc.VarPro()
    options = SearchOptions(1.0, defaults.max_steps, defaults.polish_steps, batch_size, SECONDS, start)
    return Search(options, equations, 1024, rng, silent)


def share(case: str, seed: int, start: dc.AbstractStart, damping: float) -> float:
    """Share of exact starts on one data set."""
    search = searched(case, seed, start, N_STARTS)
    eliminated = search.equations.eliminated
    inner = search.equations.core.enter(search.drawn(N_STARTS, 0)[: 2 * search.L - 1])
    end = descend(
        eliminated.linearise,
        eliminated.moved,
        inner,
        max_steps=STEPS,
        first_damping=damping,
        exact=-1.0,
        deadline=np.inf,
        progress=lambda _: None,
    )
    return float(np.mean(end.cost < EXACT))


def solve_time(case: str, seed: int, halvings: tuple[int, ...], batch_size: int) -> tuple[float, bool]:
    """Seconds of the processor until one data set is solved, and whether it was."""
    _search._HALVINGS = halvings
    with by_processor_time():
        began = time.process_time()
        search = searched(case, seed, STARTS["orthonormal (default)"], batch_size)
        run_batches(search)
        return time.process_time() - began, search.found


def share_table(seeds: range, parallel: Parallel) -> str:
    """One row for every kind of start values, and for every first damping of the default ones."""
    default = next(iter(STARTS))
    variants = [(name, start, 1e-2) for name, start in STARTS.items()]
    variants += [(f"{default}, first damping {d:g}", STARTS[default], d) for d in DAMPINGS if d != 1e-2]
    rows = []
    for label, start, damping in variants:
        shares = [np.mean(parallel(delayed(share)(case, s, start, damping) for s in seeds)) for case in CASES]
        rows.append([label, *(f"{value:.3f}" for value in shares)])
        print(rows[-1], flush=True)
    return table(["start values", *CASES], rows)


def time_table(seeds: range, parallel: Parallel) -> str:
    """One row for every schedule of halving, and for every size of a batch with the default one."""
    default = next(iter(SCHEDULES))
    variants = [(name, halvings, 32) for name, halvings in SCHEDULES.items()]
    variants += [(default, SCHEDULES[default], size) for size in BATCHES if size != 32]
    rows = []
    for label, halvings, size in variants:
        row = [label, str(size)]
        for case in CASES:
            found = parallel(delayed(solve_time)(case, s, halvings, size) for s in seeds)
            seconds = [t for t, _ in found]
            row.append(f"{np.median(seconds):.2f} / {np.mean(seconds):.2f} s, {sum(good for _, good in found)}")
        rows.append(row)
        print(rows[-1], flush=True)
    return table(["halved after steps", "batch", *CASES], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="docs/strategies.md", help="the page to write")
    parser.add_argument("--runs", type=int, default=10, help="data sets per case")
    parser.add_argument("--seed", type=int, default=0, help="of the first data set; the others follow")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    with Parallel(n_jobs=arguments.jobs) as parallel:
        shares, times = share_table(seeds, parallel), time_table(seeds, parallel)
    Path(arguments.output).write_text(
        "# Strategies of VarPro\n\n"
        f"Written by `python -m benchmarks.strategies --runs {arguments.runs} --seed {arguments.seed}`: do not edit. "
        f"{arguments.runs} data sets per column.\n"
        "`VarPro` reads its first starts from the data; these are its *random* starts, without those, for data "
        "where they lead nowhere.\n\n"
        f"## Share of {N_STARTS} starts that become exact within {STEPS} steps\n\n{shares}\n\n"
        "Damping starts at 0.01 by default.\n\n"
        f"## Time to the solution\n\nSeconds of the processor, median and mean, and how many of {arguments.runs} "
        f"data sets were solved within {SECONDS:g} s. After the steps named, the worse half of a batch is dropped.\n\n"
        f"{times}\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
