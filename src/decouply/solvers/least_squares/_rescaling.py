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
from ._derivatives import Parameters

# Arguments that reach no farther than this and fill so much of the window stay: writing them anew costs digits.
_WIDEST_REACH, _NARROWEST_HALF_WIDTH = 1.05, 0.7
_RELATIVE_WIDTH_OF_CONSTANTS = 1e-13  # arguments whose range is smaller, relative to their size, do not vary
_SMALLEST_SCALE = 1e-100  # what is smaller is not divided by
_BALANCE_ROUNDS = 4  # over all layers, after which parameters hardly become smaller
_ARGUMENT_FACTORS = np.exp(np.linspace(-1.0, 1.0, 81))  # tried in every round


def with_offset(W: Float[ndarray, "r k"]) -> Float[ndarray, "r k1"]:
    """A matrix with b = 0 as its last column."""
    return np.concatenate([W, np.zeros((len(W), 1))], axis=1)


def absorb_domain(
    W: Float[ndarray, "*B r k1"], middle: Float[ndarray, "*B r"], half: Float[ndarray, "*B r"]
) -> Float[ndarray, "*B r k1"]:
    """W with b as its last column for the arguments (t - middle) / half, where it was for t."""
    return np.concatenate([W[..., :-1], W[..., -1:] - middle[..., None]], axis=-1) / half[..., None]


def rescale_to_window(
    X: Float[ndarray, "S m"], layers: tuple[LayerBasis, ...], theta: Parameters, *, exactly: bool = False
) -> Parameters:
    """The same models with the arguments of all functions over the window, and values of size 1, on the samples.

    `theta` may end with the coefficients of the last layer, constants included. Layers whose arguments fill the window
    nearly are left alone unless `exactly` is asked for; those whose domains are unknowns keep their arguments.
    """
    out = [*theta]
    z = X[None]
    for l, layer in enumerate(layers):
        last = l == len(layers) - 1
        W = out[2 * l]
        t = z @ W[..., :-1].mT + W[:, None, :, -1]
        middle, half = visited_range(t, layer, exactly=exactly)
        out[2 * l] = absorb_domain(W, middle, half)
        if 2 * l + 1 == len(out):
            break
        C = out[2 * l + 1]
        full = C if last else np.concatenate([np.zeros((*C.shape[:-1], 1)), C], axis=-1)
        if np.any(middle != 0.0) or np.any(half != 1.0):
            full = layer.moved(full, half, middle)
        if last:
            out[2 * l + 1] = full
            break
        # A constant moves on into the arguments of the next layer.
        following = out[2 * l + 2].copy()
        following[..., -1] += (following[..., :-1] @ full[..., :1])[..., 0]
        C = full[..., 1:]
        z = combine(layer.evaluate((t - middle[:, None]) / half[:, None]), C)
        largest = np.abs(z).max(axis=1)
        beta = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
        out[2 * l + 1] = C / beta[..., None]
        following[..., :-1] *= beta[:, None, :]
        out[2 * l + 2] = following
        z = z / beta[:, None]
    return out


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
    out = [p.copy() for p in theta]
    for _ in range(_BALANCE_ROUNDS):
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
    k, r = len(_ARGUMENT_FACTORS), len(full)
    scale = np.broadcast_to(_ARGUMENT_FACTORS[:, None], (k, r))
    tried = layer.moved(np.broadcast_to(full, (k, *full.shape)), scale, np.zeros((k, r)))
    size = np.sum(tried**2, axis=-1) + np.sum(W[0, :, :-1] ** 2, axis=-1) / scale**2
    best = np.argmin(size, axis=0)
    chosen = tried[best, np.arange(r)]
    W[0] /= _ARGUMENT_FACTORS[best][:, None]
    C[0] = chosen if last else chosen[:, 1:]
