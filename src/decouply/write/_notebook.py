"""What notebooks show: small tables with small drawings, in the colour of the text around them.

The drawings are SVG written by hand, so that showing a result needs neither matplotlib nor a file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..fit._result import Result
from ..fit.interpret._recognise import Recognition
from ..model._decoupling import Decoupling
from ..model._names import Name, as_html, names
from ..samples._samples import Samples
from ._curves import Curve, Curves, curves

_MOST_ITEMS = 12  # curves of a layer, numbers of a row
_MOST_VARIABLES = 6  # inputs, and outputs
_WIDTH, _HEIGHT, _PAD = 64, 36, 3
_BINS = 24
_N_POINTS = 40
_BEYOND = {"extend": "", "linear": "; tangents beyond the domains", "constant": "; constant beyond the domains"}

Row = tuple[str, str]  # head and cell, both HTML


def samples_html(samples: Samples) -> str:
    """The range and a histogram of every input and output."""
    shown = samples.shown
    rows = _variables(names("inputs", samples.inputs, "x", samples.n_inputs), shown.X)
    if shown.F is not None:
        rows += _variables(names("outputs", samples.outputs, "y", samples.n_outputs), shown.F)
    if samples.has_jacobians:
        where = "" if samples.in_memory else f" in {samples.data.place}"
        rows.append(("J", " &times; ".join(str(size) for size in samples.data.shape) + where))
    return _table(repr(samples), rows)


def decoupling_html(model: Decoupling) -> str:
    """The layers, with the functions over their domains: a model does not know its samples."""
    rows = _layers(model, curves(model, n_points=_N_POINTS))
    note = "Curves are drawn over the domains of the functions; plot(X) draws them over the points."
    return _table(_title(model), rows, note)


def result_html(result: Result) -> str:
    """How good the model is, its functions over the samples, and what the user should know."""
    model, samples = result.decoupling, result.samples.shown
    rows = []
    if samples.J is not None:
        rows.append(("Error(J)", f"{result.error_jacobian:.3g}"))
    if samples.F is not None:
        e = [f"{value:.3g}" for value in result.relative_rmse()]
        rows += [("Error(F)", f"{result.error_values:.3g}"), ("e<sub>i</sub> in %", ", ".join(_some(e)))]
        rows.append(("R<sup>2</sup>", ", ".join(_some([f"{value:.4g}" for value in result.quality.r_squared]))))
    rows.append(("verdict", as_html(str(result.verdict))))
    rows += _layers(model, curves(model, samples.X, n_points=_N_POINTS))
    rows += [("&lambda;", f"{result.lam:.0e}"), ("stopped", as_html(result.reason))]
    rows += [("found by", as_html(result.found_by))] if result.found_by else []
    rows += [("note", as_html(note)) for note in result.notes]
    return _table(_title(model), rows, "Curves are drawn over the range that the samples visit.")


def recognition_html(recognition: Recognition) -> str:
    """Every function with its best names and the evidence for them."""
    head = ("function", "name", "off", "parameters", "score")
    lines = ["".join(f"<th>{cell}</th>" for cell in head)]
    for function in recognition:
        subscript = recognition.symbol(function).removeprefix("g_")
        rows = recognition.rows(function)
        for i, row in enumerate(rows):
            symbol = "" if i else f"g<sub>{subscript}</sub>"
            words = f"<b>{as_html(row[0])}</b>" if i == 0 else as_html(row[0])
            cells = (symbol, words, *(as_html(cell) for cell in row[1:]))
            lines.append("".join(f'<td style="text-align:left">{cell}</td>' for cell in cells))
    note = "Scores below 0 are better than that of a smooth curve of any shape."
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<div><table>{body}</table><div><small>{note}</small></div></div>"


# Rows


def _title(model: Decoupling) -> str:
    """The sizes of a model. Degrees are told by the bases, which are named with their layers."""
    dims = "-".join(str(d) for d in (model.n_inputs, *model.ranks, model.n_outputs))
    return f"Decoupling {dims}, {model.n_parameters} parameters"


def _variables(called: tuple[Name, ...], values: Float[ndarray, "S k"]) -> list[Row]:
    """One row per column: name, range, histogram."""
    rows = []
    size = values.shape[1]
    shown = size if size <= _MOST_VARIABLES + 1 else _MOST_VARIABLES
    for name, column in zip(called[:shown], values.T, strict=False):
        text = f"{column.min() + 0.0:.3g} &hellip; {column.max() + 0.0:.3g}"  # + 0.0: no minus before zero
        rows.append((name.html, f"{_histogram(column, name.text)} {text}"))
    if shown < size:
        rows.append(("", f"&hellip; and {size - shown} more"))
    return rows


def _layers(model: Decoupling, drawn: Curves) -> list[Row]:
    rows = []
    for key, called in (("inputs", model.inputs), ("outputs", model.outputs)):
        if called is not None:
            labels = names(key, called, "", len(called))
            rows.append((key, ", ".join(_some([name.html for name in labels]))))
    for l, W in enumerate(model.W):
        rows.append((f"W<sub>{l}</sub>", f"{W.shape[0]} &times; {W.shape[1]}"))
        if l < model.n_layers:
            pictures = [_sparkline(curve, f"g{l + 1}_{j + 1}") for j, curve in enumerate(drawn[l][: _MOST_ITEMS + 1])]
            cell = " ".join(_some(pictures, n=model.ranks[l]))
            rows.append((f"g<sub>{l + 1}</sub>", f"{cell}<br>{_basis(model, l)}"))
    if model.linear is not None:
        rows.append(("A", f"{model.n_outputs} &times; {model.n_inputs}, a linear part"))
    if model.offset is not None:
        rows.append(("b", as_html(", ".join(_some([f"{value:.3g}" for value in model.offset])))))
    return rows


def _basis(model: Decoupling, l: int) -> str:
    """The basis of a layer, each of several named once, and what the functions do beyond their domains."""
    bases = list(dict.fromkeys(repr(basis) for basis in model.g[l].layer.bases))
    return as_html(", ".join(_some(bases)) + _BEYOND[model.g[l].outside])


def _some(items: list[str], n: int | None = None) -> list[str]:
    """The first ones of n, and how many are left out."""
    n = len(items) if n is None else n
    if n <= _MOST_ITEMS + 1:
        return items
    return [*items[:_MOST_ITEMS], f"… and {n - _MOST_ITEMS} more"]


def _table(title: str, rows: list[Row], note: str = "") -> str:
    left = 'style="text-align:left;vertical-align:top"'
    body = "".join(f"<tr><th {left}>{head}</th><td {left}>{cell}</td></tr>" for head, cell in rows)
    foot = f"<div><small>{as_html(note)}</small></div>" if note else ""
    return f"<div><div>{as_html(title)}</div><table>{body}</table>{foot}</div>"


# Drawings


def _sparkline(curve: Curve, name: str) -> str:
    """A curve with the lines u = 0 and g = 0 behind it; dashed beyond the domain, whose ends are ticks."""
    low, high = curve.lowest, curve.highest
    title = f"{name} from {curve.u[0]:.3g} to {curve.u[-1]:.3g}, values {low:.3g} to {high:.3g}"
    if not np.isfinite(high - low):
        return _svg("", title)
    u0, u1 = float(curve.u[0]), float(curve.u[-1])
    low, high = curve.limits
    parts = curve.parts

    def x(u: Any) -> Any:
        return _PAD + (u - u0) / (u1 - u0) * (_WIDTH - 2 * _PAD)

    def y(v: Any) -> Any:
        return _PAD + (high - v) / (high - low) * (_HEIGHT - 2 * _PAD)

    axes = f"M0 {y(0.0):.1f}H{_WIDTH}" if low < 0.0 < high else ""
    axes += f"M{x(0.0):.1f} 0V{_HEIGHT}" if u0 < 0.0 < u1 else ""
    drawn = f'<path d="{axes}" stroke="currentColor" stroke-opacity="0.35"/>' if axes else ""
    for pieces, dashes in ((parts.inside, ""), (parts.beyond, ' stroke-dasharray="3 2"')):
        for piece in pieces:
            points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x(piece[0]), y(piece[1]), strict=True))
            drawn += f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"{dashes}/>'
    ticks = "".join(f"M{x(end):.1f} {_HEIGHT}v-6" for end in parts.ends)
    drawn += f'<path d="{ticks}" stroke="currentColor"/>' if ticks else ""
    return _svg(drawn, title)


def _histogram(values: Float[ndarray, " S"], name: str) -> str:
    """How often which values occur. Values that are all the same make one bar in the middle."""
    low, high = float(values.min()), float(values.max())
    flat = not high - low > 1e-12 * max(abs(low), abs(high))
    counts = np.zeros(_BINS)
    if flat:
        counts[_BINS // 2] = len(values)
    else:
        counts, _ = np.histogram((values - low) / (high - low), bins=_BINS, range=(0.0, 1.0))
    heights = counts / counts.max() * (_HEIGHT - 2 * _PAD)
    step = (_WIDTH - 2 * _PAD) / _BINS
    bars = "".join(
        f"M{_PAD + i * step:.1f} {_HEIGHT - _PAD}v{-h:.1f}h{step:.1f}v{h:.1f}z"
        for i, h in enumerate(heights)
        if h > 0.0
    )
    return _svg(f'<path d="{bars}" fill="currentColor" fill-opacity="0.6"/>', f"{name}, {len(values)} values")


def _svg(inside: str, title: str) -> str:
    frame = f'<rect x="0.5" y="0.5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" rx="3" fill="none" '
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'style="vertical-align:middle"><title>{as_html(title)}</title>'
        f'{frame}stroke="currentColor" stroke-opacity="0.35"/>{inside}</svg>'
    )
