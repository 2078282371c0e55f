r"""One step (x, u) -> (x+, y) of a state-space model as arrays that nobody checks, for use inside loops.

    (x+, y) = A z + b + W_L g_L(... g_1(W_0 z)),      z = (x, u)

A fit tries hundreds of models. A `Decoupling`, which checks its parts, is made of the last one. The numbers that a fit
may move are entries of the parts of a step, named "linear", "offset", "W0", "g1", "middle1", "W1", ... The linear part
is A, B, C, D. The weights are W_0 = [V, V_u] and W_L = [W_x, W_y]. One step is differentiated with respect to them
here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ...bases import LayerBasis, Monomial
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ..signals._records import SignalUnits

_LEAST_VARIANCE = 1e-12  # of the largest: states that hardly move are not scaled up by more than 1e6


@dataclass(frozen=True, eq=False)
class StepArrays:
    """Weights, functions, linear part and offset of one step.

    Attributes
    ----------
    W, g
        Linear layers and layers of functions, as in a `Decoupling`; the functions of the last layer have no constants.
    linear : (n + outputs, n + inputs)
        [[A, B], [C, D]] of the linear dynamics.
    offset : (n + outputs,)
        Constants of the next state and of the output.
    """

    W: tuple[Float[ndarray, "_ _"], ...]
    g: tuple[Functions, ...]
    linear: Float[ndarray, "o i"]
    offset: Float[ndarray, " o"]

    @classmethod
    def of(cls, model: Decoupling) -> StepArrays:
        """The same map with all constants of its last layer in the offset, and a linear part in any case."""
        last, offset = model.g[-1], model.W[-1] @ model.g[-1].constants
        C = last.C.copy()
        C[:, 0] = 0.0
        g = (*model.g[:-1], Functions.unchecked(last.layer, C, last.domain, last.outside))
        linear = np.zeros((model.n_outputs, model.n_inputs)) if model.linear is None else model.linear
        return cls(model.W, g, linear, offset if model.offset is None else offset + model.offset)

    @classmethod
    def of_linear(
        cls,
        A: Float[ndarray, "n n"],
        B: Float[ndarray, "n inputs"],
        C: Float[ndarray, "outputs n"],
        D: Float[ndarray, "outputs inputs"],
    ) -> StepArrays:
        """One step of a linear model; its one function has no weight."""
        linear = np.block([[A, B], [C, D]])
        none = Functions.unchecked(LayerBasis((Monomial(1),)), np.zeros((1, 2)), np.array([[-1.0, 1.0]]), "extend")
        W = (np.zeros((1, linear.shape[1])), np.zeros((linear.shape[0], 1)))
        return cls(W, (none,), linear, np.zeros(len(linear)))

    def decoupling(self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> Decoupling:
        """The same step as a checked model, with names of (x, u) and (x+, y)."""
        g = [Functions(g.layer.bases, g.C, g.domain, g.outside) for g in self.g]
        return Decoupling(self.W, g, linear=self.linear, offset=self.offset, inputs=inputs, outputs=outputs)

    @property
    def n_inputs(self) -> int:
        return int(self.linear.shape[1])

    @property
    def n_outputs(self) -> int:
        return int(self.linear.shape[0])

    @property
    def n_layers(self) -> int:
        return len(self.g)

    @property
    def layers(self) -> tuple[LayerBasis, ...]:
        return tuple(g.layer for g in self.g)

    def arguments(self, points: Float[ndarray, "T m"]) -> list[Float[ndarray, "T _"]]:
        """Arguments u_l of the functions of every layer at points (x, u)."""
        u = [points @ self.W[0].T]
        for g, W in zip(self.g[:-1], self.W[1:-1], strict=True):
            u.append(g.values(u[-1]) @ W.T)
        return u

    def values(self, points: Float[ndarray, "T m"]) -> Float[ndarray, "T o"]:
        """(x+, y) at points (x, u)."""
        values: ndarray = self.g[-1].values(self.arguments(points)[-1]) @ self.W[-1].T
        values += points @ self.linear.T
        values += self.offset
        return values

    def in_variables(
        self,
        P: Float[ndarray, "i i"],
        c: Float[ndarray, " i"] | None,
        Q: Float[ndarray, "o o"],
        d: Float[ndarray, " o"] | None,
    ) -> StepArrays:
        """The same step in variables z' and o' with z = P z' + c and o' = Q (o - d): exact."""
        g, offset = self.g, self.offset
        if c is not None:
            first = g[0]
            moved = Functions.unchecked(first.layer, first.C, first.domain - (self.W[0] @ c)[:, None], first.outside)
            g, offset = (moved, *g[1:]), offset + self.linear @ c
        if d is not None:
            offset = offset - d
        W = list(self.W)
        W[0], W[-1] = W[0] @ P, Q @ W[-1]
        return StepArrays(tuple(W), g, Q @ self.linear @ P, Q @ offset)

    def in_states(self, T: Float[ndarray, "n n"], centre: Float[ndarray, " n"] | None = None) -> StepArrays:
        """The same model with the state x' if x = T x' + centre."""
        n = len(T)
        P, Q, c, d = np.eye(self.n_inputs), np.eye(self.n_outputs), None, None
        P[:n, :n], Q[:n, :n] = T, np.linalg.inv(T)
        if centre is not None:
            c, d = np.zeros(self.n_inputs), np.zeros(self.n_outputs)
            c[:n] = d[:n] = centre
        return self.in_variables(P, c, Q, d)

    def in_measured_units(self, units: SignalUnits) -> StepArrays:
        """One step in standard units as one in measured units; the states stay as they are."""
        return self._in_signals(
            1.0 / units.u_size, -units.u_mean / units.u_size, units.y_size, -units.y_mean / units.y_size
        )

    def in_standard_units(self, units: SignalUnits) -> StepArrays:
        """The inverse of `in_measured_units`."""
        return self._in_signals(units.u_size, units.u_mean, 1.0 / units.y_size, units.y_mean)

    def _in_signals(self, P: ndarray, c: ndarray, Q: ndarray, d: ndarray) -> StepArrays:
        """In signals u' and y' with u = P u' + c and y' = Q (y - d), one number per channel."""
        n = self.n_inputs - len(P)
        one, none = np.ones(n), np.zeros(n)
        return self.in_variables(np.diag(np.r_[one, P]), np.r_[none, c], np.diag(np.r_[one, Q]), np.r_[none, d])

    def in_smaller_steps(self, n: int, factor: int) -> StepArrays:
        """About the same model with `factor` steps per sample: A^(1/factor), and what enters the state shared out.

        Linear models of constant inputs are met exactly.
        """
        from scipy.linalg import fractional_matrix_power

        root = np.real(fractional_matrix_power(self.linear[:n, :n], 1.0 / factor))
        Q = np.eye(self.n_outputs)
        Q[:n, :n] = np.linalg.inv(sum(np.linalg.matrix_power(root, k) for k in range(factor)))
        linear = Q @ self.linear
        linear[:n, :n] = root
        return replace(self, W=(*self.W[:-1], Q @ self.W[-1]), linear=linear, offset=Q @ self.offset)


def whitening(X: Float[ndarray, "T n"]) -> Float[ndarray, "n n"]:
    """T such that x' = T^-1 x has unit covariance over the rows of X."""
    spread, axes = np.linalg.eigh(np.atleast_2d(np.cov(X.T)))
    return axes * np.sqrt(np.maximum(spread, _LEAST_VARIANCE * spread.max()))


def spectral_radius(step: StepArrays, n: int) -> float:
    """The size of the largest pole of the linear part."""
    return float(np.abs(np.linalg.eigvals(step.linear[:n, :n])).max())


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
