r"""Whether a decoupling is locally unique, and how well its functions are determined.

Both follow from the derivatives Z of all data with respect to all parameters at the model. Directions in which Z
vanishes change the parameters and not the data. Some are known: two scalings per internal function (one where the
basis has a scale of its own), constants that no value fixes. More than these mean that the model is one of a family.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ..._support._errors import InputError
from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...samples._portions import Portion, fold
from ...samples._samples import Samples
from ..least_squares._derivatives import Chain, run_chain
from ..least_squares._fitting_problem import FittingProblem, smoothing_weights_at
from ..least_squares._parameters import Parameters, Unknowns, existing_coefficients, parameters_of
from ..least_squares._roughness_penalty import FIRST_WEIGHT, Penalty
from ..least_squares._variable_projection import Complete
from ..problem._batched_linalg import combine
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
class Identifiability:
    """Rank of the derivatives against what it can be at most.

    `locally_unique` says that near this model there is no other with the same data, up to the known ambiguities.
    Parts that were held fixed are not counted.
    """

    rank: int
    n_parameters: int
    n_ambiguities: int
    smallest_singular_value: float

    @property
    def locally_unique(self) -> bool:
        """Whether the data determine all parameters that scalings leave free."""
        return self.rank >= self.n_parameters - self.n_ambiguities

    def __str__(self) -> str:
        free = self.n_parameters - self.n_ambiguities
        if self.locally_unique:
            return (
                f"Locally unique: the data determine all {free} parameters that scalings leave free (smallest singular "
                f"value {self.smallest_singular_value:.1e} of the largest)."
            )
        return (
            f"Not unique: the data determine {self.rank} of {free} parameters; {free - self.rank} more can change "
            "without changing the fit. Lower the ranks or degrees, or give more samples."
        )


@dataclass(frozen=True)
class Linearisation:
    """The singular value decomposition of Z at a model, and what it takes to use it."""

    model: Decoupling
    samples: Samples
    fixed: Collection[str]  # names of the parts that are no unknowns
    table: Float[ndarray, "R N"]  # Z with columns of unit length, those of unknowns that change nothing being 0
    theta: Parameters
    unknowns: Unknowns
    chain: Chain
    left: Float[ndarray, "R k"]
    noise: Float[ndarray, " R"]  # mean square of the residuals of the same kind, of every row
    singular: Float[ndarray, " k"]
    right: Float[ndarray, "k N"]
    column_size: Float[ndarray, " N"]
    free: Bool[ndarray, " N"]
    dead: Bool[ndarray, " N"]
    n_numbers: int  # that the weights see ...
    n_rows: int  # ... of so many
    residual: Float[ndarray, "S q n"] | None  # of the rows of the data; None where these are triangles

    @property
    def rank(self) -> int:
        if not self.singular.size or self.singular[0] == 0.0:
            return 0
        return int(np.count_nonzero(self.singular > _RANK_TOLERANCE * self.singular[0]))

    def unpenalised(self) -> Linearisation:
        """The same without ridge and roughness."""
        left, singular, right = np.linalg.svd(self.table, full_matrices=False)
        return dataclasses.replace(self, left=left, singular=singular, right=right)


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
) -> Linearisation:
    """Differentiate all data with respect to all parameters that are free.

    A ridge is one more row per parameter, and a penalty on roughness some rows per function, all without noise; `left`
    and `residual` keep the rows of the data.
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
        table = _all_rows(problem, model)
    else:
        problem, table = _triangles(samples, layers, model)
    theta, unknowns = table.theta, Unknowns.of(problem.layers)
    Z = table.Z
    size = np.linalg.norm(Z, axis=0)
    free = _free_unknowns(problem, theta, unknowns, fixed)
    # The functions of a canonical model have unit scale, so a column times the size of its row of parameters is what
    # that row does to the data. Columns of rounding would look like any other once they are scaled to unit length.
    reach = unknowns.flatten(_row_sizes(theta))[0]
    dead = size * np.maximum(reach, 1.0) <= _NEGLIGIBLE_EFFECT * max(1.0, table.size)
    used = free & ~dead
    unit = np.where(used, size, 1.0)
    scaled = data = np.where(used, Z, 0.0) / unit
    if ridge > 0.0:
        scaled = np.concatenate([scaled, np.sqrt(ridge) * np.diag(np.where(used, 1.0 / unit, 0.0))])
    if smoothed:
        scaled = np.concatenate([scaled, np.where(used, _penalty_rows(problem, theta, unknowns), 0.0) / unit])
    left, singular, right = np.linalg.svd(scaled, full_matrices=False)
    left = left[: len(Z)]
    chain = run_chain(problem.layers, theta.inner, table.X)
    return Linearisation(
        model,
        samples,
        fixed,
        data,
        theta,
        unknowns,
        chain,
        left,
        table.noise,
        singular,
        right,
        unit,
        free,
        dead,
        table.n_numbers,
        table.n_rows,
        table.residual,
    )


