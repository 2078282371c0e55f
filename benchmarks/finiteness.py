"""Whether any start becomes non-finite: f1, f2, f3, thirty data sets each, both algorithms."""

from __future__ import annotations

from pathlib import Path

import decouply as dc

from .machine import table
from .problems import system_samples

N_DATA_SETS, N_STARTS = 30, 8


def section(_: Path) -> str:
    rows = []
    for make in (dc.systems.f1, dc.systems.f2, dc.systems.f3):
        system = make()
        for solver in (dc.Proj(), dc.Proj(weighted_projection=False), dc.Constr()):
            lost = 0
            for seed in range(N_DATA_SETS):
                result = dc.decouple(
                    system_samples(system, 30, seed),
                    system.ranks,
                    system.degrees,
                    solver=solver,
                    n_starts=N_STARTS,
                    rng=seed,
                    progress=False,
                )
                lost += sum(row.status is dc.Status.NONFINITE for row in result.starts)
            name = type(solver).__name__ + (
                ", plain projection" if getattr(solver, "weighted_projection", True) is False else ""
            )
            rows.append(
                [
                    make.__name__,
                    name,
                    str(N_DATA_SETS * N_STARTS),
                    str(lost),
                    "0, " + ("met" if lost == 0 else "**missed**"),
                ]
            )
    return "## Starts that become NaN or infinite\n\n" + table(
        ["system", "method", "starts", "non-finite", "target"], rows
    )
