r"""Models written with the smallest parameters: what a ridge would lead to by many small steps along a curved valley.

Values of a function may be divided by a factor that the next matrix is multiplied by, and arguments of polynomials by
one that their coefficients take up. Both leave the model as it is and change the squared size of its parameters.
"""

from __future__ import annotations

import numpy as np

from ..bases import LayerBasis
from ._chain import Parameters

_ROUNDS = 4
_FACTORS = np.exp(np.linspace(-1.0, 1.0, 81))  # of arguments, tried in every round
_SMALLEST_SCALE = 1e-100


def balanced(layers: tuple[LayerBasis, ...], theta: Parameters) -> Parameters:
    """The same models (a batch of one) with parameters of nearly the smallest squared size."""
    out = [p.copy() for p in theta]
    for _ in range(_ROUNDS):
        for l, layer in enumerate(layers):
            _scale_arguments(layer, out, l, last=l == len(layers) - 1)
            _scale_values(out, l, last=l == len(layers) - 1)
    return out


def _scale_values(theta: Parameters, l: int, *, last: bool) -> None:
    """As large before the next matrix as in it."""
    C, after = theta[2 * l + 1], theta[2 * l + 2]
    columns = after if last else after[..., :-1]
    size, other = np.linalg.norm(C, axis=-1), np.linalg.norm(columns, axis=1)
    lives = (size > _SMALLEST_SCALE) & (other > _SMALLEST_SCALE)
    factor = np.where(lives, np.sqrt(other / np.where(lives, size, 1.0)), 1.0)
    C *= factor[..., None]
    columns /= factor[:, None, :]


def _scale_arguments(layer: LayerBasis, theta: Parameters, l: int, *, last: bool) -> None:
    """The best of many factors for the arguments of each function, where its basis takes them up exactly."""
    if layer.free_domain.any() or any(basis.polynomial_degree is None for basis in layer.bases):
        return
    W, C = theta[2 * l], theta[2 * l + 1]
    full = C[0] if last else np.concatenate([np.zeros((C.shape[1], 1)), C[0]], axis=-1)
    k, r = len(_FACTORS), len(full)
    scale = np.broadcast_to(_FACTORS[:, None], (k, r))
    tried = layer.moved(np.broadcast_to(full, (k, *full.shape)), scale, np.zeros((k, r)))
    size = np.sum(tried**2, axis=-1) + np.sum(W[0, :, :-1] ** 2, axis=-1) / scale**2
    best = np.argmin(size, axis=0)
    chosen = tried[best, np.arange(r)]
    W[0] /= _FACTORS[best][:, None]
    C[0] = chosen if last else chosen[:, 1:]
