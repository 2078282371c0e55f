r"""A decoupling as an ONNX graph, written without PyTorch.

Rows of the input are samples, so a layer reads t_l = z_(l-1) V_l^T + s_l and z_l = g_l(t_l). V_l and s_l are W_(l-1)
with the domains of the functions in them. Functions that share a basis are computed at once. In front of few outputs
polynomials are powers, and splines hinges, whose coefficients are part of the matrix that follows. Numbers per
function, multiplied row by row, would take longer than all the rest. Otherwise Horner's rule or the recurrence of the
basis writes them, with Cos, Sin, Tanh, Exp, Abs and Clip if they are needed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from .._support._arguments import as_count, is_word
from .._support._atomic_files import check_target, replace_file
from .._support._errors import InputError, short_repr
from .._support._optional_packages import needed
from ..bases import AbstractAlgebra, AbstractBasis, LayerBasis
from ..bases._activation import REACH
from ..bases._fast_forms import Hinges, Monic, goes_on, in_hinges, in_monic, in_pieces, in_powers
from ..model._decoupling import Decoupling
from ..model._functions import Functions, Outside
from ..model._names import one_line
from ._equations import function
from ._trees import Call, Clip, Number, Product, Sum, Variable, Within, in_order, slope

Dtype = Literal["float32", "float64"]
_DTYPES = ("float32", "float64")
_OLDEST_OPSET, _USUAL_OPSET = 13, 17
_OPSET_OF_GELU = 20
_SMALL_LEAD = 1e-6  # share of the largest coefficient below which nothing is divided by it
_FEW_OUTPUTS = 32  # up to which a matrix for all powers is faster than Horner's rule


def save_onnx(
    model: Decoupling,
    path: str | os.PathLike[str],
    *,
    dtype: Dtype = "float32",
    input_name: str = "x",
    output_name: str = "y",
    jacobian_name: str | None = None,
    opset: int | None = None,
) -> None:
    """Write `model` as an ONNX file; see `Decoupling.save_onnx`."""
    if not is_word(dtype, _DTYPES):
        raise InputError(f'`dtype` must be "float32" or "float64". Got {short_repr(dtype)}.')
    names = _checked_names(input_name=input_name, output_name=output_name, jacobian_name=jacobian_name)
    check_target(path)
    onnx, *_ = (needed(module, "onnx", "`save_onnx`") for module in ("onnx", "onnx.helper", "onnx.numpy_helper"))
    newest = onnx.defs.onnx_opset_version()
    if opset is not None and not _OLDEST_OPSET <= as_count("opset", opset) <= newest:
        raise InputError(
            f"`opset` must be one of {_OLDEST_OPSET}, ..., {newest}, as far as the installed onnx knows. Got "
            f"{short_repr(opset)}."
        )
    content = _content(model, names, _Graph(onnx, dtype, opset)).SerializeToString()
    with replace_file(path) as stream:
        stream.write(content)


def _checked_names(**given: Any) -> tuple[str, ...]:
    """Names of what goes in and comes out; an output that is not wanted has none."""
    wanted = {argument: name for argument, name in given.items() if argument != "jacobian_name" or name is not None}
    for argument, name in wanted.items():
        if not isinstance(name, str) or not name.strip() or "/" in name or one_line(name) != name:
            raise InputError(
                f"`{argument}` must be a name without a slash, which names inside the graph have, and without line "
                f"breaks or other control codes. Got {short_repr(name)}."
            )
    if len(set(wanted.values())) < len(wanted):
        listed = [f"`{argument}`" for argument in wanted]
        raise InputError(
            f"{', '.join(listed[:-1])} and {listed[-1]} must differ. Got {', '.join(map(repr, wanted.values()))}."
        )
    return tuple(wanted.values())


def _content(model: Decoupling, names: tuple[str, ...], graph: _Graph) -> Any:  # an onnx.ModelProto
    x, y, *J = names
    terms, constant = [_Term(x, np.ones((1, model.n_inputs)), np.arange(model.n_inputs))], np.zeros(model.n_inputs)
    chain = ""  # du_1/dx, then D_1 W_0, then W_1 D_1 W_0, ..., as (S, r, m)
    order = np.arange(model.n_inputs)  # of the functions in it
    for l, (W, g) in enumerate(zip(model.W[:-1], model.g, strict=True), start=1):
        graph.place = f"{l}"
        few = model.W[l].shape[0] <= _FEW_OUTPUTS
        behind, more, slopes, groups = [], np.zeros(g.rank), [], _groups(g)
        for rows in groups:
            middle, half = g.middle[rows], g.half_width[rows]
            as_in_networks = g.layer.bases[rows[0]].is_activation and g.outside == "extend" and not J
            half = half / REACH if as_in_networks else half
            t = graph.mapped(terms, W[rows] / half[:, None], (W[rows] @ constant - middle) / half)
            own, more[rows] = _activations(graph, t, g, rows) if as_in_networks else _functions(graph, t, g, rows, few)
            behind += own
            if J:
                basis = g.layer.bases[rows[0]]
                slopes.append(graph.slopes(basis, t, g.C[rows, : 1 + basis.size], g.outside))
        terms, constant = behind, more
        if J:
            here = np.concatenate(groups)
            weights = W[np.ix_(here, order)] / g.half_width[here, None]
            chain = graph.product([graph.as_columns(graph.concat(slopes)), graph.times(weights, chain)])  # D_l W_l ...
            order = here
    graph.place = f"{model.n_layers + 1}"
    bias = model.W[-1] @ constant + (0.0 if model.offset is None else model.offset)
    straight = None if model.linear is None else graph.matmul(x, model.linear)
    graph.call_last(y, graph.mapped(terms, model.W[-1], bias, straight))
    if J:
        jacobian = graph.times(model.W[-1][:, order], chain)
        if model.linear is not None:
            jacobian = graph.sum([jacobian, graph.number(model.linear)])
        graph.call_last(J[0], jacobian)
    return graph.model(model, names)


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


@dataclass(frozen=True)
class _Term:
    """Columns of a tensor, block by block of one per function: the functions are the sum of blocks times rows of C."""

    name: str
    C: Float[ndarray, "f r"]
    rows: Int[ndarray, " r"]  # which functions of the layer

    def matrix(self, W: Float[ndarray, "n m"]) -> Float[ndarray, "n k"]:
        """W with the coefficients in it."""
        return np.hstack([W[:, self.rows] * c for c in self.C])


def _functions(graph: _Graph, t: str, g: Functions, rows: np.ndarray, few: bool) -> tuple[list[_Term], np.ndarray]:
    """Terms of the functions in `rows`, which share a basis, and their constants."""
    basis = g.layer.bases[rows[0]]
    C = g.C[rows, : 1 + basis.size]
    if (P := in_powers(basis)) is not None:
        slopes = C[:, 1:] @ basis.derivative(np.array([-1.0, 1.0])).T
        tails = (slopes[:, 0], slopes[:, 1]) if g.outside == "linear" else None
        form = in_monic(C @ P, tails, graph.precision)
        s = t if g.outside == "extend" else graph.clip(t, -1.0, 1.0)
        parts = graph.powers(s, t, form) if few else [(graph.horner(s, t, form), np.ones_like(form.scale))]
        return [_Term(name, (form.scale * c)[None], rows) for name, c in parts], form.constant
    pieces = in_pieces(basis) if few and goes_on((basis,), g.outside) else None
    if pieces is not None:
        table = np.einsum("pqe,re->prq", pieces.rows, C)
        hinges = in_hinges(pieces.ends, pieces.origins, table, 100.0 * np.finfo(float).eps)
        if hinges is not None:
            return [_Term(name, c, rows) for name, c in graph.hinges(t, hinges)], hinges.constant
    value: str = function(graph, basis, t, C, g.outside)
    return [_Term(value, np.ones((1, len(rows))), rows)], np.zeros(len(rows))


def _activations(graph: _Graph, v: str, g: Functions, rows: np.ndarray) -> tuple[list[_Term], np.ndarray]:
    """The same for activations of v = 4 t: c_1 (a(v) + c_2 / c_1 v + ...), in which c_1 goes into the matrix behind."""
    basis: Any = g.layer.bases[rows[0]]
    c = g.C[rows, 1 : 1 + basis.size]
    lead = c[:, 0]
    if np.any(np.abs(lead) <= _SMALL_LEAD * np.max(np.abs(c), axis=1)):
        lead = np.ones_like(lead)
    first, *others = basis.moved_curves_of(graph, v)
    factors = (c / lead[:, None]).T
    value = first if np.all(factors[0] == 1.0) else graph.product([first, graph.number(factors[0])])
    for curve, factor in zip(others, factors[1:], strict=True):
        value = graph.sum([value, graph.product([curve, graph.number(factor)])])
    return [_Term(value, lead[None], rows)], g.C[rows, 0] - c @ basis.moved_by


class _Graph(AbstractAlgebra[str]):
    """Nodes and constants, collected in the order in which they are computed: expressions are names of tensors.

    Our own names have a slash in them: "1/n3" is a node of the first layer and "1/c2" a constant.
    """

    def __init__(self, onnx: Any, dtype: Dtype, opset: int | None) -> None:
        self.place, self._opset = "", opset
        self._onnx = onnx
        self._dtype = np.dtype(dtype)
        self.precision = float(np.finfo(self._dtype).eps)
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

    def activation(self, name: str, argument: str) -> str | None:
        if name == "silu":
            return self.product([argument, self._node("Sigmoid", argument)])
        if name in ("gelu", "softplus") and self._dtype != np.float32:
            return None  # ONNX Runtime has them in single precision only
        if name == "gelu":
            is_known = (self._opset or self._onnx.defs.onnx_opset_version()) >= _OPSET_OF_GELU
            return self._node("Gelu", argument, approximate="tanh") if is_known else None
        return self._node(name.capitalize(), argument)

    # Jacobians

    def slopes(self, basis: AbstractBasis, t: str, C: np.ndarray, outside: Outside) -> str:
        """g'(t) in units of t, of functions that share a basis."""
        tree = slope(basis, Variable(t), C, outside)
        written: dict[int, str] = {}
        for node in in_order(tree):
            inside = [written[id(part)] for part in node.parts]
            if isinstance(node, Number):
                written[id(node)] = self.number(node.value)
            elif isinstance(node, Variable):
                written[id(node)] = node.text
            elif isinstance(node, Sum | Product):
                written[id(node)] = self.sum(inside) if isinstance(node, Sum) else self.product(inside)
            elif isinstance(node, Call):
                written[id(node)] = self.apply(node.function, *inside)
            elif isinstance(node, Clip):
                written[id(node)] = self.clip(inside[0], node.low, node.high)
            else:
                assert isinstance(node, Within)  # pieces are sums of clipped ones here
                written[id(node)] = self._within(inside[0], node.low, node.high)
        nothing = self.product([self.number(np.zeros(len(C))), t])  # a slope that is constant has one row only
        return self.sum([written[id(tree)], nothing])

    def _within(self, argument: str, low: float, high: float) -> str:
        pairs = ((low, "GreaterOrEqual"), (high, "Less"))
        asked = [self._node(operator, argument, self.number(end)) for end, operator in pairs if np.isfinite(end)]
        inside = asked[0] if len(asked) == 1 else self._node("And", *asked)
        return self._node("Cast", inside, to=self._onnx.helper.np_dtype_to_tensor_dtype(self._dtype))

    def as_columns(self, rows: str) -> str:
        """(S, r) as (S, r, 1)."""
        return self._node("Unsqueeze", rows, self._whole_number(2))

    def times(self, W: np.ndarray, matrices: str) -> str:
        """W times matrices, or W itself if there are none."""
        return self._node("MatMul", self.number(W), matrices) if matrices else self.number(W)

    # What else graphs have

    def powers(self, s: str, t: str, form: Monic) -> list[tuple[str, np.ndarray]]:
        """What monic polynomials are sums of, and the coefficients."""
        found = [s]
        for k in range(2, len(form.powers) + 2):
            found.append(self.product([found[k // 2 - 1], found[k - k // 2 - 1]]))
        parts = list(zip(found, [*form.powers, np.ones_like(form.scale)], strict=True))
        if form.tails is not None:
            parts += [(t, form.tails[0]), (self.clip(t, 1.0, np.inf), form.tails[1])]
        return parts

    def horner(self, s: str, t: str, form: Monic) -> str:
        """Monic polynomials by Horner's rule."""
        value = s
        for c in reversed(form.powers):
            value = self.product([self.sum([value, self.number(c)]), s])
        if form.tails is None:
            return value
        p, q = (self.number(c) for c in form.tails)
        return self.sum([value, self.product([t, p]), self.product([self.clip(t, 1.0, np.inf), q])])

    def hinges(self, t: str, hinges: Hinges) -> list[tuple[str, np.ndarray]]:
        """t and the powers of all hinges, knot by knot, and the coefficients."""
        r, count = len(hinges.slope), len(hinges.knots)
        d = self._node("Relu", self._gemm(t, np.tile(np.eye(r), (count, 1)), np.repeat(-hinges.knots, r)))
        found, power = [(t, hinges.slope[None])], d
        for k in range(1, 1 + max(hinges.jumps)):
            power = power if k == 1 else self.product([power, d])
            if k in hinges.jumps:
                first, c = hinges.jumps[k]
                found.append((self._columns(power, first * r, (first + len(c)) * r, count * r), c))
        return found

    def mapped(self, terms: Sequence[_Term], W: np.ndarray, bias: np.ndarray, straight: str | None = None) -> str:
        """The sum of all terms times W, and what is added."""
        single = [term for term in terms if len(term.C) == 1]
        several = [term for term in terms if len(term.C) > 1]
        value = straight
        if single:
            side_by_side = self.concat([term.name for term in single])
            value = self._gemm(side_by_side, np.hstack([term.matrix(W) for term in single]), bias, straight)
            bias = np.zeros_like(bias)
        for term in several:
            value = self._gemm(term.name, term.matrix(W), bias, value)
        assert value is not None
        return value

    def matmul(self, rows: str, W: np.ndarray) -> str:
        return self._node("MatMul", rows, self.number(W.T))

    def concat(self, parts: list[str]) -> str:
        return parts[0] if len(parts) == 1 else self._node("Concat", *parts, axis=1)

    def _gemm(self, rows: str, W: np.ndarray, bias: np.ndarray, value: str | None = None) -> str:
        """rows W^T + bias + value."""
        if value is None and not bias.any():
            return self.matmul(rows, W)
        given = [] if value is None else [value]
        if bias.any():
            given.append(self.number(bias))
        return self._node("Gemm", rows, self.number(W.T), self.sum(given))

    def _columns(self, name: str, first: int, stop: int, width: int) -> str:
        if (first, stop) == (0, width):
            return name
        return self._node("Slice", name, *(self._whole_number(k) for k in (first, stop, 1)))

    def _whole_number(self, k: int) -> str:
        name = f"{self.place}/k{k}"
        self._constants[(name,)] = self._onnx.numpy_helper.from_array(np.array([k], dtype=np.int64), name)
        return name

    def call_last(self, name: str, output: str) -> None:
        """Give the last node, whose output it is, the name of what leaves the graph."""
        last = self._nodes[-1]
        assert list(last.output) == [output]
        last.output[0] = last.name = name

    def model(self, model: Decoupling, names: tuple[str, ...]) -> Any:
        """All that was collected, with its description."""
        from .. import __version__

        helper = self._onnx.helper
        code = helper.np_dtype_to_tensor_dtype(self._dtype)
        shapes = (["S", model.n_inputs], ["S", model.n_outputs], ["S", model.n_outputs, model.n_inputs])
        given, *taken = (
            helper.make_tensor_value_info(name, code, shape) for name, shape in zip(names, shapes, strict=False)
        )
        read = {name for node in self._nodes for name in node.input}
        constants = [constant for constant in self._constants.values() if constant.name in read]
        graph = helper.make_graph(self._nodes, "decoupling", [given], taken, initializer=constants)
        newer = any(node.op_type == "Gelu" for node in self._nodes)
        imports = [helper.make_opsetid("", self._opset or (_OPSET_OF_GELU if newer else _USUAL_OPSET))]
        return helper.make_model(
            graph,
            opset_imports=imports,
            ir_version=helper.find_min_ir_version_for(imports),  # the oldest one: more programs can read it
            producer_name="decouply",
            producer_version=__version__,
            doc_string=repr(model),
        )

    def _node(self, operator: str, *inputs: str, **attributes: int | str) -> str:
        name = f"{self.place}/n{len(self._nodes) + 1}"
        self._nodes.append(self._onnx.helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name
