"""Models written anew, so that the arguments of their functions fill the window on the samples."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..bases import LayerBasis
from ._chain import Parameters
from ._updates import combine

_WIDEST, _NARROWEST = 1.05, 0.7  # arguments between these nearly fill the window: writing them anew costs digits
_NO_RANGE = 1e-13  # of their size: arguments that do not vary
_TINY = 1e-100


def on_window(
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
        out[2 * l] = np.concatenate([W[..., :-1], W[..., -1:] - middle[..., None]], axis=-1) / half[..., None]
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
    stays = layer.free_domain | ~np.isfinite(half) | (half <= _NO_RANGE * np.abs(middle)) | (half <= _TINY)
    if not exactly:
        reach = np.maximum(-low, high)
        stays |= (reach <= _WIDEST) & (half >= _NARROWEST)
    return np.where(stays, 0.0, middle), np.where(stays, 1.0, half)
