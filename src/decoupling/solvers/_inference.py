r"""Whether a decoupling is locally unique, and how well its functions are determined.

Both follow from the derivatives Z of all data with respect to all parameters at the model. Directions in which Z
vanishes change the parameters and not the data. Some are known: two scalings per internal function (one where the
basis has a scale of its own), constants that no value fixes. More than these mean that the model is one of a family.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from .._support._errors import InputError
from ..model._decoupling import Decoupling
from ..samples._jacobians import StoredJacobians
from ..samples._samples import Samples
from ._chain import Chain, Parameters, flatten, run_chain, unflatten
from ._parameters import exists, parameters_of, position
from ._problem import Problem
from ._residuals import Complete, Rows
from ._updates import combine

_RANK_TOLERANCE = 1e-9  # singular values of Z with unit columns below this share of the largest count as 0
_NO_EFFECT = 1e-11  # parameters whose whole block changes the data by less than this, relative to their size
_LARGEST = 3000  # parameters


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

    theta: Parameters
    chain: Chain
    left: Float[ndarray, "R k"]
    singular: Float[ndarray, " k"]
    right: Float[ndarray, "k N"]
    column_size: Float[ndarray, " N"]
    free: Bool[ndarray, " N"]
    dead: Bool[ndarray, " N"]
    residual: Float[ndarray, "S q n"]
    n_numbers: int
    values: bool

    @property
    def rank(self) -> int:
        if not self.singular.size or self.singular[0] == 0.0:
            return 0
        return int(np.count_nonzero(self.singular > _RANK_TOLERANCE * self.singular[0]))


def linearise(model: Decoupling, samples: Samples, fixed: Collection[str] = ()) -> Linearisation:
    """Differentiate all data with respect to all parameters that are free."""
    if isinstance(samples.J, StoredJacobians):
        raise InputError(
            "`samples` must hold J in memory to tell how well a model is determined. Got stored Jacobians: decouple "
            "`samples.take(...)`, with start=model, and ask about that result."
        )
    problem = Problem.build(samples, tuple(g.layer for g in model.g))
    theta = [p[None] for p in parameters_of(problem, model)]
    n_parameters = flatten(theta).shape[1]
    if n_parameters > _LARGEST:
        raise InputError(
            f"The model must have at most {_LARGEST} parameters for this. Got {n_parameters}: ask about a smaller one."
        )
    rows = Rows.of(problem, 1.0)
    complete = Complete(rows, problem.layers)
    chain = run_chain(problem.layers, theta[:-2], rows.X)
    Z = complete.derivatives(theta, chain, slice(None))[0].reshape(-1, n_parameters)
    size = np.linalg.norm(Z, axis=0)
    free = _free(problem, theta, fixed)
    # The functions of a canonical model have unit scale, so a column times the size of its row of parameters is what
    # that row does to the data. Columns of rounding would look like any other once they are scaled to unit length.
    reach = flatten([np.broadcast_to(np.linalg.norm(p, axis=-1, keepdims=True), p.shape) for p in theta])[0]
    dead = size * np.maximum(reach, 1.0) <= _NO_EFFECT * max(1.0, float(np.linalg.norm(rows.Y)))
    used = free & ~dead
    unit = np.where(used, size, 1.0)
    left, singular, right = np.linalg.svd(np.where(used, Z, 0.0) / unit, full_matrices=False)
    residual = complete.residual(theta, chain)[0]
    return Linearisation(theta, chain, left, singular, right, unit, free, dead, residual, rows.n_numbers, rows.values)


def identifiability(model: Decoupling, samples: Samples, fixed: Collection[str] = ()) -> Identifiability:
    """Compare the rank of the derivatives with the number of free parameters less the known ambiguities."""
    at = linearise(model, samples, fixed)
    n_parameters, n_ambiguities = int(at.free.sum()), _ambiguities(model, samples, fixed)
    last = min(n_parameters - n_ambiguities, len(at.singular)) - 1
    smallest = float(at.singular[last] / at.singular[0]) if at.rank and last >= 0 else 0.0
    return Identifiability(at.rank, n_parameters, n_ambiguities, smallest)


def standard_errors(
    model: Decoupling,
    samples: Samples,
    u: Float[ndarray, " k"] | list[Float[ndarray, "_ _"]] | None,
    fixed: Collection[str] = (),
) -> tuple[Float[ndarray, "_ _"], ...]:
    """Standard errors of all internal functions, layer by layer.

    They are taken at the numbers `u`, at one array (k, r_l) per layer, or where the samples lie. Noise is taken as
    independent, with one variance for values and one for Jacobians, both from the residuals. Scales are those of the
    canonical form: a function is compared with the same function of another fit when the largest of its inputs and
    the root mean square of its slopes over the samples are the same. Functions that the data do not determine have
    infinite errors.
    """
    at = linearise(model, samples, fixed)
    spread = _parameter_spread(at)  # (k, N): the parameters vary like a random combination of these rows
    moves = unflatten(spread, at.theta)
    du = at.chain.z[0] @ moves[0].mT  # change of the inputs of the first layer: (k, S, r_1)
    dead = [part > 0.0 for part in unflatten((at.dead & at.free)[None].astype(float), at.theta)]
    errors = []
    for l, functions in enumerate(model.g):
        last = l == len(model.g) - 1
        layer = functions.layer
        Phi, dPhi, ddPhi = at.chain.Phi[l], at.chain.dPhi[l], at.chain.ddPhi[l]
        c, dc = functions.C[None, :, 1:], moves[2 * l + 1][..., 1:] if last else moves[2 * l + 1]
        d_constant = moves[2 * l + 1][:, None, :, 0] if last else 0.0
        inputs, slopes, bends = at.chain.u[l], combine(dPhi, c), combine(ddPhi, c)
        # Relative change of the two scales that the canonical form fixes.
        top = np.argmax(np.abs(inputs[0]), axis=0)
        every = np.arange(len(top))
        largest = inputs[0, top, every]
        d_input = np.where(layer.scale_invariant, du[:, top, every] / np.where(largest == 0.0, 1.0, largest), 0.0)
        d_slopes = combine(dPhi, dc) + bends * du + d_input[:, None] * slopes
        power = np.sum(slopes**2, axis=1)
        d_output = np.sum(slopes * d_slopes, axis=1) / np.where(power > 0.0, power, 1.0)
        if u is None:
            points = inputs[0]
        else:
            points = u[l] if isinstance(u, list) else np.repeat(u[:, None], functions.rank, axis=1)
        change = combine(layer.evaluate(points)[None], dc) + d_constant
        change = change + d_input[:, None] * (points * functions.derivative(points))
        change = change - d_output[:, None] * functions(points)
        error = np.sqrt(np.sum(change**2, axis=0))
        undetermined = dead[2 * l][0].all(axis=-1) | (
            dead[2 * l + 1][0] & exists(layer, dead[2 * l + 1].shape[-1])
        ).all(axis=-1)
        errors.append(np.where(undetermined, np.inf, error))
        if not last:
            dz = combine(Phi, dc) + slopes * du
            du = dz @ model.W[l + 1].T + at.chain.z[l + 1] @ moves[2 * l + 2].mT
    return tuple(errors)


def _parameter_spread(at: Linearisation) -> Float[ndarray, "k N"]:
    """A square root of the covariance of the parameters, with scalings fixed by the smallest change."""
    rank = at.rank
    S, q, n = at.residual.shape
    # Numbers that the weights do not see have residuals of 0: they are no evidence of small noise.
    freedom = max(at.n_numbers - rank, 1.0) / at.residual.size
    variance = np.empty((S, q, n))
    o = int(at.values)
    for part in (slice(0, o), slice(o, q)):
        if part.stop > part.start:
            variance[:, part] = np.mean(at.residual[:, part] ** 2) / freedom
    noise = at.left[:, :rank] * np.sqrt(variance.reshape(-1, 1))
    # d theta = Z^+ noise; the triangle of a QR has the same covariance as the long table of noise.
    triangle = np.linalg.qr(noise / at.singular[:rank], mode="r") if rank else np.zeros((1, 0))
    return triangle @ at.right[:rank] / at.column_size


def _free(problem: Problem, theta: Parameters, fixed: Collection[str]) -> Bool[ndarray, " N"]:
    """Parameters that exist and were not held."""
    held = {position(name, len(problem.layers)) for name in fixed}
    masks = []
    for i, p in enumerate(theta):
        there = exists(problem.layers[i // 2], p.shape[-1]) if i % 2 == 1 else np.ones(p.shape[1:], dtype=bool)
        masks.append((there & (i not in held)).ravel())
    return np.concatenate(masks)


def _ambiguities(model: Decoupling, samples: Samples, fixed: Collection[str]) -> int:
    """Scalings of functions none of whose neighbours is held, and constants that no value fixes."""
    held, L = set(fixed), len(model.g)
    total = 0
    for l, g in enumerate(model.g, start=1):
        if not held & {f"W{l - 1}", f"g{l}"}:
            total += int(np.sum(g.layer.scale_invariant))
        if not held & {f"g{l}", f"W{l}"}:
            total += g.rank
    if f"g{L}" not in held:
        r = model.ranks[-1]
        total += r if samples.F is None else r - int(np.linalg.matrix_rank(model.W[-1], rtol=1e-10))
    return total
