r"""The same models with other parameters: domains, scales and offsets of functions moved into the matrices.

Arguments of all functions over the window: models written anew, so that the samples fill it.

The smallest parameters: what a ridge would lead to by many small steps along a curved valley. Values of a function may
be divided by a factor that the next matrix is multiplied by, and arguments of polynomials by one that their
coefficients take up. Both leave the model as it is and change the squared size of its parameters.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ..problem._batched_linalg import combine
from ._parameters import Parameters

# Arguments that reach no farther than this and fill so much of the window stay: writing them anew costs digits.
_WIDEST_REACH, _NARROWEST_HALF_WIDTH = 1.05, 0.7
_RELATIVE_WIDTH_OF_CONSTANTS = 1e-13  # arguments whose range is smaller, relative to their size, do not vary
_SMALLEST_SCALE = 1e-100  # what is smaller is not divided by
_BALANCE_ROUNDS = 4  # over all layers, after which parameters hardly become smaller
_ARGUMENT_FACTORS = np.exp(np.linspace(-1.0, 1.0, 81))  # tried in every round


def rescale_to_window(
    X: Float[ndarray, "S m"], layers: tuple[LayerBasis, ...], theta: Parameters, *, exactly: bool = False
) -> Parameters:
    """The same models with the arguments of all functions over the window, and values of size 1, on the samples.

    The last layer may be there or not. Layers whose arguments nearly fill the window are left alone unless `exactly` is
    asked for; those whose domains are unknowns keep their arguments.
    """
    W, b, c = list(theta.W), list(theta.b), list(theta.c)
    z = X[None]
    for l, layer in enumerate(layers):
        last = l == len(layers) - 1
        t = z @ W[l].mT + b[l][:, None]
        middle, half = visited_range(t, layer, exactly=exactly)
        W[l], b[l] = W[l] / half[..., None], (b[l] - middle) / half
        if l == len(c):
            break
        full = c[l] if last else np.concatenate([np.zeros((*c[l].shape[:-1], 1)), c[l]], axis=-1)
        if np.any(middle != 0.0) or np.any(half != 1.0):
            full = layer.moved(full, half, middle)
        if last:
            c[l] = full
            break
        # A constant moves on into the arguments of the next layer, and so does the size of the values.
        b[l + 1] = b[l + 1] + (W[l + 1] @ full[..., :1])[..., 0]
        z = combine(layer.evaluate((t - middle[:, None]) / half[:, None]), full[..., 1:])
        largest = np.abs(z).max(axis=1)
        beta = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
        c[l], W[l + 1], z = full[..., 1:] / beta[..., None], W[l + 1] * beta[:, None, :], z / beta[:, None]
    return Parameters(tuple(W), tuple(b), tuple(c), theta.A)


def visited_range(
    t: Float[ndarray, "B S r"], layer: LayerBasis, *, exactly: bool
) -> tuple[Float[ndarray, "B r"], Float[ndarray, "B r"]]:
    """Middle and half width of the range of the arguments; 0 and 1 where they are to stay as they are."""
    low, high = t.min(axis=1), t.max(axis=1)
    middle, half = (high + low) / 2.0, (high - low) / 2.0
    stays = (
        layer.free_domain
        | ~np.isfinite(half)
        | (half <= _RELATIVE_WIDTH_OF_CONSTANTS * np.abs(middle))
        | (half <= _SMALLEST_SCALE)
    )
    if not exactly:
        reach = np.maximum(-low, high)
        stays |= (reach <= _WIDEST_REACH) & (half >= _NARROWEST_HALF_WIDTH)
    return np.where(stays, 0.0, middle), np.where(stays, 1.0, half)


def balance_parameters(layers: tuple[LayerBasis, ...], theta: Parameters) -> Parameters:
    """The same models (a batch of one) with parameters of nearly the smallest squared size."""
    out = theta.copy()
    for _ in range(_BALANCE_ROUNDS):
        for l, layer in enumerate(layers):
            _scale_arguments(layer, out, l)
            # Values: as large before the next matrix as in it.
            C, after = out.c[l], out.W[l + 1]
            size, other = np.linalg.norm(C, axis=-1), np.linalg.norm(after, axis=1)
            lives = (size > _SMALLEST_SCALE) & (other > _SMALLEST_SCALE)
            factor = np.where(lives, np.sqrt(other / np.where(lives, size, 1.0)), 1.0)
            C *= factor[..., None]
            after /= factor[:, None, :]
    return out


def _scale_arguments(layer: LayerBasis, theta: Parameters, l: int) -> None:
    """The best of many factors for the arguments of each function, where its basis takes them up exactly."""
    if layer.free_domain.any() or any(basis.polynomial_degree is None for basis in layer.bases):
        return
    W, b, C = theta.W[l], theta.b[l], theta.c[l]
    missing = 1 + layer.size - C.shape[2]  # constants of inner layers
    full = np.pad(C[0], ((0, 0), (missing, 0)))
    k, r = len(_ARGUMENT_FACTORS), len(full)
    scale = np.broadcast_to(_ARGUMENT_FACTORS[:, None], (k, r))
    tried = layer.moved(np.broadcast_to(full, (k, *full.shape)), scale, np.zeros((k, r)))
    size = np.sum(tried**2, axis=-1) + np.sum(W[0] ** 2, axis=-1) / scale**2
    best = np.argmin(size, axis=0)
    W[0] /= _ARGUMENT_FACTORS[best][:, None]
    b[0] /= _ARGUMENT_FACTORS[best]
    C[0] = tried[best, np.arange(r), missing:]
