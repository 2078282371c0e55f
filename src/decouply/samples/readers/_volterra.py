r"""Samples of a Volterra series with finite memory.

    f_i(x) = h_0 + \sum_d \sum_{k_1 \dots k_d} h_d[i, k_1, \dots, k_d]\, x_{k_1} \cdots x_{k_d}

x holds the last m inputs of a system, newest first, so that f is a polynomial of m variables and its Jacobian is exact.
A single-layer decoupling of it is a parallel Wiener model: the rows of W_0 are filters, the functions static.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy import ndarray

from ..._support._arguments import as_array, read_array
from ..._support._errors import InputError
from .._samples import Samples

_LETTERS = "abcdefgh"


def samples_of_volterra(kernels: Sequence[object], X: object) -> Samples:
    """Values and Jacobians of the series with these kernels at the points X; see `Samples.from_volterra`."""
    points = as_array("X", X, ("S", "m"))
    if isinstance(kernels, ndarray | str) or not isinstance(kernels, Sequence) or len(kernels) < 2:
        raise InputError("`kernels` must be a list [h_0, h_1, ..., h_D] with at least two kernels.")
    if len(kernels) > len(_LETTERS) + 1:
        raise InputError(f"`kernels` must go up to order {len(_LETTERS)}. Got order {len(kernels) - 1}.")
    constants = as_array("kernels[0]", np.atleast_1d(np.asarray(kernels[0])), ("n",))
    n, m = len(constants), points.shape[1]
    F = np.tile(constants, (len(points), 1))
    J = np.zeros((len(points), n, m))
    for order, kernel in enumerate(kernels[1:], start=1):
        h = _kernel(order, kernel, n, m)
        axes = _LETTERS[:order]
        for k in range(order):  # the derivative by each factor in turn: kernels need not be symmetric
            others = ",".join(f"z{axis}" for axis in axes if axis != axes[k])
            J += np.einsum(
                f"y{axes},{others}->zy{axes[k]}" if others else f"y{axes}->y{axes}", h, *[points] * (order - 1)
            )
        F += np.einsum(f"y{axes},{','.join('z' + axis for axis in axes)}->zy", h, *[points] * order)
    return Samples(points, F=F, J=J)


def _kernel(order: int, kernel: object, n: int, m: int) -> ndarray:
    """A kernel with its axis of outputs, which may be left out where there is one output."""
    shape = (n, *[m] * order)
    given = read_array(f"`kernels[{order}]` must have shape {shape}: outputs, then {order} lags", kernel)
    if given.ndim == order and n == 1:
        given = given[None]
    h = as_array(f"kernels[{order}]", given, ("n", *["m"] * order))
    if h.shape != shape:
        raise InputError(f"`kernels[{order}]` must have shape {shape}: outputs, then {order} lags. Got {h.shape}.")
    return h
