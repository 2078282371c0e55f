"""Some samples that stand for all: large ones are drawn more often, and count the less.

Costs are sums of squares, of which few large samples may hold most: polynomials of high degree are large in few corners
only. Samples drawn without a look at their size would miss these, and with them most of what the data tell. Drawn by
their size, and weighted by one over the chance of being drawn, they give the cost of all samples on average, with far
less left to luck.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...model._units import Units
from ...samples._portions import Portion, pick
from ...samples._samples import Samples
from ._prepared_samples import PreparedSamples
from ._standard_units import in_units
from ._weighted_rows import RowScaling

_EVERYONE = 0.5  # the share of a part that is drawn without a look at the size of samples
_MORE, _A_FEW = 1.5, 30  # times as many are looked at as are drawn, and some more: what is drawn for sure is drawn once


def importance_sample(all_samples: PreparedSamples, scaling: RowScaling, count: int, *, key: int = 0) -> Samples:
    """So many samples, in memory, with the factors that make up for how often they are drawn; in one pass.

    Every sample has a share q of the drawing and a random number u; those with the smallest u / q are taken, and the
    next one of these tells the chances (priority sampling). Only where few samples hold nearly all may it be fewer.
    """
    samples, S = all_samples.samples, all_samples.samples.n_samples
    total = scaling.factor_F**2 * all_samples.sizes.F + scaling.factor_J**2 * all_samples.sizes.J
    most = _MORE * count + _A_FEW
    small = (all_samples.units, scaling, most, S, total, all_samples.ranges.total_weight / S, key)
    X, F, J, weights, place, share = samples.data.reduce(importance_task, *small, join="rows")
    taken, last = np.arange(len(X)), most
    if len(X) > count:
        order = np.argsort(place, kind="stable")
        taken, last = np.sort(order[:count]), float(place[order[count]])
    chance = np.minimum(1.0, last * share[taken])
    weights = weights[taken] / chance.reshape(-1, *[1] * (weights.ndim - 1))
    values, jacobians = F[taken] if samples.has_values else None, J[taken] if samples.has_jacobians else None
    return Samples(X[taken], F=values, J=jacobians, weights=weights)


def importance_task(
    portion: Portion,
    units: Units,
    scaling: RowScaling,
    most: float,
    n_samples: int,
    total: float,
    mean_weight: float,
    key: int,
) -> tuple[ndarray, ...]:
    """Those of a portion that may be drawn, see `pick`, with their places u / q and their shares q."""
    Y = scaling.rows(in_units(portion, units)).Y
    size = np.einsum("sqn,sqn->s", Y, Y) / (total or 1.0)
    share = _EVERYONE / n_samples + (1.0 - _EVERYONE) * size
    place = _uniform(portion.first, len(portion), key) / share
    rows = np.flatnonzero(place < most)
    found = pick(portion, portion.first + rows)
    weights = found[3] if portion.weights is not None else np.full(len(rows), mean_weight)
    return (*found[:3], weights, place[rows], share[rows])


def _uniform(first: int, count: int, key: int) -> Float[ndarray, " S"]:
    """A number in [0, 1) for every sample, the same in whatever portions they come (the mixer of SplitMix64)."""
    with np.errstate(over="ignore"):
        z = np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)
        z = (z + np.uint64(key)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
