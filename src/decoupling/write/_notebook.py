"""What notebooks show: small tables with small drawings, in the colour of the text around them.

The drawings are SVG written by hand, so that showing a result needs neither matplotlib nor a file.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..fit._result import Result
from ..model._decoupling import Decoupling
from ..model._names import as_html
from ..samples._jacobians import StoredJacobians
from ..samples._samples import Samples
from ._curves import Curve, Curves, curves, curves_between

_SHOWN = 12  # curves of a layer, numbers of a row
_SHOWN_VARIABLES = 6  # inputs, and outputs
_WIDTH, _HEIGHT, _PAD = 64, 36, 3
_BINS = 24
_N_POINTS = 40

Row = tuple[str, str]  # head and cell, both HTML


def samples_html(samples: Samples) -> str:
    """The range and a histogram of every input and output."""
    rows = _variables("x", samples.X)
    if samples.F is not None:
        rows += _variables("y", samples.F)
    if samples.J is not None:
        where = " in a file" if isinstance(samples.J, StoredJacobians) else ""
        rows.append(("J", " &times; ".join(str(size) for size in samples.J.shape) + where))
    return _table(repr(samples), rows)


def decoupling_html(model: Decoupling) -> str:
    """The layers, with the functions over [-1, 1]: a model does not know its samples."""
    drawn = curves_between(model, -1.0, 1.0, n_points=_N_POINTS)
    note = "Curves are drawn over [−1, 1]; plot(X) draws them where points lie."
    return _table(repr(model), _layers(model, drawn), note)


def result_html(result: Result) -> str:
    """How good the model is, its functions where the samples lie, and what the user should know."""
    model, samples = result.decoupling, result.samples
    rows = []
    if samples.J is not None:
        rows.append(("Error(J)", f"{result.error_jacobian:.3g}"))
    if samples.F is not None:
        e = [f"{value:.3g}" for value in result.relative_rmse()]
        rows += [("Error(F)", f"{result.error_values:.3g}"), ("e<sub>i</sub> in %", ", ".join(_some(e)))]
    rows += _layers(model, curves(model, samples.X, n_points=_N_POINTS))
    rows += [("&lambda;", f"{result.lam:.0e}"), ("stopped", as_html(result.reason))]
    rows += [("note", as_html(note)) for note in result.notes]
    return _table(repr(model), rows, "Curves are drawn over the range that the samples visit.")


# Rows


def _variables(letter: str, values: Float[ndarray, "S k"]) -> list[Row]:
    """One row per column: name, range, histogram."""
    rows = []
    size = values.shape[1]
    shown = size if size <= _SHOWN_VARIABLES + 1 else _SHOWN_VARIABLES
    for i in range(shown):
        column = values[:, i]
        text = f"{column.min() + 0.0:.3g} &hellip; {column.max() + 0.0:.3g}"  # + 0.0: no minus before zero
        name = f"{letter}<sub>{i + 1}</sub>"
        rows.append((name, f"{_histogram(column, f'{letter}{i + 1}')} {text}"))
    if shown < size:
        rows.append((f"{letter}", f"&hellip; and {size - shown} more"))
    return rows


def _layers(model: Decoupling, drawn: Curves) -> list[Row]:
    rows = []
    for l, W in enumerate(model.W):
        rows.append((f"W<sub>{l}</sub>", f"{W.shape[0]} &times; {W.shape[1]}"))
        if l < model.n_layers:
            pictures = [_sparkline(curve, f"g{l + 1}_{j + 1}") for j, curve in enumerate(drawn[l][: _SHOWN + 1])]
            cell = " ".join(_some(pictures, n=model.ranks[l]))
            rows.append((f"g<sub>{l + 1}</sub>", f"{cell}<br>{_basis(model, l)}"))
    return rows


def _basis(model: Decoupling, l: int) -> str:
    """The basis of a layer; each of several is named once."""
    bases = dict.fromkeys(repr(basis) for basis in model.g[l].layer.bases)
    return as_html(", ".join(_some(list(bases))))


def _some(items: list[str], n: int | None = None) -> list[str]:
    """The first ones of n, and how many are left out."""
    n = len(items) if n is None else n
    if n <= _SHOWN + 1:
        return items
    return [*items[:_SHOWN], f"… and {n - _SHOWN} more"]


def _table(title: str, rows: list[Row], note: str = "") -> str:
    left = 'style="text-align:left;vertical-align:top"'
    body = "".join(f"<tr><th {left}>{head}</th><td {left}>{cell}</td></tr>" for head, cell in rows)
    foot = f"<div><small>{as_html(note)}</small></div>" if note else ""
    return f"<div><div>{as_html(title)}</div><table>{body}</table>{foot}</div>"


# Drawings


def _sparkline(curve: Curve, name: str) -> str:
    """A curve with the lines u = 0 and g = 0 behind it."""
    low, high = curve.lowest, curve.highest
    title = f"{name} from {curve.u[0]:.3g} to {curve.u[-1]:.3g}, values {low:.3g} to {high:.3g}"
    if not np.isfinite(high - low):
        return _svg("", title)
    u0, u1 = float(curve.u[0]), float(curve.u[-1])
    low, high = curve.limits
    x = _PAD + (curve.u - u0) / (u1 - u0) * (_WIDTH - 2 * _PAD)
    y = _PAD + (high - curve.values) / (high - low) * (_HEIGHT - 2 * _PAD)
    zero_x, zero_y = _PAD - u0 / (u1 - u0) * (_WIDTH - 2 * _PAD), _PAD + high / (high - low) * (_HEIGHT - 2 * _PAD)
    axes = f"M0 {zero_y:.1f}H{_WIDTH}" if low < 0.0 < high else ""
    axes += f"M{zero_x:.1f} 0V{_HEIGHT}" if u0 < 0.0 < u1 else ""
    behind = f'<path d="{axes}" stroke="currentColor" stroke-opacity="0.35"/>' if axes else ""
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return _svg(f'{behind}<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>', title)


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