@dataclass(frozen=True)
class _Table:
    """Derivatives of all data with respect to all parameters, or triangles that are as good."""

    theta: Parameters
    Z: Float[ndarray, "R N"]
    noise: Float[ndarray, " R"]
    X: Float[ndarray, "S k"]  # where the arguments of functions are looked at
    size: float  # of the data
    n_numbers: int
    n_rows: int
    residual: Float[ndarray, "S q n"] | None


def _all_rows(problem: Problem, model: Decoupling) -> _Table:
    """Every row of the data as it is."""
    theta, N = _parameters(problem, model)
    rows = problem.rows(1.0)
    complete = Complete(rows, problem.layers, problem.linear)
    chain = run_chain(problem.layers, theta.inner, rows.X)
    Z = complete.derivatives(theta, chain, slice(None))[0].transpose(3, 2, 1, 0).reshape(-1, N)
    residual = complete.residual(theta, chain)[0]
    noise, o = np.empty(residual.shape), int(rows.values)
    for part in (slice(0, o), slice(o, residual.shape[1])):
        if part.stop > part.start:
            noise[:, part] = np.mean(residual[:, part] ** 2)
    size = float(np.linalg.norm(rows.Y))
    return _Table(theta, Z, noise.reshape(-1), rows.X, size, rows.n_numbers, residual.size, residual)


def _triangles(samples: Samples, layers: tuple[LayerBasis, ...], model: Decoupling) -> tuple[Problem, _Table]:
    """The same for samples anywhere: a triangle for the rows of values, and one for those of Jacobians.

    Functions are scaled by a part of the samples that includes the extreme ones.
    """
    whole = Problem.build(samples, layers, linear=model.linear is not None)
    problem = whole.of_pilot(samples.pilot(_PILOT_SAMPLES))
    theta, _ = _parameters(problem, model)
    scaling = whole.prepared.row_scaling(1.0)
    found = whole.prepared.reduce(
        triangles_task, scaling, layers, whole.linear, theta, join=("qr", "qr", "sum", "sum", "sum")
    )
    extremes = extreme_points(whole.prepared, layers, theta)
    kinds = [(R, squares[0], count) for R, squares, count in zip(found[:2], found[2:4], found[4], strict=True) if count]
    Z = np.concatenate([R for R, _, _ in kinds])
    noise = np.concatenate([np.full(len(R), squares / count) for R, squares, count in kinds])
    size = float(np.sqrt(whole.prepared.zero_cost(scaling)))
    X = np.concatenate([problem.X, extremes])
    return problem, _Table(theta, Z, noise, X, size, samples.n_numbers, samples.n_numbers, None)


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


def _parameters(problem: Problem, model: Decoupling) -> tuple[Parameters, int]:
    """The parameters of the model as a batch of one, and how many unknowns these are."""
    theta = parameters_of(problem, model)
    count = Unknowns.of(problem.layers).count(theta)
    if count > _MAX_PARAMETERS:
        raise InputError(
            f"The model must have at most {_MAX_PARAMETERS} parameters for this. Got {count}: ask about a smaller one."
        )
    return theta, count


