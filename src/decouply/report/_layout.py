"""The geometry of the block diagram: the place of everything, for every kind of drawing.

Columns from left to right: the inputs, the functions of layer 1, ..., the functions of layer L, the outputs. A linear
part is a box below the functions, which runs past them all. Lengths are in points of 1/72 inch, x to the right and y
down, everything inside [0, width] x [0, height].
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from .._support._arguments import as_flag, as_some_points
from ..fit._result import Result
from ..fit.interpret._recognise import symbol
from ..model._decoupling import Decoupling
from ..model._names import Name, names
from ..write._curves import Bands, Curve, curves, refuse_infinite
from ._svg_frame import written_number

FONT_SIZE = 9.0  # of the labels; the room that names take is reckoned with it
_SHOWN = 12  # nodes of a column
_NEGLIGIBLE = 0.02  # edges with shares below this are left out ...
_NONE = 1e-6  # ... and those below this always: they are rounding
_CANCELS = 3.0  # times the range of an output: contributions that are larger cancel each other
_LONGEST = 24  # letters of a name
_BOX, _SMALL_BOX = (84.0, 54.0), (72.0, 36.0)  # of a function; the small one for tall columns
_TALL = 6
_SPACE = 26.0  # between boxes of a column, for their labels
_PITCHES = (22.0, 70.0)  # least and most between inputs, or between outputs
_GAP = (130.0, 210.0)  # between columns; more where edges run steeply
_MARGIN = 12.0
_MOST_TERMS, _WEAK = 4, 0.02  # of a sum in words, and the share of its strongest term that is left out
_BYPASS = 24.0  # height of the box of a linear part

Kind = Literal["input", "function", "output", "more"]


@dataclass(frozen=True)
class Node:
    """An input, a function, an output, or ("more") a note of how many of its column are not shown.

    Attributes
    ----------
    layer
        The column: 0 for inputs, l for the functions g_l, L + 1 for outputs.
    index
        Its place in the model, from 0; for "more" the number of nodes that it stands for.
    label, name
        The text to write, shortened if it is long, and all of it.
    x, y
        The centre.
    width, height
        Of the box that the curve of a function is drawn in; 0 for other nodes.
    curve
        Of a function; None for other nodes.
    symbol
        The label in TeX, such as g_{1,2}; empty for names that the user gave.
    """

    kind: Kind
    layer: int
    index: int
    label: str
    name: str
    x: float
    y: float
    width: float = 0.0
    height: float = 0.0
    curve: Curve | None = None
    symbol: str = ""


@dataclass(frozen=True)
class Edge:
    """One entry of W[layer]; it runs from ``nodes[source]`` to ``nodes[target]``.

    `share` is its strength, 1 for the strongest of its layer. The strength of the entries of one row is |weight| times
    the standard deviation of the source over the samples, divided by the root sum of squares over that row. It is the
    contribution of the source to the target, whatever the units. It does not change when functions are scaled. At the
    outputs, the linear part counts as one more source.
    """

    layer: int
    source: int
    target: int
    weight: float
    share: float


@dataclass(frozen=True)
class Strand:
    """A line between ``nodes[node]`` and the linear part; `weight` is the length of its column or row of A.

    At outputs `share` is as for edges of the last layer; at inputs it is that of what the column of A brings.
    """

    node: int
    weight: float
    share: float


@dataclass(frozen=True)
class Bypass:
    """The linear part: a box with its centre, from the left of the first functions to the right of the last."""

    label: str
    x: float
    y: float
    width: float
    height: float
    sources: tuple[Strand, ...]
    targets: tuple[Strand, ...]


@dataclass(frozen=True)
class Layout:
    """Nodes and edges of a block diagram. Of large columns the most important nodes are there, in their order.

    `n_left_out` counts the edges between nodes shown whose share is negligible.
    """

    width: float
    height: float
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    n_left_out: int
    bypass: Bypass | None = None

    @classmethod
    def of(
        cls,
        model: Decoupling,
        X: object,
        *,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
        bands: Bands | None = None,
    ) -> Layout:
        """Lay out a model with the ranges and spreads that it has at the points X (S, m), of which S >= 1.

        `inputs` and `outputs` are names; by default those of the model, or x1, x2, ... and y1, y2, ...
        """
        points = as_some_points("X", X, model.n_inputs)
        x, y = signal_names(model, inputs, outputs)
        columns = [x, *(_function_names(model, l) for l in range(model.n_layers)), y]
        spreads = _spreads(model, points)
        shown = [_most_important(importance) for importance in _importances(model, points, spreads)]
        drawn = curves(model, points, bands=bands)
        refuse_infinite(drawn)
        nodes, width, height = _node_positions(columns, shown, drawn)
        shares = _shares(model, points, spreads)
        edges, n_left_out = _edges(model, nodes, shares)
        if model.linear is None:
            return cls(width, height, nodes, edges, n_left_out)
        label = "A x" if model.offset is None else "A x + b"
        bypass = _bypass(label, model.linear, nodes, spreads[0], shares[-1][:, -1], height)
        return cls(width, height + _BYPASS + _MARGIN, nodes, edges, n_left_out, bypass)

    @classmethod
    def of_result(
        cls,
        result: Result,
        *,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
        bands: bool = True,
    ) -> Layout:
        """Lay out what `decouple` returned, over its samples, with bands if they can be had quickly."""
        model, samples = shown_model(result), result.samples.shown
        rewritten = None if model is result.decoupling else model
        known = result.bands(rewritten) if as_flag("bands", bands) else None
        return cls.of(model, samples.X, inputs=inputs, outputs=outputs, bands=known)


def shown_model(result: Result) -> Decoupling:
    """What a drawing shows: the model, net of straight lines where these cancel each other.

    Functions of nearly the same argument often hold large straight lines that add up to little. A separate linear
    part shows the slopes, and the functions keep their bends.
    """
    model, X = result.decoupling, result.samples.shown.X
    if model.n_layers != 1 or model.linear is not None or result.settings.fixed or len(X) < 2:
        return model
    if (now := model.cancellation(X)) <= _CANCELS:
        return model
    net = model.net_of_linear(X).canonical(X)
    return net if net.cancellation(X) < now / 2.0 else model


def signal_names(
    model: Decoupling, inputs: Collection[str] | None, outputs: Collection[str] | None
) -> tuple[tuple[Name, ...], tuple[Name, ...]]:
    """The names of inputs and outputs: those given, or those of the model, or letters with numbers."""
    x, y = model.inputs if inputs is None else inputs, model.outputs if outputs is None else outputs
    return names("inputs", x, "x", model.n_inputs), names("outputs", y, "y", model.n_outputs)


# What matters


def _spreads(model: Decoupling, X: Float[ndarray, "S m"]) -> list[Float[ndarray, " _"]]:
    """Standard deviations of what leaves each column: inputs, functions, outputs."""
    z = [functions.values(u) for functions, u in zip(model.g, model.arguments(X), strict=True)]
    return [np.std(values, axis=0) for values in (X, *z, model.values(X))]


def _importances(
    model: Decoupling, X: Float[ndarray, "S m"], spreads: list[Float[ndarray, " _"]]
) -> list[Float[ndarray, " _"]]:
    """What the nodes of each column are chosen by, if there are too many."""
    functions = model.importance(X)
    lengths = np.linalg.norm(model.W[0], axis=1)
    slopes = np.divide(functions[0], lengths, out=np.zeros_like(lengths), where=lengths > 0.0)  # of the outputs, by u_1
    rows = model.W[0] * slopes[:, None]
    if model.linear is not None:
        rows = np.concatenate([rows, model.linear])
    return [spreads[0] * np.linalg.norm(rows, axis=0), *functions, spreads[-1]]


def _most_important(importance: Float[ndarray, " r"]) -> Int[ndarray, " k"]:
    """The most important ones, in their order. A note instead of a single node would save no room."""
    if len(importance) <= _SHOWN + 1:
        return np.arange(len(importance))
    return np.sort(np.argsort(-importance, kind="stable")[:_SHOWN])


def _shares(
    model: Decoupling, X: Float[ndarray, "S m"], spreads: list[Float[ndarray, " _"]]
) -> list[Float[ndarray, "_ _"]]:
    """Shares of the entries of every W; the last ones have one more column with those of the linear part."""
    found = []
    for l, (W, spread) in enumerate(zip(model.W, spreads[:-1], strict=True)):
        still = not np.any(spread)  # a single sample has no spread
        brought = np.abs(W) * (1.0 if still else spread)
        if l == model.n_layers and model.linear is not None:
            straight = np.linalg.norm(model.linear, axis=1) if still else np.std(X @ model.linear.T, axis=0)
            brought = np.column_stack([brought, straight])
        total = np.linalg.norm(brought, axis=1, keepdims=True)
        strength = np.divide(brought, total, out=np.zeros_like(brought), where=total > 0.0)
        found.append(strength / (np.max(strength) or 1.0))
    return found


def _edges(
    model: Decoupling, nodes: tuple[Node, ...], shares: list[Float[ndarray, "_ _"]]
) -> tuple[tuple[Edge, ...], int]:
    found, n_left_out = [], 0
    places: list[dict[int, int]] = [{} for _ in range(model.n_layers + 2)]  # of columns, from index to place in `nodes`
    for i, node in enumerate(nodes):
        if node.kind != "more":
            places[node.layer][node.index] = i
    for l, (W, share) in enumerate(zip(model.W, shares, strict=True)):
        strongest = share[list(places[l + 1])].max(axis=0)
        for i, target in places[l + 1].items():
            for j, source in places[l].items():
                # The strongest edge of a node stays, unless it is rounding: a function must not hang in the air.
                if share[i, j] >= _NEGLIGIBLE or share[i, j] == strongest[j] > _NONE:
                    found.append(Edge(l, source, target, float(W[i, j]), float(share[i, j])))
                else:
                    n_left_out += 1
    return tuple(found), n_left_out


def _bypass(
    label: str,
    A: Float[ndarray, "n m"],
    nodes: tuple[Node, ...],
    spread: Float[ndarray, " m"],
    shares: Float[ndarray, " n"],
    height: float,
) -> Bypass:
    """The box of the linear part below everything else, and its lines to the nodes shown that are not negligible."""
    boxes = [node for node in nodes if node.kind == "function"]
    left, right = min(b.x - b.width / 2 for b in boxes), max(b.x + b.width / 2 for b in boxes)
    columns, rows = np.linalg.norm(A, axis=0), np.linalg.norm(A, axis=1)
    brought = columns * (spread if np.any(spread) else 1.0)
    entering = brought / (np.max(brought) or 1.0)
    sources, targets = (
        tuple(
            Strand(i, float(weights[node.index]), float(share[node.index]))
            for i, node in enumerate(nodes)
            if node.kind == kind and share[node.index] >= _NEGLIGIBLE
        )
        for kind, weights, share in (("input", columns, entering), ("output", rows, shares))
    )
    return Bypass(label, (left + right) / 2, height + _BYPASS / 2, right - left, _BYPASS, sources, targets)


# Where it goes


def _function_names(model: Decoupling, l: int) -> tuple[Name, ...]:
    prefix = (l + 1,) if model.n_layers > 1 else ()
    return tuple(Name("g", (*prefix, j + 1)) for j in range(model.ranks[l]))


def _node_positions(
    columns: list[tuple[Name, ...]],
    shown: list[Int[ndarray, " _"]],
    drawn: tuple[tuple[Curve, ...], ...],
) -> tuple[tuple[Node, ...], float, float]:
    """All nodes with their centres, and the size of the whole."""
    last = len(columns) - 1
    n_rows = [len(index) + (len(index) < len(column)) for column, index in zip(columns, shown, strict=True)]
    box = _BOX if max(n_rows[1:last]) <= _TALL else _SMALL_BOX
    box_pitch = box[1] + _SPACE
    inner = max(max(n_rows[1:last]) * box_pitch, max(n_rows[0], n_rows[last]) * _PITCHES[0])
    gap = float(np.clip(0.5 * inner, *_GAP))
    nodes: list[Node] = []
    x = _MARGIN + _widest(columns[0], shown[0])
    for l, (column, index, rows) in enumerate(zip(columns, shown, n_rows, strict=True)):
        function = 0 < l < last
        if l > 0:
            x += gap + (box[0] / 2 if l > 1 else 0.0) + (box[0] / 2 if function else 0.0)
        pitch = box_pitch if function else float(np.clip(inner / rows, *_PITCHES))
        y = _MARGIN + inner / 2 - (rows - 1) / 2 * pitch
        for i in (int(i) for i in index):
            kind: Kind = "function" if function else "input" if l == 0 else "output"
            size, curve = (box, drawn[l - 1][i]) if function else ((0.0, 0.0), None)
            name = column[i]
            symbol = name.latex if name.indices else ""
            nodes.append(Node(kind, l, i, short(name.text), name.text, x, y, *size, curve, symbol))
            y += pitch
        if len(index) < len(column):
            note = _note(column, index)
            nodes.append(Node("more", l, len(column) - len(index), note, note, x, y))
    return tuple(nodes), x + _widest(columns[last], shown[last]) + _MARGIN, inner + 2 * _MARGIN


def _note(column: tuple[Name, ...], index: Int[ndarray, " _"]) -> str:
    return f"… and {len(column) - len(index)} more"


def _widest(column: tuple[Name, ...], index: Int[ndarray, " _"]) -> float:
    """Room for the names of a column."""
    note = [_note(column, index)] if len(index) < len(column) else []
    return max(text_width(text) for text in (*(short(column[i].text) for i in index), *note))


def short(name: str, longest: int = _LONGEST) -> str:
    """The beginning of a name that is long."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


