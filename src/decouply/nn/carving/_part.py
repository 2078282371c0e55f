"""One part in its network: what it is a function of, and what it is given and returns when the network runs."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ..._support._errors import InputError
from ..compression._report import count_parameters
from ._carve import Carved, carve
from ._jacobian_sampling import batch_for, check_finite, chunks
from ._part_names import Spec
from ._receptive_field import AbstractReach, Axis, reach_of

_MOST_NUMBERS = 2**27  # of inputs and outputs of a part that are kept
_LOOKED_AT = 8  # inputs from which it is seen what a part depends on


@dataclass(frozen=True, eq=False)
class Part:
    """A part cut out of its network.

    Attributes
    ----------
    name
        As the user calls it.
    carved
        A copy of the network in which it is one module.
    reach
        What one of its outputs depends on.
    function
        The part as a function of vectors.
    points, values
        Vectors (N, m) that it is given when the network runs, and what it makes of them (N, n).
    arrays
        A few of its inputs as they are.
    n_positions
        How many vectors one input of the network is for it.
    """

    name: str
    carved: Carved
    reach: AbstractReach
    function: nn.Module
    points: Tensor
    values: Tensor
    arrays: Tensor
    n_positions: int


def part_of(
    network: nn.Module, spec: Spec, data: Tensor, *, logits: bool, axis: Axis, rng: np.random.Generator
) -> Part:
    """Cut a part out, and run the network once to see its inputs and outputs."""
    carved = carve(network, spec, data, logits=logits)
    if count_parameters(carved.part) == 0:
        raise InputError("`part` must have parameters: there is nothing to save in one without.")
    name = spec if isinstance(spec, str) else " to ".join(spec)
    own = copy.deepcopy(carved.part).eval()
    (some, _, _), *_ = carved.batches(data[:_LOOKED_AT], _LOOKED_AT)
    reach = reach_of(own, some.to(data.device), "part", axis)
    points, values, n_positions = collected(carved, reach, data, rng)
    check_finite("part", values.numpy())
    return Part(name, carved, reach, reach.function(own).eval(), points, values, some, n_positions)


def collected(
    carved: Carved, reach: AbstractReach, data: Tensor, rng: np.random.Generator
) -> tuple[Tensor, Tensor, int]:
    """Inputs and outputs of the part as vectors: all of them, or a fair draw of what fits, and how many an input is."""
    batch_size = batch_for(data)
    points: list[Tensor] = []
    values: list[Tensor] = []
    chosen = np.zeros(0, dtype=np.int64)
    n_positions = 0
    for rows, (given, returned, _) in zip(chunks(len(data), batch_size), carved.batches(data, batch_size), strict=True):
        if not isinstance(returned, Tensor):
            raise InputError(f"`part` must return one tensor. {carved.path} returns {type(returned).__name__}.")
        x, y = reach.vectors(given), reach.values(returned)
        if n_positions == 0:
            n_positions = x.shape[1]
            total, room = len(data) * n_positions, max(1, _MOST_NUMBERS // (x.shape[2] + y.shape[2]))
            chosen = np.arange(total) if total <= room else np.sort(rng.choice(total, room, replace=False))
        elif x.shape[1] != n_positions or x.shape[2] != points[0].shape[1]:
            raise InputError(
                f"`part` must be given one shape. {carved.path} is given {tuple(given.shape)} after others: shapes "
                "must not change between calls."
            )
        own = chosen[(chosen >= rows.start * n_positions) & (chosen < rows.stop * n_positions)]
        index = torch.as_tensor(own - rows.start * n_positions)
        points.append(x.flatten(0, 1)[index].double())
        values.append(y.flatten(0, 1)[index].double())
    return torch.cat(points), torch.cat(values), n_positions
