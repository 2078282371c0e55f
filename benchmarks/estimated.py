"""What estimated Jacobians cost: `python -m benchmarks.estimated` (two minutes) writes docs/estimated/estimated.md.

The same data are decoupled with exact Jacobians (noisy like the values), from values alone, and with Jacobians that are
estimated from the values. Errors are measured on fresh points without noise.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import decouply as dc

from .machine import table

SYSTEMS = {"f1": dc.systems.f1, "f2": dc.systems.f2}
SIZES, NOISES, N_STARTS, MAX_SECONDS = (200, 1000), (0.0, 1e-2), 64, 60
HEADER = [
    "system",
    "S",
    "noise",
    "error of estimated J",
    "exact J, VarPro",
    "values only, VarPro",
    "estimated J, VarPro",
    "estimated J, TwoStage(Proj)",
]


def noisy(clean: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Noise in shares of the standard deviation of each entry."""
    return clean + noise * clean.std(axis=0) * rng.normal(size=clean.shape)


def cell(system: dc.Decoupling, samples: dc.Samples, solver: dc.AbstractSolver, validation: dc.Samples | None) -> str:
    """The worst e_i on fresh points, and the seconds that the processor worked."""
    began = time.process_time()
    starts = N_STARTS if isinstance(solver, dc.VarPro) else None
    result = dc.decouple(
        samples, system.ranks, system.degrees, solver=solver, n_starts=starts, validation=validation, progress=False
    )
    seconds = time.process_time() - began
    X = np.random.default_rng(99).uniform(-1, 1, (2000, system.n_inputs))
    return f"{np.max(dc.relative_rmse(system(X), result.decoupling(X))):.2g} %, {seconds:.1f} s"


def row(name: str, S: int, noise: float) -> list[str]:
    system = SYSTEMS[name]()
    rng = np.random.default_rng([S, round(1e6 * noise)])
    X = rng.uniform(-1, 1, (S, system.n_inputs))
    values, jacobians = noisy(system(X), noise, rng), noisy(system.jacobian(X), noise, rng)
    plain = dc.Samples(X, F=values)
    estimated = dc.estimate_jacobians(plain)
    share = 100 * np.sqrt(dc.error_jacobian(system.jacobian(X), estimated.J))
    fitted, kept = estimated.split(0.2)
    varpro = dc.VarPro(max_seconds=MAX_SECONDS)
    return [
        name,
        str(S),
        f"{noise:g}",
        f"{share:.2g} %",
        cell(system, dc.Samples(X, F=values, J=jacobians), varpro, None),
        cell(system, plain, varpro, None),
        cell(system, estimated, varpro, None),
        cell(system, fitted, dc.TwoStage(dc.Proj()), kept),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="docs/estimated/estimated.md")
    path = Path(parser.parse_args().output)
    rows = []
    with threadpool_limits(1):
        for name in SYSTEMS:
            for S in SIZES:
                for noise in NOISES:
                    rows.append(row(name, S, noise))
                    print(rows[-1], flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "Written by `python -m benchmarks.estimated`. Cells: the worst e_i on 2000 fresh points without noise, and the "
        f"time of the processor. VarPro had at most {N_STARTS} starts and {MAX_SECONDS} s; noise is in shares of the "
        "standard deviation; the error of J is the root of Error(J).\n\n" + table(HEADER, rows) + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
