"""Parts of a network: which are replaced, what each is a function of, and what it is given and returns.

Parts are named, matched by patterns, stretches from one module to another, or chosen by a function.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..._support._errors import InputError, short_repr
from ...bases import Activation
from ...bases._activation import ActivationName
from ..layer._quantisation import count_parameters
from ._carve import Carved, PartName, carve, is_within, outputs_of
from ._jacobian_sampling import batch_for, check_finite, chunks, first_line
from ._receptive_field import AbstractReceptiveField, Axis, receptive_field_of

Filter = Callable[[str, nn.Module], bool]
Parts = str | tuple[str, str] | list[str | tuple[str, str]] | Filter
_MAX_NAMES = 30  # of modules in a message
_MAX_VECTOR_NUMBERS = 2**27  # of inputs and outputs of a part that are kept
_MAX_OUTPUT_NUMBERS = 2**27  # of outputs of the network that are kept
_ACTIVATIONS: dict[str, ActivationName] = {  # of modules, and functions that begin like them
    **dict.fromkeys(("ReLU", "LeakyReLU", "PReLU", "ReLU6", "ELU", "CELU", "SELU"), "relu"),
    **dict.fromkeys(("SiLU", "Mish", "Hardswish"), "silu"),
    **dict.fromkeys(("Tanh", "Hardtanh", "Softsign"), "tanh"),
    **dict.fromkeys(("Sigmoid", "Hardsigmoid"), "sigmoid"),
    "GELU": "gelu",
    "Softplus": "softplus",
}
_CALLED = {name.lower(): kind for name, kind in _ACTIVATIONS.items()} | {"leaky_relu": "relu"}  # as functions
_N_PROBED = 8  # inputs at which the receptive field of a part is found


def part_names(model: nn.Module, parts: Any) -> list[PartName]:
    """Parts by name, in the order given; no module is in two of them."""
    modules = {name: module for name, module in model.named_modules(remove_duplicate=False) if name}
    some = ", ".join(list(modules)[:_MAX_NAMES])
    if callable(parts) and not isinstance(parts, nn.Module):  # it chooses; modules within chosen ones come with these
        try:
            chosen = [name for name, module in modules.items() if parts(name, module)]
        except TypeError as error:
            raise InputError(f"`parts` must be a function of name and module. It raises {first_line(error)}") from error
        if not chosen:
            raise InputError(f"`parts` must choose at least one submodule of {some}. The function chose none.")
        return [name for name in chosen if not any(is_within(name, other) for other in chosen)]
    found: list[PartName] = []
    for one in parts if isinstance(parts, list) else [parts]:
        if isinstance(one, nn.Module):
            own = next((name for name, module in modules.items() if module is one), None)
            hint = "It is not one of the network." if own is None else f'Its name is "{own}".'
            raise InputError(f"`parts` must be named, not given as modules. {hint}")
        if isinstance(one, str):
            matches: list[PartName] = [name for name in modules if _matches(name, one)]
            if not matches:
                raise InputError(
                    f"`parts` must name submodules of the network: {some}. Nothing matches {short_repr(one)}."
                )
        elif isinstance(one, tuple) and len(one) == 2 and all(isinstance(name, str) for name in one):
            for name in one:
                if name not in modules:
                    raise InputError(f"`parts` must name submodules of the network: {some}. Got {short_repr(name)}.")
            if any(is_within(a, b) for a, b in (one, one[::-1])):
                raise InputError(
                    f"`parts` must name modules that do not contain each other. Of {one}, one lies within the other."
                )
            matches = [one[0] if one[0] == one[1] else one]
        else:
            raise InputError(
                "`parts` must be names or patterns such as blocks.*.mlp, a pair of the first and the last module, a "
                f"list of these, or a function of name and module. Got {short_repr(one)}."
            )
        found += [match for match in matches if match not in found]
    if not found:
        raise InputError("`parts` must name at least one submodule. Got an empty list.")
    names = [(part, name) for part in found for name in ((part,) if isinstance(part, str) else part)]
    for (part, name), (other_part, other) in combinations(names, 2):
        if part != other_part and (name == other or is_within(name, other) or is_within(other, name)):
            same = f"{name} is in two of them" if name == other else f"{name} and {other} do"
            raise InputError(f"`parts` must not overlap. {same}: one module would be replaced twice.")
    return found


def _matches(name: str, pattern: str) -> bool:
    """Step by step: a star stands for one step of the path, or a piece of it."""
    steps, wanted = name.split("."), pattern.split(".")
    return len(steps) == len(wanted) and all(fnmatchcase(a, b) for a, b in zip(steps, wanted, strict=True))


def sort_by_calls(model: nn.Module, parts: list[PartName], data: Tensor, *, logits: bool) -> list[PartName]:
    """Parts in the order in which the network calls them; stretches must have no other part between their ends."""
    order: list[int] = []
    handles = []
    for i, part in enumerate(parts):
        module = model.get_submodule(part if isinstance(part, str) else part[0])
        handles.append(module.register_forward_pre_hook(lambda *_, i=i: order.append(i)))
    try:
        outputs_of(model, data[:1])
    finally:
        for handle in handles:
            handle.remove()
    for part in parts:
        if isinstance(part, str):
            continue
        carved = carve(model, part, data, logits=logits)
        left = {name for name, _ in carved.network.named_modules() if not is_within(name, carved.path)}
        for other in parts:
            for name in (other,) if isinstance(other, str) else other:
                if other != part and name not in left:
                    raise InputError(f"`parts` must not overlap. {name} lies between {part[0]} and {part[1]}.")
    return [parts[i] for i in sorted(range(len(parts)), key=lambda i: order.index(i) if i in order else len(order))]


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

    def place(self, layer: nn.Module) -> nn.Module:
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


def activations_of(part: nn.Module) -> list[Activation]:
    """Bases that begin as an activation of the part, and as GELU: each plain, and with a line and a hinge."""
    names = [name for module in part.modules() if (name := _ACTIVATIONS.get(type(module).__name__))]
    operators = (kind for module in part.modules() for kind in getattr(module, "operators", ()))  # of an ONNX file
    names += [name for kind in operators if (name := _CALLED.get(kind.lower()))]
    for module in part.modules():  # that is traced, or read from a program: "aten.gelu.default"
        nodes = getattr(getattr(module, "graph", None), "nodes", ())
        called = (getattr(node.target, "__name__", str(node.target)).split(".")[0] for node in nodes)
        names += [name for word in called if (name := _CALLED.get(word))]
    most_often: ActivationName = max(dict.fromkeys(names), key=names.count, default="gelu")
    kinds: dict[ActivationName, None] = dict.fromkeys((most_often, "gelu"))
    return [Activation(name, hinges) for name in kinds for hinges in (0, 1)]


def collect_vectors(
    carved: Carved, field: AbstractReceptiveField, data: Tensor, rng: np.random.Generator
) -> tuple[Tensor, Tensor, int, Tensor | None]:
    """Run the network once: inputs (N, m) and values (N, n) of the part, vectors per input, outputs of the network.

    Vectors are all there are, or a random draw of what fits into memory; outputs are None if they do not fit.
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
