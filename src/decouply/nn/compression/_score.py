"""How good a network is with a decoupling in the place of its part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..._support._errors import InputError
from ...model._decoupling import Decoupling
from ..carving._carve import outputs_of
from ..carving._jacobian_sampling import batch_for, chunks
from ..carving._place import Place
from ..carving._task_type import in_rows

_COMPARED = 10_000  # inputs

Score = Callable[[nn.Module], float]


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
        order = np.random.default_rng(0).permutation(len(inputs))[:_COMPARED]
        some = inputs[torch.as_tensor(order)]
        return cls(some, outputs_on(network, some), in_classes)

    @property
    def name(self) -> str:
        return "inputs that keep their class" if self.in_classes else "1 - relative error of the outputs"

    def __call__(self, network: nn.Module) -> float:
        got, truth = outputs_on(network, self.inputs), self.outputs
        if self.in_classes:
            same = in_rows(got).argmax(1) == in_rows(truth).argmax(1)
            return int(same.sum()) / len(same)
        return 1.0 - relative_error(got, truth)


@dataclass(frozen=True, eq=False, repr=False)
class InPlace:
    """A score of networks as one of decouplings, lower is better: what `TwoStage` chooses lam by."""

    score: Score
    place: Place

    def __call__(self, decoupling: Decoupling) -> float:
        return -rated(self.score, self.place.network(self.place.layer(decoupling)))


def relative_error(got: Tensor, truth: Tensor) -> float:
    """Root mean square of the errors, each output in units of its spread; 0 where it is met, in its own units where
    it does not vary.
    """
    got, truth = (values.double().reshape(len(values), -1) for values in (got, truth))
    spread = (truth - truth.mean(dim=0)).pow(2).mean(dim=0).sqrt()
    return float(((got - truth) / torch.where(spread > 0, spread, 1.0)).pow(2).mean().sqrt())


def rated(score: Score, network: nn.Module) -> float:
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