def identifiability(at: Linearisation) -> Identifiability:
    """Compare the rank of the derivatives, without penalties, with the number of free parameters less ambiguities."""
    n_parameters, n_ambiguities = int(at.free.sum()), _n_ambiguities(at.model, at.samples, at.fixed)
    last = min(n_parameters - n_ambiguities, len(at.singular)) - 1
    smallest = float(at.singular[last] / at.singular[0]) if at.rank and last >= 0 else 0.0
    return Identifiability(at.rank, n_parameters, n_ambiguities, smallest)


def standard_errors(
    at: Linearisation, u: Float[ndarray, " k"] | list[Float[ndarray, "_ _"]] | None = None
) -> tuple[Float[ndarray, "_ _"], ...]:
    """Standard errors of all internal functions, layer by layer.

    They are taken at the numbers `u`, at one array (k, r_l) per layer, or where the samples lie. Noise is taken as
    independent, with one variance for values and one for Jacobians, both from the residuals. A function is compared
    with the same function of another fit when the range of its arguments and the root mean square of its slopes over
    the samples are the same. Functions that the data do not determine have infinite errors. With a ridge, or where
    functions were smoothed, these are errors around the model that it leads to, not around the truth.
    """
    model = at.model
    moves = at.unknowns.split(_parameter_spread(at), at.theta)  # the parameters vary like a combination of these (k)
    dead = at.unknowns.split((at.dead & at.free)[None].astype(float), at.theta)
    dt = at.chain.z[0] @ moves.W[0].mT + moves.b[0][:, None]  # of the arguments of layer 1: (k, S, r_1)
    plain, errors = model.without_inner_constants(), []
    for l, functions in enumerate(plain.g):
        last = l == model.n_layers - 1
        layer = functions.layer
        Phi, dPhi, ddPhi = at.chain.Phi[l], at.chain.dPhi[l], at.chain.ddPhi[l]
        c, dc = functions.C[None, :, 1:], moves.c[l][..., 1:] if last else moves.c[l]
        d_constant = moves.c[l][:, None, :, 0] if last else 0.0
        t, slopes, bends = at.chain.t[l], combine(dPhi, c), combine(ddPhi, c)
        # Change of what the canonical form fixes: the range of the arguments, here its place too, and the size of the
        # slopes.
        every = np.arange(functions.rank)
        top, bottom = np.argmax(t[0], axis=0), np.argmin(t[0], axis=0)
        width = t[0, top, every] - t[0, bottom, every]
        d_width = dt[:, top, every] - dt[:, bottom, every]
        d_input = d_width / np.where(width > 0.0, width, 1.0)
        middle = (t[0, top, every] + t[0, bottom, every]) / 2.0
        d_middle = (dt[:, top, every] + dt[:, bottom, every]) / 2.0
        d_slopes = combine(dPhi, dc) + bends * dt + d_input[:, None] * slopes
        power = np.sum(slopes**2, axis=1)
        d_output = np.sum(slopes * d_slopes, axis=1) / np.where(power > 0.0, power, 1.0)
        if u is None:
            points = t[0]
        else:
            given = u[l] if isinstance(u, list) else np.repeat(u[:, None], functions.rank, axis=1)
            points = (given - functions.middle) / functions.half_width
        change = combine(layer.evaluate(points)[None], dc) + d_constant
        slope_there = combine(layer.derivative(points)[None], c)
        change = change + (d_middle[:, None] + d_input[:, None] * (points - middle)) * slope_there
        change = change - d_output[:, None] * (combine(layer.evaluate(points)[None], c) + functions.constants)
        error = np.sqrt(np.sum(change**2, axis=0))
        dead_c = (dead.c[l][0] > 0.0) & existing_coefficients(layer, dead.c[l].shape[-1])
        dead_W = np.all(dead.W[l][0] > 0.0, axis=-1) & (dead.b[l][0] > 0.0)
        undetermined = dead_W | dead_c.all(axis=-1)
        errors.append(np.where(undetermined, np.inf, error))
        if not last:
            dz = combine(Phi, dc) + slopes * dt
            dt = dz @ at.theta.W[l + 1].mT + at.chain.z[l + 1] @ moves.W[l + 1].mT + moves.b[l + 1][:, None]
    return tuple(errors)


