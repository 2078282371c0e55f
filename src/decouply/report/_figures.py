"""Figures of the internal functions, of how a decoupling was found, of how well it fits, and of a choice of ranks."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy import ndarray

from ..fit._result import Result
from ..fit.interpret._recognise import NamedCurve
from ..fit.select._selection import Selection, SelectionRow
from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from ..write._curves import Bands, Curve, curves, refuse_infinite
from ._layout import mixture, short, signal_names, text_width
from ._style import MARKERS, STYLES, Look, house_style, new_figure

_PER_ROW = 6  # functions
_MOST_FUNCTIONS = 36  # of one layer
_MOST_PANELS = 12  # outputs
_PANEL_WIDTH = 2.5  # inches
_LONGEST_SUM = 34  # letters under a function
_MOST_POINTS = 3000  # of one panel
_NAMED = "#E69F00"  # as on the page
_LEAST_OBJECTIVE = 1e-32  # objectives below this are all the same


def plot_functions(
    model: Decoupling,
    X: ndarray,
    *,
    bands: Bands | None = None,
    named: Mapping[tuple[int, int], NamedCurve] | None = None,
    dark: bool = False,
) -> Figure:
    """Every internal function over the range that the points X visit; ticks at the bottom mark the points.

    `bands` are shaded, to either side. Broad lines are curves that functions are named by.
    What lies outside the domain of a function is dashed.
    """
    drawn = curves(model, X, n_points=200, bands=bands)
    refuse_infinite(drawn)
    shown = [layer[:_MOST_FUNCTIONS] for layer in drawn]
    columns = min(_PER_ROW, max(len(layer) for layer in shown))
    rows = [math.ceil(len(layer) / columns) for layer in shown]
    with house_style(dark=dark) as look:
        figure = new_figure(max(2.2 * columns, 3.2) + 0.4, 1.9 * sum(rows) + 0.2)
        axes = figure.subplots(sum(rows), columns, squeeze=False)
        for l, (layer, u) in enumerate(zip(shown, model.inner_inputs(X), strict=True)):
            panels = axes[sum(rows[:l]) : sum(rows[: l + 1])].ravel()
            for j, ax in enumerate(panels):
                if j >= len(layer):
                    ax.set_axis_off()
                    continue
                _draw_curve(ax, layer[j], u[:, j], look.colours[l % len(look.colours)], look)
                subscript = f"{l + 1},{j + 1}" if model.n_layers > 1 else f"{j + 1}"
                name = (named or {}).get((l + 1, j + 1))
                if name is not None:
                    ax.plot(layer[j].u, name(layer[j].u), color=_NAMED, linewidth=5.0, alpha=0.5, zorder=1.5)
                ax.set_title(f"$g_{{{subscript}}}$" + ("" if name is None else f": {name.name}"), fontsize=8)
                ax.set_xlabel(short(mixture(model, X, l + 1, j), _LONGEST_SUM), fontsize=7.5, parse_math=False)
            if len(layer) < len(drawn[l]):
                panels[-1].set_title(f"{panels[-1].get_title()} of {len(drawn[l])}", fontsize=8)
    return figure


def _draw_curve(ax: Axes, curve: Curve, u: Float[ndarray, " S"], colour: str, look: Look) -> None:
    cut = curve.parts
    for pieces, style in ((cut.inside, "-"), (cut.beyond, "--")):
        for piece in pieces:
            ax.plot(*piece, color=colour, linewidth=1.8, linestyle=style)
    if curve.band is not None:
        low, high = curve.values - curve.band, curve.values + curve.band
        ax.fill_between(curve.u, low, high, color=colour, alpha=0.25, linewidth=0)
    low, high = curve.limits
    ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    at = u[:: math.ceil(len(u) / _MOST_POINTS)]
    ax.plot(at, np.zeros(len(at)), "|", color=look.faint, transform=ax.get_xaxis_transform(), markersize=5)
    for end in cut.ends:
        ax.plot((end, end), (0.0, 0.1), color=look.ink, linewidth=1.2, gid="end", transform=ax.get_xaxis_transform())
    ax.ticklabel_format(axis="y", scilimits=(-3, 4))
    ax.locator_params(axis="x", nbins=5)


def plot_history(result: Result, *, dark: bool = False) -> Figure:
    """The objective, and Error(J) and Error(F) if the solver looks at them, iteration by iteration.

    Each value of lam is a separate stage, named above. Do not compare objectives between stages.
    """
    history = result.history
    errors = [("Error(J)", history.error_jacobian, 0, "-"), ("Error(F)", history.error_values, 1, "--")]
    errors = [row for row in errors if np.any(row[1] > 0.0)]  # NaN where a solver does not look at it
    with house_style(dark=dark) as look:
        figure = new_figure(6.8, 4.4 if errors else 2.9)
        panels = figure.subplots(2 if errors else 1, 1, sharex=True, squeeze=False)[:, 0]
        stages = _stages(history.lam)
        _draw_stages(panels[0], stages, history.objective, look.ink, "-", "objective")
        panels[0].set_ylabel("objective")
        for name, values, i, style in errors:
            _draw_stages(panels[1], stages, values, look.colours[i], style, name)
        if errors:
            panels[1].set_ylabel("relative squared error")
            panels[1].legend(frameon=False)
        for ax in panels:
            ax.set_xlim(0.5, len(history) + 0.5)
            low, high = ax.dataLim.intervaly
            if low <= high < 2.0 * low:  # so short a logarithmic axis would have no numbers
                ax.set_ylim(low / 2.0, high * 2.0)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=(1, 2, 5, 10)))
            for first, _ in stages[1:]:
                ax.axvline(first + 0.5, color=look.faint, linestyle=":", linewidth=1)
        panels[-1].set_xlabel("iteration" + ("" if errors else _in_the_end(result)))
        if result.path:
            _name_stages(panels[0], result, stages)
    return figure


def _in_the_end(result: Result) -> str:
    """The errors of the model, for solvers that do not look at them on the way."""
    known = {"Error(J)": result.error_jacobian, "Error(F)": result.error_values}
    return "\nin the end: " + ", ".join(f"{name} {error:.2g}" for name, error in known.items() if np.isfinite(error))


def _stages(lam: Float[ndarray, " t"]) -> list[tuple[int, int]]:
    """Begin and end of each run of equal values."""
    cuts = [0, *(int(t) + 1 for t in np.flatnonzero(np.diff(lam))), len(lam)]
    return [(a, b) for a, b in pairwise(cuts) if b > a]


def _draw_stages(
    ax: Axes, stages: list[tuple[int, int]], values: Float[ndarray, " t"], colour: str, style: str, name: str
) -> None:
    """One line per stage. Values of 0 are drawn if rounding begins: a logarithm has no room for them."""
    ax.set_yscale("log")
    floor = np.where(values >= 0.0, np.maximum(values, _LEAST_OBJECTIVE), np.nan)
    for i, (first, end) in enumerate(stages):
        ax.plot(
            np.arange(first, end) + 1,
            floor[first:end],
            color=colour,
            linestyle=style,
            linewidth=1.5,
            marker="o" if end - first == 1 else None,
            markersize=4,
            label=name if i == 0 else None,
        )


def _name_stages(ax: Axes, result: Result, stages: list[tuple[int, int]]) -> None:
    """The values of lam above their stages, upright if they are short; the chosen one is bold."""
    total = stages[-1][1]
    upright = any(end - first < 0.12 * total for first, end in stages)
    rows = {float(row.lam): row.chosen for row in result.path}
    centres = [(first + end + 1) / 2 for first, end in stages]
    order = sorted(range(len(stages)), key=lambda i: not rows.get(float(result.history.lam[stages[i][0]])))
    written: list[float] = []
    for i in order:
        if any(abs(centres[i] - other) < 0.028 * total for other in written):
            continue  # it would cover another one
        lam = float(result.history.lam[stages[i][0]])
        chosen = rows.get(lam, False)
        ax.annotate(
            f"λ = {_power(lam)}" + (" chosen" if chosen else ""),
            (centres[i], 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            rotation=90 if upright else 0,
            fontsize=8,
            fontweight="bold" if chosen else "normal",
        )
        written.append(centres[i])


def _power(lam: float) -> str:
    """1e-6 rather than 1e-06."""
    if 1e-3 <= lam < 1e3 or lam == 0.0:
        return f"{lam:.3g}"
    mantissa, exponent = f"{lam:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def plot_starts(result: Result, *, dark: bool = False) -> Figure:
    """How many starts reach which objective: for every objective, the number of starts that are at least as good.

    There is one line per value of lam. Starts that were given up early have no objective, and end no line.
    """
    stages = list(dict.fromkeys(row.lam for row in result.starts))
    with house_style(dark=dark) as look:
        figure = new_figure(6.8, 3.0)
        ax = figure.subplots()
        total = most = 0
        every: list[float] = []
        for i, lam in enumerate(stages):
            rows = [row for row in result.starts if row.lam == lam]
            reached = sorted(max(row.objective, _LEAST_OBJECTIVE) for row in rows if np.isfinite(row.objective))
            label = f"λ = {_power(lam)}" + (", chosen" if lam == result.lam and len(stages) > 1 else "")
            given_up = len(rows) - len(reached)
            total, most = max(total, len(rows)), max(most, len(reached))
            every += reached
            ax.step(
                reached,
                np.arange(1, len(reached) + 1),
                where="post",
                linestyle=STYLES[i // len(look.colours) % len(STYLES)],
                marker=MARKERS[i % len(MARKERS)],
                markersize=3.5,
                linewidth=2.2 if lam == result.lam else 1.3,
                color=look.colours[i % len(look.colours)],
                label=label + (f" ({given_up} given up early)" if given_up else ""),
            )
        if every and max(every) > 10 * min(every):
            ax.set_xscale("log")
        else:
            ax.ticklabel_format(axis="x", scilimits=(-3, 4))
        ax.set_ylim(0, 1.05 * max(most, 1))
        ax.yaxis.set_major_locator(MaxNLocator(integer=True, steps=(1, 2, 5, 10)))
        ax.set_xlabel("objective")
        ax.set_ylabel(f"starts that reach it, of {total}")
        outside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if len(stages) > 1 else {"loc": "best"}
        ax.legend(frameon=False, fontsize=8, **outside)
    return figure


def plot_fit(
    model: Decoupling, samples: Samples, e: Float[ndarray, " n"], *, outputs: Collection[str] | None, dark: bool = False
) -> Figure:
    """Measured against predicted values, one square per output, with its error above and the residuals below.

    Of more than twelve outputs the worst twelve are shown, of very many samples some.
    """
    assert samples.F is not None
    _, written = signal_names(model, None, outputs)
    shown = np.sort(np.argsort(-e, kind="stable")[:_MOST_PANELS])
    rows = slice(None, None, math.ceil(len(samples) / _MOST_POINTS))
    truth, fitted = samples.F[rows], model(samples.X[rows])
    columns = min(4, len(shown))
    n_rows = math.ceil(len(shown) / columns)
    with house_style(dark=dark) as look:
        figure = new_figure(_PANEL_WIDTH * columns + 0.5, 3.2 * n_rows + (0.3 if len(shown) < len(e) else 0.0))
        axes = figure.subplots(2 * n_rows, columns, squeeze=False, height_ratios=(3, 1) * n_rows)
        for k in range(n_rows * columns):
            top, bottom = axes[2 * (k // columns) : 2 * (k // columns) + 2, k % columns]
            if k >= len(shown):
                top.set_axis_off()
                bottom.set_axis_off()
                continue
            i = int(shown[k])
            _draw_fit(top, bottom, truth[:, i], fitted[:, i], look)
            title = _fit_title(written[i].text, float(e[i]), varies=bool(np.ptp(truth[:, i]) > 0.0))
            top.set_title(title, fontsize=9, parse_math=False)
            if k % columns == 0:
                top.set_ylabel("measured")
                bottom.set_ylabel("residual")
            bottom.set_xlabel("predicted")
        if len(shown) < len(e):
            figure.suptitle(f"the worst {len(shown)} of {len(e)} outputs", fontsize=9)
    return figure


def _draw_fit(top: Axes, bottom: Axes, truth: Float[ndarray, " s"], fitted: Float[ndarray, " s"], look: Look) -> None:
    dots: dict[str, Any] = {"color": look.colours[0], "markersize": 3.0, "alpha": 0.7, "markeredgewidth": 0.0}
    dots["rasterized"] = len(truth) > 1000  # thousands of dots make slow vector graphics
    low, high = float(min(truth.min(), fitted.min())), float(max(truth.max(), fitted.max()))
    top.plot((low, high), (low, high), color=look.faint, linewidth=1.0, zorder=1.5)
    top.plot(fitted, truth, "o", **dots)
    bottom.axhline(0.0, color=look.faint, linewidth=1.0, zorder=1.5)
    bottom.plot(fitted, truth - fitted, "o", **dots)
    spread = 2.0 * float(np.std(truth - fitted))
    bottom.axhspan(-spread, spread, color=look.faint, alpha=0.25, linewidth=0.0, zorder=1.0)
    top.set_box_aspect(1.0)
    bottom.set_box_aspect(1.0 / 3.0)
    bottom.sharex(top)
    top.tick_params(labelbottom=False)
    for ax, count in ((top, 5), (bottom, 3)):
        ax.ticklabel_format(scilimits=(-3, 4))
        ax.locator_params(axis="y", nbins=count)
    top.locator_params(axis="x", nbins=3)


def _fit_title(name: str, e: float, *, varies: bool) -> str:
    """In two lines if one would run into the next panel."""
    far = (
        f"error {e:.3g} %, R² {1.0 - (e / 100.0) ** 2:.4g}"
        if varies
        else f"it does not vary, error {e:.3g} % of its size"
    )
    title = f"{short(name)}: {far}"
    return title if text_width(title) < 72 * _PANEL_WIDTH else f"{short(name)}\n{far}"


_LEAST = 1e-10  # percent; what is below is rounding and drawn there


def plot_selection(selection: Selection, *, dark: bool = False) -> Figure:
    """Errors on validation samples against numbers of parameters: one point per shape, the Pareto front, the choice.

    Beside it the singular values of the unfoldings, if there are Jacobians.
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
            "\n".join(g.in_words for g in chosen.decoupling.g),
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
        ax.set_ylabel("validation error, %")
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
