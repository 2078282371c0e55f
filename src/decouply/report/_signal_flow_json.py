"""What a script needs to send a point through a model, as plain numbers for one block of JSON.

Moving some inputs changes u_1 from its value at the base point by their columns of W_0, and the linear part by their
columns of A. So the columns of inputs that cannot be moved are not needed, and the other weights and all functions give
every signal on the way exactly.

Functions are steps that the script carries out one after the other. An expression is the place of a number in a list
that begins with the argument t. Every operation adds a number to the list, so what is used twice is computed once. A
step is the name of the operation, then places or numbers:

    `["number", 2.0]   ["sum", 1, 3]   ["product", 0, 1]   ["cos", 2]   ["clip", 0, -1.0, 1.0]`
    `["polynomial", 0, a_0, a_1, ...]`
    `["table", 0, first, last, v_0, ...]: straight lines between values at equal distances, from `first` to `last``
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..bases import AbstractAlgebra, AbstractBasis
from ..model._decoupling import Decoupling
from ..model._functions import Functions
from ._layout import Layout, Node
from ._svg_frame import Frame

Step = list[Any]
_FAR = 1e300  # in place of infinite ends, which JSON does not know
_TABLE = 400  # points of a function that cannot be written


class StepsAlgebra(AbstractAlgebra[int]):
    """Places are whole numbers and everything else is a float."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def number(self, value: Any) -> int:
        return self._add("number", float(value))

    def sum(self, terms: Sequence[int]) -> int:
        return self._add("sum", *terms)

    def product(self, factors: Sequence[int]) -> int:
        return self._add("product", *factors)

    def apply(self, function: str, argument: int) -> int:
        return self._add(function, argument)

    def clip(self, argument: int, low: float, high: float) -> int:
        return self._add("clip", argument, *np.clip([low, high], -_FAR, _FAR).tolist())

    def polynomial(self, coefficients: Sequence[Any], argument: int) -> int:
        return self._add("polynomial", argument, *(float(a) for a in coefficients))

    def _add(self, *step: Any) -> int:
        self.steps.append(list(step))
        return len(self.steps)


def steps_of_basis(basis: AbstractBasis, c: Float[ndarray, " e"]) -> list[Step]:
    """c_0 + sum_k c_k phi_k(t): the last step gives the value."""
    algebra = StepsAlgebra()
    place = basis.expression(algebra, 0, c)
    if place != len(algebra.steps):
        algebra.sum([place])
    return algebra.steps


def steps_of_table(basis: AbstractBasis, c: Float[ndarray, " e"], low: float, high: float, room: float) -> list[Step]:
    """The same for a basis that cannot write itself: values from `low` to `high`, and `room` beyond if they exist."""
    for extra in (room, 0.0 if high > low else 1e-6):
        grid = np.linspace(low - extra, high + extra, _TABLE)
        with np.errstate(all="ignore"):
            values = c[0] + basis.evaluate(grid) @ c[1:]
        if np.all(np.isfinite(values)):
            break
    return [["table", 0, float(grid[0]), float(grid[-1]), *values.tolist()]]


_MOST_NUMBERS = 30_000
_ALL_DIGITS = 5_000  # up to so many numbers; coefficients of badly scaled models can cancel, so digits are spared late
_DIGITS = 9


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
    beside = (0, 0) if model.linear is None else (model.n_outputs, 0)  # numbers of A that an input brings along
    movable, seen = (
        list(range(size)) if size * (rank + more) <= _MOST_NUMBERS // 3 else [node.index for node in nodes]
        for size, rank, more, nodes in zip(
            (model.n_inputs, model.n_outputs), (model.ranks[0], model.ranks[-1]), beside, shown, strict=True
        )
    )
    inner = sum(W.size for W in model.W[1:-1])
    weights = len(movable) * (model.ranks[0] + (beside[0] and len(seen))) + len(seen) * model.ranks[-1]
    if inner + weights > _MOST_NUMBERS:
        return None
    functions = [_functions(g, u) for g, u in zip(model.g, model.inner_inputs(X), strict=True)]
    n_numbers = inner + weights + sum(len(step) for layer in functions for f in layer for step in f["steps"])
    if n_numbers > _MOST_NUMBERS:
        return None
    digits = 17 if n_numbers <= _ALL_DIGITS else _DIGITS
    base = X.mean(axis=0)
    return {
        "inputs": [
            {"name": names[0][i], "low": float(X[:, i].min()), "high": float(X[:, i].max()), "base": float(base[i])}
            for i in movable
        ],
        "columns": [_round_numbers(model.W[0][:, i], digits) for i in movable],
        "start": (model.W[0] @ base).tolist(),
        "weights": [_round_numbers(W, digits) for W in (*model.W[1:-1], model.W[-1][seen])],
        "functions": [[f | {"steps": _rounded_steps(f["steps"], digits)} for f in layer] for layer in functions],
        "straight": _straight(model, base, movable, seen, digits),
        "outputs": [names[1][i] for i in seen],
        "nodes": [_node(node, movable, seen, frames) for node in layout.nodes],
    }


