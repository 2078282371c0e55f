r"""What a refinement may change: all numbers of a decoupling but those that were given, as one row of displacements.

    theta = (W_0, c_1, mu_1, W_1, ..., c_L, mu_L, W_L, A, b)      less what it was where the refinement began,

with the coefficients c_l of a layer, the middles mu_l of domains that are to be found (`AbstractBasis.free_domain`),
the linear part A, where the model has one, and the offset b, which takes the place of all constants.

Steps do not depend on the units of the signals, nor on how far these are from 0: regressors are taken as
(x - centre) / size and outputs in a unit. So when W_0 moves, the domains of the first layer move along, and when A
moves, b does.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ...model._units import Units


@dataclass(frozen=True, eq=False)
class Unknowns:
    """The numbers that may move.

    Attributes
    ----------
    given
        The model to begin with.
    centre, size : (m,)
        Middles and half widths of the ranges of the regressors.
    unit : (n,)
        Half widths of the ranges of the outputs.
    fixed
        Names of parts that stay, such as "W0" or "g1".
    """

    given: Decoupling
    centre: Float[ndarray, " m"]
    size: Float[ndarray, " m"]
    unit: Float[ndarray, " n"]
    fixed: Collection[str]

    @property
    def _keeps_constants(self) -> bool:
        """Whether the constants of the last layer were given."""
        return f"g{self.given.n_layers}" in self.fixed

    @cached_property
    def start(self) -> Decoupling:
        """The model that belongs to theta = 0: the one given, its last constants in the offset."""
        model, last = self.given, self.given.g[-1]
        if self._keeps_constants:
            return model
        C = last.C.copy()
        C[:, 0] = 0.0
        b = model.W[-1] @ last.constants
        g = [*model.g[:-1], last.with_coefficients(C)]
        return model.with_parts(g=g, offset=b if model.offset is None else b + model.offset)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parts that move, in the order above."""
        model = self.start
        shapes: dict[str, tuple[int, ...]] = {}
        for l, functions in enumerate(model.g, start=1):
            shapes[f"W{l - 1}"] = model.W[l - 1].shape
            shapes[f"g{l}"] = functions.C[:, 1:].shape
            shapes[f"middle{l}"] = (int(functions.layer.free_domain.sum()),)
        shapes[f"W{model.n_layers}"] = model.W[-1].shape
        if model.linear is not None:
            shapes["linear"] = model.linear.shape
        if model.offset is not None:
            shapes["offset"] = model.offset.shape
        return {name: shape for name, shape in shapes.items() if name.replace("middle", "g") not in self.fixed}

    @property
    def count(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def _unit_of(self, name: str) -> Any:
        """What the displacements of a part are counted in."""
        of_x = 1.0 / self.size if name in ("W0", "linear") else 1.0
        if name in (f"W{self.start.n_layers}", "linear"):
            return self.unit[:, None] * of_x
        return self.unit if name == "offset" else of_x

    @cached_property
    def _first_centre(self) -> Float[ndarray, " m"]:
        """Where the functions of the first layer were given, their domains stay."""
        return np.zeros_like(self.centre) if "g1" in self.fixed else self.centre

    def model(self, theta: Float[ndarray, " P"]) -> Decoupling:
        """The model at theta."""
        start, at = self.start, 0
        parts: dict[str, Any] = {}
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            parts[name] = theta[at : at + size].reshape(shape) * self._unit_of(name)
            at += size
        W = [w + parts.get(f"W{l}", 0.0) for l, w in enumerate(start.W)]
        g = []
        for l, functions in enumerate(start.g, start=1):
            C, move = functions.C.copy(), np.zeros(functions.rank)
            C[:, 1:] += parts.get(f"g{l}", 0.0)
            move[functions.layer.free_domain] = parts.get(f"middle{l}", 0.0)
            if l == 1 and "W0" in parts:
                move += parts["W0"] @ self._first_centre
            g.append(Functions(functions.layer.bases, C, functions.domain + move[:, None], functions.outside))
        A, b = start.linear, start.offset
        if b is not None:
            b = b + parts["offset"]
        if A is not None:
            A, b = A + parts["linear"], (0.0 if b is None else b) - parts["linear"] @ self.centre
        return start.with_parts(W=W, g=g, linear=A, offset=b)

    def derivatives(self, model: Decoupling, X: Float[ndarray, "S m"]) -> Float[ndarray, "S n P"]:
        """d f / d theta of the model at the points X, going back from the output."""
        S, n = len(X), model.n_outputs
        u = model.arguments(X)
        D = np.broadcast_to(np.eye(n), (S, n, n))  # d f / d (what W_l gives)
        blocks = {"linear": D[..., None] * (X - self.centre)[:, None, None, :], "offset": D}
        for l in range(model.n_layers, 0, -1):
            functions = model.g[l - 1]
            blocks[f"W{l}"] = D[..., None] * functions.values(u[l - 1])[:, None, None, :]
            Q = D @ model.W[l]  # d f / d z_l
            # Coefficients past the basis of a function do not exist; their columns are 0 and never move.
            blocks[f"g{l}"] = Q[..., None] * functions.table(u[l - 1])[:, None]
            D = Q * functions.slopes(u[l - 1])[:, None, :]
            blocks[f"middle{l}"] = -D[..., functions.layer.free_domain]
        blocks["W0"] = D[..., None] * (X - self._first_centre)[:, None, None, :]
        return np.concatenate([(blocks[name] * self._unit_of(name)).reshape(S, n, -1) for name in self.shapes], axis=2)

    def as_given(self, model: Decoupling) -> Decoupling:
        """The same model written like the given one: its constants in the last layer, where they were there."""
        if self.given.offset is not None or self._keeps_constants:
            return model
        return Units.given(model.n_inputs, model.n_outputs).to_given(model)
