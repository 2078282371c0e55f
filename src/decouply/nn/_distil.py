"""Training without labels, as options, and how its rate goes while time passes."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Literal

import torch

from .._support._checks import as_count, as_number
from .._support._errors import InputError

Loss = Literal["kl", "squared"]
LOSSES = ("kl", "squared")
_WARM = 0.1  # share of the training over which the rate rises


@dataclass(frozen=True)
class Distil:
    """Training of new layers to do what they replace, without labels.

    Parameters
    ----------
    max_steps, rate
        Steps of Adam and its largest rate, which rises over the first tenth of the steps and then falls to 0.
    loss
        "kl" (the divergence of the classes) or "squared" (the error of the values); None takes what fits the task.
    batch_size
        Inputs per step: of the part where one part is trained, of the network where all are trained together.
    """

    max_steps: int = 6000
    rate: float = 0.02
    loss: Loss | None = None
    batch_size: int = 512

    def __post_init__(self) -> None:
        as_count("max_steps", self.max_steps)
        as_count("batch_size", self.batch_size)
        as_number("rate", self.rate, above=True)
        if self.loss is not None and self.loss not in LOSSES:
            raise InputError(f'`loss` must be "kl", "squared" or None. Got {self.loss!r}.')


class Clock:
    """How much of a training is done, by steps or by seconds, whichever is further."""

    def __init__(self, max_steps: int, max_seconds: float | None) -> None:
        self.max_steps, self._seconds = max_steps, max_seconds
        self._began = time.monotonic()

    def done(self, step: float) -> float:
        share = step / self.max_steps
        if self._seconds is None:
            return share
        return max(share, (time.monotonic() - self._began) / max(self._seconds, 1e-9))


def rise_and_fall(optimiser: torch.optim.Optimizer, done: float) -> None:
    """Set the rates of an optimiser for this share of the training: up at first, then down along a cosine."""
    now = done / _WARM if done < _WARM else 0.5 * (1.0 + math.cos(math.pi * min(1.0, (done - _WARM) / (1.0 - _WARM))))
    for group in optimiser.param_groups:
        group["lr"] = now * group.setdefault("top", group["lr"])