def _straight(model: Decoupling, base: ndarray, movable: list[int], seen: list[int], digits: int) -> dict[str, Any]:
    """What comes to the outputs past the functions, A x + b: at the base point, and the columns of A."""
    A, b = model.linear, np.zeros(model.n_outputs) if model.offset is None else model.offset
    if A is None:
        return {"start": b[seen].tolist(), "columns": []}
    return {"start": (A @ base + b)[seen].tolist(), "columns": [_round_numbers(A[seen, i], digits) for i in movable]}


def _functions(g: Functions, u: ndarray) -> list[dict[str, Any]]:
    """Each function: the range that the samples visit, its domain, steps from t to the value, and slopes of its tails.

    `tails` are slopes in t at both ends of the domain, from where the function goes on in straight lines; None if
    its formula goes on.
    """
    slopes = g.slopes(g.domain.T) * g.half_width if g.outside == "linear" else np.zeros((2, g.rank))
    low, high = ((ends - g.middle) / g.half_width for ends in (u.min(axis=0), u.max(axis=0)))
    found = []
    for j, basis in enumerate(g.layer.bases):
        c = g.C[j, : 1 + basis.size]
        if basis.writable:
            steps = steps_of_basis(basis, c)
        elif g.outside == "extend":  # wider than the samples, if it can be
            steps = steps_of_table(basis, c, low[j], high[j], 0.5 * (high[j] - low[j]) or 1.0)
        else:
            steps = steps_of_table(basis, c, -1.0, 1.0, 0.0)
        found.append(
            {
                "low": float(u[:, j].min()),
                "high": float(u[:, j].max()),
                "middle": float(g.middle[j]),
                "half": float(g.half_width[j]),
                "tails": None if g.outside == "extend" else slopes[:, j].tolist(),
                "steps": steps,
            }
        )
    return found


def _node(
    node: Node, movable: list[int], seen: list[int], frames: dict[tuple[int, int], tuple[Frame, Frame]]
) -> dict[str, Any]:
    """What a node shows: its place among the inputs, the functions of its layer, or the outputs."""
    if node.kind == "function":
        small, large = (frame.numbers() for frame in frames[node.layer, node.index])
        band = None if node.curve is None or node.curve.band is None else _round_numbers(node.curve.band, 3)
        place = {"kind": node.kind, "layer": node.layer, "index": node.index}
        return place | {"small": small, "large": large, "band": band}
    column = {"input": movable, "output": seen}.get(node.kind)
    return {"kind": node.kind, "layer": node.layer, "index": 0 if column is None else column.index(node.index)}


def _round_numbers(values: ndarray, digits: int) -> Any:
    """Lists of numbers with this many significant digits."""
    if values.ndim == 2:
        return [_round_numbers(row, digits) for row in values]
    return [float(f"{value:.{digits}g}") for value in values]


def _rounded_steps(steps: list[list[Any]], digits: int) -> list[list[Any]]:
    """The same for the numbers of steps; tables need few digits."""
    few = [min(digits, _DIGITS) if step[0] == "table" else digits for step in steps]
    return [
        [float(f"{value:.{d}g}") if isinstance(value, float) else value for value in step]
        for step, d in zip(steps, few, strict=True)
    ]
