"""How good a network is: the task it has, and its score with a decoupling in the place of a part.

The task is asked for, or seen from labels and from what the network does with its outputs; it is never guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor, nn

from ..._support._errors import InputError
from ...model._decoupling import Decoupling
from ...model._functions import Outside
from ..carving._carve import ACTIVATIONS, Carved, outputs_of
from ..carving._jacobian_sampling import batch_for, chunks
from ..carving._receptive_field import AbstractReceptiveField
from ..layer._decoupled_layer import DecoupledLayer, layer_on
from ..training._joint import in_rows

Task = Literal["classification", "regression"]
Score = Callable[[nn.Module], float]
_SUM_TOLERANCE = 1e-4  # of probabilities in single precision, which sum to 1
_MAX_COMPARED = 10_000  # inputs on which two networks are compared


@dataclass(frozen=True)
class Decision:
    """The task, and why it is taken for that."""

    task: Task
    reason: str

    @property
    def in_classes(self) -> bool:
        return self.task == "classification"


def infer_task(task: Task | None, network: nn.Module, outputs: Tensor | None, *, labelled: bool) -> Decision:
    """What the user says, or what labels and the end of the network say; otherwise outputs are numbers."""
    if task is not None and task not in ("classification", "regression"):
        raise InputError(f'`task` must be "classification", "regression" or None. Got {task!r}.')
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
    *_, last = network.modules()
    if isinstance(last, ACTIVATIONS):
        return Decision("classification", f"the network ends in {type(last).__name__}")
    return Decision("regression", 'nothing says that the outputs are classes; task="classification" does')


def _sum_to_one(outputs: Tensor) -> bool:
    total = outputs.double().sum(dim=1)
    return bool((outputs >= 0).all()) and bool(torch.all((total - 1.0).abs() < _SUM_TOLERANCE))


@dataclass(frozen=True, eq=False)
class Agreement:
    """The share of inputs that keep their class; for numbers, one minus the relative error.

    `outputs` are those of the network that is given.
    """

    inputs: Tensor
    outputs: Tensor
    in_classes: bool

    @classmethod
    def with_outputs_of(cls, network: nn.Module, inputs: Tensor, *, in_classes: bool) -> Agreement:
        """Agreement with a network on some of the inputs."""
        order = np.random.default_rng(0).permutation(len(inputs))[:_MAX_COMPARED]
        some = inputs[torch.as_tensor(order)]
        return cls(some, outputs_on(network, some), in_classes)

    @property
    def name(self) -> str:
        return "inputs that keep their class" if self.in_classes else "1 - relative error of the outputs"

    def __call__(self, network: nn.Module) -> float:
        return self.compare(outputs_on(network, self.inputs))

    def compare(self, outputs: Tensor) -> float:
        if self.in_classes:
            same = in_rows(outputs).argmax(1) == in_rows(self.outputs).argmax(1)
            return int(same.sum()) / len(same)
        return 1.0 - relative_error(outputs, self.outputs)


@dataclass(frozen=True, eq=False, repr=False)
class NetworkLoss:
    """A score of networks as a loss of decouplings, lower is better: what `TwoStage` chooses lam by.

    X are inputs of the part: the domains of the functions are what these visit.
    """

    score: Score
    carved: Carved
    field: AbstractReceptiveField
    X: Float[ndarray, "S m"]
    outside: Outside

    def layer(self, decoupling: Decoupling) -> DecoupledLayer:
        """A decoupling as a module in canonical form, in the type of the network."""
        return layer_on(decoupling, self.X, self.outside, next(self.carved.network.parameters()).dtype)

    def __call__(self, decoupling: Decoupling) -> float:
        return -score_of(self.score, self.carved.with_layer(self.field, self.layer(decoupling)))


def relative_error(got: Tensor, truth: Tensor) -> float:
    """Root mean square of the errors, each output in units of its spread; 0 where it is met, in its own units where
    it does not vary.
    """
    got, truth = (values.double().reshape(len(values), -1) for values in (got, truth))
    spread = (truth - truth.mean(dim=0)).pow(2).mean(dim=0).sqrt()
    return float(((got - truth) / torch.where(spread > 0, spread, 1.0)).pow(2).mean().sqrt())


def score_of(score: Score, network: nn.Module) -> float:
    """The score as a number; the network is in evaluation mode before and after."""
    value: Any = score(network.eval())
    network.eval()
    try:
        return float(value.detach() if isinstance(value, Tensor) else value)
    except (TypeError, ValueError, RuntimeError) as error:
        got = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise InputError(f"`score` must return a number. Got {got}.") from error


def outputs_on(network: nn.Module, inputs: Tensor) -> Tensor:
    parts = [outputs_of(network, inputs[rows]) for rows in chunks(len(inputs), batch_for(inputs))]
    if not isinstance(parts[0], Tensor):
        raise InputError(
            f"`score` must be given: the network returns {type(parts[0]).__name__} instead of one tensor, so that "
            "its classes are not known."
        )
    return torch.cat(parts)
