"""Samples of a network in an ONNX file: its graph as a function of JAX, in float64, with exact Jacobians.

A table says what each operator is in JAX, which differentiates the whole. Converters to PyTorch and to JAX exist, but
none has had a release for two years, and what is sampled here are networks of dense layers and their activations.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..._support._arguments import as_path, missing
from ..._support._errors import InputError, SampleFileError
from ..._support._optional_packages import needed
from .._samples import Samples
from ._functions import sample_jax

Attributes = Mapping[str, Any]
# An operator: the module of array functions, the inputs, the attributes; a constant graph is computed by NumPy.
Operator = Callable[[Any, list[Any], Attributes], Any]
_SINCE_AXIS_IS_LAST = 13  # version of the operators from which Softmax is taken along the last axis


def sample_onnx(path: str | os.PathLike[str], X: object) -> Samples:
    """See `Samples.from_onnx`."""
    onnx = needed("onnx", "onnx", "`from_onnx`")
    needed("onnx.numpy_helper", "onnx", "`from_onnx`")
    jax = needed("jax", "jax", "`from_onnx`")
    file = as_path("path", path)
    if not file.is_file():
        raise SampleFileError(f"`{file}` must be an ONNX file. {missing(file)}")
    try:
        model = onnx.load(file)
        onnx.checker.check_model(model)
        if model.functions:
            model = needed("onnx.inliner", "onnx", "`from_onnx`").inline_local_functions(model)
    except Exception as error:  # whatever protobuf and the checker say of what is none
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise SampleFileError(f"`{file}` must be a valid ONNX file. {reason[0]}") from error
    unknown = sorted({node.op_type for node in model.graph.node} - {*_OPERATORS})
    if unknown:
        raise InputError(
            f"`{file}` must be made of operators that can be differentiated here. It has {', '.join(unknown)}: sample "
            "the network in the framework that trained it, by dc.nn.sample (PyTorch) or dc.Samples.from_jax."
        )
    return sample_jax(_function(onnx, jax, model, file), X)


def _function(onnx: Any, jax: Any, model: Any, file: Any) -> Callable[[Any], Any]:
    """The outputs of a graph side by side, as a function of one point (m,)."""
    graph = model.graph
    constants = {tensor.name: _in_float64(onnx.numpy_helper.to_array(tensor)) for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    if len(inputs) != 1:
        raise InputError(
            f"`{file}` must have one input, of shape (points, ...). It has "
            f"{', '.join(value.name for value in inputs) or 'none'}."
        )
    dims = [dim.dim_value for dim in inputs[0].type.tensor_type.shape.dim]  # 0 if it is not fixed
    one = [1, *dims[1:]] if len(dims) > 1 else dims  # one point
    if len(dims) > 1 and not all(dims[1:]):
        raise InputError(f"`{file}` must have an input whose shape is fixed but for the points. Got {dims}.")
    version = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    shared = {"version": version}
    steps = [(node, _attributes(onnx, node) | shared | {"n_outputs": len(node.output)}) for node in graph.node]

    def f(x: Any) -> Any:
        if dims and len(dims) > 1 and x.shape != (math.prod(one),):
            raise TypeError(f"a point of {math.prod(one)} coordinates is needed")
        values = {"": None, **constants, inputs[0].name: x.reshape(one) if len(dims) > 1 else x}
        for node, attributes in steps:
            given = [values[name] for name in node.input]
            varies = any(isinstance(value, jax.Array) for value in given)
            result = _OPERATORS[node.op_type](jax.numpy if varies else np, given, attributes)
            several = result if isinstance(result, tuple) else (result,)
            values.update(zip(node.output, several, strict=False))
        return jax.numpy.concatenate([values[output.name].reshape(-1) for output in graph.output])

    return f


def _attributes(onnx: Any, node: Any) -> dict[str, Any]:
    found = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return {
        name: _in_float64(onnx.numpy_helper.to_array(value)) if isinstance(value, onnx.TensorProto) else value
        for name, value in found.items()
    }


def _in_float64(array: Any) -> Any:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


# Operators


def _gemm(xp: Any, given: list[Any], k: Attributes) -> Any:
    A, B, *C = given
    A, B = (M.T if k.get(flag) else M for M, flag in ((A, "transA"), (B, "transB")))
    product = k.get("alpha", 1.0) * xp.matmul(A, B)
    return product + k.get("beta", 1.0) * C[0] if C and C[0] is not None else product


def _clip(xp: Any, given: list[Any], k: Attributes) -> Any:
    x, low, high = [*given, None, None][:3]
    low, high = k.get("min", low), k.get("max", high)
    x = x if low is None else xp.maximum(x, low)
    return x if high is None else xp.minimum(x, high)


def _axes(given: list[Any], k: Attributes) -> tuple[int, ...] | None:
    """Axes, which older versions have as an attribute."""
    found = given[1] if len(given) > 1 and given[1] is not None else k.get("axes")
    return None if found is None else tuple(int(axis) for axis in np.ravel(found))


def _unsqueeze(xp: Any, given: list[Any], k: Attributes) -> Any:
    return xp.expand_dims(given[0], _axes(given, k))


def _reduce(name: str) -> Operator:
    def reduced(xp: Any, given: list[Any], k: Attributes) -> Any:
        axes = _axes(given, k)
        if axes is None and k.get("noop_with_empty_axes"):
            return given[0]
        return getattr(xp, name)(given[0], axis=axes, keepdims=bool(k.get("keepdims", 1)))

    return reduced


def _reshape(xp: Any, given: list[Any], k: Attributes) -> Any:
    x, shape = given
    wanted = [int(d) for d in shape]
    if not k.get("allowzero"):
        wanted = [x.shape[i] if d == 0 else d for i, d in enumerate(wanted)]
    return xp.reshape(x, wanted)


def _flatten(xp: Any, given: list[Any], k: Attributes) -> Any:
    x, axis = given[0], k.get("axis", 1)
    return xp.reshape(x, (math.prod(x.shape[:axis]), -1))


def _slice(xp: Any, given: list[Any], k: Attributes) -> Any:
    x, starts, ends, *more = given if len(given) > 1 else [given[0], k["starts"], k["ends"], k.get("axes")]
    axes, steps = [*more, None, None][:2]
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # Before the first entry, going backwards, is None in Python.
        last = None if step < 0 and end < -x.shape[axis] else int(end)
        index[int(axis)] = slice(int(start), last, int(step))
    return x[tuple(index)]


def _split(xp: Any, given: list[Any], k: Attributes) -> Any:
    x, axis = given[0], k.get("axis", 0)
    sizes = given[1] if len(given) > 1 and given[1] is not None else k.get("split")
    each = math.ceil(x.shape[axis] / k["n_outputs"])  # the last may be smaller
    ends = np.arange(1, k["n_outputs"]) * each if sizes is None else np.cumsum(sizes)[:-1]
    return tuple(xp.split(x, ends.tolist(), axis=axis))


def _softmax(xp: Any, given: list[Any], k: Attributes, *, of_log: bool = False) -> Any:
    x = given[0]
    axis = k.get("axis", -1 if k["version"] >= _SINCE_AXIS_IS_LAST else 1)
    along = axis if k["version"] >= _SINCE_AXIS_IS_LAST else tuple(range(axis % x.ndim, x.ndim))
    x = x - xp.max(x, axis=along, keepdims=True)
    total = xp.sum(xp.exp(x), axis=along, keepdims=True)
    return x - xp.log(total) if of_log else xp.exp(x) / total


def _batch_normalization(xp: Any, given: list[Any], k: Attributes) -> Any:
    x, scale, bias, mean, variance = given
    shape = (1, -1, *[1] * (x.ndim - 2))
    factor = scale / np.sqrt(variance + k.get("epsilon", 1e-5))
    return (x - xp.reshape(mean, shape)) * xp.reshape(factor, shape) + xp.reshape(bias, shape)


def _layer_normalization(xp: Any, given: list[Any], k: Attributes) -> Any:
    x, scale, *bias = given
    axes = tuple(range(k.get("axis", -1) % x.ndim, x.ndim))
    centred = x - xp.mean(x, axis=axes, keepdims=True)
    spread = xp.sqrt(xp.mean(centred**2, axis=axes, keepdims=True) + k.get("epsilon", 1e-5))
    return centred / spread * scale + (bias[0] if bias and bias[0] is not None else 0.0)


def _erf(xp: Any, given: list[Any], k: Attributes) -> Any:
    if xp is np:
        from scipy.special import erf

        return erf(given[0])
    from jax.scipy.special import erf as differentiable_erf

    return differentiable_erf(given[0])


def _gelu(xp: Any, given: list[Any], k: Attributes) -> Any:
    x = given[0]
    if k.get("approximate", b"none") in (b"tanh", "tanh"):
        return 0.5 * x * (1.0 + xp.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1.0 + _erf(xp, [x / np.sqrt(2.0)], k))


def _cast(xp: Any, given: list[Any], k: Attributes) -> Any:
    """Floats stay in float64, whatever they are cast to."""
    from onnx.helper import tensor_dtype_to_np_dtype

    dtype = np.dtype(tensor_dtype_to_np_dtype(k["to"]))
    return xp.asarray(given[0], dtype=np.float64 if dtype.kind == "f" else dtype)


def _folded(name: str) -> Operator:
    """A function of two arrays, of any number of them."""

    def fold(xp: Any, given: list[Any], k: Attributes) -> Any:
        value = given[0]
        for other in given[1:]:
            value = getattr(xp, name)(value, other)
        return value

    return fold


def _same(*names: str) -> dict[str, Operator]:
    """Operators that arrays have under the same name, in lower case."""
    return {name: _called(name.lower()) for name in names}


def _called(name: str) -> Operator:
    return lambda xp, a, k: getattr(xp, name)(*a)


_OPERATORS: dict[str, Operator] = {
    **_same("Abs", "Exp", "Log", "Sqrt", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh", "Floor", "Ceil", "Sign"),
    **_same("MatMul", "Equal", "Greater", "Less", "Where"),
    "Add": lambda xp, a, k: xp.add(*a),
    "Sub": lambda xp, a, k: xp.subtract(*a),
    "Mul": lambda xp, a, k: xp.multiply(*a),
    "Div": lambda xp, a, k: xp.divide(*a) if a[0].dtype.kind == "f" else xp.trunc(a[0] / a[1]).astype(a[0].dtype),
    "Pow": lambda xp, a, k: xp.power(*a),
    "Neg": lambda xp, a, k: -a[0],
    "Reciprocal": lambda xp, a, k: 1.0 / a[0],
    "Asin": lambda xp, a, k: xp.arcsin(a[0]),
    "Acos": lambda xp, a, k: xp.arccos(a[0]),
    "Atan": lambda xp, a, k: xp.arctan(a[0]),
    "Asinh": lambda xp, a, k: xp.arcsinh(a[0]),
    "Erf": _erf,
    "Gelu": _gelu,
    "GreaterOrEqual": lambda xp, a, k: xp.greater_equal(*a),
    "LessOrEqual": lambda xp, a, k: xp.less_equal(*a),
    "And": lambda xp, a, k: xp.logical_and(*a),
    "Or": lambda xp, a, k: xp.logical_or(*a),
    "Not": lambda xp, a, k: xp.logical_not(a[0]),
    "Max": _folded("maximum"),
    "Min": _folded("minimum"),
    "Sum": _folded("add"),
    "Mean": lambda xp, a, k: _folded("add")(xp, a, k) / len(a),
    "Sigmoid": lambda xp, a, k: 0.5 * (1.0 + xp.tanh(0.5 * a[0])),
    "Relu": lambda xp, a, k: xp.where(a[0] > 0.0, a[0], 0.0),
    "LeakyRelu": lambda xp, a, k: xp.where(a[0] > 0.0, a[0], k.get("alpha", 0.01) * a[0]),
    "PRelu": lambda xp, a, k: xp.where(a[0] > 0.0, a[0], a[1] * a[0]),
    "Elu": lambda xp, a, k: xp.where(a[0] > 0.0, a[0], k.get("alpha", 1.0) * xp.expm1(xp.minimum(a[0], 0.0))),
    "Selu": lambda xp, a, k: (
        k.get("gamma", 1.0507009873554805)
        * xp.where(a[0] > 0.0, a[0], k.get("alpha", 1.6732632423543772) * xp.expm1(xp.minimum(a[0], 0.0)))
    ),
    "Softplus": lambda xp, a, k: xp.logaddexp(a[0], 0.0),
    "Celu": lambda xp, a, k: (
        xp.maximum(a[0], 0.0) + k.get("alpha", 1.0) * xp.expm1(xp.minimum(a[0], 0.0) / k.get("alpha", 1.0))
    ),
    "Mish": lambda xp, a, k: a[0] * xp.tanh(xp.logaddexp(a[0], 0.0)),
    "HardSwish": lambda xp, a, k: a[0] * xp.clip(a[0] / 6.0 + 0.5, 0.0, 1.0),
    "Mod": lambda xp, a, k: (xp.fmod if k.get("fmod") else xp.mod)(*a),
    "Softsign": lambda xp, a, k: a[0] / (1.0 + xp.abs(a[0])),
    "HardSigmoid": lambda xp, a, k: xp.clip(k.get("alpha", 0.2) * a[0] + k.get("beta", 0.5), 0.0, 1.0),
    "Clip": _clip,
    "Softmax": _softmax,
    "LogSoftmax": lambda xp, a, k: _softmax(xp, a, k, of_log=True),
    "BatchNormalization": _batch_normalization,
    "LayerNormalization": _layer_normalization,
    "Gemm": _gemm,
    "ReduceSum": _reduce("sum"),
    "ReduceMean": _reduce("mean"),
    "ReduceMax": _reduce("max"),
    "ReduceMin": _reduce("min"),
    "Concat": lambda xp, a, k: xp.concatenate(a, axis=k["axis"]),
    "Split": _split,
    "Slice": _slice,
    "Gather": lambda xp, a, k: xp.take(a[0], a[1], axis=k.get("axis", 0)),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": lambda xp, a, k: xp.transpose(a[0], k.get("perm")),
    "Squeeze": lambda xp, a, k: xp.squeeze(a[0], _axes(a, k)),
    "Unsqueeze": _unsqueeze,
    "Expand": lambda xp, a, k: a[0] * xp.ones([int(d) for d in a[1]]),
    "Shape": lambda xp, a, k: np.array(a[0].shape[k.get("start", 0) : k.get("end")], dtype=np.int64),
    "Constant": lambda xp, a, k: next(
        np.asarray(value, dtype=np.float64 if "float" in name else None)
        for name, value in k.items()
        if name.startswith("value")
    ),
    "ConstantOfShape": lambda xp, a, k: np.full([int(d) for d in a[0]], k.get("value", np.zeros(1))[0]),
    "Cast": _cast,
    "Identity": lambda xp, a, k: a[0],
    "Dropout": lambda xp, a, k: a[0],  # which is not active once a network is trained
}
