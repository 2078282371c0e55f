"""A network that an ONNX file holds, as a PyTorch module: each node is the operation that it names.

Numbers of the file that are multiplied or added are parameters of the module. An operator that is not known here, or
has no derivative, is named.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..._support._arguments import as_path
from ..._support._errors import InputError
from ..._support._optional_packages import needed

_MOST_NAMED = 5  # operators of a message


class OnnxNetwork(nn.Module):
    """The function of one input that an ONNX file computes; several outputs become columns side by side."""

    def __init__(self, file: str, nodes: Sequence[tuple[str, list[str], list[str], dict[str, Any]]], ends: Any) -> None:
        super().__init__()
        self.file, self.nodes, (self.input_name, self.output_names) = file, list(nodes), ends
        self.operators = [kind for kind, *_ in nodes]
        self._places: dict[str, str] = {}
        self._fixed: dict[str, Tensor] = {}  # whole numbers, such as shapes

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> OnnxNetwork:
        """Read a file, and name what is in it that cannot be differentiated."""
        file = as_path("model", path)
        onnx = needed("onnx", "onnx", "an ONNX network")
        helper = needed("onnx.numpy_helper", "onnx", "an ONNX network")
        try:
            model = onnx.load(file)
            if model.functions:
                model = needed("onnx.inliner", "onnx", "an ONNX network").inline_local_functions(model)
            graph = model.graph
        except Exception as error:  # of protobuf, whose kinds differ from version to version
            raise InputError(f"`model` must name an ONNX file. {file} cannot be read as one: {error}.") from error
        held = {tensor.name: helper.to_array(tensor) for tensor in graph.initializer}
        nodes = []
        for node in graph.node:
            given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "Constant":
                ((kind, value),) = given.items()
                real = np.float32 if "float" in kind else None
                held[node.output[0]] = helper.to_array(value) if kind == "value" else np.array(value, dtype=real)
            else:
                nodes.append(
                    (node.op_type, list(node.input), list(node.output), given | {"n_outputs": len(node.output)})
                )
        unknown = sorted({kind for kind, *_ in nodes} - set(_OPERATORS))
        if unknown:
            some = ", ".join(unknown[:_MOST_NAMED])
            raise InputError(
                f"`model` must be an ONNX graph of operators that can be differentiated here. {file} has {some}: "
                "export a part of the network without these, or give the PyTorch module."
            )
        inputs = [one.name for one in graph.input if one.name not in held]
        outputs = [one.name for one in graph.output]
        if len(inputs) != 1:
            raise InputError(f"`model` must have one input. {file} has {len(inputs)}: {', '.join(inputs)}.")
        network = cls(str(file), nodes, (inputs[0], outputs))
        for k, (name, array) in enumerate(held.items()):
            network._hold(f"n{k}", name, torch.tensor(array))
        return network

    def _hold(self, place: str, name: str, numbers: Tensor) -> None:
        if not numbers.is_floating_point():
            self._fixed[name] = numbers
            return
        self._places[name] = place
        self.register_parameter(place, nn.Parameter(numbers, requires_grad=False))

    def forward(self, x: Tensor) -> Tensor:
        values: dict[str, Any] = {self.input_name: x, "": None} | self._fixed
        values |= {name: getattr(self, place) for name, place in self._places.items()}
        for kind, inputs, outputs, given in self.nodes:
            found = _OPERATORS[kind]([values[name] for name in inputs], given)
            for name, value in zip(outputs, found if isinstance(found, tuple) else (found,), strict=False):
                values[name] = value
        found = [values[name] for name in self.output_names]
        if len(found) == 1:
            return found[0]
        return torch.cat([value.reshape(len(x), -1) for value in found], dim=1)

    def extra_repr(self) -> str:
        return f"{self.file}, {len(self.nodes)} nodes"


# Operators: of inputs and attributes

Inputs = Sequence[Any]
Given = Mapping[str, Any]


def _gemm(inputs: Inputs, given: Given) -> Tensor:
    A, B, *C = inputs
    A = A.t() if given.get("transA") else A
    B = B.t() if given.get("transB") else B
    product = given.get("alpha", 1.0) * (A @ B)
    return product + given.get("beta", 1.0) * C[0] if C and C[0] is not None else product


def _clip(inputs: Inputs, given: Given) -> Tensor:
    low, high = (*inputs[1:], None, None)[:2]
    low = given.get("min") if low is None else low
    high = given.get("max") if high is None else high
    value = inputs[0] if low is None else torch.maximum(inputs[0], torch.as_tensor(low).to(inputs[0]))
    return value if high is None else torch.minimum(value, torch.as_tensor(high).to(value))


def _reshape(inputs: Inputs, _: Given) -> Tensor:
    x, shape = inputs
    wanted = [x.shape[k] if size == 0 else size for k, size in enumerate(shape.tolist())]
    return x.reshape(wanted)


def _flatten(inputs: Inputs, given: Given) -> Tensor:
    x, axis = inputs[0], given.get("axis", 1)
    return x.reshape(math.prod(x.shape[:axis]), -1)


def _axes(inputs: Inputs, given: Given) -> list[int]:
    own = given.get("axes") if len(inputs) < 2 or inputs[1] is None else inputs[1].tolist()
    return [] if own is None else list(own)


def _unsqueeze(inputs: Inputs, given: Given) -> Tensor:
    x, axes = inputs[0], _axes(inputs, given)
    n_axes = x.ndim + len(axes)
    return reduce(Tensor.unsqueeze, sorted(axis % n_axes for axis in axes), x)


def _squeeze(inputs: Inputs, given: Given) -> Tensor:
    axes = _axes(inputs, given)
    return inputs[0].squeeze(tuple(axes)) if axes else inputs[0].squeeze()


def _slice(inputs: Inputs, _: Given) -> Tensor:
    x, starts, ends, *more = inputs
    axes = more[0].tolist() if more and more[0] is not None else range(len(starts))
    steps = more[1].tolist() if len(more) > 1 and more[1] is not None else [1] * len(starts)
    for axis, first, last, step in zip(axes, starts.tolist(), ends.tolist(), steps, strict=True):
        kept = range(x.shape[axis])[first:last:step]
        x = x.index_select(axis, torch.tensor(kept, dtype=torch.int64, device=x.device))
    return x


def _gather(inputs: Inputs, given: Given) -> Tensor:
    x, rows = inputs[0], torch.as_tensor(inputs[1], device=inputs[0].device)
    axis = given.get("axis", 0) % x.ndim
    found = x.index_select(axis, rows.reshape(-1) % x.shape[axis])
    return found.reshape(*x.shape[:axis], *rows.shape, *x.shape[axis + 1 :])


def _softmax(inputs: Inputs, given: Given) -> Tensor:
    return inputs[0].softmax(given.get("axis", -1))


def _gelu(inputs: Inputs, given: Given) -> Tensor:
    form = given.get("approximate", b"none")
    return nn.functional.gelu(inputs[0], approximate=form.decode() if isinstance(form, bytes) else form)


def _reduce(how: Callable[..., Tensor]) -> Callable[[Inputs, Given], Tensor]:
    def reduced(inputs: Inputs, given: Given) -> Tensor:
        axes = _axes(inputs, given) or list(range(inputs[0].ndim))
        return how(inputs[0], dim=axes, keepdim=bool(given.get("keepdims", 1)))

    return reduced


def _split(inputs: Inputs, given: Given) -> tuple[Tensor, ...]:
    x, axis = inputs[0], given.get("axis", 0)
    sizes = given.get("split") if len(inputs) < 2 or inputs[1] is None else inputs[1].tolist()
    return torch.split(x, math.ceil(x.shape[axis] / given["n_outputs"]) if sizes is None else list(sizes), dim=axis)


def _batch_normalization(inputs: Inputs, given: Given) -> Tensor:
    x, scale, bias, mean, variance = inputs
    return nn.functional.batch_norm(x, mean, variance, scale, bias, eps=given.get("epsilon", 1e-5))


def _layer_normalization(inputs: Inputs, given: Given) -> Tensor:
    x, scale, bias = (*inputs, None)[:3]
    shape = x.shape[given.get("axis", -1) :]
    value = nn.functional.layer_norm(x, shape, eps=given.get("epsilon", 1e-5)) * scale
    return value if bias is None else value + bias


def _folded(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Inputs, Given], Tensor]:
    """A function of two tensors, of any number of them."""
    return lambda inputs, _: reduce(function, inputs)


def _of_one(function: Callable[[Tensor], Tensor]) -> Callable[[Inputs, Given], Tensor]:
    return lambda inputs, _: function(inputs[0])


def _of_two(function: Callable[[Any, Any], Tensor]) -> Callable[[Inputs, Given], Tensor]:
    return lambda inputs, _: function(inputs[0], inputs[1])


_OPERATORS: dict[str, Callable[[Inputs, Given], Any]] = {
    **{name: _of_one(getattr(torch, name.lower())) for name in ("Relu", "Tanh", "Sigmoid", "Erf", "Exp", "Log")},
    **{name: _of_one(getattr(torch, name.lower())) for name in ("Sqrt", "Abs", "Neg", "Reciprocal", "Sin", "Cos")},
    **{name: _of_one(getattr(torch, name.lower())) for name in ("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Sign")},
    "Identity": _of_one(lambda x: x),
    "Dropout": _of_one(lambda x: x),
    "Cast": _of_one(lambda x: x),  # from one kind of float to another
    "Softplus": _of_one(nn.functional.softplus),
    "Elu": lambda inputs, given: nn.functional.elu(inputs[0], given.get("alpha", 1.0)),
    "LeakyRelu": lambda inputs, given: nn.functional.leaky_relu(inputs[0], given.get("alpha", 0.01)),
    "Selu": lambda inputs, given: (
        given.get("gamma", 1.0507009873554805) * nn.functional.elu(inputs[0], given.get("alpha", 1.6732632423543772))
    ),
    "Celu": lambda inputs, given: nn.functional.celu(inputs[0], given.get("alpha", 1.0)),
    "PRelu": lambda inputs, _: torch.where(inputs[0] > 0.0, inputs[0], inputs[1] * inputs[0]),
    "Softsign": _of_one(nn.functional.softsign),
    "HardSigmoid": lambda inputs, given: (given.get("alpha", 0.2) * inputs[0] + given.get("beta", 0.5)).clamp(0.0, 1.0),
    "HardSwish": _of_one(nn.functional.hardswish),
    "Mish": _of_one(nn.functional.mish),
    "Gelu": _gelu,
    "Softmax": _softmax,
    "LogSoftmax": lambda inputs, given: inputs[0].log_softmax(given.get("axis", -1)),
    "Clip": _clip,
    "Gemm": _gemm,
    "MatMul": _of_two(torch.matmul),
    "Add": _of_two(torch.add),
    "Sub": _of_two(torch.sub),
    "Mul": _of_two(torch.mul),
    "Div": _of_two(torch.div),
    "Pow": _of_two(torch.pow),
    "Mod": _of_two(torch.remainder),
    "Min": _folded(torch.minimum),
    "Max": _folded(torch.maximum),
    "Sum": _folded(torch.add),
    "Mean": lambda inputs, _: reduce(torch.add, inputs) / len(inputs),
    "Greater": _of_two(torch.gt),
    "GreaterOrEqual": _of_two(torch.ge),
    "Less": _of_two(torch.lt),
    "LessOrEqual": _of_two(torch.le),
    "Equal": _of_two(torch.eq),
    "Where": lambda inputs, _: torch.where(*inputs),
    "BatchNormalization": _batch_normalization,
    "LayerNormalization": _layer_normalization,
    "Concat": lambda inputs, given: torch.cat(list(inputs), dim=given["axis"]),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": lambda inputs, given: inputs[0].permute(*given.get("perm", range(inputs[0].ndim)[::-1])),
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Shape": lambda inputs, given: torch.tensor(inputs[0].shape)[given.get("start", 0) : given.get("end")],
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "ReduceMean": _reduce(torch.mean),
    "ReduceSum": _reduce(torch.sum),
    "ReduceMax": _reduce(torch.amax),
    "ReduceMin": _reduce(torch.amin),
}
