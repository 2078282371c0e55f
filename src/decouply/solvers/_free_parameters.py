"""How many parameters of a model are free: all of them, less the ambiguities that change nothing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..bases import LayerBasis


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
