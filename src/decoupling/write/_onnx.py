r"""A decoupling as an ONNX graph, written without PyTorch.

Rows of the input are samples, so a layer reads t_l = z_(l-1) V_l^T + s_l and z_l = g_l(t_l), where V_l and s_l are
W_(l-1) with the domains of the functions in them. Functions that share a basis are computed at once, by the recurrence
of the basis: MatMul, Mul and Add for polynomials, with Cos, Sin, Tanh, Exp, Abs and Clip where they are needed. Layers
of several bases are computed in groups, and Concat puts these side by side.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import reduce
from typing import Any, Literal

import numpy as np

from .._support._checks import as_count, is_word
from .._support._errors import InputError
from .._support._extras import needed
from .._support._shown import shown
from .._support._whole_files import check_target, replace_file
from ..bases import AbstractAlgebra, LayerBasis
from ..model._decoupling import Decoupling
from ..model._functions import Functions
from ..model._names import one_line
from ._outside import function

Dtype = Literal["float32", "float64"]
_DTYPES = ("float32", "float64")
_OLDEST_OPSET = 13


def save_onnx(
    model: Decoupling,
    path: str | os.PathLike[str],
    *,
    dtype: Dtype = "float32",
    input_name: str = "x",
    output_name: str = "y",
    opset: int = 17,
) -> None:
    """Write `model` as an ONNX file; see `Decoupling.save_onnx`."""
    if not is_word(dtype, _DTYPES):
        raise InputError(f'`dtype` must be "float32" or "float64". Got {shown(dtype)}.')
    names = _checked_names(input_name, output_name)
    check_target(path)
    onnx = _imported()
    newest = onnx.defs.onnx_opset_version()
    if not _OLDEST_OPSET <= as_count("opset", opset) <= newest:
        raise InputError(
            f"`opset` must be one of {_OLDEST_OPSET}, ..., {newest}, as far as the installed onnx knows. Got "
            f"{shown(opset)}."
        )
    content = _content(model, names, int(opset), _Graph(onnx, dtype)).SerializeToString()
    with replace_file(path) as stream:
        stream.write(content)


def _imported() -> Any:
    for module in ("onnx.helper", "onnx.numpy_helper"):
        needed(module, "onnx", "`save_onnx`")
    return needed("onnx", "onnx", "`save_onnx`")


def _checked_names(input_name: Any, output_name: Any) -> tuple[str, str]:
    for argument, name in (("input_name", input_name), ("output_name", output_name)):
        if not isinstance(name, str) or not name.strip() or "/" in name or one_line(name) != name:
            raise InputError(
                f"`{argument}` must be a name without a slash, which names inside the graph have, and without line "
                f"breaks or other control codes. Got {shown(name)}."
            )
    if input_name == output_name:
        raise InputError(f"`input_name` and `output_name` must differ. Got {input_name!r} for both.")
    return input_name, output_name


def _content(model: Decoupling, names: tuple[str, str], opset: int, graph: _Graph) -> Any:  # an onnx.ModelProto
    x, y = names
    z, order = x, np.arange(model.n_inputs)
    for l, (W, g) in enumerate(zip(model.W[:-1], model.g, strict=True), start=1):
        graph.place = f"{l}"
        groups = _groups(g)
        parts = [_functions(graph, z, W[rows][:, order], g, rows) for rows in groups]
        z, order = graph.concat(parts), np.concatenate(groups)
    graph.place = f"{model.n_layers + 1}"
    terms = [graph.matmul(z, model.W[-1][:, order])]
    terms += [] if model.linear is None else [graph.matmul(x, model.linear)]
    terms += [] if model.offset is None else [graph.number(model.offset)]
    graph.call_last(y, graph.sum(terms))
    return graph.model(model, names, opset)


def _groups(g: Functions) -> list[np.ndarray]:
    """The functions of a layer by their bases, in the order in which these come."""
    found: list[list[int]] = []
    for j, basis in enumerate(g.layer.bases):
        same = (group for group in found if LayerBasis((g.layer.bases[group[0]], basis)).shared is not None)
        group = next(same, None)
        if group is None:
            found.append([j])
        else:
            group.append(j)
    return [np.array(group) for group in found]


def _functions(graph: _Graph, z: str, W: np.ndarray, g: Functions, rows: np.ndarray) -> str:
    """g_j(t_j) of the functions in `rows`, which share a basis."""
    middle, half, basis = g.middle[rows], g.half_width[rows], g.layer.bases[rows[0]]
    t = graph.matmul(z, W / half[:, None])
    if middle.any():
        t = graph.sum([t, graph.number(-middle / half)])
    value: str = function(graph, basis, t, g.C[rows, : 1 + basis.size], g.outside)
    return value


class _Graph(AbstractAlgebra[str]):
    """Nodes and constants, collected in the order in which they are computed: expressions are names of tensors.

    Our own names have a slash in them: "1/n3" is a node of the first layer and "1/c2" a constant.
    """

    def __init__(self, onnx: Any, dtype: Dtype) -> None:
        self.place = ""
        self._onnx = onnx
        self._dtype = np.dtype(dtype)
        self._nodes: list[Any] = []
        self._constants: dict[tuple[Any, ...], Any] = {}

    # The algebra

    def number(self, value: Any) -> str:
        with np.errstate(over="ignore"):
            array = np.array(value, dtype=self._dtype, order="C")
        if not np.all(np.isfinite(array)):
            wider = 'use dtype="float64", or ' if self._dtype == np.float32 else ""
            raise InputError(
                f"The model must have weights, coefficients and domains within what {self._dtype} can hold. Got "
                f"{np.max(np.abs(value)):.3g} in layer {self.place}: {wider}rescale the model with "
                "`Decoupling.canonical`."
            )
        key = (self.place, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"{self.place}/c{len(self._constants) + 1}"
            self._constants[key] = self._onnx.numpy_helper.from_array(array, name)
        found: str = self._constants[key].name
        return found

    def sum(self, terms: Sequence[str]) -> str:
        return reduce(lambda a, b: self._node("Add", a, b), terms)

    def product(self, factors: Sequence[str]) -> str:
        return reduce(lambda a, b: self._node("Mul", a, b), factors)

    def apply(self, function: str, argument: str) -> str:
        return self._node(function.capitalize(), argument)

    def clip(self, argument: str, low: float, high: float) -> str:
        """Clip, with an end that is infinite left out."""
        ends = [self.number(end) if np.isfinite(end) else "" for end in (low, high)]
        return self._node("Clip", argument, *(ends if ends[1] else ends[:1]))

    # What else graphs have

    def matmul(self, rows: str, W: np.ndarray) -> str:
        return self._node("MatMul", rows, self.number(W.T))

    def concat(self, parts: list[str]) -> str:
        return parts[0] if len(parts) == 1 else self._node("Concat", *parts, axis=1)

    def call_last(self, name: str, output: str) -> None:
        """Give the last node, whose output it is, the name of what leaves the graph."""
        last = self._nodes[-1]
        assert list(last.output) == [output]
        last.output[0] = last.name = name

    def model(self, model: Decoupling, names: tuple[str, str], opset: int) -> Any:
        """All that was collected, with its description."""
        from .. import __version__

        helper = self._onnx.helper
        code = helper.np_dtype_to_tensor_dtype(self._dtype)
        given, taken = (
            [helper.make_tensor_value_info(name, code, ["S", size])]
            for name, size in zip(names, (model.n_inputs, model.n_outputs), strict=True)
        )
        graph = helper.make_graph(self._nodes, "decoupling", given, taken, initializer=list(self._constants.values()))
        imports = [helper.make_opsetid("", opset)]
        return helper.make_model(
            graph,
            opset_imports=imports,
            ir_version=helper.find_min_ir_version_for(imports),  # the oldest one: more programs can read it
            producer_name="decoupling",
            producer_version=__version__,
            doc_string=repr(model),
        )

    def _node(self, operator: str, *inputs: str, **attributes: int) -> str:
        name = f"{self.place}/n{len(self._nodes) + 1}"
        self._nodes.append(self._onnx.helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name
