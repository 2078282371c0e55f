r"""The numbers of a state-space model that may move, and the derivatives of one step with respect to them.

One step is a decoupling from (x, u) to (x+, y): A, B, C, D are its linear part, W_0 = [V, V_u], W_L = [W_x; W_y]. Its
parts are named "linear", "offset", "W0", "g1", "middle1", "W1", ...; a part is free entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...model._functions import Functions

Column = tuple[int | None, Float[ndarray, "_ T"]]  # derivatives of all outputs, or of one alone


@dataclass(frozen=True, eq=False)
class Movable:
    """A model to begin with, and which entries of its parts may move.

    Attributes
    ----------
    start
        One step, with a linear part and an offset.
    free
        A mask by the name of a part; parts that are not named stay as they are.
    """

    start: Decoupling
    free: dict[str, Bool[ndarray, "..."]]

    @property
    def count(self) -> int:
        return sum(int(mask.sum()) for mask in self.free.values())

    @cached_property
    def theta(self) -> Float[ndarray, " P"]:
        """The numbers of the model to begin with."""
        parts = parts_of(self.start)
        return np.concatenate([parts[name][mask] for name, mask in self.free.items()] + [np.zeros(0)])

    def model(self, theta: Float[ndarray, " P"]) -> Decoupling:
        """The model with these numbers."""
        parts, at = parts_of(self.start), 0
        for name, mask in self.free.items():
            k = int(mask.sum())
            parts[name] = parts[name].copy()
            parts[name][mask] = theta[at : at + k]
            at += k
        return with_parts(self.start, parts)

    def columns(self, along: Along) -> Iterator[Column]:
        """d (x+, y) / d theta along a run, one column of derivatives after the other."""
        L = along.step.n_layers
        for name, mask in self.free.items():
            l = int("".join(filter(str.isdigit, name)) or 0)
            for index in zip(*np.nonzero(mask), strict=True):
                i, j = int(index[0]), int(index[-1])
                if name == "linear":
                    yield i, along.entering(0)[j][None]
                elif name == "offset":
                    yield i, along.one
                elif name == f"W{L}":
                    yield i, along.entering(L)[j][None]
                elif name[0] == "W":
                    yield None, along.D[l][:, i] * along.entering(l)[j]
                elif name[0] == "g":
                    yield None, along.Q[l - 1][:, i] * along.tables[l - 1][i, j]
                else:
                    yield None, -along.D[l - 1][:, i]


class Along:
    """What the derivatives of one step are made of, at the points (x, u) of a run; times come last.

    Attributes
    ----------
    tables
        Basis functions of every layer, (r, d, T).
    Q, D
        d (x+, y) / d z_l and d (x+, y) / d u_l of every layer, (outputs, r, T); Q of the last layer is W_L.
    """

    def __init__(self, step: Decoupling, points: Float[ndarray, "T m"]) -> None:
        self.step = step
        self.one = np.ones((1, len(points)))
        self.tables: list[ndarray] = []
        self._entering = [np.ascontiguousarray(points.T)]
        slopes, u = [], points @ step.W[0].T
        for l, g in enumerate(step.g):
            C = g.C[:, 1:, None]
            self.tables.append(np.ascontiguousarray(g.table(u).transpose(1, 2, 0)))
            slopes.append(g.slopes(u).T)
            z = np.sum(self.tables[-1] * C, axis=1) + g.constants[:, None]
            self._entering.append(z)
            u = (step.W[l + 1] @ z).T
        self.Q: list[ndarray] = [step.W[-1][:, :, None]]
        self.D: list[ndarray] = []
        for l in range(step.n_layers - 1, -1, -1):
            self.D.insert(0, self.Q[0] * slopes[l])
            if l:
                self.Q.insert(0, np.einsum("ort,rq->oqt", self.D[0], step.W[l]))

    def entering(self, l: int) -> Float[ndarray, "r T"]:
        """What W_l is multiplied by."""
        return self._entering[l]

    def state_jacobian(self, n: int) -> Float[ndarray, "outputs n T"]:
        """d (x+, y) / d x."""
        assert self.step.linear is not None
        return np.einsum("ort,ri->oit", self.D[0], self.step.W[0][:, :n]) + self.step.linear[:, :n, None]


def parts_of(model: Decoupling) -> dict[str, ndarray]:
    """The arrays of one step by their names."""
    assert model.linear is not None
    assert model.offset is not None
    parts = {"linear": model.linear, "offset": model.offset}
    parts |= {f"W{l}": W for l, W in enumerate(model.W)}
    for l, g in enumerate(model.g, start=1):
        parts |= {f"g{l}": g.C[:, 1:], f"middle{l}": g.middle}
    return parts


def with_parts(model: Decoupling, parts: dict[str, ndarray]) -> Decoupling:
    """The model with other arrays."""
    g = []
    for l, functions in enumerate(model.g, start=1):
        C = np.concatenate([functions.C[:, :1], parts[f"g{l}"]], axis=1)
        domain = functions.domain + (parts[f"middle{l}"] - functions.middle)[:, None]
        g.append(Functions(functions.layer.bases, C, domain, functions.outside))
    W = [parts[f"W{l}"] for l in range(len(model.W))]
    return model.with_parts(W=W, g=g, linear=parts["linear"], offset=parts["offset"])
