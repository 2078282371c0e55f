"""The block diagram of a model: inputs, linear layers as edges, internal functions as small curves, outputs.

Positive weights are solid lines and negative ones dashed lines of another colour, so that print tells them apart. Thick
lines are large contributions. A linear part is a box below the functions, with grey lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ..fit.interpret._recognise import NamedCurve
from ..write._curves import Curve
from ._layout import FONT_SIZE, Bypass, Edge, Layout, Node, text_width
from ._style import Look, house_style, new_figure

_HEADER, _LINE = 22.0, 13.0  # heights in points: the symbols on top, one line of the key below
_PAD = 5.0  # between a box and its curve
_SMALL, _TINY = 8.0, 6.5  # sizes of type
_WEIGHTS_UP_TO = 16  # edges of a layer; more numbers than these would cover each other
_CROWD = 48  # edges of a layer; among more the weak ones step back
_DASHES = (0, (4, 2.2))
_ALONG = np.linspace(0.0, 1.0, 40)


def draw_diagram(
    layout: Layout, *, named: Mapping[tuple[int, int], NamedCurve] | None = None, dark: bool = False
) -> Figure:
    """Draw what was laid out; functions that are `named`, by layer and place from 1, have their names above."""
    with house_style(dark=dark) as look:
        key = _key_lines(layout)
        height = _HEADER + layout.height + _LINE * len(key) + 6.0
        figure = new_figure(layout.width / 72, height / 72, constrained=False)
        ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        ax.set(xlim=(0, layout.width), ylim=(height - _HEADER, -_HEADER))
        ax.set_axis_off()
        crowded = {l for l, n in Counter(edge.layer for edge in layout.edges).items() if n > _CROWD}
        for edge in sorted(layout.edges, key=lambda edge: edge.share):
            _draw_edge(ax, layout, edge, look, crowded=edge.layer in crowded)
        for node in layout.nodes:
            if node.curve is not None:
                name = (named or {}).get((node.layer, node.index + 1))
                _draw_function(ax, node, node.curve, "" if name is None else f": {name.name}", look)
            else:
                _draw_end(ax, layout, node, look)
        if layout.bypass is not None:
            _draw_bypass(ax, layout, layout.bypass, look)
        _write_weights(ax, layout, look)
        _write_header(ax, layout)
        _write_key(ax, layout, key, look)
    return figure


def _draw_edge(ax: Axes, layout: Layout, edge: Edge, look: Look, *, crowded: bool) -> None:
    negative = edge.weight < 0.0
    ax.plot(
        *_bend(*_ends(layout, edge), _ALONG),
        color=look.colours[int(negative)],
        linestyle=_DASHES if negative else "-",
        linewidth=0.5 + (1.3 if crowded else 2.3) * edge.share,
        alpha=0.08 + 0.87 * edge.share**1.5 if crowded else 0.35 + 0.6 * edge.share,
        solid_capstyle="butt",
        dash_capstyle="butt",
        gid=f"W{edge.layer}-{layout.nodes[edge.target].index}-{layout.nodes[edge.source].index}",
        zorder=1.0,
    )


def _bend(x: tuple[float, float], y: tuple[float, float], t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A line that leaves and arrives level, as on the page."""
    return x[0] + t * (x[1] - x[0]), y[0] + (3.0 * t**2 - 2.0 * t**3) * (y[1] - y[0])


def _ends(layout: Layout, edge: Edge) -> tuple[tuple[float, float], tuple[float, float]]:
    source, target = layout.nodes[edge.source], layout.nodes[edge.target]
    return (source.x + source.width / 2, target.x - target.width / 2), (source.y, target.y)


def _draw_bypass(ax: Axes, layout: Layout, bypass: Bypass, look: Look) -> None:
    """The linear part: one box for all of A x, so lines tell where it comes from and where it goes, but no signs."""
    left, right = bypass.x - bypass.width / 2, bypass.x + bypass.width / 2
    for side, strands, end in (("in", bypass.sources, left), ("out", bypass.targets, right)):
        for strand in strands:
            node = layout.nodes[strand.node]
            ax.plot(
                *_bend((node.x, end), (node.y, bypass.y), _ALONG),
                color=look.faint,
                linewidth=0.5 + 2.3 * strand.share,
                alpha=0.35 + 0.6 * strand.share,
                solid_capstyle="butt",
                gid=f"A-{side}-{node.index}",
                zorder=0.9,
            )
    _draw_box(ax, left, bypass.y - bypass.height / 2, bypass.width, bypass.height, look)
    symbol = f"${bypass.label}$".replace(" x", "\\,x")
    ax.text(bypass.x, bypass.y, symbol, size=FONT_SIZE, ha="center", va="center", zorder=2.3)