def mixture(
    model: Decoupling, X: Float[ndarray, "S m"], layer: int, index: int, inputs: Sequence[str] | None = None
) -> str:
    """The sum that goes into a function of a layer (counted from 1), its strongest terms first."""
    l, weights = layer - 1, model.W[layer - 1][index]
    entering = X if l == 0 else model.g[l - 1].values(model.arguments(X)[l - 1])
    known = [name.text for name in signal_names(model, inputs, None)[0]]
    names = known if l == 0 else [symbol(l, j + 1, model.n_layers) for j in range(model.ranks[l - 1])]
    brought = np.abs(weights) * (np.std(entering, axis=0) if len(X) > 1 else 1.0)
    order = [int(j) for j in np.argsort(-brought, kind="stable") if brought[j] > _WEAK * np.max(brought)]
    terms = [(weights[j], names[j]) for j in order[:_MOST_TERMS]] or [(0.0, names[0])]
    words = [f"{'− ' if w < 0 else '+ '}{written_number(abs(w), 3)} {name}" for w, name in terms]
    words[0] = ("−" if terms[0][0] < 0 else "") + words[0][2:]  # a sign, not an operation
    return " ".join(words) + " + …" * (len(order) > _MOST_TERMS)


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """About the room of a text with the gap beside it, on the safe side for common typefaces."""
    return size * sum(_letter_width(letter) for letter in text) + 8.0


def _letter_width(letter: str) -> float:
    """In units of the size of the type."""
    if letter in "mwMW@%…—" or unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    return 0.78 if letter.isupper() else 0.4 if letter in "fijlrt ,.:;!|'()[]" else 0.63
