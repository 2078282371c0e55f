r"""Fewer functions: without those that do nothing, and one in place of two that double each other.

Two functions of a layer double each other where one argument is a multiple of the other, up to a shift, and what both
bring to the next layer, :math:`w_i g_i(u_i) + w_j g_j(u_j)`, is one function of that argument times one vector.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..model._decoupling import Decoupling
from ..model._functions import Functions

PARALLEL = 0.99  # correlation of arguments from which two functions may double each other


def without(model: Decoupling, l: int, dropped: Sequence[int], X: Float[ndarray, "S m"]) -> Decoupling:
    """The model without some functions of layer l (from 0), which keep their mean values over the points X."""
    functions, kept = model.g[l], [j for j in range(model.ranks[l]) if j not in dropped]
    means = functions.values(model.arguments(X)[l]).mean(axis=0)
    gone = model.W[l + 1][:, list(dropped)] @ means[list(dropped)]
    bases = tuple(functions.layer.bases[j] for j in kept)
    size = max(basis.size for basis in bases)
    g = Functions(bases, functions.C[kept, : 1 + size], functions.domain[kept], functions.outside)
    W = [*model.W[:l], model.W[l][kept], model.W[l + 1][:, kept], *model.W[l + 2 :]]
    layers = [*model.g[:l], g, *model.g[l + 1 :]]
    if l == model.n_layers - 1:
        return model.with_parts(W=W, g=layers, offset=gone if model.offset is None else model.offset + gone)
    layers[l + 1] = layers[l + 1].shifted(gone)
    return model.with_parts(W=W, g=layers)


def doubles(model: Decoupling, X: Float[ndarray, "S m"]) -> list[tuple[int, int, int]]:
    """Layer (from 0) and places of pairs whose arguments are nearly the same, the nearest first."""
    found = []
    for l, u in enumerate(model.arguments(X)):
        spread = np.std(u, axis=0)
        moving = spread > 0.0
        unit = np.where(moving, (u - u.mean(axis=0)) / np.where(moving, spread, 1.0), 0.0)
        same = np.abs(unit.T @ unit) / len(u)
        pairs = [(i, j) for i in range(len(same)) for j in range(i + 1, len(same)) if same[i, j] > PARALLEL]
        found += [(float(-same[i, j]), l, i, j) for i, j in pairs]
    return [(l, i, j) for _, l, i, j in sorted(found)]


def merged(model: Decoupling, l: int, i: int, j: int, X: Float[ndarray, "S m"]) -> Decoupling:
    """The model with one function, in the basis and of the argument of the first, in place of functions i and j."""
    functions, behind = model.g[l], model.W[l + 1]
    u = model.arguments(X)[l]
    z = functions.values(u)[:, [i, j]]
    mean = z.mean(axis=0)
    both = (z - mean) @ behind[:, [i, j]].T
    _, _, directions = np.linalg.svd(both, full_matrices=False)
    w = directions[0]
    target = both @ w
    basis = functions.layer.bases[i]
    t = (u[:, i] - functions.middle[i]) / functions.half_width[i]
    c = np.linalg.lstsq(np.insert(basis.evaluate(t), 0, 1.0, axis=1), target, rcond=None)[0]
    C, W = functions.C.copy(), behind.copy()
    C[i] = 0.0
    C[i, : 1 + basis.size] = c
    W[:, i] = w
    # What leaves with function j is its mean; the mean of function i stays behind as a constant of the next layer.
    kept = model.with_parts(
        W=[*model.W[: l + 1], W, *model.W[l + 2 :]], g=[*model.g[:l], functions.with_coefficients(C), *model.g[l + 1 :]]
    )
    return _with_constant(without(kept, l, [j], X), l, behind[:, i] * mean[0])


def _with_constant(model: Decoupling, l: int, constant: Float[ndarray, " q"]) -> Decoupling:
    """The model with a constant more behind the functions of layer l."""
    if l == model.n_layers - 1:
        return model.with_parts(offset=constant if model.offset is None else model.offset + constant)
    g = [*model.g]
    g[l + 1] = g[l + 1].shifted(constant)
    return model.with_parts(g=g)
