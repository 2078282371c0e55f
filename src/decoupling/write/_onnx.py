r"""A decoupling as an ONNX graph, written without PyTorch.

Rows of the input are samples, so a layer reads u_l = z_(l-1) W_(l-1)^T and z_l = g_l(u_l). Polynomials are evaluated by
Horner's rule on their monomial coefficients, all functions of a layer at once:

    z = (...(a_d u + a_(d-1)) u + ...) u + a_0,

which takes MatMul, Mul and Add alone. Trigonometric bases add Cos and Sin; limits on u add Clip. With linear tails the
functions go on along their tangents from the limits, z = g(c) + g'(c) (u - c) with c = clip(u), and Sub comes in.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._checks import as_array, as_count
from .._support._errors import InputError
from .._support._whole_files import check_target, replace_file
from ..bases import AbstractPolynomialBasis, Trigonometric
from ..model._decoupling import Decoupling
from ..model._functions import Functions
from ..model._names import one_line

Dtype = Literal["float32", "float64"]
Outside = Literal["clamp", "linear"]
Limits = tuple[Float[ndarray, " _"], Float[ndarray, " _"]]  # of length r_l, which differs from layer to layer
_DTYPES = ("float32", "float64")
_OUTSIDE = ("clamp", "linear")
_OLDEST_OPSET = 13


def save_onnx(
    model: Decoupling,
    path: str | os.PathLike[str],
    *,
    dtype: Dtype = "float32",
    input_name: str = "x",
    output_name: str = "y",
    opset: int = 17,
    ranges: Sequence[Any] | None = None,
    outside: Outside = "clamp",
) -> None:
    """Write `model` as an ONNX file; see `Decoupling.save_onnx`."""
    if dtype not in _DTYPES:
        raise InputError(f'`dtype` must be "float32" or "float64". Got {dtype!r}.')
    names = _checked_names(input_name, output_name)
    if outside not in _OUTSIDE:
        raise InputError(f'`outside` must be "clamp" or "linear". Got {outside!r}.')
    if outside == "linear" and ranges is None:
        raise InputError('`ranges` must be given for outside="linear": the tangents begin at their ends.')
    limits = _checked_ranges(model, ranges)
    check_target(path)
    onnx = _imported()
    newest = onnx.defs.onnx_opset_version()
    if not _OLDEST_OPSET <= as_count("opset", opset) <= newest:
        raise InputError(
            f"`opset` must be one of {_OLDEST_OPSET}, ..., {newest}, as far as the installed onnx knows. Got {opset}."
        )
    content = _Graph(onnx, dtype, outside).model(model, names, int(opset), limits).SerializeToString()
    with replace_file(path) as stream:
        stream.write(content)


# Checks


def _imported() -> Any:
    try:
        import onnx
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise InputError(
            "`save_onnx` needs the package onnx, which cannot be imported: pip install decoupling[onnx]."
        ) from error
    return onnx


def _checked_names(input_name: Any, output_name: Any) -> tuple[str, str]:
    for argument, name in (("input_name", input_name), ("output_name", output_name)):
        if not isinstance(name, str) or not name.strip() or "/" in name or one_line(name) != name:
            raise InputError(
                f"`{argument}` must be a name without a slash, which names inside the graph have, and without line "
                f"breaks or other control codes. Got {name!r}."
            )
    if input_name == output_name:
        raise InputError(f"`input_name` and `output_name` must differ. Got {input_name!r} for both.")
    return input_name, output_name


def _checked_ranges(model: Decoupling, ranges: Any) -> tuple[Limits | None, ...]:
    if ranges is None:
        return (None,) * model.n_layers
    rule = f"`ranges` must hold {model.n_layers} pairs (low, high), one per layer"
    if isinstance(ranges, str) or not isinstance(ranges, Sequence | ndarray):
        raise InputError(f"{rule}. Got {type(ranges).__name__}.")
    if len(ranges) != model.n_layers:
        raise InputError(f"{rule}. Got {len(ranges)}.")
    return tuple(_limits(f"ranges[{l}]", pair, r) for l, (pair, r) in enumerate(zip(ranges, model.ranks, strict=True)))


def _limits(name: str, pair: Any, rank: int) -> Limits:
    if not isinstance(pair, tuple | list | ndarray) or len(pair) != 2:
        raise InputError(f"`{name}` must be a pair (low, high). Got {pair!r}.")
    low, high = (as_array(f"{name}[{i}]", value, (str(rank),)) for i, value in enumerate(pair))
    if low.shape != (rank,) or high.shape != (rank,) or np.any(low > high):
        raise InputError(
            f"`{name}` must be {rank} lower limits and {rank} upper ones, none below its partner. Got {low} and {high}."
        )
    return low, high


# The graph


class _Graph:
    """Nodes and constants, collected in the order in which they are computed.

    Our own names have a slash in them, such as "1/u" for the arguments of the first layer.
    """

    def __init__(self, onnx: Any, dtype: Dtype, outside: Outside) -> None:
        self._onnx = onnx
        self._outside = outside
        self._dtype = np.dtype(dtype)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def model(
        self, model: Decoupling, names: tuple[str, str], opset: int, limits: tuple[Limits | None, ...]
    ) -> Any:  # an onnx.ModelProto
        from .. import __version__

        x, y = names
        z = x
        for l, (W, g, pair) in enumerate(zip(model.W[:-1], model.g, limits, strict=True), start=1):
            u = self._node("MatMul", f"{l}/u", z, self._constant(f"{l - 1}/W", W.T))
            a, waves = _coefficients(l, g)
            if pair is None:
                z = self._functions(f"{l}", u, a, waves)
                continue
            c = self._clipped(l, u, *pair)
            z = self._functions(f"{l}", c, a, waves)
            if self._outside == "linear":
                slopes = self._functions(f"{l}/slope", c, *_derivatives(a, waves))
                beyond = self._node("Sub", f"{l}/beyond", u, c)
                z = self._node("Add", f"{l}/tails", z, self._node("Mul", f"{l}/rise", slopes, beyond))
        self._node("MatMul", y, z, self._constant(f"{model.n_layers}/W", model.W[-1].T))
        helper = self._onnx.helper
        code = helper.np_dtype_to_tensor_dtype(self._dtype)
        graph = helper.make_graph(
            self._nodes,
            "decoupling",
            [helper.make_tensor_value_info(x, code, ["S", model.n_inputs])],
            [helper.make_tensor_value_info(y, code, ["S", model.n_outputs])],
            initializer=self._constants,
        )
        imports = [helper.make_opsetid("", opset)]
        return helper.make_model(
            graph,
            opset_imports=imports,
            ir_version=helper.find_min_ir_version_for(imports),  # the oldest one: more programs can read it
            producer_name="decoupling",
            producer_version=__version__,
            doc_string=repr(model),
        )

    def _functions(self, at: str, u: str, a: Float[ndarray, "r e"], waves: Float[ndarray, "r k"]) -> str:
        """z_j = g_j(u_j): a polynomial, which holds all constants, plus waves."""
        z = self._polynomial(at, u, a) if a.shape[1] > 1 else None
        for i in range(waves.shape[1]):  # cos u, sin u, cos 2u, sin 2u, ...
            k, odd = i // 2 + 1, i % 2
            if k > 1 and not odd:
                self._node("Mul", f"{at}/u{k}", u, self._constant(f"{at}/k{k}", np.array(float(k))))
            value = self._node("Sin" if odd else "Cos", f"{at}/wave{i + 1}", u if k == 1 else f"{at}/u{k}")
            term = self._node("Mul", f"{at}/term{i + 1}", value, self._constant(f"{at}/b{i + 1}", waves[:, i]))
            z = term if z is None else self._node("Add", f"{at}/sum{i + 1}", z, term)
        constants = self._constant(f"{at}/a0", a[:, 0]) if a.shape[1] == 1 else None
        if z is None:
            assert constants is not None
            return constants  # slopes of straight lines
        return z if constants is None else self._node("Add", f"{at}/z", z, constants)

    def _polynomial(self, at: str, u: str, a: Float[ndarray, "r e"]) -> str:
        d = a.shape[1] - 1
        p = self._constant(f"{at}/a{d}", a[:, d])
        for k in range(d - 1, -1, -1):
            product = self._node("Mul", f"{at}/pu{k}", p, u)
            p = self._node("Add", f"{at}/p{k}", product, self._constant(f"{at}/a{k}", a[:, k]))
        return p

    def _clipped(self, l: int, u: str, low: Float[ndarray, " r"], high: Float[ndarray, " r"]) -> str:
        """u within its limits. Clip takes one pair of numbers: ranges of several kinds are mapped to [-1, 1] for it."""
        if np.all(low == low[0]) and np.all(high == high[0]):
            ends = self._constant(f"{l}/low", low[0]), self._constant(f"{l}/high", high[0])
            return self._node("Clip", f"{l}/clipped", u, *ends)
        middle, half = high / 2.0 + low / 2.0, high / 2.0 - low / 2.0
        inverse = np.divide(1.0, half, out=np.zeros_like(half), where=half > 0.0)  # no width: everything goes to 0
        scaled = self._node("Mul", f"{l}/scaled", u, self._constant(f"{l}/inverse", inverse))
        centred = self._node("Add", f"{l}/centred", scaled, self._constant(f"{l}/shift", -middle * inverse))
        ends = self._constant(f"{l}/low", np.array(-1.0)), self._constant(f"{l}/high", np.array(1.0))
        within = self._node("Clip", f"{l}/within", centred, *ends)
        wide = self._node("Mul", f"{l}/wide", within, self._constant(f"{l}/half", half))
        return self._node("Add", f"{l}/clipped", wide, self._constant(f"{l}/middle", middle))

    def _node(self, operator: str, output: str, *inputs: str) -> str:
        self._nodes.append(self._onnx.helper.make_node(operator, list(inputs), [output], name=output))
        return output

    def _constant(self, name: str, value: Any) -> str:
        with np.errstate(over="ignore"):
            array = np.array(value, dtype=self._dtype, order="C")
        if not np.all(np.isfinite(array)):
            wider = 'use dtype="float64", or ' if self._dtype == np.float32 else ""
            raise InputError(
                f"The model must have weights, coefficients and limits within what {self._dtype} can hold. Got "
                f"{np.max(np.abs(value)):.3g} for {name}: {wider}rescale the model with `Decoupling.canonical`."
            )
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name


def _coefficients(l: int, g: Functions) -> tuple[Float[ndarray, "r e"], Float[ndarray, "r k"]]:
    """Coefficients over 1, u, u^2, ... and over cos u, sin u, cos 2u, ...; both have a row for every function."""
    polynomial = [b.size if isinstance(b, AbstractPolynomialBasis) else 0 for b in g.layer.bases]
    a = np.zeros((g.rank, 1 + max(polynomial)))
    waves = np.zeros((g.rank, max(b.size if isinstance(b, Trigonometric) else 0 for b in g.layer.bases)))
    a[:, 0] = g.constants
    for j, basis in enumerate(g.layer.bases):
        c = g.C[j, 1 : 1 + basis.size]
        if isinstance(basis, AbstractPolynomialBasis):
            a[j, 1 : 1 + basis.size] = c @ basis.to_monomials()
        elif isinstance(basis, Trigonometric):
            waves[j, : basis.size] = c
        else:
            raise InputError(
                "The model must use polynomial or trigonometric bases to be written as ONNX. Got "
                f"{type(basis).__name__} in layer {l}: fit one of ours to its functions first."
            )
    return a, waves


def _derivatives(
    a: Float[ndarray, "r e"], waves: Float[ndarray, "r k"]
) -> tuple[Float[ndarray, "r f"], Float[ndarray, "r q"]]:
    """The same for the derivatives: k a_k u^(k-1), and (b cos ku + c sin ku)' = -k b sin ku + k c cos ku."""
    slopes = a[:, 1:] * np.arange(1, a.shape[1]) if a.shape[1] > 1 else np.zeros((len(a), 1))
    pairs = np.zeros((len(a), 2 * -(-waves.shape[1] // 2)))
    k = np.arange(1, 1 + pairs.shape[1] // 2)
    even = np.zeros_like(pairs)
    even[:, : waves.shape[1]] = waves
    pairs[:, 0::2], pairs[:, 1::2] = k * even[:, 1::2], -k * even[:, 0::2]
    return slopes, pairs
