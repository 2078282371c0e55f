"""Inputs of a network: an array, or a loader of batches that is read once and of which a bounded number is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._support._errors import InputError
from ._sample import as_inputs

_MOST_NUMBERS = 2**28  # kept of a loader, in single precision: a gigabyte


def network_inputs(
    name: str, data: Any, rng: np.random.Generator, report: Callable[..., None] = lambda **_: None
) -> Tensor:
    """All inputs of an array, or those of a loader: all of them as far as they fit, then a fair draw of all."""
    if isinstance(data, Mapping) or (isinstance(data, list | tuple) and data and isinstance(data[0], Mapping)):
        _first(name, data if isinstance(data, Mapping) else data[0])
    if isinstance(data, Tensor | list | tuple) or hasattr(data, "__array__") or not isinstance(data, Iterable):
        return as_network_inputs(name, data)
    kept = torch.empty(0)
    count = seen = 0
    n_batches = len(data) if isinstance(data, Sized) else 0
    for k, batch in enumerate(data, 1):
        inputs = as_network_inputs(name, _first(name, batch))
        inputs = inputs.float() if inputs.is_floating_point() else inputs
        shape = inputs.shape[1:]
        if count == 0:
            kept = inputs.new_empty((len(inputs), *shape))
        if shape != kept.shape[1:]:
            raise InputError(
                f"`{name}` must yield inputs of one shape. After {tuple(kept.shape[1:])} came {tuple(shape)}: pad "
                "them, or compress with one of the shapes."
            )
        room = max(1, _MOST_NUMBERS // max(1, math.prod(shape)))
        free = min(room - count, len(inputs))
        if count + free > len(kept):  # twice as much: what is kept is copied a few times, not with every batch
            larger = kept.new_empty((min(room, max(2 * len(kept), count + free)), *shape))
            larger[:count] = kept[:count]
            kept = larger
        kept[count : count + free] = inputs[:free]
        count += free
        places = rng.integers(seen + np.arange(free, len(inputs)) + 1)
        for i in np.flatnonzero(places < room):  # every input so far is kept with the same probability
            kept[int(places[i])] = inputs[free + int(i)]
        seen += len(inputs)
        report(done=k, total=max(k, n_batches))
    if count == 0:
        raise InputError(f"`{name}` must yield batches of inputs. The loader yields nothing.")
    return kept[:count]


def as_network_inputs(name: str, X: Any) -> Tensor:
    """Inputs as a tensor on the CPU: real numbers, or whole ones, such as tokens, as they are."""
    if isinstance(X, Tensor) or hasattr(X, "__array__"):
        given = X.detach().cpu() if isinstance(X, Tensor) else np.asarray(X)
        whole = (
            not (given.is_floating_point() or given.is_complex())
            if isinstance(given, Tensor)
            else given.dtype.kind in "iu"
        )
        if whole and 0 not in given.shape and given.ndim > 0:
            return torch.as_tensor(given)
    return as_inputs(name, X)


def _first(name: str, batch: Any) -> Any:
    """The inputs of a batch that is inputs, or inputs and labels."""
    given = batch[0] if isinstance(batch, tuple | list) and batch else batch
    if isinstance(given, Tensor) or hasattr(given, "__array__"):
        return given
    if isinstance(given, Mapping):
        key = next((key for key, value in given.items() if isinstance(value, Tensor)), "inputs")
        raise InputError(
            f"`{name}` must yield the one tensor that the network takes. Got dictionaries with "
            f"{', '.join(str(key) for key in given)}: give (batch[{key!r}] for batch in loader)."
        )
    raise InputError(
        f"`{name}` must yield tensors, or tuples that begin with the one tensor that the network takes. Got "
        f"{type(given).__name__}: wrap the loader in a generator of tensors."
    )
