"""A layer to train that knows nothing of Jacobians: random directions, and outputs fitted by least squares.

Each function begins as a smooth hinge, x / (1 + exp(-1.7 x)), at a random place among its inputs and in either
direction. Hidden units are of this kind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from ...bases import AbstractBasis
from ...model._decoupling import Decoupling
from ...model._functions import Functions, Outside
from ._decoupled_layer import DecoupledLayer

_N_NODES = 200
_RIDGE = 1e-6
_HINGE_SHIFT = 0.5  # standard deviations


def random_layer(
    sizes: Sequence[int],
    bases: Sequence[AbstractBasis],
    X: Tensor,
    F: Tensor,
    outside: Outside,
    rng: np.random.Generator,
    dtype: torch.dtype,
) -> DecoupledLayer:
    """A layer with inputs, functions and outputs as in `sizes`, for inputs X (N, m) and values F (N, n) of a part."""
    z, values = X.double().numpy(), F.double().numpy()
    W, g = [], []
    for rank, basis in zip(sizes[1:-1], bases, strict=True):
        directions = rng.normal(size=(rank, z.shape[1])) / _standard_deviations(z)
        u = z @ directions.T
        directions /= _standard_deviations(u)[:, None]
        functions = hinges(basis, z @ directions.T, outside, rng)
        W.append(directions)
        g.append(functions)
        z = functions(z @ directions.T)
    centred, mean = z - z.mean(axis=0), values.mean(axis=0)
    scale = _standard_deviations(z)
    gram = (centred / scale).T @ (centred / scale)
    gram[np.diag_indices_from(gram)] += _RIDGE * len(z)
    last = np.linalg.solve(gram, (centred / scale).T @ (values - mean)).T / scale
    offset = mean - last @ z.mean(axis=0)
    return DecoupledLayer(Decoupling([*W, last], g, offset=offset), dtype=dtype)


def hinges(basis: AbstractBasis, u: Float[ndarray, "N r"], outside: Outside, rng: np.random.Generator) -> Functions:
    """Smooth hinges of arguments u, as near as the basis has them."""
    domain = np.stack([u.min(axis=0), u.max(axis=0)], axis=1)
    flat = domain[:, 1] - domain[:, 0] <= 0.0
    domain[flat] += [-1.0, 1.0]
    at = u.mean(axis=0) + _HINGE_SHIFT * rng.normal(size=u.shape[1]) * _standard_deviations(u)
    nodes = np.cos(np.pi * (np.arange(_N_NODES) + 0.5) / _N_NODES)
    table = np.insert(basis.evaluate(nodes), 0, 1.0, axis=1)
    s = domain.mean(axis=1) + nodes[:, None] * (domain[:, 1] - domain[:, 0]) / 2.0 - at
    curves = s / (1.0 + np.exp(-1.7 * s)) * rng.choice([-1.0, 1.0], size=u.shape[1])
    return Functions(basis, np.linalg.lstsq(table, curves, rcond=None)[0].T, domain, outside)


def fit_basis(layer: DecoupledLayer, basis: AbstractBasis, dtype: torch.dtype) -> DecoupledLayer:
    """The functions of a layer as near as another basis has them, on the same domains."""
    model = layer.to_decoupling()
    nodes = np.cos(np.pi * (np.arange(_N_NODES) + 0.5) / _N_NODES)
    table = np.insert(basis.evaluate(nodes), 0, 1.0, axis=1)
    g = []
    for one in model.g:
        u = one.middle + nodes[:, None] * one.half_width
        C = np.linalg.lstsq(table, one(u), rcond=None)[0].T
        g.append(Functions(basis, C, one.domain, one.outside))
    return DecoupledLayer(Decoupling(model.W, g, linear=model.linear, offset=model.offset), dtype=dtype)


def _standard_deviations(values: Float[ndarray, "N k"]) -> Float[ndarray, " k"]:
    spread = values.std(axis=0)
    return np.where(spread > 1e-12, spread, 1.0)
