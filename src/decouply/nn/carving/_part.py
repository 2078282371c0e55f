"""One part in its network: what it is a function of, and what it is given and returns when the network runs."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ..._support._errors import InputError
from ..layer._quantisation import count_parameters
from ._carve import Carved, PartName, carve
from ._jacobian_sampling import batch_for, check_finite, chunks
from ._receptive_field import AbstractReceptiveField, Axis, receptive_field_of

_MAX_VECTOR_NUMBERS = 2**27  # of inputs and outputs of a part that are kept
_MAX_OUTPUT_NUMBERS = 2**27  # of outputs of the network that are kept
_N_PROBED = 8  # inputs at which the receptive field of a part is found


@dataclass(frozen=True, eq=False)
class Part:
    """A part cut out of its network.

    Attributes
    ----------
    name
        As the user calls it.
    carved
        A copy of the network in which it is one module.
    field
        What one of its outputs depends on.
    function
        The part as a function of vectors.
    inputs, values
        Vectors (N, m) that it is given when the network runs, and what it makes of them (N, n).
    arrays
        A few of its inputs as they are.
    n_positions
        How many vectors one input of the network is for it.
    network_outputs
        What the network returns, if that is one tensor of moderate size.
    """

    name: str
    carved: Carved
    field: AbstractReceptiveField
    function: nn.Module
    inputs: Tensor
    values: Tensor
    arrays: Tensor
    n_positions: int
    network_outputs: Tensor | None

    def network(self, layer: nn.Module) -> nn.Module:
        """A copy of the network with a layer, a function of vectors, in the place of the part."""
        return self.carved.with_layer(self.field, layer)


def cut_part(
    network: nn.Module, name: PartName, data: Tensor, *, logits: bool, axis: Axis, rng: np.random.Generator
) -> Part:
    """Cut a part out, and run the network over the data to see its inputs and outputs."""
    carved = carve(network, name, data, logits=logits)
    title = name if isinstance(name, str) else " to ".join(name)
    if count_parameters(carved.part) == 0:
        raise InputError(f"`parts` must have parameters: there is nothing to save in {title}, which has none.")
    own = copy.deepcopy(carved.part).eval()
    (arrays, _, _), *_ = carved.batches(data[:_N_PROBED], _N_PROBED)
    field = receptive_field_of(own, arrays.to(data.device), title, axis)
    inputs, values, n_positions, outputs = collect_vectors(carved, field, data, rng)
    check_finite("parts", values.numpy())
    function = field.function(own).eval()
    return Part(title, carved, field, function, inputs, values, arrays, n_positions, outputs)


def collect_vectors(
    carved: Carved, field: AbstractReceptiveField, data: Tensor, rng: np.random.Generator
) -> tuple[Tensor, Tensor, int, Tensor | None]:
    """Run the network once: inputs (N, m) and values (N, n) of the part, vectors per input, outputs of the network.

    Vectors are all there are, or a random draw of what fits into memory; outputs are None where they do not fit.
    """
    batch_size = batch_for(data)
    inputs: list[Tensor] = []
    values: list[Tensor] = []
    outputs: list[Tensor] = []
    keeps_outputs = True
    kept = np.zeros(0, dtype=np.int64)
    n_positions = 0
    for rows, (given, returned, output) in zip(
        chunks(len(data), batch_size), carved.batches(data, batch_size), strict=True
    ):
        if not isinstance(returned, Tensor):
            raise InputError(f"`parts` must return one tensor. {carved.path} returns {type(returned).__name__}.")
        x, y = field.vectors(given), field.values(returned)
        if n_positions == 0:
            n_positions = x.shape[1]
            total, room = len(data) * n_positions, max(1, _MAX_VECTOR_NUMBERS // (x.shape[2] + y.shape[2]))
            kept = np.arange(total) if total <= room else np.sort(rng.choice(total, room, replace=False))
        elif x.shape[1] != n_positions or x.shape[2] != inputs[0].shape[1]:
            raise InputError(
                f"`parts` must be given one shape. {carved.path} is given {tuple(given.shape)} after others: shapes "
                "must not change between calls."
            )
        own = kept[(kept >= rows.start * n_positions) & (kept < rows.stop * n_positions)]
        index = torch.as_tensor(own - rows.start * n_positions)
        inputs.append(x.flatten(0, 1)[index].double())
        values.append(y.flatten(0, 1)[index].double())
        one_tensor = isinstance(output, Tensor) and output.ndim >= 2 and len(output) == len(given)
        keeps_outputs = keeps_outputs and one_tensor and output[0].numel() * len(data) <= _MAX_OUTPUT_NUMBERS
        if keeps_outputs:
            outputs.append(output.cpu())
    return torch.cat(inputs), torch.cat(values), n_positions, torch.cat(outputs) if keeps_outputs else None
