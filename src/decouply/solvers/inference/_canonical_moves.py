r"""How the functions and weights of a model move when its parameters do, apart from scalings and constants.

The same model can be written with other scales and constants, so that its parameters are no functions of the data. What
is compared is a standard writing. The arguments of a function have a range of length 2 over the samples, with its
middle at 0. Its slopes have root mean square 1, and its values have mean 0. With a linear part, the functions of a
single layer have no linear trend either. These are derivatives of that writing. A move of the parameters that only
writes the model differently does not change it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ..least_squares._derivatives import Chain, run_chain
from ..least_squares._parameters import Parameters
from ..problem._batched_linalg import combine
from ._linearisation import Linearisation


@dataclass(frozen=True)
class LayerMoves:
    """What k moves of the parameters change in a layer of functions, in its standard writing."""

    curves: Float[ndarray, "k p r"]  # at some points
    before: Float[ndarray, "k r _"]  # weights, with other layers in their standard writing too
    after: Float[ndarray, "k _ r"]


@dataclass(frozen=True)
class _Function:
    """The functions of a layer while their coefficients and the place and range of their arguments change."""

    layer: LayerBasis
    c: Float[ndarray, "1 r d"]
    dc: Float[ndarray, "k r d"]
    wider: Float[ndarray, "k r"]
    middle: Float[ndarray, " r"]
    d_middle: Float[ndarray, "k r"]

    def changes(self, t: Float[ndarray, "p r"]) -> Float[ndarray, "k p r"]:
        """Changes of the values at the same places of the range."""
        place = self.d_middle[:, None] + self.wider[:, None] * (t - self.middle)
        return combine(self.layer.evaluate(t)[None], self.dc) + place * combine(self.layer.derivative(t)[None], self.c)


def canonical_moves(
    at: Linearisation, moves: Parameters, points: list[Float[ndarray, "p _"]] | None = None
) -> list[LayerMoves]:
    """Changes of all layers, of curves at points of the window of every layer, or where the samples lie.

    Curves are those of the model in the units of the linearisation, with slopes of the size that they have there.
    """
    theta, chain, layers = at.theta, at.chain, at.problem.layers
    L = len(layers)
    dt = chain.z[0] @ moves.W[0].mT + moves.b[0][:, None]  # of the arguments of layer 1: (k, S, r_1)
    curves, growths = list[ndarray](), list[tuple[ndarray, ndarray]]()
    for l, layer in enumerate(layers):
        dc = moves.c[l][..., -layer.size :]
        c = theta.c[l][..., -layer.size :]
        t, slopes, bends = chain.t[l], combine(chain.dPhi[l], c), combine(chain.ddPhi[l], c)
        # The place and the range of the arguments.
        every = np.arange(len(layer.bases))
        top, bottom = np.argmax(t[0], axis=0), np.argmin(t[0], axis=0)
        width = t[0, top, every] - t[0, bottom, every]
        wider = (dt[:, top, every] - dt[:, bottom, every]) / np.where(width > 0.0, width, 1.0)
        middle = (t[0, top, every] + t[0, bottom, every]) / 2.0
        d_middle = (dt[:, top, every] + dt[:, bottom, every]) / 2.0
        d_slopes = combine(chain.dPhi[l], dc) + bends * dt + wider[:, None] * slopes

        moved = _Function(layer, c, dc, wider, middle, d_middle)
        where = t[0] if points is None else points[l]
        there = moved.changes(where)
        dz = combine(chain.Phi[l], dc) + slopes * dt  # at the samples, whose places move too
        d_mean = dz.mean(axis=1, keepdims=True)
        if at.model.linear is not None and L == 1:  # lines are part of A
            lines = np.array([basis.line() is not None for basis in layer.bases])
            trend = np.where(lines, d_slopes.mean(axis=1), 0.0)[:, None]
            d_slopes, there, d_mean = d_slopes - trend, there - trend * where, d_mean - trend * t[0].mean(axis=0)
        # The size of the slopes, and the mean of the values.
        power = np.sum(slopes**2, axis=1)
        steeper = np.sum(slopes * d_slopes, axis=1) / np.where(power > 0.0, power, 1.0)
        value = combine(chain.Phi[l], c)
        mean = value.mean(axis=1, keepdims=True)
        value_there = combine(layer.evaluate(where)[None], c) - mean
        curves.append(there - d_mean - steeper[:, None] * value_there)
        growths.append((wider, steeper))
        if l < L - 1:
            dt = dz @ theta.W[l + 1].mT + chain.z[l + 1] @ moves.W[l + 1].mT + moves.b[l + 1][:, None]
    weights = []
    for l, (W, dW) in enumerate(zip(theta.W, moves.W, strict=True)):
        change = dW.copy()
        if l < L:
            change -= growths[l][0][..., None] * W
        if l > 0:
            change += growths[l - 1][1][:, None] * W
        weights.append(change)
    return [LayerMoves(curve, weights[l], weights[l + 1]) for l, curve in enumerate(curves)]


def function_ranges(
    layers: tuple[LayerBasis, ...], theta: Parameters, chain: Chain
) -> list[tuple[Float[ndarray, " r"], Float[ndarray, " r"]]]:
    """Half the range of the arguments of every function of a model, and how far its values go over that, by slopes."""
    found = []
    for layer, c, t, dPhi in zip(layers, theta.c, chain.t, chain.dPhi, strict=True):
        half = np.ptp(t[0], axis=0) / 2.0
        slopes = combine(dPhi, c[..., -layer.size :])[0]
        found.append((half, half * np.sqrt(np.mean(slopes**2, axis=0))))
    return found


def value_moves(at: Linearisation, moves: Parameters, X: Float[ndarray, "s m"]) -> Float[ndarray, "k s n"]:
    """Changes of the outputs of the model at any points, in the units of the data."""
    theta, layers, units = at.theta, at.problem.layers, at.problem.units
    chain = run_chain(layers, theta.inner, units.points(X))
    dt = chain.z[0] @ moves.W[0].mT + moves.b[0][:, None]
    for l, layer in enumerate(layers):
        c, dc = (p.c[l][..., -layer.size :] for p in (theta, moves))
        z, dz = combine(chain.Phi[l], c), combine(chain.Phi[l], dc) + combine(chain.dPhi[l], c) * dt
        if l == len(layers) - 1:  # with its constants
            z, dz = (value + p.c[l][:, None, :, 0] for value, p in ((z, theta), (dz, moves)))
        else:
            dt = moves.b[l + 1][:, None]
        behind = dz @ theta.W[l + 1].mT + z @ moves.W[l + 1].mT
        dt = behind if l == len(layers) - 1 else dt + behind
    if moves.A is not None:
        dt = dt + chain.z[0] @ moves.A.mT
    return dt * units.y_scale
