r"""The numbers of a state-space model that a fit may move, and the derivatives of one step with respect to them.

A, B, C, D are the linear part of one step, W_0 = [V, V_u], W_L = [W_x; W_y]. The parts of a step are named "linear",
"offset", "W0", "g1", "middle1", "W1", ...; a part is free entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ...model._functions import Functions
from ._step_arrays import StepArrays

DerivativeColumn = tuple[tuple[int, ...] | None, Float[ndarray, "_ T"]]  # of all rows of (x+, y), or the same of some


@dataclass(frozen=True, eq=False)
class FreeParameters:
    """A model to begin with, and which entries of its parts may move.

    Attributes
    ----------
    start
        One step.
    free
        A mask by the name of a part; parts that are not named stay as they are.
    copies
        Rows of (x+, y) that are copies of other rows, and these rows: an output that is the newest state of a NARX
        model too. Only the entries of the latter may be free.
    """

    start: StepArrays
    free: dict[str, Bool[ndarray, "..."]]
    copies: dict[int, int] = field(default_factory=dict)

    @cached_property
    def count(self) -> int:
        return sum(int(mask.sum()) for mask in self.free.values())

    @cached_property
    def theta(self) -> Float[ndarray, " P"]:
        """The numbers of the model to begin with."""
        parts = parts_of(self.start)
        return np.concatenate([parts[name][mask] for name, mask in self.free.items()] + [np.zeros(0)])

    def step(self, theta: Float[ndarray, " P"]) -> StepArrays:
        """The model with these numbers."""
        start, parts, at = self.start, parts_of(self.start), 0
        for name, mask in self.free.items():
            k = int(np.count_nonzero(mask))
            parts[name] = parts[name].copy()
            parts[name][mask] = theta[at : at + k]
            at += k
            if self.copies and name in ("linear", "offset", f"W{start.n_layers}"):
                parts[name][list(self.copies)] = parts[name][list(self.copies.values())]
        g = []
        for l, functions in enumerate(start.g, start=1):
            C = np.concatenate([functions.C[:, :1], parts[f"g{l}"]], axis=1)
            domain = functions.domain + (parts[f"middle{l}"] - functions.middle)[:, None]
            g.append(Functions.unchecked(functions.layer, C, domain, functions.outside))
        W = tuple(parts[f"W{l}"] for l in range(len(start.W)))
        return replace(start, W=W, g=tuple(g), linear=parts["linear"], offset=parts["offset"])

    def derivative_columns(self, at: StepJacobians) -> Iterator[DerivativeColumn]:
        """d (x+, y) / d theta along a run, one column of derivatives after the other."""
        L = at.step.n_layers
        rows = [(i, *(copy for copy, row in self.copies.items() if row == i)) for i in range(at.step.n_outputs)]
        for name, mask in self.free.items():
            l = int("".join(filter(str.isdigit, name)) or 0)
            for index in zip(*np.nonzero(mask), strict=True):
                i, j = int(index[0]), int(index[-1])
                if name == "linear":
                    yield rows[i], at.layer_inputs[0][j][None]
                elif name == "offset":
                    yield rows[i], at.one
                elif name == f"W{L}":
                    yield rows[i], at.layer_inputs[L][j][None]
                elif name[0] == "W":
                    yield None, at.D[l][:, i] * at.layer_inputs[l][j]
                elif name[0] == "g":
                    yield None, at.Q[l - 1][:, i] * at.tables[l - 1][i, j]
                else:  # the middle of a domain
                    yield None, -at.D[l - 1][:, i]


class StepJacobians:
    """What the derivatives of one step are made of, at the points (x, u) of a run; times come last.

    Attributes
    ----------
    layer_inputs
        What W_l is multiplied by, (r[l], T) for l = 0, ..., L.
    tables
        Basis functions of every layer, (r, d, T).
    Q, D
        d (x+, y) / d z_l and d (x+, y) / d u_l of every layer, (outputs, r, T); Q of the last layer is W_L.
    """

    def __init__(self, step: StepArrays, points: Float[ndarray, "T m"]) -> None:
        self.step = step
        self.one = np.ones((1, len(points)))
        self.tables: list[ndarray] = []
        self.layer_inputs = [np.ascontiguousarray(points.T)]
        slopes, u = [], points @ step.W[0].T
        for l, g in enumerate(step.g):
            C = g.C[:, 1:, None]
            self.tables.append(np.ascontiguousarray(g.table(u).transpose(1, 2, 0)))
            slopes.append(g.slopes(u).T)
            z = np.sum(self.tables[-1] * C, axis=1) + g.constants[:, None]
            self.layer_inputs.append(z)
            u = (step.W[l + 1] @ z).T
        self.Q: list[ndarray] = [step.W[-1][:, :, None]]
        self.D: list[ndarray] = []
        for l in range(step.n_layers - 1, -1, -1):
            self.D.insert(0, self.Q[0] * slopes[l])
            if l:
                self.Q.insert(0, np.einsum("ort,rq->oqt", self.D[0], step.W[l]))

    def state_jacobian(self, n: int) -> Float[ndarray, "outputs n T"]:
        """d (x+, y) / d x."""
        return np.einsum("ort,ri->oit", self.D[0], self.step.W[0][:, :n]) + self.step.linear[:, :n, None]


def parts_of(step: StepArrays) -> dict[str, ndarray]:
    """The arrays of one step by their names."""
    parts = {"linear": step.linear, "offset": step.offset}
    parts |= {f"W{l}": W for l, W in enumerate(step.W)}
    for l, g in enumerate(step.g, start=1):
        parts |= {f"g{l}": g.C[:, 1:], f"middle{l}": g.middle}
    return parts
