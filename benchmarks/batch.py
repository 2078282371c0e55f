"""Many starts in one batch."""

from __future__ import annotations

from pathlib import Path

import decouply as dc

from .machine import best_of, table, verdict
from .problems import problem_of, sweeps, system_samples


def section(_: Path) -> str:
    system = dc.systems.f2()
    problem = problem_of(system_samples(system, 30, 0), system.ranks, system.degrees)
    rows = []
    for method in ("Proj", "Constr"):
        single = best_of(sweeps(problem, method, n_starts=1), 300)
        for n_starts in (8, 64):
            many = best_of(sweeps(problem, method, n_starts=n_starts), 100)
            target = verdict(many / single, 8) if n_starts == 64 else ""
            rows.append(
                [
                    method,
                    str(n_starts),
                    f"{single * 1e3:.3f} ms",
                    f"{many * 1e3:.3f} ms",
                    f"{many / single:.2f}",
                    target,
                ]
            )
    return "## Starts in one batch: f2, S = 30\n\n" + table(
        ["one iteration of", "starts", "one start", "all starts", "ratio", "target"], rows
    )
