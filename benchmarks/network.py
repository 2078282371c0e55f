"""VarPro on a part of a network (n = 10, m = 512, S = 200), against Proj and Constr from the same start."""

from __future__ import annotations

import time
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np

import decouply as dc
from decouply._support._time_limit import by_processor_time

from .problems import table, verdict

WIDTHS, S, RANK, DEGREE = (512, 256, 128, 64, 10), 200, 12, 4
LIMIT = 2 * 1024**3
LIMIT_SECONDS = 6.0
FIRST_EDITION = (1.0419, 0.9338)  # objectives of VarPro after 78 s


def network_samples(seed: int) -> dc.Samples:
    """Values and Jacobians of a random ReLU network, whose Jacobians have rows in a space of 256 dimensions."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(S, WIDTHS[0]))
    z, J = X, np.broadcast_to(np.eye(WIDTHS[0]), (S, WIDTHS[0], WIDTHS[0]))
    for l, (width, next_width) in enumerate(pairwise(WIDTHS)):
        W = rng.normal(size=(next_width, width)) * np.sqrt(2.0 / width)
        z, J = z @ W.T, W @ J
        if l < len(WIDTHS) - 2:
            active = z > 0
            z, J = z * active, J * active[:, :, None]
    return dc.Samples(X, F=z, J=J)


def section(_: Path) -> str:
    rows = []
    for seed, first_edition in zip((0, 1), FIRST_EDITION, strict=True):
        samples = network_samples(seed)
        rng = np.random.default_rng(seed)
        start = dc.Decoupling(
            [rng.normal(size=(RANK, WIDTHS[0])) / WIDTHS[0] ** 0.5, rng.normal(size=(WIDTHS[-1], RANK))],
            [dc.Functions(dc.Monomial(DEGREE), rng.normal(size=(RANK, 1 + DEGREE)))],
        )
        sizes = np.sum(samples.J**2), np.sum((samples.F - samples.F.mean(axis=0)) ** 2)
        lam = float(sizes[0] / sizes[1])  # the same balance of the two terms as in VarPro with lam = 1
        for name, solver in (
            (
                "Proj, 200 iterations",
                dc.Proj(stopping=dc.solvers.Stopping(max_steps=200, patience=200), start=start, lam=lam),
            ),
            (
                "Constr, 200 iterations",
                dc.Constr(stopping=dc.solvers.Stopping(max_steps=200, patience=200), start=start, lam=lam),
            ),
            (f"VarPro, `max_seconds={LIMIT_SECONDS:g}`", dc.VarPro(start=start, max_seconds=LIMIT_SECONDS)),
        ):
            ours = name.startswith("VarPro")
            seconds, model = timed_fit(samples, solver)
            of_J = np.sum((samples.J - model.jacobian(samples.X)) ** 2) / sizes[0]
            of_F = np.sum((samples.F - model(samples.X)) ** 2) / sizes[1]
            peak = peak_memory(samples, solver)
            rows.append(
                [
                    str(seed),
                    name,
                    f"{of_J + of_F:.4f}",
                    verdict(of_J + of_F, first_edition) if ours else "",
                    f"{seconds:.1f} s",
                    verdict(seconds, 10.0) if ours else "",
                    f"{peak / 1024**2:.0f} MiB",
                    verdict(peak / LIMIT, 1),
                ]
            )
    return (
        f"## VarPro on a network-sized problem: {'-'.join(map(str, WIDTHS))}, S = {S}, r = {RANK}, degree {DEGREE}\n\n"
        "Values and Jacobians of a random ReLU network; the objective is the scale-free one with λ = 1. All start from "
        "the same decoupling. Times are those of the processor.\n\n"
        + table(["network", "method", "objective", "target", "time", "target", "peak memory", "target"], rows)
    )


def timed_fit(samples: dc.Samples, solver: dc.solvers.AbstractSolver) -> tuple[float, dc.Decoupling]:
    """Seconds of the processor, and the model."""
    began = time.process_time()
    with by_processor_time():
        result = dc.decouple(samples, RANK, DEGREE, solver=solver, n_starts=1, progress=False)
    return time.process_time() - began, result.decoupling


def peak_memory(samples: dc.Samples, solver: dc.solvers.AbstractSolver) -> int:
    """Bytes, of a run of its own: being watched takes time."""
    tracemalloc.start()
    dc.decouple(samples, RANK, DEGREE, solver=solver, n_starts=1, progress=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
