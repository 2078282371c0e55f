"""One sweep of the paper's solvers: at the size of a network layer, with many starts, and as problems grow.

The layer has n = 10, m = 512 and S = 200, and is measured against the plain reference and against TensorLy.
"""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import numpy as np
import tensorly
from tensorly.decomposition import parafac

import decouply as dc
from decouply.report._style import COLOURS, house_style, new_figure
from decouply.solvers.alternating._loop import draw_factors
from decouply.solvers.alternating._sweep import sweep

from . import reference
from .problems import UPDATES, best_of, noise_samples, problem_of, sweeps, system_samples, table, verdict

N, M, S, DEGREE = 10, 512, 200, 4
REPEATS = 15
SIZES_S = (500, 1000, 2000, 4000)
SIZES_M = (256, 512, 1024, 2048)
LABELS = {"S": "samples S (n = 10, m = 64)", "m": "inputs m (n = 10, S = 500)"}


def section(directory: Path) -> str:
    samples = noise_samples(N, M, S)
    return "\n\n".join(
        [
            f"## A network-sized problem: n = {N}, m = {M}, S = {S}, degree {DEGREE}",
            "The tensor is random of full rank, so that the subspace compression does not help.",
            against_tensorly(samples),
            against_reference(samples),
            memory(samples),
            starts_in_one_batch(),
            growth(directory),
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
        start = draw_factors(
            problem, dc.solvers.Normal(), 1, np.random.default_rng(2)
        )  # better conditioned than [0.1, 10]
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


def starts_in_one_batch() -> str:
    """One sweep of many starts against that of one."""
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


def growth(directory: Path) -> str:
    """Time per iteration against the number of samples and of inputs, for one to four layers."""
    rows = []
    with house_style():
        figure = new_figure(8.0, 5.6)
        axes = figure.subplots(2, 2)
        for i, method in enumerate(("Proj", "Constr")):
            for j, (symbol, sizes) in enumerate((("S", SIZES_S), ("m", SIZES_M))):
                ax = axes[i, j]
                for L in (1, 2, 3, 4):
                    times = np.array([_time(method, symbol, size, L) for size in sizes]) * 1e3
                    exponent = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
                    slope, offset = np.polyfit(sizes, times, 1)
                    line = offset + slope * np.array(sizes)
                    share = 1.0 - np.sum((times - line) ** 2) / np.sum((times - times.mean()) ** 2)
                    span = f"{times[0]:.1f} to {times[-1]:.1f} ms"
                    rows.append(
                        [method, str(L), symbol, span, f"{exponent:.2f}", f"{1e3 * slope:.1f} µs", f"{share:.4f}"]
                    )
                    ax.plot(sizes, times, "o", color=COLOURS[L - 1], label=f"L = {L}")
                    ax.plot(sizes, line, "-", color=COLOURS[L - 1], linewidth=1)
                ax.set_xlabel(LABELS[symbol])
                ax.set_ylabel(f"{method}: ms per iteration")
                ax.legend(frameon=False, fontsize=7)
        figure.savefig(directory / "growth.png", dpi=120)
    header = [
        "method",
        "L",
        "grows with",
        "time of one iteration",
        "fitted exponent",
        "slope of the line",
        "R² of the line",
    ]
    return (
        "## Growth with the size of the problem\n\nPoints are times, lines are straight: time = offset + slope × size. "
        "A fitted exponent below 1 means that a part of the time does not grow; with m, only the two products with J "
        "do. Rank 8 and degree 3 in every layer.\n\n![Time per iteration](../speed/growth.png)\n\n"
        + table(header, rows)
    )


def _time(method: str, symbol: str, size: int, L: int) -> float:
    samples = noise_samples(10, 64, size) if symbol == "S" else noise_samples(10, size, 500)
    return best_of(sweeps(problem_of(samples, (8,) * L, (3,) * L), method), 7)
