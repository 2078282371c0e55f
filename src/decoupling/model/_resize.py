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
    W, g = list(model.W), []
    for l, (layer, functions, u) in enumerate(zip(layers, model.g, model.inner_inputs(X), strict=True)):
        last = l == len(layers) - 1
        rank, kept = len(layer.bases), min(len(layer.bases), functions.rank)
        C = np.zeros((rank, 1 + layer.size))
        for j in range(kept):
            C[j, : 1 + layer.sizes[j]] = _fitted(functions, j, layer.bases[j], u[:, j], constant=last)
        for j in range(kept, rank):
            C[j, 1 : 1 + layer.sizes[j]] = rng.normal(size=layer.sizes[j])
        new = rng.normal(size=(rank - kept, W[l].shape[1])) * _size(W[l])
        W[l] = np.vstack([W[l][:kept], new])
        faint = rng.normal(size=(W[l + 1].shape[0], rank - kept)) * (_FAINT * _size(W[l + 1]))
        W[l + 1] = np.hstack([W[l + 1][:, :kept], faint])
        g.append(Functions(layer.bases, C))
    return Decoupling(W, g)


def _fitted(functions: Functions, j: int, basis: AbstractBasis, u: Float[ndarray, " S"], *, constant: bool) -> ndarray:
    """Coefficients of function j in another basis, constant first."""
    old = functions.layer.bases[j]
    if old == basis:
        return functions.C[j, : 1 + basis.size]
    values = functions.C[j, 0] + old.evaluate(u) @ functions.C[j, 1 : 1 + old.size]
    table = np.column_stack([np.ones(len(u)) if constant else np.zeros(len(u)), basis.evaluate(u)])
    return np.linalg.lstsq(table, values)[0]


def _size(W: Float[ndarray, "_ _"]) -> float:
    """Root mean square of the entries."""
    return float(np.sqrt(np.mean(W**2)))
