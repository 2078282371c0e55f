"""Classes of inputs: given or those of the network, and inputs chosen so that each class comes equally often."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from .._support._checks import as_count
from .._support._errors import InputError

_PER_CLASS = 20


def as_labels(labels: Any, count: int) -> np.ndarray:
    """Check labels: one whole number per input."""
    classes = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    if classes.shape != (count,) or classes.dtype.kind not in "iu":
        raise InputError(
            f"`labels` must be {count} whole numbers, one per input. Got {classes.dtype} and shape {classes.shape}."
        )
    return classes.astype(np.int64)


def balanced(
    outputs: Tensor, labels: np.ndarray | None, n_samples: int | None, rng: np.random.Generator, *, in_classes: bool
) -> np.ndarray:
    """Indices of inputs, each class equally often as far as there are enough of it; numbers have one class."""
    n = outputs.shape[1]
    if labels is not None:
        classes = labels
    else:
        classes = outputs.argmax(dim=1).numpy() if in_classes else np.zeros(len(outputs), dtype=int)
    groups = [np.flatnonzero(classes == c) for c in np.unique(classes)]
    usual = _PER_CLASS * len(groups) if in_classes else 10 * _PER_CLASS
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
