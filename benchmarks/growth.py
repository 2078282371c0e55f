"""Time per iteration against the number of samples and of inputs, for one to four layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from decoupling.report._style import COLOURS, house_style, new_figure

from .machine import best_of, table
from .problems import noise_samples, problem_of, sweeps

SIZES_S = (500, 1000, 2000, 4000)
SIZES_M = (256, 512, 1024, 2048)


def section(directory: Path) -> str:
    rows = []
    with house_style():
        figure = new_figure(8.0, 5.6)
        axes = figure.subplots(2, 2)
        for i, method in enumerate(("Proj", "Constr")):
            for j, (symbol, sizes) in enumerate((("S", SIZES_S), ("m", SIZES_M))):
                ax = axes[i, j]
                for L in (1, 2, 3, 4):
                    seconds = [_time(method, symbol, size, L) for size in sizes]
                    slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
                    rows.append(
                        [
                            method,
                            str(L),
                            symbol,
                            f"{seconds[0] * 1e3:.1f} to {seconds[-1] * 1e3:.1f} ms",
                            f"{slope:.2f}",
                        ]
                    )
                    ax.loglog(
                        sizes, np.array(seconds) * 1e3, "o-", color=COLOURS[L - 1], label=f"L = {L}, slope {slope:.2f}"
                    )
                ax.set_xlabel({"S": "samples S (n = 10, m = 64)", "m": "inputs m (n = 10, S = 500)"}[symbol])
                ax.set_ylabel(f"{method}: ms per iteration")
                ax.legend(frameon=False, fontsize=7)
        figure.savefig(directory / "benchmarks-growth.png", dpi=120)
    text = table(["method", "L", "grows with", "time of one iteration", "fitted exponent"], rows)
    return (
        "## Growth with the size of the problem\n\nAn exponent of 1 is linear; below 1, part of the time does not grow"
        ": with m, only the two products with J do. Rank 8 and degree 3 in every layer.\n\n"
        "![Time per iteration](benchmarks-growth.png)\n\n" + text
    )


def _time(method: str, symbol: str, size: int, L: int) -> float:
    samples = noise_samples(10, 64, size) if symbol == "S" else noise_samples(10, size, 500)
    return best_of(sweeps(problem_of(samples, (8,) * L, (3,) * L), method), 7)