def _parameter_spread(at: Linearisation) -> Float[ndarray, "k N"]:
    """A square root of the covariance of the parameters, with scalings fixed by the smallest change."""
    rank = at.rank
    # Numbers that the weights do not see have residuals of 0: they are no evidence of small noise.
    effective = float(np.sum(at.left[:, :rank] ** 2))  # the rank, unless a penalty decides some of it
    freedom = max(at.n_numbers - effective, 1.0) / at.n_rows
    noise = at.left[:, :rank] * np.sqrt(at.noise / freedom)[:, None]
    # d theta = Z^+ noise; the triangle of a QR has the same covariance as the long table of noise.
    triangle = np.linalg.qr(noise / at.singular[:rank], mode="r") if rank else np.zeros((1, 0))
    return triangle @ at.right[:rank] / at.column_size


def _penalty_rows(problem: Problem, theta: Parameters, unknowns: Unknowns) -> Float[ndarray, "K N"]:
    """What holds functions smooth, with the weights that the data ask for, as rows of the linearised problem."""
    penalty = Penalty.of(problem.layers, FIRST_WEIGHT, everything=False)
    equations = FittingProblem(problem, lam=1.0, ridge=0.0, fixed={}, penalty=penalty)
    if equations.penalty is None:
        return np.zeros((0, unknowns.count(theta)))
    return smoothing_weights_at(equations, theta)[0].rows(theta, unknowns)


def _row_sizes(theta: Parameters) -> Parameters:
    """The length of the row of parameters that each one belongs to; b_l is one more column of W_l."""
    sizes = theta.map(lambda p: np.broadcast_to(np.linalg.norm(p, axis=-1, keepdims=True), p.shape).copy())
    for W, b, of_W, of_b in zip(theta.W, theta.b, sizes.W, sizes.b, strict=False):
        of_b[:] = np.sqrt(np.sum(W**2, axis=-1) + b**2)
        of_W[:] = of_b[..., None]
    return sizes


def _free_unknowns(
    problem: Problem, theta: Parameters, unknowns: Unknowns, fixed: Collection[str]
) -> Bool[ndarray, " N"]:
    """Unknowns that exist and were not held."""
    there = theta.map(np.ones_like)
    for layer, c in zip(problem.layers, there.c, strict=True):
        c[:] = existing_coefficients(layer, c.shape[-1])
    return (unknowns.flatten(there)[0] > 0.0) & unknowns.mask(theta, fixed)


def _n_ambiguities(model: Decoupling, samples: Samples, fixed: Collection[str]) -> int:
    """Scalings of functions none of whose neighbours is held, constants that no value fixes, lines that A can take."""
    held, L = set(fixed), len(model.g)
    total = 0
    for l, g in enumerate(model.g, start=1):
        free = g.layer.free_domain
        if not held & {f"W{l - 1}", f"g{l}"}:
            # Where the middle of a domain is an unknown, so it is for functions that need none.
            total += int(np.sum(~free)) * (2 if free.any() else 1)
        if not held & {f"g{l}", f"W{l}"}:
            total += g.rank
    if f"g{L}" not in held:
        r = model.ranks[-1]
        total += r if not samples.has_values else r - int(np.linalg.matrix_rank(model.W[-1], rtol=1e-10))
        if model.linear is not None and L == 1:
            total += sum(basis.line() is not None for basis in model.g[0].layer.bases)
    return total
