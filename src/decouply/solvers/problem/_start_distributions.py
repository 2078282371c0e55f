"""Where alternating solvers begin: random factors, or the factors of a given decoupling."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_number
from ..._support._errors import InputError
from ..._support._messages import short_repr
from ...model._decoupling import Decoupling
from ..alternating._iterate import Iterate
from ..alternating._sweep import explicit_residual, value_residual
from ._problem import Problem

MOST_STARTS = 1_000_000  # more is a slip: their random numbers alone would take for ever


class AbstractStart(abc.ABC):
    """A distribution of start values. Subclass it to use your own."""

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
        """Random entries for one factor, of the given shape."""


@dataclass(frozen=True)
class Uniform(AbstractStart):
    """Entries uniform between `low` and `high`; the paper's choice is 0.1 to 10."""

    low: float = 0.1
    high: float = 10.0

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            as_number(name, getattr(self, name), least=-1e300)
        if not self.low < self.high:
            raise InputError(f"`low` must be below `high`. Got {self.low} and {self.high}.")

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
        return rng.uniform(self.low, self.high, shape)


@dataclass(frozen=True)
class Normal(AbstractStart):
    """Entries normal with mean 0."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        as_number("scale", self.scale, above=True)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
        return rng.normal(0.0, self.scale, shape)


@dataclass(frozen=True)
class Orthonormal(AbstractStart):
    """Matrices with orthonormal rows or columns, whichever are fewer, in random directions."""

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
        tall = rng.normal(size=(max(shape), min(shape)))
        Q, R = np.linalg.qr(tall)
        Q = Q * np.sign(np.diagonal(R))  # uniform over all directions
        return Q if shape[0] >= shape[1] else Q.T


def draw_factors(
    problem: Problem, start: AbstractStart | Decoupling, n_starts: int, rng: np.random.Generator
) -> Iterate:
    """A batch of starts. A given decoupling is the first one; the others are drawn as the paper does."""
    random_start = Uniform() if isinstance(start, Decoupling) else start
    dims, S = problem.dims, problem.samples.n_samples
    # Start by start, so that start k is the same however many there are.
    batches = [
        (
            [random_start.draw(rng, (rows, columns)) for columns, rows in pairwise(dims)],
            [random_start.draw(rng, (S, rank)) for rank in dims[1:-1]],
            random_start.draw(rng, (S, dims[-2])),
        )
        for _ in range(n_starts)
    ]
    factors = Iterate.unrated(
        W=[np.stack([b[0][l] for b in batches]) for l in range(len(dims) - 1)],
        domain=[np.tile([-1.0, 1.0], (n_starts, rank, 1)) for rank in dims[1:-1]],
        C=[np.zeros((n_starts, len(layer.bases), 1 + layer.size)) for layer in problem.layers],
        G=[np.stack([b[1][l] for b in batches]) for l in range(len(dims) - 2)],
        R=np.stack([b[2] for b in batches]),
        A=np.tile(mean_jacobian(problem), (n_starts, 1, 1)) if problem.linear else None,
    )
    if isinstance(start, Decoupling):
        _insert(factors, problem, start)
    return factors


def mean_jacobian(problem: Problem) -> Float[ndarray, "n k"]:
    """The linear part that fits best alone."""
    assert problem.J is not None
    return problem.J.sum(axis=0) / len(problem.J)


def _insert(factors: Iterate, problem: Problem, model: Decoupling) -> None:
    samples = problem.samples
    wanted = tuple(len(layer.bases) for layer in problem.layers)
    if (model.n_inputs, model.n_outputs, model.ranks) != (samples.n_inputs, samples.n_outputs, wanted):
        raise InputError(
            f"`start` must have {samples.n_inputs} inputs, ranks {wanted} and {samples.n_outputs} outputs. "
            f"Got {short_repr(model)}."
        )
    plain = problem.units.to_standard(model).without_inner_constants()
    u = plain.arguments(problem.X)
    for l, W in enumerate(plain.W):
        factors.W[l][0] = W
    if factors.A is not None:
        factors.A[0] = 0.0 if plain.linear is None else plain.linear
    for l, (g, argument) in enumerate(zip(plain.g, u, strict=True)):
        factors.G[l][0] = g.slopes(argument)
    constants = 0.0 if plain.offset is None else np.linalg.lstsq(plain.W[-1], plain.offset, rcond=None)[0]
    factors.R[0] = plain.g[-1].values(u[-1]) + constants
    if all(g.layer == layer for g, layer in zip(plain.g, problem.layers, strict=True)):
        for l, g in enumerate(plain.g):
            factors.C[l][0], factors.domain[l][0] = g.C, g.domain
        factors.C[-1][0, :, 0] += constants
        given = factors.take(np.array([0]))
        factors.residual_J[0] = explicit_residual(problem, given)[0]
        factors.residual_F[0] = value_residual(problem, given)[0]
