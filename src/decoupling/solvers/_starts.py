"""Where alternating solvers begin: random factors, or the factors of a given decoupling."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy import ndarray

from .._support._checks import as_number
from .._support._errors import InputError
from ..model._decoupling import Decoupling
from ._iterate import Iterate
from ._problem import Problem
from ._sweep import explicit_residual, value_residual


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
        scale=[np.ones((n_starts, rank)) for rank in dims[1:-1]],
        C=[np.zeros((n_starts, len(layer.bases), 1 + layer.size)) for layer in problem.layers],
        G=[np.stack([b[1][l] for b in batches]) for l in range(len(dims) - 2)],
        R=np.stack([b[2] for b in batches]),
    )
    if isinstance(start, Decoupling):
        _insert(factors, problem, start)
    return factors


def _insert(factors: Iterate, problem: Problem, model: Decoupling) -> None:
    samples = problem.samples
    wanted = tuple(len(layer.bases) for layer in problem.layers)
    if (model.n_inputs, model.n_outputs, model.ranks) != (samples.n_inputs, samples.n_outputs, wanted):
        raise InputError(
            f"`start` must have {samples.n_inputs} inputs, ranks {wanted} and {samples.n_outputs} outputs. "
            f"Got {model!r}."
        )
    model = model.without_inner_constants()
    known = model.factors(samples.X)
    W0 = model.W[0] if problem.U is None else model.W[0] @ problem.U
    for l, W in enumerate((W0, *model.W[1:])):
        factors.W[l][0] = W
    for l, G in enumerate(known.G):
        factors.G[l][0] = G
    factors.R[0] = model.g[-1](model.inner_inputs(samples.X)[-1])
    if all(g.layer == layer for g, layer in zip(model.g, problem.layers, strict=True)):
        for l, g in enumerate(model.g):
            factors.C[l][0] = g.C
        given = factors.take(np.array([0]))
        factors.residual_J[0] = explicit_residual(problem, given)[0]
        factors.residual_F[0] = value_residual(problem, given)[0]
