"""How many parameters of a model are free: all of them, less the ambiguities that change nothing.

How much memory one start of a search takes, so that batches fit into what there is.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ...bases import LayerBasis
from ...samples._samples import Samples
from ._weighted_rows import AT_A_TIME, Rows


def n_free(n_inputs: int, layers: tuple[LayerBasis, ...], n_outputs: int, *, values: bool, linear: bool) -> int:
    """Weights, coefficients and constants that scalings leave free.

    Each function can be scaled in its argument and in its value. Where the domain is a parameter (see
    `AbstractBasis.free_domain`) the first of these is none, and the middle of the domain is one more. A linear part can
    take the straight lines of a single layer.
    """
    dims = [n_inputs, *(len(layer.bases) for layer in layers), n_outputs]
    total = sum(a * b for a, b in pairwise(dims)) + sum(sum(layer.sizes) for layer in layers)
    for layer in layers:
        total -= int(np.sum(np.where(layer.free_domain, 0, 2)))
    total += min(dims[-2], n_outputs) if values else 0
    if linear:
        total += n_inputs * n_outputs
        total -= sum(basis.line() is not None for basis in layers[0].bases) if len(layers) == 1 else 0
    return total


_DESIGNS = 4  # tables of the size of the eliminated design: itself, with the ridge below it, Q, and what LAPACK copies
_RESIDUALS = 3  # tables of the size of the data: the model, the residual, and its copy in another order
_DERIVATIVES = 2  # tables of the derivatives of a portion: themselves, and what is made of them ...
_SHARE = 0.25  # ... which together take at most this share of a limit


def derivatives_within(memory: float) -> int:
    """How many derivatives are held at a time."""
    return int(np.clip(_SHARE * memory / (8.0 * _DERIVATIVES), 1, AT_A_TIME))


def starts_within(memory: float, rows: Rows, layers: tuple[LayerBasis, ...], *, linear: bool) -> int:
    """How many starts may run side by side on these rows, besides the data in standard units; at least one."""
    left = memory - 8.0 * (_DERIVATIVES * rows.at_a_time + rows.X.size + _RESIDUALS * rows.Y.size)
    return int(np.clip(left / batch_bytes(rows, layers, linear=linear), 1, 2**31))


def batch_bytes(rows: Rows, layers: tuple[LayerBasis, ...], *, linear: bool) -> float:
    """Bytes of one more start of a batch on these rows."""
    S, q, n = rows.Y.shape
    return _bytes(S, rows.X.shape[1], n, q, layers, linear=linear)


def start_bytes(samples: Samples, layers: tuple[LayerBasis, ...], *, linear: bool) -> float:
    """Bytes of a search with one start at a time on all samples: the start, and the data in standard units."""
    S, n, m = samples.data.shape
    q = samples.has_values + m * samples.has_jacobians
    return _bytes(S, m, n, q, layers, linear=linear) + 8.0 * S * (2 * m + 3 * q * n)


def _bytes(S: int, m: int, n: int, q: int, layers: tuple[LayerBasis, ...], *, linear: bool) -> float:
    last = layers[-1]
    columns = 1 + len(last.bases) * last.size + m * linear
    tables = sum(len(layer.bases) * (3 * layer.size + 2 * m * (l > 0) + 4) for l, layer in enumerate(layers))
    return 8.0 * S * (_DESIGNS * q * columns + _RESIDUALS * q * n + tables)
