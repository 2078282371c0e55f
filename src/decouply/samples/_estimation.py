r"""Jacobians estimated from values alone, by local polynomial regression.

Around each point x_s a polynomial of degree 1 or 2 is fitted to the values at its k nearest neighbours,

    min_p  sum_j w_j ||f_j - p(x_j - x_s)||^2,   w_j = (1 - (d_j / h_s)^3)^3,

with distances d_j in units of the standard deviations of the inputs and h_s the distance of the next neighbour. The
linear terms of p are the Jacobian. How many neighbours serve best depends on noise and curvature. It is found by
leaving out one point at a time. For linear smoothers the error at a validation point is (f_s - p_s(0)) / (1 - l_s), if
(1 - l_s) with the weight of f_s in p_s(0).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from .._support._arguments import as_count
from .._support._errors import InputError, short_repr
from .._support._machine import one_thread
from ._samples import Samples

_GROWTH = (1.5, 2.0, 3.0, 4.5, 7.0, 10.0, 15.0)  # neighbours that are tried, in numbers of coefficients
_MOST_TERMS = 500  # coefficients of a local polynomial
_CHUNK_ENTRIES = 2_000_000  # of design matrices at a time
_COMFORT = 3.0  # samples per coefficient from which polynomials of degree 2 are taken by default
_LEAST_FREEDOM = 1e-6  # of 1 - l_s: a polynomial that passes through its own point predicts nothing
_SINGULAR = 1e-7  # smallest singular value of a design matrix, relative to the largest, that determines a polynomial


def estimate_jacobians(
    samples: Samples, *, degree: Literal[1, 2] | None = None, neighbours: int | None = None
) -> Samples:
    """The same samples with Jacobians that are estimated from the values around each point.

    The estimates carry the curvature of f and the noise of the values, magnified; what this costs is measured in the
    documentation ("Samples from what you have"). `dc.VarPro` needs no Jacobians, and is better without estimated ones.
    They open the way to the alternating solvers, which do need them.

    Parameters
    ----------
    samples : Samples
        Points with values; the more points per volume, the better. Weights are kept, and not used here.
    degree : 1 or 2, optional
        Of the local polynomials. By default 2 if there are enough points for it, and 1 otherwise.
    neighbours : int, optional
        Points that each polynomial is fitted to, its centre included; by default the number that predicts validation
        values best.

    Returns
    -------
    Samples
        The same samples with Jacobians.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> samples = dc.estimate_jacobians(dc.Samples(X, F=X[:, :1] ** 2 + 3 * X[:, 1:]))
    >>> bool(np.allclose(samples.J, np.stack([2 * X[:, 0], np.full(200, 3.0)], axis=1)[:, None]))
    True
    """
    values = _checked_values(samples, degree)
    count = None if neighbours is None else as_count("neighbours", neighbours)
    x_size, y_size = _spread(samples.X), _spread(values)
    y_size = np.where(y_size > 0.0, y_size, 1.0)  # every output counts alike when neighbours are chosen
    X, F = samples.X / x_size, values / y_size
    # Degree 2 where there are enough points for it, without asking for more than they can tell.
    p = _n_terms(samples.n_inputs, 2)
    room = p <= _MOST_TERMS and _COMFORT * p <= samples.n_samples and (count is None or p < count)
    degrees = (degree,) if degree is not None else (2, 1) if room else (1,)
    fit: LocalFit | int = 0
    with one_thread():
        for d in degrees:
            fit = _best_fit(X, F, d, _counts(samples, d, count))
            if isinstance(fit, LocalFit):
                return Samples(
                    samples.X,
                    F=samples.F,
                    J=fit.G * y_size[:, None] / x_size,
                    weights=samples.weights,
                    inputs=samples.inputs,
                    outputs=samples.outputs,
                )
    raise InputError(
        f"`samples` must have points in all directions around each point. Those around X[{fit}] do not determine a "
        "polynomial of degree 1: raise `neighbours`, average repeated points, or leave out inputs that follow from "
        "others."
        if degrees[-1] == 1
        else f"`degree` must be 1 for these samples: the points around X[{fit}] do not determine second derivatives."
    )


def _spread(data: Float[ndarray, "S k"]) -> Float[ndarray, " k"]:
    """Standard deviations, also of numbers whose squares are none."""
    reach = np.ptp(data, axis=0)
    reach = np.where(reach > 0.0, reach, 1.0)
    return reach * np.std(data / reach, axis=0)


@dataclass(frozen=True)
class LocalFit:
    """Jacobians G, and the mean squared error at validation points."""

    error: float
    G: Float[ndarray, "S n m"]


def _best_fit(X: Float[ndarray, "S m"], F: Float[ndarray, "S n"], degree: int, counts: list[int]) -> LocalFit | int:
    """The fit that predicts validation values best; or, if no number of neighbours determines one, none."""
    from scipy.spatial import cKDTree

    found = cKDTree(X).query(X, k=min(counts[-1] + 1, len(X)))
    distance, index = np.asarray(found[0]), np.asarray(found[1])
    fits = [_local_fit(X, F, degree, index[:, :k], _weights(distance, k)) for k in counts]
    good = [fit for fit in fits if isinstance(fit, LocalFit)]
    return min(good, key=lambda fit: fit.error) if good else fits[-1]


def _weights(distance: Float[ndarray, "S K"], k: int) -> Float[ndarray, "S k"]:
    """Tricube weights of the k nearest points; the next one would have weight 0."""
    reach = np.maximum(distance[:, min(k, distance.shape[1] - 1)], 1.001 * distance[:, k - 1])
    return (1.0 - (distance[:, :k] / np.where(reach > 0.0, reach, 1.0)[:, None]) ** 3) ** 3


def _local_fit(
    X: Float[ndarray, "S m"],
    F: Float[ndarray, "S n"],
    degree: int,
    index: Int[ndarray, "S k"],
    weights: Float[ndarray, "S k"],
) -> LocalFit | int:
    """One polynomial per point; or the first point where its neighbours do not determine one."""
    S, m = X.shape
    error, G = 0.0, np.empty((S, F.shape[1], m))
    step = max(1, _CHUNK_ENTRIES // (index.shape[1] * _n_terms(m, degree)))
    for rows in (slice(first, min(first + step, S)) for first in range(0, S, step)):
        near, root = index[rows], np.sqrt(weights[rows])[:, :, None]
        apart = X[near] - X[rows, None]  # (s, k, m)
        size = np.max(np.abs(apart), axis=(1, 2))[:, None, None]
        size = np.where(size > 0.0, size, 1.0)
        Q, R = np.linalg.qr(root * _design(apart / size, degree))
        spectrum = np.linalg.svd(R, compute_uv=False)
        open_ = spectrum[:, -1] <= _SINGULAR * spectrum[:, 0]
        if open_.any():
            return rows.start + int(np.argmax(open_))
        inverse = np.linalg.inv(R)
        coefficients = inverse @ (Q.mT @ (root * F[near]))  # (s, p, n)
        G[rows] = (coefficients[:, 1 : 1 + m] / size).mT
        own = np.sum(inverse[:, 0] ** 2, axis=1)  # the weight of f_s in the polynomial at x_s
        left_out = (F[rows] - coefficients[:, 0]) / np.maximum(1.0 - own, _LEAST_FREEDOM)[:, None]
        error += float(np.sum(left_out**2))
    return LocalFit(error / S, G)


def _design(z: Float[ndarray, "s k m"], degree: int) -> Float[ndarray, "s k p"]:
    """1, z_i, and for degree 2 all products z_i z_j."""
    parts = [np.ones((*z.shape[:2], 1)), z]
    if degree == 2:
        first, second = np.triu_indices(z.shape[2])
        parts.append(z[:, :, first] * z[:, :, second])
    return np.concatenate(parts, axis=2)


def _n_terms(m: int, degree: int) -> int:
    return 1 + m if degree == 1 else 1 + m + m * (m + 1) // 2


# What is possible


def _checked_values(samples: Samples, degree: object) -> Float[ndarray, "S n"]:
    if not isinstance(samples, Samples):
        raise InputError(f"`samples` must be dc.Samples(X, F=F). Got {type(samples).__name__}.")
    if samples.F is None:
        raise InputError(f"`samples` must hold values: Jacobians are estimated from them. Got {short_repr(samples)}.")
    if samples.J is not None:
        raise InputError(
            f"`samples` must hold no Jacobians if you want to estimate them. Got {short_repr(samples)}: give "
            "dc.Samples(X, F=F), or leave out those of the file (--no-jacobians)."
        )
    if degree is not None and as_count("degree", degree) > 2:
        raise InputError(f"`degree` must be 1 or 2. Got {short_repr(degree)}.")
    constant = np.flatnonzero(np.ptp(samples.X, axis=0) == 0.0)
    if constant.size:
        raise InputError(
            f"`samples` must vary in every input. X[:, {int(constant[0])}] is {samples.X[0, constant[0]]:g} "
            "throughout: leave this input out."
        )
    return samples.F


def _counts(samples: Samples, degree: int, neighbours: int | None) -> list[int]:
    """Numbers of neighbours to try, increasing."""
    S, m = samples.n_samples, samples.n_inputs
    p = _n_terms(m, degree)
    lower = " Take degree=1." if degree == 2 else " Use values only: dc.VarPro needs no Jacobians."
    if p > _MOST_TERMS:
        raise InputError(
            f"`samples` must have fewer inputs for polynomials of degree {degree}: with {m} they have {p} "
            f"coefficients, and {_MOST_TERMS} are the most.{lower}"
        )
    if p >= S:
        raise InputError(
            f"`samples` must hold at least {p + 1} points for polynomials of degree {degree} in {m} inputs. Got {S}."
            f"{lower}"
        )
    if neighbours is None:
        return sorted({min(ceil(growth * p) + 1, S) for growth in _GROWTH})
    if not p < neighbours <= S:
        raise InputError(
            f"`neighbours` must lie between {p + 1} and {S} for polynomials of degree {degree} in {m} inputs and {S} "
            f"samples. Got {neighbours}."
        )
    return [neighbours]