def _draw_box(ax: Axes, left: float, top: float, width: float, height: float, look: Look) -> None:
    ax.add_patch(
        FancyBboxPatch(
            (left, top),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=3",
            facecolor=look.paper,
            edgecolor=look.ink,
            linewidth=0.8,
            zorder=2.0,
        )
    )


def _draw_function(ax: Axes, node: Node, curve: Curve, named: str, look: Look) -> None:
    left, top = node.x - node.width / 2, node.y - node.height / 2
    _draw_box(ax, left, top, node.width, node.height, look)
    low, high = curve.limits
    u0, u1 = float(curve.u[0]), float(curve.u[-1])

    def across(u: np.ndarray) -> np.ndarray:
        return left + _PAD + (u - u0) / (u1 - u0) * (node.width - 2 * _PAD)

    def down(values: np.ndarray) -> np.ndarray:
        return top + _PAD + (high - values) / (high - low) * (node.height - 2 * _PAD)

    axis: dict[str, Any] = {"color": look.faint, "linewidth": 0.6, "zorder": 2.1}
    if low < 0.0 < high:
        ax.plot((left + 1, left + node.width - 1), [float(down(np.zeros(1))[0])] * 2, **axis)
    if u0 < 0.0 < u1:
        ax.plot([float(across(np.zeros(1))[0])] * 2, (top + 1, top + node.height - 1), **axis)
    if curve.band is not None:
        upper, lower = (down(np.clip(curve.values + side * curve.band, low, high)) for side in (1.0, -1.0))
        ax.fill_between(across(curve.u), upper, lower, color=look.ink, alpha=0.22, linewidth=0, zorder=2.2)
    cut = curve.parts
    line: dict[str, Any] = {"color": look.colours[0], "linewidth": 1.5, "zorder": 2.3}
    for u, values in cut.inside:
        ax.plot(across(u), down(values), gid=node.label, **line)
    for u, values in cut.beyond:
        ax.plot(across(u), down(values), linestyle=(0, (3, 2)), gid=f"{node.label}-beyond", **line)
    for end in across(np.array(cut.ends)).tolist():
        bottom = top + node.height
        ax.plot((end, end), (bottom - 6.0, bottom), color=look.ink, linewidth=1.0, gid=f"{node.label}-end", zorder=2.4)
    ax.text(node.x, top - 2, f"${node.symbol}${named}", size=FONT_SIZE, ha="center", va="bottom")
    for x, align, value in ((left, "left", u0), (left + node.width, "right", u1)):
        ax.text(x, top + node.height + 2, _number(value, digits=3), size=_TINY, color=look.faint, ha=align, va="top")


def _draw_end(ax: Axes, layout: Layout, node: Node, look: Look) -> None:
    """An input, an output, or the note that there are more."""
    first, last = node.layer == 0, node.layer == layout.nodes[-1].layer
    if node.kind == "more":
        shift, align = (-7.0, "right") if first else (7.0, "left") if last else (0.0, "center")
        ax.text(node.x + shift, node.y, node.label, size=_SMALL, color=look.faint, ha=align, va="center")
        return
    ax.plot(node.x, node.y, "o", markersize=4.5, color=look.ink, zorder=3.0)
    text = f"${node.symbol}$" if node.symbol else node.label
    shift, align = (-7.0, "right") if first else (7.0, "left")
    ax.text(node.x + shift, node.y, text, size=FONT_SIZE, ha=align, va="center", parse_math=bool(node.symbol))


