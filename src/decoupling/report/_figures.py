"""Figures of a decoupling and of how it was found, returned as matplotlib figures."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from matplotlib.figure import Figure

from .._decoupling import Decoupling
from .._inference import standard_errors
from .._result import Result
from .._samples import Samples
from ._style import COLOURS, house_style, new_figure

_BANDS_UP_TO = 1000  # parameters; more would take longer than the drawing


def plot_functions(model: Decoupling, samples: Samples, *, bands: bool = False, fixed: Collection[str] = ()) -> Figure:
    """Every internal function over the range that the samples visit; ticks at the bottom mark where they lie.

    With `bands`, two standard errors to either side are shaded; `fixed` names parts that were given and have none.
    """
    widest = max(model.ranks)
    grids = [np.linspace(u.min(axis=0), u.max(axis=0), 200) for u in model.inner_inputs(samples.X)]  # (200, r_l)
    errors = standard_errors(model, samples, grids, fixed) if bands and model.n_parameters <= _BANDS_UP_TO else None
    with house_style():
        figure = new_figure(2.2 * widest + 0.4, 1.9 * model.n_layers + 0.2)
        axes = figure.subplots(model.n_layers, widest, squeeze=False)
        for l, (functions, u) in enumerate(zip(model.g, model.inner_inputs(samples.X), strict=True)):
            values = functions(grids[l])
            for j in range(widest):
                ax = axes[l, j]
                if j >= functions.rank:
                    ax.set_axis_off()
                    continue
                colour = COLOURS[l % len(COLOURS)]
                ax.plot(grids[l][:, j], values[:, j], color=colour, linewidth=1.8)
                if errors is not None and np.all(np.isfinite(errors[l][:, j])):
                    low, high = values[:, j] - 2 * errors[l][:, j], values[:, j] + 2 * errors[l][:, j]
                    ax.fill_between(grids[l][:, j], low, high, color=colour, alpha=0.2, linewidth=0)
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
            if np.any(values > 0.0):  # NaN where a solver does not look at it
                ax.semilogy(iteration, values, label=name, color=colour, linewidth=1.3)
        if not ax.lines and np.any(history.objective > 0.0):
            ax.semilogy(iteration, history.objective, label="objective of the best start", color=COLOURS[0])
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
            rows = [row for row in result.starts if row.lam == lam]
            errors = sorted(row.objective for row in rows if np.isfinite(row.objective) and row.objective > 0.0)
            share = np.arange(1, len(errors) + 1) / len(rows)
            ax.step(
                errors,
                share,
                where="post",
                marker="o",
                markersize=3,
                color=COLOURS[i % len(COLOURS)],
                label=f"lam = {lam:.0e}",
            )
        if any(len(np.asarray(line.get_xdata())) for line in ax.lines):
            ax.set_xscale("log")
        ax.set_ylim(0, 1.05)
        ax.set_xlabel("objective of the start")
        ax.set_ylabel("share of starts")
        ax.legend(frameon=False)
    return figure
