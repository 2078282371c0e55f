"""Samples that are there more than once.

A copy tells nothing new: a fit without it is judged by what it has seen, and parameters are not determined by it.
Measurements that were repeated are no copies: their outputs differ. Nor are equal outputs if inputs take few levels,
as in designed experiments and categories, since new samples will have the same levels.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ._samples import Samples

_MOST_NUMBERS = 20_000_000  # of inputs; a copy of more would hurt, and all count as different
_FEW, _OFTEN = 8, 10  # different inputs, and samples of each: few, or often, so that they are levels
_SHARE, _LEVELS, _SPARSE = 0.5, 5, 100.0  # of different inputs; values of any input; and combinations for each of them
_CLOSE = 1e-8  # of the spread of an output
_known: WeakKeyDictionary[Samples, Int[ndarray, " S"]] = WeakKeyDictionary()  # many ask, and a million rows take 0.5 s


def originals(samples: Samples) -> Int[ndarray, " S"]:
    """The number of what each sample is, equal for copies, from 0 on as they come; stored samples are no copies."""
    found = _known.get(samples)
    if found is None:
        found = _known[samples] = _originals(samples)
    return found


def _originals(samples: Samples) -> Int[ndarray, " S"]:
    if not samples.in_memory or samples.X.size > _MOST_NUMBERS:
        return np.arange(samples.n_samples)
    X = samples.X
    place = places(X)
    n_places, S = int(place.max()) + 1, len(place)
    if n_places == S or _are_levels(X, n_places):
        return np.arange(S)
    first = np.unique(place, return_index=True)[1][place]
    parts = [place[:, None].astype(float)]
    for part in (samples.F, samples.J):
        if part is not None:
            flat = np.asarray(part).reshape(S, -1)
            close = np.abs(flat - flat[first]) <= _CLOSE * np.std(flat, axis=0)
            parts.append(np.where(close, flat[first], flat))
    return places(np.concatenate(parts, axis=1))


def _are_levels(X: Float[ndarray, "S m"], n_places: int) -> bool:
    """Whether inputs take few levels, so that new samples are expected at the same ones."""
    if n_places < _FEW or len(X) >= _OFTEN * n_places:
        return True
    counts = [len(np.unique(x)) for x in X.T]
    most = max(counts)
    combinations = np.exp(np.sum(np.log(counts)))  # rounded measurements have far more than there are samples
    return most <= _SHARE * n_places and (most <= _LEVELS or bool(combinations <= _SPARSE * n_places))


def places(X: Float[ndarray, "S m"]) -> Int[ndarray, " S"]:
    """The number of its place for every row: equal rows, equal numbers, from 0 on as they come."""
    rows = np.ascontiguousarray(X + 0.0)  # -0.0 becomes 0.0, so that equal rows are equal byte by byte
    as_one = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(-1)
    _, first, which = np.unique(as_one, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[which.reshape(-1)]


def n_originals(samples: Samples) -> int:
    """How many samples there are without copies."""
    return int(originals(samples).max()) + 1


def n_distinct_numbers(samples: Samples) -> int:
    """How many numbers there are without copies."""
    return samples.n_numbers // samples.n_samples * n_originals(samples)


def without_copies(samples: Samples) -> Int[ndarray, " k"]:
    """Of every sample that is there several times, the first."""
    return np.unique(originals(samples), return_index=True)[1]


def n_copies(samples: Samples) -> Int[ndarray, " S"]:
    """How often each sample is there."""
    which = originals(samples)
    return np.bincount(which)[which]
