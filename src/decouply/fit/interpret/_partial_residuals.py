r"""What samples tell of a single function, all the rest of a model held as it is.

Changing g_lj by :math:`\delta` changes the outputs at sample s by :math:`D_s \delta(u_s)`, where :math:`D_s` is the way
from the function to the outputs: :math:`W_L D_L \cdots W_l e_j`. So the residuals of the samples become readings of
that one function,

.. math:: r_s = g(u_s) + D_s^T (f_s - \hat f_s) / \|D_s\|^2,

each with the variance of the noise over :math:`\|D_s\|^2`. Jacobians give readings of its slope in the same way, if
the function is in the last layer or there are no values. (In earlier layers they depend on its values too.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...samples._samples import Samples
from ...solvers.problem._weighted_rows import apply_weights, apply_weights_to_values

_BINS = 1000  # readings that are nearer to each other than this share of their number are averaged
_LEAST_NOISE = 1e-8  # of the data: noise that is smaller is not told from none
_TINY = 1e-100
_NO_SPREAD = 1e-12  # of the largest value: rounding of a constant
_LARGEST = 1e150  # error of a reading: its square is a number
_LEAST_LEFT = 0.1  # of the numbers: what parameters leave at least, for an estimate of noise


@dataclass(frozen=True, eq=False)
class Readings:
    """Numbers that a function, or its slope, should come near to.

    Attributes
    ----------
    u, target, variance
        The points where they were taken, what they say, and their expected squared error.
    order
        0 for values and 1 for slopes.
    count
        How many samples are behind all of them: close ones are averaged.
    """

    u: Float[ndarray, " k"]
    target: Float[ndarray, " k"]
    variance: Float[ndarray, " k"]
    order: Int[ndarray, " k"]
    count: int


@dataclass(frozen=True, eq=False)
class FunctionReadings:
    """One function of a model: the points where it was visited, its values there, and what the samples say of it."""

    layer: int
    index: int
    u: Float[ndarray, " S"]
    values: Float[ndarray, " S"]
    readings: Readings

    @property
    def spread(self) -> float:
        """The standard deviation of its values."""
        return float(np.std(self.values))


def function_readings(
    model: Decoupling, X: Float[ndarray, "S m"], samples: Samples | None, n_parameters: float, tolerance: float
) -> list[FunctionReadings]:
    """Readings of all functions, layer by layer.

    Without samples a function itself is what is read. `tolerance`, a share of the standard deviation of a function, is
    what readings have errors of at least.
    """
    u = model.arguments(X)
    ways = _output_directions(model, u)
    known = None if samples is None else _Residuals.of(model, samples, n_parameters)
    P = np.broadcast_to(np.eye(model.n_inputs), (len(X), model.n_inputs, model.n_inputs))
    found = []
    for l, (g, W) in enumerate(zip(model.g, model.W, strict=False)):
        V = W @ P  # rows: how the arguments of this layer change with x
        values, slopes = g.values(u[l]), g.slopes(u[l])
        last = l == model.n_layers - 1
        for j in range(g.rank):
            size = float(np.abs(values[:, j]).max(initial=_TINY))
            floor = min(
                max(tolerance, np.finfo(float).eps) * max(float(np.std(values[:, j])), _NO_SPREAD * size), _LARGEST
            )
            if known is None:
                parts = [(u[l][:, j], values[:, j], np.full(len(values), floor**2), 0)]
            else:
                parts = known.readings(ways[l][..., j], V[:, j], u[l][:, j], values[:, j], slopes[:, j], floor, last)
            found.append(FunctionReadings(l + 1, j + 1, u[l][:, j], values[:, j], _join_readings(parts)))
        P = slopes[:, :, None] * V
    return found


def _output_directions(model: Decoupling, u: tuple[Float[ndarray, "S _"], ...]) -> list[Float[ndarray, "S n _"]]:
    """D_s of all functions, layer by layer."""
    S = len(u[0])
    found = [np.broadcast_to(model.W[-1], (S, *model.W[-1].shape))]
    for l in range(model.n_layers - 1, 0, -1):
        slopes = model.g[l].slopes(u[l])
        found.insert(0, (found[0] * slopes[:, None, :]) @ model.W[l])
    return found


Part = tuple[ndarray, ndarray, ndarray, int]  # u, target, variance and order


@dataclass(frozen=True, eq=False)
class _Residuals:
    """What a model leaves of values and Jacobians, weighted like the samples, over the variance of their noise.

    Every output has a noise of its own, and every entry of the Jacobian: units do not matter.
    """

    F: Float[ndarray, "S n"] | None
    J: Float[ndarray, "S n m"] | None
    weights: Float[ndarray, "S *outputs"] | None
    precision_F: Float[ndarray, " n"]
    precision_J: Float[ndarray, "n m"]

    @classmethod
    def of(cls, model: Decoupling, samples: Samples, n_parameters: float) -> _Residuals:
        F = None if samples.F is None else samples.F - model.values(samples.X)
        J = None if samples.J is None else samples.J - model.jacobians(samples.X)
        n, m = model.n_outputs, model.n_inputs
        total = sum(part.size for part in (F, J) if part is not None)
        left = max(total - n_parameters, _LEAST_LEFT * total) / max(total, 1)
        F_size = np.ones(n) if F is None else _size(samples.F)
        J_size = np.ones((n, m)) if J is None else _size(samples.J)
        precision_F = np.zeros(n) if F is None else left / (np.mean(F**2, axis=0) + (_LEAST_NOISE * F_size) ** 2)
        precision_J = np.zeros((n, m)) if J is None else left / (np.mean(J**2, axis=0) + (_LEAST_NOISE * J_size) ** 2)
        return cls(F, J, samples.weights, precision_F, precision_J)

    def readings(
        self,
        way: Float[ndarray, "S n"],
        V: Float[ndarray, "S m"],
        u: Float[ndarray, " S"],
        values: Float[ndarray, " S"],
        slopes: Float[ndarray, " S"],
        floor: float,
        last: bool,
    ) -> list[Part]:
        parts: list[Part] = []
        if self.F is not None:
            sharp = apply_weights_to_values(way * self.precision_F, self.weights)
            strength = np.maximum(np.sum(way * sharp, axis=1), _TINY)
            off = np.sum(sharp * self.F, axis=1) / strength
            parts.append((u, values + off, 1.0 / strength + floor**2, 0))
        if self.J is not None and (last or self.F is None):
            both = apply_weights(way[:, :, None] * V[:, None, :] * self.precision_J, self.weights)
            strength = np.maximum(np.einsum("sn,snm,sm->s", way, both, V), _TINY)
            off = np.einsum("snm,snm->s", both, self.J) / strength
            least = floor / max(float(np.ptp(u)), _TINY)
            parts.append((u, slopes + off, 1.0 / strength + least**2, 1))
        return parts


def _size(data: Any) -> Any:
    """Root mean squares over the samples, never 0."""
    size = np.sqrt(np.mean(np.asarray(data) ** 2, axis=0))
    return np.where(size > 0.0, size, 1.0)


def _join_readings(parts: list[Part]) -> Readings:
    few = [_average_neighbours(part) for part in parts]
    u, target, variance = (np.concatenate([part[i] for part in few]) for i in range(3))
    order = np.concatenate([np.full(len(part[0]), part[3]) for part in few])
    return Readings(u, target, variance, order, sum(len(part[0]) for part in parts))


def _average_neighbours(part: Part) -> Part:
    """At most this many readings, each the weighted mean of neighbours."""
    u, target, variance, order = part
    if len(u) <= _BINS:
        return part
    sort = np.argsort(u, kind="stable")
    first = np.unique(np.linspace(0, len(u), _BINS, endpoint=False).astype(int))
    weight = 1.0 / variance[sort]
    total = np.add.reduceat(weight, first)
    middle, value = (np.add.reduceat(weight * a[sort], first) / total for a in (u, target))
    return middle, value, 1.0 / total, order
