"""The size of a network layer: n = 10, m = 512, S = 200, against the plain reference and against TensorLy."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import numpy as np
import tensorly
from tensorly.decomposition import parafac

import decouply as dc
from decouply.solvers.alternating._loop import draw_factors
from decouply.solvers.alternating._sweep import sweep

from . import reference
from .machine import best_of, table, verdict
from .problems import UPDATES, noise_samples, problem_of, sweeps

N, M, S, DEGREE = 10, 512, 200, 4
REPEATS = 15


def section(_: Path) -> str:
    samples = noise_samples(N, M, S)
    return "\n\n".join(
        [
            f"## A network-sized problem: n = {N}, m = {M}, S = {S}, degree {DEGREE}",
            "The tensor is random of full rank, so that the subspace compression does not help.",
            against_tensorly(samples),
            against_reference(samples),
            memory(samples),
        ]
    )


def against_tensorly(samples: dc.Samples) -> str:
    """One iteration of ours against one iteration of TensorLy's CPD by alternating least squares (errors computed)."""
    tensor = tensorly.tensor(samples.J)

    def cpd(iterations: int) -> float:
        def run() -> None:
            # A tolerance that is never met: every iteration is made and its error computed, as with the default.
            parafac(tensor, 12, n_iter_max=iterations, init="random", tol=1e-300, random_state=0)

        return best_of(run, 5)

    unit = (cpd(25) - cpd(5)) / 20
    rows = [["TensorLy `parafac`, r = 12", f"{unit * 1e3:.2f} ms", "1", ""]]
    for method, ranks, limit in (
        ("Proj", (12,), 0.3),
        ("Proj, plain projection", (12,), 0.3),
        ("Constr", (12,), 0.6),
        ("Proj", (13, 11), 0.8),
        ("Proj, plain projection", (13, 11), 0.8),
        ("Constr", (13, 11), 1.5),
    ):
        one = sweeps(problem_of(samples, ranks, (DEGREE,) * len(ranks)), method)
        seconds = best_of(one, REPEATS)
        rows.append(
            [
                f"{method}, ranks {ranks}",
                f"{seconds * 1e3:.2f} ms",
                f"{seconds / unit:.2f}",
                verdict(seconds / unit, limit),
            ]
        )
    return "### Time of one iteration\n\n" + table(["one iteration of", "time", "ratio to TensorLy", "target"], rows)


def against_reference(samples: dc.Samples) -> str:
    """One iteration against the matrices of the paper and `lstsq`, and how far the results are apart."""
    ranks = (8, 12)
    problem = problem_of(samples, ranks, (DEGREE, DEGREE))
    rows = []
    for method, name in (("Proj, plain projection", "proj"), ("Constr", "constr")):
        start = draw_factors(problem, dc.Normal(), 1, np.random.default_rng(2))  # better conditioned than [0.1, 10]
        plain = reference.State([w[0] for w in start.W], [g[0] for g in start.G], start.R[0], [c[0] for c in start.C])
        began = time.perf_counter()
        slow = reference.iteration(samples.J, samples.F, samples.X, plain, [DEGREE, DEGREE], 1e-2, name)
        slow_seconds = time.perf_counter() - began
        fast = sweep(problem, start, 1e-2, UPDATES[method])
        fast_seconds = best_of(lambda method=method, start=start: sweep(problem, start, 1e-2, UPDATES[method]), REPEATS)
        apart = max(
            float(np.max(np.abs(a[0] - b)) / np.max(np.abs(b)))
            for a, b in zip((*fast.W, *fast.G), (*slow.W, *slow.G), strict=True)
        )
        ratio = slow_seconds / fast_seconds
        rows.append(
            [
                f"{method}, ranks {ranks}",
                f"{slow_seconds:.1f} s",
                f"{fast_seconds * 1e3:.2f} ms",
                f"{ratio:.0f}",
                verdict(ratio, 100, at_least=True),
                f"{apart:.1e}",
                verdict(apart, 1e-8),
            ]
        )
    header = [
        "one iteration of",
        "reference",
        "ours",
        "times faster",
        "target",
        "largest relative difference",
        "target",
    ]
    return (
        "### Against the paper's matrices and `lstsq`\n\n`benchmarks/reference.py` builds every matrix M of the paper. "
        "Both start from the same factors; the difference is that of the factors after one iteration.\n\n"
        + table(header, rows)
    )


def memory(samples: dc.Samples) -> str:
    """Peak of all arrays during `decouple`, the samples included."""
    rows = []
    for solver, ranks in ((dc.Proj, (12,)), (dc.Constr, (12,)), (dc.Proj, (13, 11)), (dc.Constr, (13, 11))):
        arrays = {"X": np.array(samples.X), "F": np.array(samples.F), "J": np.array(samples.J)}
        tracemalloc.start()
        dc.decouple(
            dc.Samples(**arrays),
            ranks,
            (DEGREE,) * len(ranks),
            solver=solver(stopping=dc.solvers.Stopping(max_steps=10)),
            n_starts=1,
            progress=False,
        )
        peak = tracemalloc.get_traced_memory()[1] / samples.J.nbytes
        tracemalloc.stop()
        rows.append([f"{solver.__name__}, ranks {ranks}", f"{peak:.2f}", verdict(peak, 4)])
    return "### Peak memory\n\n" + table(["ten iterations of", "peak in sizes of J", "target"], rows)
