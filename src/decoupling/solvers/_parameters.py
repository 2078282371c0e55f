"""The parameters of a model as a list of arrays, and its parts by name: "W0", "g1", "W1", ..."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from .._support._checks import as_array
from .._support._errors import InputError
from ..bases import LayerBasis
from ..model._decoupling import Decoupling
from ..model._functions import Functions
from ._chain import Parameters
from ._problem import Problem


def exists(layer: LayerBasis, width: int) -> Bool[ndarray, "r e"]:
    """Which coefficients of a layer belong to a basis function; `width` tells whether the constant is among them."""
    sizes = np.array(layer.sizes)[:, None] + (width - layer.size)
    return np.arange(width) < sizes


def blank_parameters(problem: Problem) -> Parameters:
    """Zeros of the right shapes, batch of one: W_0, c_1, ..., W_(L-1), c_L with constants, W_L."""
    dims = problem.dims
    blank: Parameters = []
    for l, layer in enumerate(problem.layers):
        last = l == len(problem.layers) - 1
        blank += [np.zeros((1, dims[l + 1], dims[l])), np.zeros((1, dims[l + 1], layer.size + last))]
    return [*blank, np.zeros((1, dims[-1], dims[-2]))]


def parameters_of(problem: Problem, model: Decoupling) -> list[ndarray]:
    """The parameters of a model in the coordinates of the problem."""
    samples = problem.samples
    layers = tuple(g.layer for g in model.g)
    if (model.n_inputs, model.n_outputs, layers) != (samples.n_inputs, samples.n_outputs, problem.layers):
        wanted = " and ".join(repr(layer.shared or layer.bases) for layer in problem.layers)
        raise InputError(
            f"`start` must have {samples.n_inputs} inputs, ranks {problem.dims[1:-1]}, {samples.n_outputs} outputs and "
            f"the bases {wanted}. Got {model!r} with {' and '.join(repr(g.basis) for g in model.g)}."
        )
    plain = model.without_inner_constants()
    W0 = plain.W[0] if problem.U is None else plain.W[0] @ problem.U
    parameters: list[ndarray] = []
    for l, g in enumerate(plain.g):
        last = l == len(plain.g) - 1
        parameters += [W0 if l == 0 else plain.W[l], g.C if last else g.C[:, 1:]]
    return [*parameters, plain.W[-1]]


def check_fixed(fixed: Mapping[str, object], problem: Problem) -> None:
    """Every fixed part must have a known name and the right shape."""
    for name, value in fixed.items():
        fixed_parameter(name, value, problem)


def fixed_parameter(name: str, value: object, problem: Problem) -> tuple[int, ndarray]:
    """Position in the list of parameters and value of a fixed part."""
    L = len(problem.layers)
    names = [f"W{l}" for l in range(L + 1)] + [f"g{l}" for l in range(1, L + 1)]
    if name not in names:
        raise InputError(f"`fixed` must name parts of the model: {', '.join(names)}. Got {name!r}.")
    l = int(name[1:])
    blank = blank_parameters(problem)
    index = position(name, L)
    if name[0] == "g":
        if not isinstance(value, Functions) or value.layer != problem.layers[l - 1]:
            raise InputError(f"`fixed[{name!r}]` must be dc.Functions with the bases of layer {l}. Got {value!r}.")
        if l < L and value.constants.any():
            raise InputError(f"`fixed[{name!r}]` must have constants 0, as every inner layer. Got {value.constants}.")
        array: ndarray = value.C if l == L else value.C[:, 1:]
    else:
        array = as_array(f"fixed[{name!r}]", value, (f"r[{l + 1}]", f"r[{l}]"))
        if l == 0 and problem.U is not None:
            array = array @ problem.U
    if array.shape != blank[index].shape[1:]:
        raise InputError(f"`fixed[{name!r}]` must have shape {blank[index].shape[1:]}. Got {array.shape}.")
    return index, array


def free_mask(fixed: Mapping[str, object], template: Parameters) -> Bool[ndarray, " N"] | None:
    """Which entries of all parameters may move; None for all."""
    if not fixed:
        return None
    L = len(template) // 2
    held = {position(name, L) for name in fixed}
    return np.concatenate([np.full(p[0].size, i not in held) for i, p in enumerate(template)])


def position(name: str, n_layers: int) -> int:
    """Where a part stands in the list of parameters."""
    l = int(name[1:])
    return 2 * l - 1 if name[0] == "g" else 2 * min(l, n_layers)
