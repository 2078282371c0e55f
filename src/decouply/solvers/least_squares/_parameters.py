r"""The parameters of models by name: W, b, c and A of a batch, which of them are unknowns, and which are given.

The same model can be written with other parameters. Arguments of all functions are brought over the window, so that the
samples fill it. A ridge would lead to the smallest parameters by many small steps along a curved valley. Values of a
function may be divided by a factor that the next matrix is multiplied by. Arguments of polynomials may be divided by
one that their coefficients take up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ..._support._arguments import as_array
from ..._support._errors import InputError, short_repr
from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ..problem._batched_linalg import combine
from ..problem._problem import Problem

# Arguments that reach no farther than this and fill so much of the window stay: writing them anew costs digits.
_WIDEST_REACH, _NARROWEST_HALF_WIDTH = 1.05, 0.7
WIDTH_OF_CONSTANTS = 1e-13  # arguments whose range is smaller, relative to their size, do not vary
_SMALLEST_SCALE = 1e-100  # what is smaller is not divided by
_BALANCE_ROUNDS = 4  # over all layers, after which parameters hardly become smaller
_ARGUMENT_FACTORS = np.exp(np.linspace(-1.0, 1.0, 81))  # tried in every round


@dataclass(frozen=True)
class Parameters:
    r"""The parameters of a batch of models; the first axis of every array counts the models.

    Functions are evaluated on the window of their basis, at :math:`t_l = W_l z_l + b_l`: `c[l]` are the coefficients of
    the functions behind `W[l]` and `b[l]`, and z_(l+1) is what these give. In inner layers `c` has no constants. The
    last matrix has no `b`. `A` is the linear part, if the model has one. The inner parameters, all that come before the
    functions of the last layer, leave out the last `c`, the last `W` and `A`.

    Models are picked, and written over, by index as in an array: ``theta[:1]``, ``theta[best] = better``.
    """

    W: tuple[Float[ndarray, "B _ _"], ...]
    b: tuple[Float[ndarray, "B _"], ...]
    c: tuple[Float[ndarray, "B _ _"], ...]
    A: Float[ndarray, "B _ _"] | None = None

    def __len__(self) -> int:
        return len(self.W[0])

    def __getitem__(self, models: slice | ndarray) -> Parameters:
        return self.map(lambda p: p[models])

    def __setitem__(self, models: slice | ndarray, others: Parameters) -> None:
        for own, other in zip(self.arrays(), others.arrays(), strict=True):
            own[models] = other

    def arrays(self) -> Iterator[ndarray]:
        """All arrays, kind by kind."""
        yield from (*self.W, *self.b, *self.c)
        if self.A is not None:
            yield self.A

    def map(self, f: Callable[[ndarray], ndarray]) -> Parameters:
        """The same function of every array."""
        W, b, c = tuple(map(f, self.W)), tuple(map(f, self.b)), tuple(map(f, self.c))
        return Parameters(W, b, c, None if self.A is None else f(self.A))

    def combine(self, f: Callable[[ndarray, ndarray], ndarray], other: Parameters) -> Parameters:
        """The same function of every array and the one in its place."""
        others = other.arrays()
        return self.map(lambda p: f(p, next(others)))

    def copy(self) -> Parameters:
        return self.map(np.copy)

    @property
    def inner(self) -> Parameters:
        """All that come before the functions of the last layer."""
        L = len(self.b)
        return Parameters(self.W[:L], self.b, self.c[: L - 1])

    @property
    def is_finite(self) -> bool:
        return all(np.all(np.isfinite(p)) for p in self.arrays())


@dataclass(frozen=True)
class Unknowns:
    """Which of the parameters are unknowns: all but the b_l of layers whose domains follow the samples.

    There b_l is a choice of writing. In a row of all unknowns, the order is W_0, b_0, c_1, W_1, ..., c_L, W_L, A.
    """

    offsets: tuple[bool, ...]  # by layer: whether b_l is to be found

    @classmethod
    def of(cls, layers: tuple[LayerBasis, ...]) -> Unknowns:
        return cls(tuple(bool(layer.free_domain.any()) for layer in layers))

    def _arrays(self, theta: Parameters) -> list[ndarray]:
        """The arrays of unknowns in their order."""
        found, L = [], len(self.offsets)
        for l, W in enumerate(theta.W):
            found.append(W)
            if l < L and self.offsets[l]:
                found.append(theta.b[l])
            if l < len(theta.c):
                found.append(theta.c[l])
        return found if theta.A is None else [*found, theta.A]

    def _names(self, theta: Parameters) -> list[str]:
        """The names of the parts of a model that these arrays belong to; b_l belongs to W_l."""
        found = list[str]()
        for l in range(len(theta.W)):
            found += [f"W{l}"] * (1 + (l < len(self.offsets) and self.offsets[l]))
            found += [f"g{l + 1}"] * (l < len(theta.c))
        return found if theta.A is None else [*found, "A"]

    def first_positions(self, theta: Parameters) -> dict[str, int]:
        """The place where each part, "W0" or "g1", begins in a row of all unknowns."""
        found: dict[str, int] = {}
        at = 0
        for name, part in zip(self._names(theta), self._arrays(theta), strict=True):
            found.setdefault(name, at)
            at += part[0].size
        return found

    def flatten(self, theta: Parameters) -> Float[ndarray, "B N"]:
        """All unknowns of a start in one row."""
        return np.concatenate([p.reshape(p.shape[0], -1) for p in self._arrays(theta)], axis=1)

    def split(self, flat: Float[ndarray, "B N"], like: Parameters) -> Parameters:
        """The inverse of `flatten`, with 0 in place of what is no unknown."""
        out = like.map(lambda p: np.zeros((flat.shape[0], *p.shape[1:])))
        at = 0
        for part in self._arrays(out):
            size = prod(part.shape[1:])
            part[...] = flat[:, at : at + size].reshape(part.shape)
            at += size
        return out

    def after_step(self, theta: Parameters, step: Float[ndarray, "B N"]) -> Parameters:
        """The parameters after a step of the unknowns."""
        return theta.combine(np.add, self.split(step, theta))

    def count(self, theta: Parameters) -> int:
        return sum(int(p[0].size) for p in self._arrays(theta))

    def mask(self, theta: Parameters, held: Collection[str]) -> Bool[ndarray, " N"]:
        """Which unknowns belong to other parts than those that are held, by the names "W0", "g1", ..."""
        parts = zip(self._names(theta), self._arrays(theta), strict=True)
        return np.concatenate([np.full(p[0].size, name not in held) for name, p in parts])


def existing_coefficients(layer: LayerBasis, width: int) -> Bool[ndarray, "r e"]:
    """Which coefficients of a layer belong to a basis function; `width` tells whether the constant is among them."""
    sizes = np.array(layer.sizes)[:, None] + (width - layer.size)
    return np.arange(width) < sizes


def blank_parameters(problem: Problem, size: int = 1) -> Parameters:
    """Zeros of the right shapes for this many models."""
    *ranks, n = problem.dims[1:]
    widths = [layer.size for layer in problem.layers]
    widths[-1] += 1  # constants
    return Parameters(
        tuple(np.zeros((size, rows, columns)) for columns, rows in pairwise(problem.dims)),
        tuple(np.zeros((size, r)) for r in ranks),
        tuple(np.zeros((size, r, width)) for r, width in zip(ranks, widths, strict=True)),
        np.zeros((size, n, problem.dims[0])) if problem.linear else None,
    )


def parameters_of(problem: Problem, model: Decoupling) -> Parameters:
    """The parameters of a model in the units of the problem, as a batch of one."""
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
    theta = blank_parameters(problem)
    for l, g in enumerate(plain.g):
        theta.W[l][0] = plain.W[l] / g.half_width[:, None]
        theta.b[l][0] = -g.middle / g.half_width
        theta.c[l][0] = g.C[:, -theta.c[l].shape[-1] :]
    theta.W[-1][0] = plain.W[-1]
    if plain.offset is not None:
        theta.c[-1][0, :, 0] += np.linalg.lstsq(plain.W[-1], plain.offset, rcond=None)[0]
    if theta.A is not None and plain.linear is not None:
        theta.A[0] = plain.linear
    return theta


@dataclass(frozen=True)
class Fixed:
    """Parts of a model that were given, in the form of parameters of the problem as given.

    `middle` and `half` say, for every layer, what arguments are written relative to: the domains of given functions,
    or the range that a given W_0 leads to. Elsewhere they are 0 and 1.
    """

    values: dict[str, ndarray]  # by name
    middle: tuple[Float[ndarray, " _"], ...]
    half: tuple[Float[ndarray, " _"], ...]
    given: Mapping[str, object]

    @classmethod
    def of(cls, given: Mapping[str, object], problem: Problem) -> Fixed:
        """Check names and shapes; `problem` must be in the units of the user."""
        L, dims = len(problem.layers), problem.dims
        names = [f"W{l}" for l in range(L + 1)] + [f"g{l}" for l in range(1, L + 1)]
        matrices: dict[int, ndarray] = {}
        values: dict[str, ndarray] = {}
        middle, half = ([f(r) for r in dims[1:-1]] for f in (np.zeros, np.ones))
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
                values[name] = value.C if l == L else value.C[:, 1:]
                middle[l - 1], half[l - 1] = value.middle, value.half_width
                continue
            matrix = as_array(f"fixed[{name!r}]", value, (f"r[{l + 1}]", f"r[{l}]"))
            if matrix.shape != (dims[l + 1], dims[l]):
                raise InputError(
                    f"`fixed[{short_repr(name)}]` must have shape {(dims[l + 1], dims[l])}. Got {matrix.shape}."
                )
            matrices[l] = matrix
        if 0 in matrices and "g1" not in given:
            u = problem.X @ matrices[0].T
            low, high = u.min(axis=0), u.max(axis=0)
            follows = ~problem.layers[0].free_domain & (high > low)
            middle[0] = np.where(follows, (low + high) / 2.0, 0.0)
            half[0] = np.where(follows, (high - low) / 2.0, 1.0)
        for l, matrix in matrices.items():
            values[f"W{l}"] = matrix if l == L else matrix / half[l][:, None]
        return cls(values, tuple(middle), tuple(half), given)

    def write_into(self, theta: Parameters) -> None:
        """Write the given parts, and the places that arguments are relative to, into a batch of parameters."""
        for b, middle, half in zip(theta.b, self.middle, self.half, strict=True):
            b[:] = -middle / half
        for name, value in self.values.items():
            l = int(name[1:])
            (theta.W[l] if name[0] == "W" else theta.c[l - 1])[:] = value

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


def rescale_to_window(
    X: Float[ndarray, "S m"], layers: tuple[LayerBasis, ...], theta: Parameters, *, exactly: bool = False
) -> Parameters:
    """The same models with the arguments of all functions over the window, and values of size 1, on the samples.

    The last layer may be there or not. Layers whose arguments nearly fill the window are left alone unless `exactly` is
    asked for; those whose domains are unknowns keep their arguments.
    """
    W, b, c = list(theta.W), list(theta.b), list(theta.c)
    z = X[None]
    for l, layer in enumerate(layers):
        last = l == len(layers) - 1
        t = z @ W[l].mT + b[l][:, None]
        middle, half = visited_range(t, layer, exactly=exactly)
        W[l], b[l] = W[l] / half[..., None], (b[l] - middle) / half
        if l == len(c):
            break
        full = c[l] if last else np.concatenate([np.zeros((*c[l].shape[:-1], 1)), c[l]], axis=-1)
        if np.any(middle != 0.0) or np.any(half != 1.0):
            full = layer.moved(full, half, middle)
        if last:
            c[l] = full
            break
        # A constant moves on into the arguments of the next layer, and so does the size of the values.
        b[l + 1] = b[l + 1] + (W[l + 1] @ full[..., :1])[..., 0]
        z = combine(layer.evaluate((t - middle[:, None]) / half[:, None]), full[..., 1:])
        largest = np.abs(z).max(axis=1)
        beta = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
        c[l], W[l + 1], z = full[..., 1:] / beta[..., None], W[l + 1] * beta[:, None, :], z / beta[:, None]
    return Parameters(tuple(W), tuple(b), tuple(c), theta.A)


def visited_range(
    t: Float[ndarray, "B S r"], layer: LayerBasis, *, exactly: bool
) -> tuple[Float[ndarray, "B r"], Float[ndarray, "B r"]]:
    """Middle and half width of the range of the arguments; 0 and 1 if they are to stay as they are."""
    low, high = t.min(axis=1), t.max(axis=1)
    middle, half = (high + low) / 2.0, (high - low) / 2.0
    stays = (
        layer.free_domain
        | ~np.isfinite(half)
        | (half <= WIDTH_OF_CONSTANTS * np.abs(middle))
        | (half <= _SMALLEST_SCALE)
    )
    if not exactly:
        reach = np.maximum(-low, high)
        stays |= (reach <= _WIDEST_REACH) & (half >= _NARROWEST_HALF_WIDTH)
    return np.where(stays, 0.0, middle), np.where(stays, 1.0, half)


def balance_parameters(layers: tuple[LayerBasis, ...], theta: Parameters) -> Parameters:
    """The same models (a batch of one) with parameters of nearly the smallest squared size."""
    out = theta.copy()
    for _ in range(_BALANCE_ROUNDS):
        for l, layer in enumerate(layers):
            _scale_arguments(layer, out, l)
            # Values: as large before the next matrix as in it.
            C, after = out.c[l], out.W[l + 1]
            size, other = np.linalg.norm(C, axis=-1), np.linalg.norm(after, axis=1)
            lives = (size > _SMALLEST_SCALE) & (other > _SMALLEST_SCALE)
            factor = np.where(lives, np.sqrt(other / np.where(lives, size, 1.0)), 1.0)
            C *= factor[..., None]
            after /= factor[:, None, :]
    return out


def _scale_arguments(layer: LayerBasis, theta: Parameters, l: int) -> None:
    """The best of many factors for the arguments of each function, if its basis takes them up exactly."""
    if layer.free_domain.any() or any(basis.polynomial_degree is None for basis in layer.bases):
        return
    W, b, C = theta.W[l], theta.b[l], theta.c[l]
    missing = 1 + layer.size - C.shape[2]  # constants of inner layers
    full = np.pad(C[0], ((0, 0), (missing, 0)))
    k, r = len(_ARGUMENT_FACTORS), len(full)
    scale = np.broadcast_to(_ARGUMENT_FACTORS[:, None], (k, r))
    tried = layer.moved(np.broadcast_to(full, (k, *full.shape)), scale, np.zeros((k, r)))
    size = np.sum(tried**2, axis=-1) + np.sum(W[0] ** 2, axis=-1) / scale**2
    best = np.argmin(size, axis=0)
    W[0] /= _ARGUMENT_FACTORS[best][:, None]
    b[0] /= _ARGUMENT_FACTORS[best]
    C[0] = tried[best, np.arange(r), missing:]
