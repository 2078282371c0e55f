"""What a script needs to send a point through a model, as plain numbers for one block of JSON.

Moving some inputs changes u_1 from its value at the base point by their columns of W_0. So the columns of inputs that
cannot be moved are not needed, and the other weights and all functions give every signal on the way exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from ..bases import AbstractBasis, AbstractPolynomialBasis, Trigonometric
from ..model._decoupling import Decoupling
from ..model._functions import Functions
from ..write._formula import written_out
from ._frame import Frame
from ._layout import Layout, Node

_MOST_NUMBERS = 30_000
_ALL_DIGITS = 5_000  # up to so many numbers; coefficients of badly scaled models can cancel, so digits are spared late
_DIGITS = 9
_TABLE = 400  # points of a function that has no formula


def signal_flow(
    model: Decoupling,
    X: ndarray,
    layout: Layout,
    frames: dict[tuple[int, int], tuple[Frame, Frame]],
    names: tuple[Sequence[str], Sequence[str]],
) -> dict[str, Any] | None:
    """The content of the block; None for models that are too large for it.

    `frames` are those of the functions shown, by layer and index: the small one of the diagram and the large one.
    """
    shown = [
        [node for node in layout.nodes if node.layer == l and node.kind != "more"] for l in (0, model.n_layers + 1)
    ]
    movable, seen = (
        list(range(size)) if size * rank <= _MOST_NUMBERS // 3 else [node.index for node in nodes]
        for size, rank, nodes in zip(
            (model.n_inputs, model.n_outputs), (model.ranks[0], model.ranks[-1]), shown, strict=True
        )
    )
    coefficients = sum(1 + b.size if _known(b) else _TABLE for g in model.g for b in g.layer.bases)
    inner = sum(W.size for W in model.W[1:-1]) + coefficients
    n_numbers = inner + len(movable) * model.ranks[0] + len(seen) * model.ranks[-1]
    if n_numbers > _MOST_NUMBERS:
        return None
    digits = 17 if n_numbers <= _ALL_DIGITS else _DIGITS
    base = X.mean(axis=0)
    u = model.inner_inputs(X)
    return {
        "inputs": [
            {"name": names[0][i], "low": float(X[:, i].min()), "high": float(X[:, i].max()), "base": float(base[i])}
            for i in movable
        ],
        "columns": [_rounded(model.W[0][:, i], digits) for i in movable],
        "start": _rounded(model.W[0] @ base, digits),
        "weights": [_rounded(W, digits) for W in (*model.W[1:-1], model.W[-1][seen])],
        "functions": [[_function(g, j, u[l][:, j], digits) for j in range(g.rank)] for l, g in enumerate(model.g)],
        "outputs": [names[1][i] for i in seen],
        "nodes": [_node(node, movable, seen, frames) for node in layout.nodes],
        "edges": [{"source": e.source, "target": e.target, "weight": e.weight} for e in layout.edges],
    }


def _function(functions: Functions, j: int, u: ndarray, digits: int) -> dict[str, Any]:
    """Coefficients of powers or waves; a table where there is no formula, wider than the samples if it can be."""
    basis = functions.layer.bases[j]
    low, high = float(u.min()), float(u.max())
    content: dict[str, Any] = {"low": low, "high": high}
    if _known(basis):
        c, wave = written_out(basis, functions.C[j, : 1 + basis.size])
        return content | {"kind": "waves" if wave else "powers", "c": _rounded(np.array(c), digits)}
    room = 0.5 * (high - low) or 1.0
    for extra in (room, 0.0 if high > low else 1e-6):
        grid = np.linspace(low - extra, high + extra, _TABLE)
        with np.errstate(all="ignore"):
            values = functions.C[j, 0] + basis.evaluate(grid) @ functions.C[j, 1 : 1 + basis.size]
        if np.all(np.isfinite(values)):
            break
    return content | {"kind": "table", "first": float(grid[0]), "last": float(grid[-1]), "c": _rounded(values, _DIGITS)}


def _known(basis: AbstractBasis) -> bool:
    return isinstance(basis, AbstractPolynomialBasis | Trigonometric)


def _node(
    node: Node, movable: list[int], seen: list[int], frames: dict[tuple[int, int], tuple[Frame, Frame]]
) -> dict[str, Any]:
    """What a node shows: its place among the inputs, the functions of its layer, or the outputs."""
    if node.kind == "function":
        small, large = (_rounded(np.array(frame.numbers()), _DIGITS) for frame in frames[node.layer, node.index])
        band = None if node.curve is None or node.curve.band is None else _rounded(node.curve.band, 3)
        place = {"kind": node.kind, "layer": node.layer, "index": node.index}
        return place | {"small": small, "large": large, "band": band}
    column = {"input": movable, "output": seen}.get(node.kind)
    return {"kind": node.kind, "layer": node.layer, "index": 0 if column is None else column.index(node.index)}


def _rounded(values: ndarray, digits: int) -> Any:
    """Lists of numbers with so many significant digits."""
    if values.ndim == 2:
        return [_rounded(row, digits) for row in values]
    return [float(f"{value:.{digits}g}") for value in values]
