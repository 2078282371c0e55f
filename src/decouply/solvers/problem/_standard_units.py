r"""Standard units: where solvers work, so that the answer does not depend on the units, places and axes of the data.

Inputs are centred, and whitened where that is cheap and their correlations allow it, so that the objective measures
J times the spread of the inputs; otherwise each is divided by its own spread. Outputs are centred and divided by their
spreads. The axes of whitened inputs are those along which the function varies most, less and less: for x -> A x + b the
standard inputs, and with them the start values, are the same.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ...model._units import Units
from ...samples._samples import Samples
from ._sample_weights import by_output, sample_factors

WHITEN_UP_TO = 64  # inputs
_CORRELATED = 1e-3  # a direction with so small a share of the largest spread: inputs are scaled one by one
NO_SPREAD = 1e-13  # of the size of a column: it is constant
_NO_SLOPE = 1e-13  # of the largest: the function does not depend on this direction ...
ROUNDINGS = 10.0  # ... or so many roundings, where J is stored in single precision


def standard_units(samples: Samples, *, every_direction: bool = False) -> Units:
    """Units in which the samples are standard, without the directions that the function does not depend on.

    With `every_direction` these are kept.
    """
    factors = sample_factors(samples.weights)
    w = np.full(samples.n_samples, 1.0 / samples.n_samples) if factors is None else factors / factors.sum()
    centre, spread = _centre_and_spread(samples.X, w)
    X = (samples.X - centre) / spread
    T, back = np.diag(1.0 / spread), np.diag(spread)
    if samples.n_inputs <= WHITEN_UP_TO:
        T, back = whitened(np.sqrt(w)[:, None] * X, spread, np.any(X, axis=0))
    y_centre, y_scale = _output_units(samples, w, back)
    units = Units(centre, T, back, y_centre, y_scale)
    if samples.n_inputs > WHITEN_UP_TO:
        return units
    return units.rotated(_axes(samples, units, w, every_direction))


def whitened(
    table: Float[ndarray, "R m"], spread: Float[ndarray, " m"], varies: Bool[ndarray, " m"]
) -> tuple[Float[ndarray, "m m"], Float[ndarray, "m m"]]:
    """T and back of inputs from the table of them, scaled and weighted, or a triangle of it.

    Where correlations do not allow to whiten, each input is divided by its own spread.
    """
    T, back = np.diag(1.0 / spread), np.diag(spread)
    if np.count_nonzero(varies) > 1:
        _, sizes, Vt = np.linalg.svd(table[:, varies], full_matrices=False)
        if len(sizes) == len(Vt) and sizes[-1] > _CORRELATED * sizes[0]:
            T[np.ix_(varies, varies)] = Vt.T / sizes / spread[varies][:, None]
            back[np.ix_(varies, varies)] = sizes[:, None] * Vt * spread[varies]
    return T, back


def leading_axes(triangle: Float[ndarray, "R k"], rounding: float, *, every: bool = False) -> Float[ndarray, "k q"]:
    """Directions of inputs by the slopes of the function along them, those without any left out."""
    k = triangle.shape[1]
    _, sizes, Vt = np.linalg.svd(triangle, full_matrices=True)
    sizes = np.concatenate([sizes, np.zeros(k - len(sizes))])
    kept = k if every else max(1, int(np.count_nonzero(sizes > max(_NO_SLOPE, rounding) * sizes[0])))
    return Vt[:kept].T


def _centre_and_spread(table: Float[ndarray, "S k"], w: Float[ndarray, " S"]) -> tuple[ndarray, ndarray]:
    """Mean and standard deviation of the columns; columns that do not vary are given the spread 1."""
    centre = w @ table
    constant = np.ptp(table, axis=0) <= NO_SPREAD * np.max(np.abs(table), axis=0)
    centre = np.where(constant, table[0], centre)
    spread = np.sqrt(w @ (table - centre) ** 2)
    return centre, np.where(constant | (spread == 0.0), 1.0, spread)


def _output_units(samples: Samples, w: ndarray, back: Float[ndarray, "k m"]) -> tuple[ndarray, ndarray]:
    """Centres and scales of the outputs.

    Where weights tell the outputs apart, these keep their place and share one scale: means over different samples would
    ask for constants that the last layer may not reach.
    """
    n = samples.n_outputs
    centre, power = np.zeros(n), np.zeros(n)
    if samples.F is not None:
        centre, spread = _centre_and_spread(samples.F, w)
        power = np.where(np.ptp(samples.F, axis=0) > 0.0, spread**2, 0.0)
    elif samples.J is not None:
        power = np.einsum("s,snk->n", w, (samples.J @ back.T) ** 2)
    if by_output(samples.weights):
        centre, power = np.zeros(n), np.full(n, power.mean())
    return centre, np.where(power > 0.0, np.sqrt(power), 1.0)


def _axes(samples: Samples, units: Units, w: ndarray, every: bool) -> Float[ndarray, "k q"]:
    """Directions of the standard inputs by how much the function varies along them, those without any left out."""
    X = units.points(samples.X)
    k = X.shape[1]
    if samples.J is not None:
        scaled = np.sqrt(w)[:, None, None] * (samples.J @ units.back.T) / units.y_scale[:, None]
        Q = leading_axes(np.linalg.qr(scaled.reshape(-1, k)).R, ROUNDINGS * float(np.finfo(float).eps), every=every)
    else:
        assert samples.F is not None
        power = w * np.sum(units.values(samples.F) ** 2, axis=1)
        Q = np.linalg.eigh((X * power[:, None]).T @ X)[1][:, ::-1]
    skew = w @ (X @ Q) ** 3
    return Q * np.where(skew < 0.0, -1.0, 1.0)
