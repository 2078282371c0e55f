"""Problems to measure on, single sweeps of the fast solvers, times and tables."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import decouply as dc
from decouply.bases import LayerBasis
from decouply.solvers import Problem
from decouply.solvers.alternating._coefficient_updates import update_c_constr, update_c_proj, update_c_proj_weighted
from decouply.solvers.alternating._loop import draw_factors
from decouply.solvers.alternating._sweep import Iterate, sweep

UPDATES = {"Proj": update_c_proj_weighted, "Proj, plain projection": update_c_proj, "Constr": update_c_constr}


def noise_samples(n: int, m: int, S: int) -> dc.Samples:
    """Samples of nothing in particular: a full-rank tensor, so that no compression helps."""
    rng = np.random.default_rng(0)
    return dc.Samples(rng.uniform(-1, 1, (S, m)), F=rng.normal(size=(S, n)), J=rng.normal(size=(S, n, m)))


def system_samples(system: dc.Decoupling, S: int, seed: int) -> dc.Samples:
    X = np.random.default_rng(seed).uniform(-1, 1, (S, system.n_inputs))
    return dc.Samples(X, F=system(X), J=system.jacobian(X))


def problem_of(samples: dc.Samples, ranks: tuple[int, ...], degrees: tuple[int, ...]) -> Problem:
    """The problem as the paper has it: data as given, functions around 0."""
    layers = tuple(LayerBasis.of(dc.Monomial(d), r) for d, r in zip(degrees, ranks, strict=True))
    return Problem.build(samples, layers, standard=False)


def sweeps(problem: Problem, method: str, *, n_starts: int = 1) -> Callable[[], Iterate]:
    """A function that makes one more sweep each time it is called."""
    state = draw_factors(problem, dc.solvers.Uniform(), n_starts, np.random.default_rng(1))

    def one() -> Iterate:
        nonlocal state
        state = sweep(problem, state, 1e-6, UPDATES[method])
        return state

    for _ in range(2):  # to warm up
        one()
    return one


def best_of(action: Callable[[], object], repeats: int) -> float:
    """Shortest time of `repeats` calls, in seconds."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def verdict(value: float, limit: float, *, at_least: bool = False) -> str:
    """The target and whether it is met."""
    met = value >= limit if at_least else value <= limit
    return f"{'≥' if at_least else '≤'} {limit:g}, {'met' if met else '**missed**'}"
