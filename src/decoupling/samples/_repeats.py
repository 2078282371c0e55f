"""Samples whose inputs are equal: measured again, or copied.

However often an input repeats, it tells the values of a function at one place: a model with more parameters than there
are such values is not determined, and a fit without one of several equal samples is judged by what it has seen.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ._samples import Samples

_MOST_NUMBERS = 20_000_000  # of inputs
_known: WeakKeyDictionary[Samples, Int[ndarray, " S"]] = WeakKeyDictionary()  # many ask, and a million rows take 0.5 s


def places(samples: Samples) -> Int[ndarray, " S"]:
    """The number of its place for every sample: equal inputs, equal numbers, from 0 on as they come."""
    found = _known.get(samples)
    if found is None:
        found = _known[samples] = places_of(samples.X)
    return found


def places_of(X: Float[ndarray, "S m"]) -> Int[ndarray, " S"]:
    """The same for inputs alone; so many that a copy of them would hurt all count as different."""
    if X.size > _MOST_NUMBERS:
        return np.arange(len(X))
    rows = np.ascontiguousarray(X + 0.0)  # -0.0 becomes 0.0, so that equal rows are equal byte by byte
    as_one = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(-1)
    _, first, which = np.unique(as_one, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[which.reshape(-1)]


def n_places(samples: Samples) -> int:
    """How many different inputs there are; of stored samples all count as different."""
    return int(places(samples).max() + 1) if samples.in_memory else samples.n_samples


def n_distinct_numbers(samples: Samples) -> int:
    """How many numbers there would be if every input were there once."""
    return samples.n_numbers // samples.n_samples * n_places(samples)


def without_copies(samples: Samples) -> Int[ndarray, " k"]:
    """The first sample of each place, where all others there are equal to it; all samples where some differ."""
    place = places(samples)
    first = np.unique(place, return_index=True)[1]
    known = [part for part in (samples.F, samples.J, samples.weights) if isinstance(part, ndarray)]
    copied = all(np.array_equal(part, part[first[place]]) for part in known)
    return first if copied else np.arange(len(place))


def n_copies(samples: Samples) -> Int[ndarray, " S"]:
    """How often each sample is there; once where samples of a place differ."""
    place = places(samples)
    different = len(without_copies(samples)) == len(place)
    return np.ones(len(place), dtype=int) if different else np.bincount(place)[place]
