"""Inputs of a network: those that a compression is fitted to, and those that are held out to judge it by.

They come from an array, or from a loader of batches that is read once and of which a bounded number is kept. Samples
for a decoupling are drawn from them so that each class comes equally often.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._support._arguments import as_count
from ..._support._errors import InputError, short_repr
from ._jacobian_sampling import as_inputs

_SAMPLES_PER_CLASS = 20
_SAMPLES_OF_NUMBERS = 200  # where outputs are no classes
_MAX_DRAWN = 20_000  # inputs of a distribution
_MAX_NUMBERS = 2**28  # kept of a loader, in single precision: a gigabyte


@dataclass(frozen=True)
class DataSplit:
    """Inputs of the network to fit and to judge by; the labels of the first, if there are any."""

    fitted: Tensor
    judged: Tensor
    labels: np.ndarray | None
    apart: bool  # whether the two have no input in common

    def to(self, device: torch.device, dtype: torch.dtype) -> DataSplit:
        """The same on a device, and real inputs in this type; whole numbers, such as tokens, stay what they are."""
        fitted, judged = (
            inputs.to(device, dtype if inputs.is_floating_point() else inputs.dtype)
            for inputs in (self.fitted, self.judged)
        )
        return DataSplit(fitted, judged, self.labels, self.apart)


def split_data(
    data: Any, labels: Any, validation: Any, rng: np.random.Generator, report: Callable[..., None]
) -> DataSplit:
    """Hold out a share of the inputs, or take those given; a share of 0 judges by the inputs that were fitted."""
    inputs = network_inputs("data", data, rng, report)
    classes = None if labels is None else as_labels(labels, len(inputs))
    if not isinstance(validation, Real):
        return DataSplit(inputs, network_inputs("validation", validation, rng, report), classes, True)
    if isinstance(validation, bool) or not 0.0 <= float(validation) < 1.0:
        raise InputError(
            f"`validation` must be a share of `data` from 0 to below 1, or inputs. Got {short_repr(validation)}."
        )
    count = min(len(inputs) - 1, int(np.ceil(float(validation) * len(inputs))))
    if count <= 0:
        return DataSplit(inputs, inputs, classes, False)
    order = rng.permutation(len(inputs))
    kept = np.sort(order[count:])
    return DataSplit(inputs[kept], inputs[np.sort(order[:count])], None if classes is None else classes[kept], True)


def network_inputs(
    name: str, data: Any, rng: np.random.Generator, report: Callable[..., None] = lambda **_: None
) -> Tensor:
    """All inputs of an array, some of a distribution, or those of a loader as far as they fit, drawn fairly."""
    if hasattr(data, "rvs") or (callable(data) and not isinstance(data, Iterable)):
        return as_network_inputs(name, _drawn_inputs(name, data, rng))
    if isinstance(data, Mapping) or (isinstance(data, list | tuple) and data and isinstance(data[0], Mapping)):
        _inputs_of_batch(name, data if isinstance(data, Mapping) else data[0])
    if isinstance(data, Tensor | list | tuple) or hasattr(data, "__array__") or not isinstance(data, Iterable):
        return as_network_inputs(name, data)
    kept = torch.empty(0)
    count = seen = 0
    n_batches = len(data) if isinstance(data, Sized) else 0
    for k, batch in enumerate(data, 1):
        inputs = as_network_inputs(name, _inputs_of_batch(name, batch))
        inputs = inputs.float() if inputs.is_floating_point() else inputs
        shape = inputs.shape[1:]
        if count == 0:
            kept = inputs.new_empty((len(inputs), *shape))
        if shape != kept.shape[1:]:
            raise InputError(
                f"`{name}` must yield inputs of one shape. After {tuple(kept.shape[1:])} came {tuple(shape)}: pad "
                "them, or compress with one of the shapes."
            )
        room = max(1, _MAX_NUMBERS // max(1, math.prod(shape)))
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


def _drawn_inputs(name: str, data: Any, rng: np.random.Generator) -> Any:
    """Inputs of a distribution of SciPy, or of a function that draws them."""
    if hasattr(data, "rvs"):
        drawn = np.asarray(data.rvs(size=_MAX_DRAWN, random_state=rng), dtype=np.float32)
    else:
        drawn = data(_MAX_DRAWN, rng)
    if not hasattr(drawn, "shape") or len(drawn.shape) < 2 or len(drawn) != _MAX_DRAWN:
        got = f"shape {tuple(drawn.shape)}" if hasattr(drawn, "shape") else type(drawn).__name__
        raise InputError(f"`{name}` must draw {_MAX_DRAWN} inputs here, one per row. Got {got}.")
    return drawn


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


def _inputs_of_batch(name: str, batch: Any) -> Any:
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


def as_labels(labels: Any, count: int) -> np.ndarray:
    """Check labels: one whole number per input."""
    classes = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    if classes.shape != (count,) or classes.dtype.kind not in "iu":
        raise InputError(
            f"`labels` must be {count} whole numbers, one per input. Got {classes.dtype} and shape {classes.shape}."
        )
    return classes.astype(np.int64)


def class_balanced_indices(
    outputs: Tensor, labels: np.ndarray | None, n_samples: int | None, rng: np.random.Generator, *, in_classes: bool
) -> np.ndarray:
    """Indices of inputs, each class equally often as far as there are enough of it; numbers have one class."""
    n = outputs.shape[1]
    if labels is not None:
        classes = labels
    else:
        classes = outputs.argmax(dim=1).numpy() if in_classes else np.zeros(len(outputs), dtype=int)
    groups = [np.flatnonzero(classes == c) for c in np.unique(classes)]
    usual = _SAMPLES_PER_CLASS * len(groups) if in_classes else _SAMPLES_OF_NUMBERS
    wanted = usual if n_samples is None else as_count("n_samples", n_samples)
    least = max(2, n, len(groups)) if in_classes else 2
    if min(len(outputs), wanted) < least:
        each = "one input per class" if in_classes else "two inputs"
        raise InputError(
            f"`data` must hold at least {each}, {least} here, and `n_samples` as many. Got "
            f"{len(outputs)} inputs to fit and {min(wanted, len(outputs))} samples."
        )
    rank = np.concatenate([rng.permutation(len(group)) for group in groups])  # the first of every class come first
    order = np.argsort(rank, kind="stable")[: min(wanted, len(outputs))]
    return np.sort(np.concatenate(groups)[order])
