"""Time per iteration against the number of samples and of inputs, for one to four layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from decouply.report._style import COLOURS, house_style, new_figure

from .machine import best_of, table
from .problems import noise_samples, problem_of, sweeps

SIZES_S = (500, 1000, 2000, 4000)
SIZES_M = (256, 512, 1024, 2048)
LABELS = {"S": "samples S (n = 10, m = 64)", "m": "inputs m (n = 10, S = 500)"}


def section(directory: Path) -> str:
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
        figure.savefig(directory / "benchmarks-growth.png", dpi=120)
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
        "do. Rank 8 and degree 3 in every layer.\n\n![Time per iteration](benchmarks-growth.png)\n\n"
        + table(header, rows)
    )


def _time(method: str, symbol: str, size: int, L: int) -> float:
    samples = noise_samples(10, 64, size) if symbol == "S" else noise_samples(10, size, 500)
    return best_of(sweeps(problem_of(samples, (8,) * L, (3,) * L), method), 7)
