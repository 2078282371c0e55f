"""Inputs that a compression is fitted to, and inputs that are kept aside to judge it by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._support._errors import InputError
from ._classes import as_labels
from ._inputs import network_inputs


@dataclass(frozen=True)
class Division:
    """Inputs of the network to fit and to judge by; the labels of the first, where there are any."""

    fitted: Tensor
    judged: Tensor
    labels: np.ndarray | None
    apart: bool  # whether the two have no input in common

    def to(self, device: torch.device, dtype: torch.dtype) -> Division:
        """The same on a device, and real inputs in this type; whole numbers, such as tokens, stay what they are."""
        fitted, judged = (
            inputs.to(device, dtype if inputs.is_floating_point() else inputs.dtype)
            for inputs in (self.fitted, self.judged)
        )
        return Division(fitted, judged, self.labels, self.apart)


def divided(
    data: Any, labels: Any, validation: Any, rng: np.random.Generator, report: Callable[..., None] = lambda **_: None
) -> Division:
    """Hold out a share of the inputs, or take those given; a share of 0 judges by the inputs that were fitted."""
    inputs = network_inputs("data", data, rng, report)
    classes = None if labels is None else as_labels(labels, len(inputs))
    if not isinstance(validation, Real):
        return Division(inputs, network_inputs("validation", validation, rng, report), classes, True)
    if isinstance(validation, bool) or not 0.0 <= float(validation) < 1.0:
        raise InputError(f"`validation` must be a share of `data` from 0 to below 1, or inputs. Got {validation!r}.")
    count = min(len(inputs) - 1, int(np.ceil(float(validation) * len(inputs))))
    if count <= 0:
        return Division(inputs, inputs, classes, False)
    order = rng.permutation(len(inputs))
    kept = np.sort(order[count:])
    return Division(inputs[kept], inputs[np.sort(order[:count])], None if classes is None else classes[kept], True)
