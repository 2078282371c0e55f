r"""All data of a fit, differentiated with respect to all parameters of the model.

Z is the table of these derivatives. Its singular values and vectors say which parameters the data determine
(`_identifiability`), how well, and what a fit leaves of samples that it has not seen (`_uncertainty`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from ..._support._errors import InputError
from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...samples._portions import Portion, fold
from ...samples._samples import Samples
from ..least_squares._derivatives import Chain, run_chain
from ..least_squares._fitting_problem import FittingProblem, smoothing_weights_at
from ..least_squares._parameters import (
    Parameters,
    Unknowns,
    balance_parameters,
    existing_coefficients,
    parameters_of,
)
from ..least_squares._roughness_penalty import FIRST_WEIGHT, Penalty
from ..least_squares._variable_projection import Complete
from ..problem._problem import Problem
from ..problem._weighted_rows import RowScaling
from ..varpro._streamed_gauss_newton import extreme_points

_RANK_TOLERANCE = 1e-9  # singular values of Z with unit columns below this share of the largest count as 0
_NEGLIGIBLE_EFFECT = 1e-11  # parameters whose whole block changes the data by less than this, relative to their size
_MAX_PARAMETERS = 3000  # whose singular value decomposition takes seconds
_PILOT_SAMPLES = 10_000  # of a store, by which functions are scaled
# Of the table of derivatives: more takes longer than a drawing.
_MAX_QUICK_PARAMETERS, _MAX_QUICK_NUMBERS = 1000, 10_000_000
_MAX_INPUTS_UNCOMPRESSED = 8  # with more, directions that the function does not depend on are left out


@dataclass(frozen=True)
class Residuals:
    """What the model leaves of the data, in groups: the values and the Jacobians of every output."""

    squares: Float[ndarray, " G"]  # sums by group
    counts: Float[ndarray, " G"]  # numbers that the weights see there
    group: Int[ndarray, " R"]  # of every row of the table
    of_values: Int[ndarray, " n"]  # groups of the values of every output; empty without values


@dataclass(frozen=True)
class Linearisation:
    """The singular value decomposition of Z at a model, and what it takes to use it."""

    model: Decoupling
    samples: Samples
    fixed: Collection[str]  # names of the parts that are no unknowns
    problem: Problem
    table: Float[ndarray, "R N"]  # Z with columns of unit length, those of unknowns that change nothing being 0
    roughness: Float[ndarray, "K N"]  # rows that hold functions smooth, in the same columns
    ridge: float
    theta: Parameters
    unknowns: Unknowns
    chain: Chain
    left: Float[ndarray, "R k"]  # of the rows of the data
    left_of_penalties: Float[ndarray, "P k"]  # of the rows of the ridge, then of those of roughness
    singular: Float[ndarray, " k"]
    right: Float[ndarray, "k N"]
    column_size: Float[ndarray, " N"]
    free: Bool[ndarray, " N"]
    dead: Bool[ndarray, " N"]
    residuals: Residuals
    residual: Float[ndarray, "S q n"] | None  # of the rows of the data; None where these are triangles

    @property
    def rank(self) -> int:
        if not self.singular.size or self.singular[0] == 0.0:
            return 0
        return int(np.count_nonzero(self.singular > _RANK_TOLERANCE * self.singular[0]))

    def without_penalties(self) -> Linearisation:
        """The same without ridge and roughness."""
        return self._with(0.0, self.roughness[:0]) if self.left_of_penalties.size else self

    def without_ridge(self) -> Linearisation:
        """The same with roughness alone."""
        return self._with(0.0, self.roughness) if self.ridge > 0.0 else self

    def _with(self, ridge: float, roughness: Float[ndarray, "K N"]) -> Linearisation:
        rows = [self.table, *_ridge_rows(ridge, self.column_size, self.free & ~self.dead), roughness]
        return dataclasses.replace(self, ridge=ridge, roughness=roughness, **_decompose(rows))

    @cached_property
    def null_space(self) -> Float[ndarray, "k N"]:
        """Moves of the free unknowns that change no row: orthonormal rows, in the scale of the columns."""
        right, held = self.right[: self.rank], np.eye(len(self.free))[~self.free]
        used = np.concatenate([right, held])  # orthonormal: held columns of the table are 0
        return np.linalg.svd(used, full_matrices=True)[2][len(used) :] if len(used) else np.eye(len(self.free))

    def moves(self, rows: Float[ndarray, "k N"]) -> Parameters:
        """Moves in the scale of the columns as moves of the parameters."""
        return self.unknowns.split(rows / self.column_size, self.theta)


def is_quick(model: Decoupling, samples: Samples) -> bool:
    """Whether the samples are in memory and the table of derivatives is small enough to be made for a drawing."""
    n = model.n_parameters
    return samples.in_memory and n <= _MAX_QUICK_PARAMETERS and samples.n_numbers * n <= _MAX_QUICK_NUMBERS


def linearise(
    model: Decoupling,
    samples: Samples,
    fixed: Collection[str] = (),
    ridge: float = 0.0,
    *,
    smoothed: bool = False,
    balanced: bool = False,
) -> Linearisation:
    """Differentiate all data with respect to all parameters that are free.

    A ridge is one more row per parameter, and a penalty on roughness some rows per function, all without noise; `left`
    and `residual` keep the rows of the data. Of all ways to write a model, a ridge leads to the one with the smallest
    parameters, which `balanced` asks for.
    """
    layers = tuple(g.layer for g in model.g)
    if smoothed and not samples.in_memory:
        raise InputError(
            "`samples` must be in memory to tell how well smoothed functions are determined. Got stored ones: ask "
            "with some of them, `samples.pilot(10_000)`."
        )
    if samples.in_memory:
        problem = Problem.build(
            samples, layers, linear=model.linear is not None, compress=samples.n_inputs > _MAX_INPUTS_UNCOMPRESSED
        )
        table = _all_rows(problem, model, balanced=balanced)
    else:
        problem, table = _triangles(samples, layers, model, balanced=balanced)
    theta, unknowns = table.theta, Unknowns.of(problem.layers)
    Z = table.Z
    size = np.linalg.norm(Z, axis=0)
    there = theta.map(np.ones_like)  # unknowns that exist and were not held are free
    for layer, c in zip(problem.layers, there.c, strict=True):
        c[:] = existing_coefficients(layer, c.shape[-1])
    free = (unknowns.flatten(there)[0] > 0.0) & unknowns.mask(theta, fixed)
    # The functions of a canonical model have unit scale, so a column times the size of its row of parameters is what
    # that row does to the data. Columns of rounding would look like any other once they are scaled to unit length.
    reach = unknowns.flatten(_row_sizes(theta))[0]
    dead = size * np.maximum(reach, 1.0) <= _NEGLIGIBLE_EFFECT * max(1.0, table.size)
    used = free & ~dead
    unit = np.where(used, size, 1.0)
    scaled = np.where(used, Z, 0.0) / unit
    rough = np.zeros((0, len(unit)))
    if smoothed:  # what holds functions smooth, with the weights that the data ask for
        penalty = Penalty.of(problem.layers, FIRST_WEIGHT, everything=False)
        equations = FittingProblem(problem, lam=1.0, ridge=0.0, fixed={}, penalty=penalty)
        if equations.penalty is not None:
            rough = smoothing_weights_at(equations, theta)[0].rows(theta, unknowns)
    rough = np.where(used, rough, 0.0) / unit
    return Linearisation(
        model=model,
        samples=samples,
        fixed=fixed,
        problem=problem,
        table=scaled,
        roughness=rough,
        ridge=ridge,
        theta=theta,
        unknowns=unknowns,
        chain=run_chain(problem.layers, theta.inner, table.X),
        column_size=unit,
        free=free,
        dead=dead,
        residuals=table.residuals,
        residual=table.residual,
        **_decompose([scaled, *_ridge_rows(ridge, unit, used), rough]),
    )


def _ridge_rows(ridge: float, unit: Float[ndarray, " N"], used: Bool[ndarray, " N"]) -> list[Float[ndarray, "N N"]]:
    return [np.sqrt(ridge) * np.diag(np.where(used, 1.0 / unit, 0.0))] if ridge > 0.0 else []


def _decompose(tables: list[Float[ndarray, "_ N"]]) -> dict[str, Any]:
    """Singular vectors and values of a table of data with the rows of penalties below it."""
    left, singular, right = np.linalg.svd(np.concatenate(tables), full_matrices=False)
    R = len(tables[0])
    return {"left": left[:R], "left_of_penalties": left[R:], "singular": singular, "right": right}


@dataclass(frozen=True)
class _Table:
    """Derivatives of all data with respect to all parameters, or triangles that are as good."""

    theta: Parameters
    Z: Float[ndarray, "R N"]
    X: Float[ndarray, "S k"]  # where the arguments of functions are looked at
    size: float  # of the data
    residuals: Residuals
    residual: Float[ndarray, "S q n"] | None


def _all_rows(problem: Problem, model: Decoupling, *, balanced: bool) -> _Table:
    """Every row of the data as it is."""
    theta, N = _parameters(problem, model, balanced=balanced)
    rows = problem.rows(1.0)
    complete = Complete(rows, problem.layers, problem.linear)
    chain = run_chain(problem.layers, theta.inner, rows.X)
    Z = complete.derivatives(theta, chain, slice(None))[0].transpose(3, 2, 1, 0).reshape(-1, N)
    residual = complete.residual(theta, chain)[0]
    (S, q, n), o = residual.shape, int(rows.values)
    outputs = np.arange(n)
    group = np.tile(np.concatenate([outputs + n * (i >= o and o) for i in range(q)]), S)
    seen = (rows.weigh_rows(np.ones((1, S, q, n)))[0] > 0.0).ravel()
    squares, counts = (np.bincount(group, weights=w) for w in ((residual**2).ravel(), seen.astype(float)))
    residuals = Residuals(squares, counts, group, outputs[: n * o])
    return _Table(theta, Z, rows.X, float(np.linalg.norm(rows.Y)), residuals, residual)


def _triangles(
    samples: Samples, layers: tuple[LayerBasis, ...], model: Decoupling, *, balanced: bool
) -> tuple[Problem, _Table]:
    """The same for samples anywhere: a triangle for the rows of values, and one for those of Jacobians.

    Functions are scaled by a part of the samples that includes the extreme ones. All outputs are one group here.
    """
    whole = Problem.build(samples, layers, linear=model.linear is not None)
    problem = whole.of_pilot(samples.pilot(_PILOT_SAMPLES))
    theta, _ = _parameters(problem, model, balanced=balanced)
    scaling = whole.prepared.row_scaling(1.0)
    found = whole.prepared.reduce(
        triangles_task, scaling, layers, whole.linear, theta, join=("qr", "qr", "sum", "sum", "sum")
    )
    extremes = extreme_points(whole.prepared, layers, theta)
    kinds = [(R, squares[0], count) for R, squares, count in zip(found[:2], found[2:4], found[4], strict=True) if count]
    Z = np.concatenate([R for R, _, _ in kinds])
    residuals = Residuals(
        np.array([squares for _, squares, _ in kinds]),
        np.array([count for _, _, count in kinds], dtype=float),
        np.repeat(np.arange(len(kinds)), [len(R) for R, _, _ in kinds]),
        np.zeros(samples.n_outputs * samples.has_values, dtype=int),
    )
    size = float(np.sqrt(whole.prepared.zero_cost(scaling)))
    X = np.concatenate([problem.X, extremes])
    return problem, _Table(theta, Z, X, size, residuals, None)


def triangles_task(
    portion: Portion, scaling: RowScaling, layers: tuple[LayerBasis, ...], linear: bool, theta: Parameters
) -> tuple[ndarray, ...]:
    """Derivatives of values and of Jacobians as tall tables, squares of their residuals, and their counts."""
    rows = scaling.rows(portion)
    complete = Complete(rows, layers, linear)
    chain = run_chain(layers, theta.inner, rows.X)
    N, o = Unknowns.of(layers).count(theta), int(rows.values)
    residual = complete.residual(theta, chain)[0]
    of_F, of_J = np.zeros((0, N)), np.zeros((0, N))
    for part in rows.chunks(1, N):
        Z = complete.derivatives(theta, chain, part)[0].transpose(3, 2, 1, 0)  # (s, q, n, N)
        values, jacobians = Z[:, :o].reshape(-1, N), Z[:, o:].reshape(-1, N)
        (of_F,) = fold([(of_F,), (values,)], "qr")
        (of_J,) = fold([(of_J,), (jacobians,)], "qr")
    squares = (np.array([np.sum(residual[:, :o] ** 2)]), np.array([np.sum(residual[:, o:] ** 2)]))
    counts = np.array([residual[:, :o].size, residual[:, o:].size], dtype=float)
    return of_F, of_J, *squares, counts


def _parameters(problem: Problem, model: Decoupling, *, balanced: bool) -> tuple[Parameters, int]:
    """The parameters of the model as a batch of one, the smallest if `balanced`, and how many unknowns these are."""
    theta = parameters_of(problem, model)
    count = Unknowns.of(problem.layers).count(theta)
    if count > _MAX_PARAMETERS:
        raise InputError(
            f"The model must have at most {_MAX_PARAMETERS} parameters for this. Got {count}: ask about a smaller one."
        )
    return (balance_parameters(problem.layers, theta) if balanced else theta), count


def _row_sizes(theta: Parameters) -> Parameters:
    """The length of the row of parameters that each one belongs to; b_l is one more column of W_l."""
    sizes = theta.map(lambda p: np.broadcast_to(np.linalg.norm(p, axis=-1, keepdims=True), p.shape).copy())
    for W, b, of_W, of_b in zip(theta.W, theta.b, sizes.W, sizes.b, strict=False):
        of_b[:] = np.sqrt(np.sum(W**2, axis=-1) + b**2)
        of_W[:] = of_b[..., None]
    return sizes
