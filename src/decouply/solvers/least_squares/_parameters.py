"""The parameters of a model as a list of arrays, and its parts by name: "W0", "g1", "W1", ..."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ..._support._arguments import as_array
from ..._support._errors import InputError, short_repr
from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ..problem._problem import Problem
from ._derivatives import Parameters
from ._rescaling import absorb_domain, with_offset


def existing_coefficients(layer: LayerBasis, width: int) -> Bool[ndarray, "r e"]:
    """Which coefficients of a layer belong to a basis function; `width` tells whether the constant is among them."""
    sizes = np.array(layer.sizes)[:, None] + (width - layer.size)
    return np.arange(width) < sizes


def blank_parameters(problem: Problem) -> Parameters:
    """Zeros of the right shapes, batch of one: W_0 with b_0, c_1, ..., W_(L-1), c_L with constants, W_L, and A."""
    dims = problem.dims
    blank: Parameters = []
    for l, layer in enumerate(problem.layers):
        last = l == len(problem.layers) - 1
        blank += [np.zeros((1, dims[l + 1], dims[l] + 1)), np.zeros((1, dims[l + 1], layer.size + last))]
    blank.append(np.zeros((1, dims[-1], dims[-2])))
    return [*blank, np.zeros((1, dims[-1], dims[0]))] if problem.linear else blank


def parameters_of(problem: Problem, model: Decoupling) -> list[ndarray]:
    """The parameters of a model in the units of the problem."""
    samples = problem.samples
    layers = tuple(g.layer for g in model.g)
    if (model.n_inputs, model.n_outputs, layers) != (samples.n_inputs, samples.n_outputs, problem.layers):
        wanted = " and ".join(repr(layer.shared or layer.bases) for layer in problem.layers)
        raise InputError(
            f"`start` must have {samples.n_inputs} inputs, ranks {problem.dims[1:-1]}, {samples.n_outputs} outputs and "
            f"the bases {wanted}. Got {short_repr(model)} with {' and '.join(repr(g.basis) for g in model.g)}."
        )
    if model.linear is not None and not problem.linear:
        raise InputError("`start` must have no linear part unless linear=True. Got one: give linear=True.")
    plain = problem.units.to_standard(model).without_inner_constants()
    parameters: list[ndarray] = []
    for l, g in enumerate(plain.g):
        last = l == len(plain.g) - 1
        parameters += [
            absorb_domain(with_offset(plain.W[l]), g.middle, g.half_width),
            g.C.copy() if last else g.C[:, 1:],
        ]
    if plain.offset is not None:
        parameters[-1][:, 0] += np.linalg.lstsq(plain.W[-1], plain.offset, rcond=None)[0]
    parameters.append(plain.W[-1])
    if problem.linear:
        parameters.append(np.zeros((problem.dims[-1], problem.dims[0])) if plain.linear is None else plain.linear)
    return parameters


@dataclass(frozen=True)
class Fixed:
    """Parts of a model that were given, in the form of parameters of the problem as given.

    `middle` and `half` say, for every layer, what arguments are written relative to: the domains of given functions,
    or the range that a given W_0 leads to. Elsewhere they are 0 and 1.
    """

    values: dict[int, ndarray]  # by position in the list of parameters
    middle: tuple[Float[ndarray, " _"], ...]
    half: tuple[Float[ndarray, " _"], ...]
    given: Mapping[str, object]

    @classmethod
    def of(cls, given: Mapping[str, object], problem: Problem) -> Fixed:
        """Check names and shapes; `problem` must be in the units of the user."""
        L, blank = len(problem.layers), blank_parameters(problem)
        names = [f"W{l}" for l in range(L + 1)] + [f"g{l}" for l in range(1, L + 1)]
        matrices: dict[int, ndarray] = {}
        values: dict[int, ndarray] = {}
        middle, half = ([f(r) for r in problem.dims[1:-1]] for f in (np.zeros, np.ones))
        for name, value in given.items():
            if name not in names:
                raise InputError(f"`fixed` must name parts of the model: {', '.join(names)}. Got {short_repr(name)}.")
            l = int(name[1:])
            if name[0] == "g":
                if not isinstance(value, Functions) or value.layer != problem.layers[l - 1]:
                    raise InputError(
                        f"`fixed[{short_repr(name)}]` must be dc.Functions with the bases of layer {l}. Got "
                        f"{short_repr(value)}."
                    )
                if l < L and value.constants.any():
                    raise InputError(
                        f"`fixed[{short_repr(name)}]` must have constants 0, as every inner layer. Got "
                        f"{value.constants}."
                    )
                values[2 * l - 1] = value.C if l == L else value.C[:, 1:]
                middle[l - 1], half[l - 1] = value.middle, value.half_width
                continue
            matrix = as_array(f"fixed[{name!r}]", value, (f"r[{l + 1}]", f"r[{l}]"))
            rows, columns = blank[2 * l].shape[1:]
            wanted = (rows, columns - (l < L))
            if matrix.shape != wanted:
                raise InputError(f"`fixed[{short_repr(name)}]` must have shape {wanted}. Got {matrix.shape}.")
            matrices[l] = matrix
        if 0 in matrices and "g1" not in given:
            u = problem.X @ matrices[0].T
            low, high = u.min(axis=0), u.max(axis=0)
            follows = ~problem.layers[0].free_domain & (high > low)
            middle[0] = np.where(follows, (low + high) / 2.0, 0.0)
            half[0] = np.where(follows, (high - low) / 2.0, 1.0)
        for l, matrix in matrices.items():
            values[2 * l] = matrix if l == L else absorb_domain(with_offset(matrix), middle[l], half[l])
        return cls(values, tuple(middle), tuple(half), given)

    def write_into(self, theta: Parameters) -> None:
        """Write the given parts, and the places that arguments are relative to, into a batch of parameters."""
        for l, (middle, half) in enumerate(zip(self.middle, self.half, strict=True)):
            theta[2 * l][..., -1] = -middle / half
        for index, value in self.values.items():
            theta[index][:] = value

    def restore_in(self, model: Decoupling) -> Decoupling:
        """The model with the given parts in it as they were given."""
        for l, half in enumerate(self.half):
            model = model.scaled(l + 1, half, np.ones_like(half))
        W, g = list(model.W), list(model.g)
        for name, value in self.given.items():
            l = int(name[1:])
            if isinstance(value, Functions):
                g[l - 1] = value
            else:
                W[l] = np.asarray(value)
        return Decoupling(W, g, linear=model.linear, inputs=model.inputs, outputs=model.outputs)


def parameter_position(name: str, n_layers: int) -> int:
    """Where a part stands in the list of parameters."""
    l = int(name[1:])
    return 2 * l - 1 if name[0] == "g" else 2 * min(l, n_layers)
