"""The picture of a selection of ranks and degrees."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..fit.select._candidates import in_words
from ..fit.select._select import Selection, SelectionRow
from ._style import MARKERS, STYLES, house_style, new_figure

_LEAST = 1e-10  # percent; what is below is rounding and drawn there


def plot_selection(selection: Selection, *, dark: bool = False) -> Figure:
    """Errors on left-out samples against numbers of parameters: one point per shape, the Pareto front, the choice.

    Beside it the singular values of the unfoldings, where there are Jacobians.
    """
    unfoldings = selection.hints.unfoldings
    with house_style(dark=dark) as look:
        figure = new_figure(9.0 if unfoldings else 5.6, 3.6)
        if unfoldings:
            ax, beside = figure.subplots(1, 2, width_ratios=[3, 2])
            for i, unfolding in enumerate(unfoldings):
                values = unfolding.singular_values.clip(1e-17)
                beside.semilogy(
                    np.arange(1, len(values) + 1),
                    values,
                    marker=MARKERS[i],
                    linestyle=STYLES[i % len(STYLES)],
                    markersize=3.5,
                    color=look.colours[i],
                    linewidth=1,
                    label=f"{unfolding.name}: {unfolding.rank}",
                )
            beside.set_xlabel("index of the singular value")
            beside.set_ylabel("relative to the largest")
            beside.xaxis.get_major_locator().set_params(integer=True)
            beside.legend(frameon=False, fontsize=7)
        else:
            ax = figure.subplots()
        for L in sorted({len(row.ranks) for row in selection.table}):
            rows = [row for row in selection.table if len(row.ranks) == L]
            label = "1 layer" if L == 1 else f"{L} layers"
            marker, colour = MARKERS[(L - 1) % len(MARKERS)], look.colours[(L - 1) % len(look.colours)]
            ax.plot(*_points(rows), marker, color=colour, markersize=4, label=label)
        ax.plot(
            *_points([row for row in selection.table if row.pareto]),
            color=look.faint,
            linewidth=1,
            label="Pareto front",
        )
        chosen = selection.chosen
        x, y = _points([chosen])
        ax.plot(x, y, "o", markersize=11, markerfacecolor="none", markeredgecolor=look.ink, label="recommended")
        ax.annotate(
            f"ranks {in_words(chosen.ranks)}\ndegrees {in_words(chosen.degrees)}",
            (x[0], y[0]),
            xytext=(-10, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=8,
        )
        ax.set_yscale("log")
        ax.margins(x=0.12, y=0.12)
        for formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
            formatter(FuncFormatter(_percent_tick))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=(1, 2, 5, 10)))
        ax.set_xlabel("parameters")
        ax.set_ylabel("error on left-out samples, %")
        ax.legend(frameon=False, fontsize=7)
    return figure


def _percent_tick(value: float, _: int | None = None) -> str:
    """1, 2 and 5 times powers of ten: 0.5, 20, 1e-6."""
    digit, exponent = f"{value:.0e}".split("e")
    if digit not in ("1", "2", "5"):
        return ""
    return f"{value:g}" if -4 < int(exponent) < 5 else f"{digit}e{int(exponent)}"


def _points(rows: list[SelectionRow]) -> tuple[list[int], list[float]]:
    finite = [row for row in rows if np.isfinite(row.error)]
    return [row.n_parameters for row in finite], [max(row.error, _LEAST) for row in finite]
