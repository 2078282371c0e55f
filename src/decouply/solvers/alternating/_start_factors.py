"""Where alternating solvers begin: random factors, or the factors of a given decoupling."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..._support._errors import InputError
from ..._support._messages import short_repr
from ...model._decoupling import Decoupling
from ..problem._problem import Problem
from ..problem._start_distributions import AbstractStart, Uniform
from ._iterate import Iterate
from ._sweep import explicit_residual, value_residual


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
    # The linear part that fits best alone.
    mean_jacobian = problem.J.sum(axis=0) / len(problem.J) if problem.linear and problem.J is not None else None
    factors = Iterate.unrated(
        W=[np.stack([b[0][l] for b in batches]) for l in range(len(dims) - 1)],
        domain=[np.tile([-1.0, 1.0], (n_starts, rank, 1)) for rank in dims[1:-1]],
        C=[np.zeros((n_starts, len(layer.bases), 1 + layer.size)) for layer in problem.layers],
        G=[np.stack([b[1][l] for b in batches]) for l in range(len(dims) - 2)],
        R=np.stack([b[2] for b in batches]),
        A=None if mean_jacobian is None else np.tile(mean_jacobian, (n_starts, 1, 1)),
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