def _write_weights(ax: Axes, layout: Layout, look: Look) -> None:
    """Numbers on the edges of layers that have few, each at a place where other edges are far, or not at all."""
    for layer in {edge.layer for edge in layout.edges}:
        edges = [edge for edge in layout.edges if edge.layer == layer]
        if len(edges) > _WEIGHTS_UP_TO:
            continue
        t = np.linspace(0.15, 0.85, 29)
        heights = np.array([_bend(*_ends(layout, edge), t)[1] for edge in edges])
        x0, x1 = _ends(layout, edges[0])[0]
        x = x0 + t * (x1 - x0)
        taken: list[tuple[float, float, float]] = []
        for e in sorted(range(len(edges)), key=lambda e: -edges[e].share):
            text = _number(edges[e].weight, digits=2)
            width = text_width(text, _TINY) - 4.0
            room = np.abs(np.delete(heights, e, axis=0) - heights[e]).min(axis=0, initial=2 * _TINY)
            for a, b, other in taken:
                covered = (np.abs(x - a) < (width + other) / 2) & (np.abs(heights[e] - b) < 1.5 * _TINY)
                room = np.where(covered, 0.0, room)
            best = int(np.argmax(room - 0.5 * np.abs(t - 0.3)))
            if room[best] < 0.5 * _TINY:
                continue
            box = {"facecolor": look.paper, "edgecolor": "none", "pad": 0.8}
            colour = look.colours[int(edges[e].weight < 0.0)]
            where = float(x[best]), float(heights[e, best])
            ax.text(*where, text, size=_TINY, color=colour, ha="center", va="center", bbox=box, zorder=1.5)
            taken.append((*where, width))


def _number(value: float, *, digits: int) -> str:
    """Short, with a true minus sign: 0.82, −7000, 1.4e5."""
    text = f"{value:.{digits}g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{value:.0f}" if 0 < int(exponent) < 4 else f"{mantissa}e{int(exponent)}"
    return text.replace("-", "−")


def _write_header(ax: Axes, layout: Layout) -> None:
    """The symbols of the formula over what they stand for."""
    columns = sorted({(node.layer, node.x, node.width) for node in layout.nodes if node.kind != "more"})
    last = columns[-1][0]
    for l, x, _ in columns:
        symbol = "$x$" if l == 0 else "$y$" if l == last else "$g$" if last == 2 else f"$g_{{{l}}}$"
        ax.text(x, -_HEADER + 6, symbol, size=11, ha="center", va="top")
    for (l, x, width), (_, x_next, width_next) in pairwise(columns):
        middle = (x + width / 2 + x_next - width_next / 2) / 2
        ax.text(middle, -_HEADER + 6, f"$W_{{{l}}}$", size=11, ha="center", va="top")


_Item = tuple[str | None, str]  # kind of sample line or patch, text


def _key_lines(layout: Layout) -> list[list[_Item]]:
    """What the signs mean, in as many lines as the width asks for; nothing that does not occur."""
    items: list[_Item] = []
    if any(edge.weight > 0.0 for edge in layout.edges):
        items.append(("positive", "positive weight"))
    if any(edge.weight < 0.0 for edge in layout.edges):
        items.append(("negative", "negative weight"))
    items.append((None, "thick line: large contribution"))
    if layout.bypass is not None:
        items.append(("linear", "linear part"))
    if any(node.curve is not None and node.curve.parts.beyond for node in layout.nodes):
        items.append(("beyond", "outside the domain"))
    if any(node.curve is not None and _visible_band(node.curve) for node in layout.nodes):
        items.append(("band", "95 % band"))
    if layout.n_left_out:
        n = layout.n_left_out
        items.append((None, f"{n} negligible edge{'s' if n > 1 else ''} left out"))
    lines: list[list[_Item]] = [[]]
    for item in items:
        if lines[-1] and sum(_item_width(i) for i in (*lines[-1], item)) > layout.width - 16.0:
            lines.append([])
        lines[-1].append(item)
    return lines


def _visible_band(curve: Curve) -> bool:
    """Whether it is wider than the line."""
    low, high = curve.limits
    return curve.band is not None and float(curve.band.max()) > 0.01 * (high - low)


def _item_width(item: _Item) -> float:
    sample, text = item
    return text_width(text, _TINY + 0.5) + (28.0 if sample else 0.0)


def _write_key(ax: Axes, layout: Layout, lines: list[list[_Item]], look: Look) -> None:
    y = layout.height + _LINE / 2
    for line in lines:
        x = max(8.0, (layout.width - sum(_item_width(item) for item in line)) / 2)
        for sample, text in line:
            if sample == "band":
                ax.fill_between((x, x + 20), y - 3, y + 3, color=look.ink, alpha=0.22, linewidth=0)
            elif sample:
                colours = {"linear": look.faint, "beyond": look.ink, "negative": look.colours[1]}
                style = _DASHES if sample in ("negative", "beyond") else "-"
                colour = colours.get(sample, look.colours[0])
                ax.plot((x, x + 20), (y, y), color=colour, linestyle=style, linewidth=1.8)
            ax.text(x + (24.0 if sample else 0.0), y, text, size=_TINY + 0.5, va="center")
            x += _item_width((sample, text))
        y += _LINE
