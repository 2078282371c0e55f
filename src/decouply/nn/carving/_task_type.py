"""Whether a network tells classes or numbers: asked, or seen from what it does with its outputs; never guessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..._support._errors import InputError

Task = Literal["classification", "regression"]
TASKS = ("classification", "regression")
ACTIVATIONS = (nn.Sigmoid, nn.Softmax, nn.LogSoftmax)  # that turn scores into probabilities
_CLOSE = 1e-4  # sums of probabilities to 1


@dataclass(frozen=True)
class Decision:
    """The task, and why it is taken for that."""

    task: Task
    reason: str

    @property
    def in_classes(self) -> bool:
        return self.task == "classification"


def decide(task: Task | None, network: nn.Module, outputs: Tensor | None, *, labelled: bool) -> Decision:
    """What the user says, or what labels and the end of the network say; otherwise outputs are numbers."""
    if task == "classification" and outputs is not None and in_rows(outputs).shape[1] == 1:
        raise InputError('`task` must be "regression" for one output: it is always the largest. Got "classification".')
    if task is not None:
        return Decision(task, "as asked")
    if outputs is None or outputs.ndim != 2:
        return Decision("regression", "the network does not return one vector per input")
    if outputs.shape[1] == 1:
        return Decision("regression", "the network has one output")
    if labelled:
        return Decision("classification", "labels are given")
    if _sum_to_one(outputs) or _sum_to_one(outputs.exp()):
        return Decision("classification", "the outputs are probabilities")
    if isinstance(_last(network), ACTIVATIONS):
        return Decision("classification", f"the network ends in {type(_last(network)).__name__}")
    return Decision("regression", 'nothing says that the outputs are classes; task="classification" does')


def in_rows(outputs: Tensor) -> Tensor:
    """Outputs with one row per decision: those of tokens (S, T, n) and of pixels (S, n, H, W) one after the other."""
    if outputs.ndim <= 2:
        return outputs
    return (outputs if outputs.ndim == 3 else outputs.movedim(1, -1)).flatten(0, -2)


def check_task(task: Any) -> None:
    if task is not None and task not in TASKS:
        raise InputError(f'`task` must be "classification", "regression" or None. Got {task!r}.')


def _sum_to_one(outputs: Tensor) -> bool:
    total = outputs.double().sum(dim=1)
    return bool((outputs >= 0).all()) and bool(torch.all((total - 1.0).abs() < _CLOSE))


def _last(network: nn.Module) -> nn.Module:
    """The module that was registered last."""
    *_, last = network.modules()
    return last
