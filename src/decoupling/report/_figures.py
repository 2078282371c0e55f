"""Figures of a decoupling and of how it was found, returned as matplotlib figures."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from .._decoupling import Decoupling
from .._result import Result
from .._samples import Samples
from ._style import COLOURS, house_style, new_figure


def plot_functions(model: Decoupling, samples: Samples) -> Figure:
    """Every internal function over the range that the samples visit; ticks at the bottom mark where they lie."""
    widest = max(model.ranks)
    with house_style():
        figure = new_figure(2.2 * widest + 0.4, 1.9 * model.n_layers + 0.2)
        axes = figure.subplots(model.n_layers, widest, squeeze=False)
        for l, (functions, u) in enumerate(zip(model.g, model.inner_inputs(samples.X), strict=True)):
            for j in range(widest):
                ax = axes[l, j]
                if j >= functions.rank:
                    ax.set_axis_off()
                    continue
                low, high = float(u[:, j].min()), float(u[:, j].max())
                grid = np.zeros((200, functions.rank))
                grid[:, j] = np.linspace(low, high, 200)
                ax.plot(grid[:, j], functions(grid)[:, j], color=COLOURS[l % len(COLOURS)], linewidth=1.8)
                ax.plot(u[:, j], np.zeros(len(u)), "|", color="0.5", transform=ax.get_xaxis_transform(), markersize=5)
                ax.set_title(f"layer {l + 1}, function {j + 1}", fontsize=8)
                ax.set_xlabel(f"$u_{{{l + 1},{j + 1}}}$")
                ax.ticklabel_format(axis="y", scilimits=(-3, 4))
                ax.locator_params(axis="x", nbins=5)
    return figure


def plot_history(result: Result) -> Figure:
    """Error(J) and Error(F) of the chosen start, iteration by iteration; dotted lines where lam changed."""
    history = result.history
    with house_style():
        figure = new_figure(6.4, 2.8)
        ax = figure.subplots()
        iteration = np.arange(1, len(history) + 1)
        for name, values, colour in (
            ("Error(J)", history.error_jacobian, COLOURS[0]),
            ("Error(F)", history.error_values, COLOURS[1]),
        ):
            if np.any(values > 0.0):
                ax.semilogy(iteration, values, label=name, color=colour, linewidth=1.3)
        for t in np.flatnonzero(np.diff(history.lam)) + 1:
            ax.axvline(t + 0.5, color="0.4", linestyle=":", linewidth=1)
        ax.set_xlabel("iteration")
        ax.set_ylabel("relative squared error")
        if ax.lines:
            ax.legend(frameon=False)
    return figure


def plot_starts(result: Result) -> Figure:
    """How many starts reach which objective, one line per value of lam."""
    with house_style():
        figure = new_figure(6.4, 2.8)
        ax = figure.subplots()
        for i, lam in enumerate(dict.fromkeys(row.lam for row in result.starts)):
            errors = sorted(row.error_jacobian for row in result.starts if row.lam == lam)
            share = np.arange(1, len(errors) + 1) / len(errors)
            ax.step(
                errors,
                share,
                where="post",
                marker="o",
                markersize=3,
                color=COLOURS[i % len(COLOURS)],
                label=f"lam = {lam:.0e}",
            )
        ax.set_xscale("log")
        ax.set_ylim(0, 1.05)
        ax.set_xlabel("Error(J) of the start")
        ax.set_ylabel("share of starts")
        ax.legend(frameon=False)
    return figure
