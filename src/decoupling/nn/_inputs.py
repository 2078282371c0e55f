"""Inputs of a network: an array, or a loader of batches that is read once and of which a bounded number is kept."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._support._errors import InputError
from ._sample import as_inputs

_MOST_NUMBERS = 2**28  # kept of a loader, in single precision: a gigabyte


def network_inputs(name: str, data: Any, rng: np.random.Generator) -> Tensor:
    """All inputs of an array, or those of a loader: all of them as far as they fit, then a fair draw of all."""
    if isinstance(data, Tensor | list | tuple) or hasattr(data, "__array__") or not isinstance(data, Iterable):
        return as_inputs(name, data)
    kept: Tensor | None = None
    seen = 0
    for batch in data:
        inputs = as_inputs(name, _first(name, batch)).float()
        shape = inputs.shape[1:]
        if kept is None:
            kept = inputs.new_empty((0, *shape))
        if shape != kept.shape[1:]:
            raise InputError(
                f"`{name}` must yield inputs of one shape. After {tuple(kept.shape[1:])} came {tuple(shape)}: pad "
                "them, or compress with one of the shapes."
            )
        room = max(1, _MOST_NUMBERS // math.prod(shape))
        free = min(max(0, room - len(kept)), len(inputs))
        kept = torch.cat([kept, inputs[:free]])
        for i in range(free, len(inputs)):  # every input so far is kept with the same probability
            place = int(rng.integers(seen + i + 1))
            if place < room:
                kept[place] = inputs[i]
        seen += len(inputs)
    if kept is None:
        raise InputError(f"`{name}` must yield batches of inputs. The loader yields nothing.")
    return kept


def _first(name: str, batch: Any) -> Any:
    """The inputs of a batch that is inputs, or inputs and labels."""
    given = batch[0] if isinstance(batch, tuple | list) and batch else batch
    if isinstance(given, Tensor) or hasattr(given, "__array__"):
        return given
    raise InputError(
        f"`{name}` must yield tensors, or tuples that begin with the one tensor that the network takes. Got "
        f"{type(given).__name__}: wrap the loader in a generator of tensors."
    )
