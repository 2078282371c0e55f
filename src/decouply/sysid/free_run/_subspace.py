r"""A linear state-space model from records, without iterations: subspace identification.

Rows of past and future signals are stacked; what the past says about future outputs, beyond what future inputs do, has
the observability matrix as its column space (MOESP with past inputs and outputs; Verhaegen 1994). A and C are read from
it; B, D, the constants and the initial states then enter the outputs linearly and are found by least squares.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._errors import InputError

_LARGEST_POLE = 0.999  # of a start: unstable ones are moved inside the unit circle
_MOST_COLUMNS = 20_000


def subspace(
    u: tuple[Float[ndarray, "_ inputs"], ...], y: tuple[Float[ndarray, "_ outputs"], ...], n: int
) -> tuple[Float[ndarray, "n n"], Float[ndarray, "outputs n"]]:
    """A and C of a linear model with n states, poles within the unit circle."""
    p = y[0].shape[1]
    k = block_rows(u, y, n)
    M = np.concatenate([_hankel(a, b, k) for a, b in zip(u, y, strict=True) if len(a) >= 2 * k], axis=1)
    M = M[:, :: max(1, M.shape[1] // _MOST_COLUMNS)]
    L = np.asarray(np.linalg.qr(M.T, mode="r")).T
    n_inputs, n_past = u[0].shape[1] * k, (u[0].shape[1] + p) * k
    explained = L[n_inputs + n_past :, n_inputs : n_inputs + n_past]
    left, singular, _ = np.linalg.svd(explained)
    O = left[:, :n] * np.sqrt(singular[:n])
    A = np.linalg.lstsq(O[:-p], O[p:], rcond=None)[0]
    return stabilised(A), O[:p]


def integrating_subspace(
    u: tuple[Float[ndarray, "_ inputs"], ...], y: tuple[Float[ndarray, "_ outputs"], ...], n: int
) -> tuple[Float[ndarray, "n n"], Float[ndarray, "outputs n"]]:
    """A and C of a model whose outputs add up: y(t+1) - y(t) has a linear model with the other n - outputs states."""
    p = y[0].shape[1]
    inner, H = subspace(tuple(a[:-1] for a in u), tuple(np.diff(b, axis=0) for b in y), n - p)
    A = np.block([[np.eye(p), H], [np.zeros((n - p, p)), inner]])
    return A, np.eye(p, n)


def block_rows(u: tuple[Float[ndarray, "_ inputs"], ...], y: tuple[Float[ndarray, "_ outputs"], ...], n: int) -> int:
    """How many samples of past and future are looked at; fewer where the records are short."""
    channels = u[0].shape[1] + y[0].shape[1]
    longest = max(len(a) for a in u)
    k = min(max(2 * n, 15), longest // (4 * channels + 2))
    if k <= n:
        raise InputError(
            f"`u` and `y` must hold a record of at least {(n + 1) * (4 * channels + 2)} samples for {n} states. Got "
            f"{longest}: give longer records, or lower `n_states`."
        )
    return k


def stabilised(A: Float[ndarray, "n n"], largest: float = _LARGEST_POLE) -> Float[ndarray, "n n"]:
    """A with its poles no farther out than `largest`."""
    poles, V = np.linalg.eig(A)
    size = np.abs(poles)
    if np.all(size <= largest):
        return A
    inside = np.where(size > largest, poles * largest / np.maximum(size, largest), poles)
    return np.real((V * inside) @ np.linalg.pinv(V))


def _hankel(u: Float[ndarray, "T inputs"], y: Float[ndarray, "T outputs"], k: int) -> Float[ndarray, "rows N"]:
    """Future inputs, past inputs, past outputs, future outputs, one column per time."""
    N = len(u) - 2 * k + 1

    def rows(signal: ndarray, begin: int) -> ndarray:
        return np.concatenate([signal[begin + j : begin + j + N].T for j in range(k)])

    return np.concatenate([rows(u, k), rows(u, 0), rows(y, 0), rows(y, k)])
