r"""Whether a decoupling is locally unique, and how well its functions are determined.

Both follow from the derivatives Z of all data with respect to all parameters at the model. Directions in which Z
vanishes change the parameters and not the data. Some are known: two scalings per internal function (one where the
basis has a scale of its own), constants that no value fixes. More than these mean that the model is one of a family.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._decoupling import Decoupling
from ._errors import InputError
from ._samples import Samples
from .solvers._chain import flatten, run_chain
from .solvers._parameters import parameters_of
from .solvers._problem import Problem
from .solvers._residuals import Complete, Rows

_RANK_TOLERANCE = 1e-9  # singular values of Z with unit columns below this share of the largest count as 0
_LARGEST = 3000  # parameters


@dataclass(frozen=True)
class Identifiability:
    """Rank of the derivatives against what it can be at most.

    `locally_unique` says that near this model there is no other with the same data, up to the known ambiguities.
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
    """The singular value decomposition of Z with unit columns at a model, and what it takes to use it."""

    left: Float[ndarray, "R k"]
    singular: Float[ndarray, " k"]
    right: Float[ndarray, "k N"]
    column_size: Float[ndarray, " N"]
    residual: Float[ndarray, "S q n"]
    values: bool
    shapes: tuple[tuple[int, ...], ...]
    n_ambiguities: int

    @property
    def rank(self) -> int:
        if not self.singular.size or self.singular[0] == 0.0:
            return 0
        return int(np.count_nonzero(self.singular > _RANK_TOLERANCE * self.singular[0]))


def linearise(model: Decoupling, samples: Samples) -> Linearisation:
    """Differentiate all data with respect to all parameters."""
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
    size = np.where(size > 0.0, size, 1.0)
    left, singular, right = np.linalg.svd(Z / size, full_matrices=False)
    return Linearisation(
        left,
        singular,
        right,
        size,
        complete.residual(theta, chain)[0],
        rows.values,
        tuple(p.shape[1:] for p in theta),
        _ambiguities(model, samples),
    )


def identifiability(model: Decoupling, samples: Samples) -> Identifiability:
    """Compare the rank of the derivatives with the number of parameters less the known ambiguities."""
    at = linearise(model, samples)
    n_parameters = len(at.column_size)
    last = min(n_parameters - at.n_ambiguities, len(at.singular)) - 1
    smallest = float(at.singular[last] / at.singular[0]) if at.rank and last >= 0 else 0.0
    return Identifiability(at.rank, n_parameters, at.n_ambiguities, smallest)


def standard_errors(
    model: Decoupling, samples: Samples, u: Float[ndarray, " k"] | list[Float[ndarray, "_ _"]] | None
) -> tuple[Float[ndarray, "_ _"], ...]:
    """Standard errors of all internal functions, layer by layer.

    They are taken at the numbers `u`, at one array (k, r_l) per layer, or where the samples lie.

    Noise is taken as independent, with one variance for values and one for Jacobians, both from the residuals; the
    scalings are fixed at the model (smallest change of the parameters).
    """
    at = linearise(model, samples)
    rank = at.rank
    S, q, n = at.residual.shape
    dof = max(1.0 - rank / at.residual.size, 1.0 / at.residual.size)
    variance = np.empty((S, q, n))
    o = int(at.values)
    for part in (slice(0, o), slice(o, q)):
        if part.stop > part.start:
            variance[:, part] = np.mean(at.residual[:, part] ** 2) / dof
    # d theta = Z^+ noise, so its covariance is the product of `root` with its transpose.
    root = (at.right[:rank].T / at.singular[:rank]) @ (at.left[:, :rank].T * np.sqrt(variance.reshape(-1)))
    root /= at.column_size[:, None]
    errors = []
    offset = 0
    for l, functions in enumerate(model.g):
        offset += int(np.prod(at.shapes[2 * l]))  # past W_l
        r, e = at.shapes[2 * l + 1]
        block = root[offset : offset + r * e].reshape(r, e, -1)
        if u is None:
            points = model.inner_inputs(samples.X)[l]
        else:
            points = u[l] if isinstance(u, list) else np.repeat(u[:, None], r, axis=1)
        design = functions.layer.evaluate(points)  # (k, r, d)
        if e > design.shape[-1]:
            design = np.concatenate([np.ones((*design.shape[:-1], 1)), design], axis=-1)
        covariance = block @ block.mT  # (r, e, e)
        errors.append(np.sqrt(np.maximum(np.einsum("kre,ref,krf->kr", design, covariance, design, optimize=True), 0.0)))
        offset += r * e
    return tuple(errors)


def _ambiguities(model: Decoupling, samples: Samples) -> int:
    scalings = sum(int(np.sum(1 + g.layer.scale_invariant)) for g in model.g)
    r, n = model.ranks[-1], model.n_outputs
    constants = r if samples.F is None else max(r - n, 0)
    padding = sum(g.rank * g.degree - sum(g.layer.sizes) for g in model.g)  # coefficients past a function's own basis
    return scalings + constants + padding
