"""A model in another shape, more or fewer functions and other bases: a start for the fit of that shape."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..bases import AbstractBasis, LayerBasis
from ._decoupling import Decoupling
from ._functions import Functions

_FAINT = 1e-2  # weight of a new function, relative to the others: with 0 it would have no derivative to follow


def resized(
    model: Decoupling, layers: tuple[LayerBasis, ...], X: Float[ndarray, "S m"], rng: np.random.Generator
) -> Decoupling:
    """The model with other layers: coefficients fitted to its functions where the points X lie.

    A layer that shrinks keeps the functions that carry most; one that grows gets functions of random directions and
    small weight.
    """
    model = model.canonical(X)  # most important functions first
    W, g, z = list(model.W), [], X
    for l, (layer, functions, u) in enumerate(zip(layers, model.g, model.arguments(X), strict=True)):
        rank, kept = len(layer.bases), min(len(layer.bases), functions.rank)
        C = np.zeros((rank, 1 + layer.size))
        for j in range(kept):
            C[j, : 1 + layer.sizes[j]] = _fitted(functions, j, layer.bases[j], u[:, j])
        for j in range(kept, rank):
            C[j, 1 : 1 + layer.sizes[j]] = rng.normal(size=layer.sizes[j])
        new = rng.normal(size=(rank - kept, W[l].shape[1])) / _spread(z)
        W[l] = np.vstack([W[l][:kept], new])
        faint = rng.normal(size=(W[l + 1].shape[0], rank - kept)) * (_FAINT * _size(W[l + 1]))
        W[l + 1] = np.hstack([W[l + 1][:, :kept], faint])
        domain = np.vstack([functions.domain[:kept], _visited(z @ new.T)])
        g.append(Functions(layer.bases, C, domain, functions.outside))
        z = g[l].values(z @ W[l].T)
    return model.with_parts(W=W, g=g)


def _fitted(functions: Functions, j: int, basis: AbstractBasis, u: Float[ndarray, " S"]) -> ndarray:
    """Coefficients of function j in another basis on the same domain, constant first."""
    old = functions.layer.bases[j]
    if old == basis:
        return functions.C[j, : 1 + basis.size]
    t = (u - functions.middle[j]) / functions.half_width[j]
    values = functions.C[j, 0] + old.evaluate(t) @ functions.C[j, 1 : 1 + old.size]
    return np.linalg.lstsq(np.insert(basis.evaluate(t), 0, 1.0, axis=1), values)[0]


def _visited(u: Float[ndarray, "S k"]) -> Float[ndarray, "k 2"]:
    """The range of arguments, widened where it is a single number."""
    low, high = u.min(axis=0, initial=np.inf), u.max(axis=0, initial=-np.inf)
    room = np.where(high > low, 0.0, 1.0)
    return np.stack([low - room, high + room], axis=1)


def _spread(z: Float[ndarray, "S q"]) -> Float[ndarray, " q"]:
    """Standard deviations, 1 where nothing varies."""
    spread = z.std(axis=0)
    return np.where(spread > 0.0, spread, 1.0)


def _size(W: Float[ndarray, "_ _"]) -> float:
    """Root mean square of the entries."""
    return float(np.sqrt(np.mean(W**2)))
