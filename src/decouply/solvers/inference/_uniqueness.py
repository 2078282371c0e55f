r"""Uniqueness beyond the model at hand: what a shape leaves open in general, and other models that fit as well.

The derivatives of values and Jacobians at many random points, at a model with random parameters, have the rank that
they have at almost every model of that shape. It is lower than the number of free parameters if functions of almost
every such model can be changed without a change of what it computes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_count, as_counts
from ..._support._errors import InputError, SolverError
from ..._support._machine import one_thread
from ..._support._time_limit import now
from ...bases import Chebyshev, LayerBasis
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ...samples._model_errors import canonical_at
from ...samples._samples import Samples
from ..initial._tensor_decompositions import n_products_of_entries, samples_for_paratuck2
from ..problem._problem import ModelShape, Problem
from ..problem._solution import Status
from ..problem._solver import ProgressCallback
from ..varpro._varpro import VarPro
from ._identifiability import MOST_PRODUCTS, Identifiability, identifiability
from ._linearisation import linearise
from ._uncertainty import distances_of_functions, sizes_of_functions

_MOST_PARAMETERS = 400  # takes about a second
_NUMBERS_PER_PARAMETER = 3  # at random points
_SINGULAR_VALUE_OF_NOTHING = (
    1e-12  # singular values of a direction that changes nothing, of the largest; deep models have others of 1e-9
)
_AS_WELL = 1.02  # times the cost: two fits of the same data are as good
_OTHER = 0.01  # of what a function does over its range: functions that are farther apart are others
_MOST_SEARCHES = 50  # for every solution that is asked for
_STARTS = 32  # of a search: one batch


def identifiable(m: int, n: int, ranks: Any, degrees: Any = 3) -> Identifiability:
    """Tell what data of m inputs and n outputs determine of a decoupling in general, before anything is measured.

    Parameters
    ----------
    m, n : int
        Numbers of inputs and outputs.
    ranks : int or sequence of int
        (r_1, ..., r_L): functions per layer, from input to output. A number means one layer.
    degrees : int or sequence of int
        (d_1, ..., d_L): degrees of their polynomials. A number is that of all layers.

    Returns
    -------
    Identifiability
        Which functions are determined, and which are free, at random points of a random model.

    Examples
    --------
    >>> import decouply as dc
    >>> dc.identifiable(2, 2, 3, 3).locally_unique
    True
    >>> dc.identifiable(2, 2, 3, 2).in_words
    'g_1, g_2 and g_3 can be mixed'
    """
    widths, powers = as_counts("ranks", ranks), as_counts("degrees", degrees)
    powers = powers * len(widths) if len(powers) == 1 else powers
    if len(powers) != len(widths):
        raise InputError(f"`degrees` must have one entry per layer, {len(widths)} here. Got {len(powers)}.")
    layers = tuple(LayerBasis.of(Chebyshev(d), r) for r, d in zip(widths, powers, strict=True))
    shape = ModelShape(as_count("m", m), layers, as_count("n", n), linear=False)
    found = identifiability_of_shape(shape)
    if found is None:
        raise InputError(
            f"The model must have at most {_MOST_PARAMETERS} parameters for this. Got {shape.n_free(values=True)} free "
            "ones: ask about a smaller one."
        )
    return found


def identifiability_of_shape(shape: ModelShape) -> Identifiability | None:
    """That of a random model of a shape at many points; None for those that are too large, or out of scale."""
    if shape.n_free(values=True) > _MOST_PARAMETERS:
        return None
    try:
        return _known(shape)
    except TypeError:  # bases of somebody's own that cannot be hashed
        return _at_random_model(shape)


def random_model(shape: ModelShape, X: Float[ndarray, "S m"], rng: np.random.Generator) -> Decoupling:
    """A model of a shape with coefficients of size 1 on what the points visit, so that no power is out of scale."""
    W, g, z = list[ndarray](), list[Functions](), X
    for layer in shape.layers:
        r = len(layer.bases)
        weights = rng.normal(size=(r, z.shape[1]))
        u = z @ weights.T
        C = np.zeros((r, 1 + layer.size))
        for j, size in enumerate(layer.sizes):
            C[j, 1 : 1 + size] = rng.uniform(0.5, 1.0, size) * rng.choice([-1.0, 1.0], size)
        functions = Functions(layer.bases, C, np.stack([u.min(axis=0), u.max(axis=0)], axis=1))
        W.append(weights)
        g.append(functions)
        z = functions.values(u)
    A = rng.normal(size=(shape.n_outputs, shape.n_inputs)) if shape.linear else None
    return Decoupling([*W, rng.normal(size=(shape.n_outputs, z.shape[1]))], g, linear=A)


def _at_random_model(shape: ModelShape) -> Identifiability | None:
    rng = np.random.default_rng(0)
    per_sample = shape.n_outputs * (1 + shape.n_inputs)
    wanted = _NUMBERS_PER_PARAMETER * shape.n_free(values=True) // per_sample
    S = 10 + max(wanted, 4 * max(layer.size for layer in shape.layers))
    if len(shape.layers) == 2 and n_products_of_entries(*shape.dims[1:3]) <= MOST_PRODUCTS:
        S = max(S, samples_for_paratuck2(*shape.dims[1:3]))  # a theorem may apply
    X = rng.uniform(-1.0, 1.0, (S, shape.n_inputs))
    model = random_model(shape, X, rng)
    samples = Samples(X, F=model.values(X), J=model.jacobians(X))
    with one_thread():
        found = identifiability(linearise(canonical_at(model, samples), samples))
    told = found.locally_unique or found.smallest_singular_value < _SINGULAR_VALUE_OF_NOTHING
    return found if told else None


_known = lru_cache(maxsize=256)(_at_random_model)


def find_other_solutions(
    model: Decoupling,
    samples: Samples,
    n: int,
    ridge: float,
    rng: np.random.Generator,
    deadline: float,
    progress: ProgressCallback,
) -> tuple[Decoupling, ...]:
    """Up to `n` models of the same shape that fit as well and have other functions than the model and each other."""
    problem = Problem.build(samples, tuple(g.layer for g in model.g), linear=model.linear is not None)
    same = VarPro(start=model, ridge=ridge, polish_steps=1, max_steps=1)
    with one_thread():
        known = same.solve(problem, n_starts=1, rng=np.random.default_rng(0), progress=progress)
    cost, found = known.starts[0].objective, list[Decoupling]()
    for _ in range(_MOST_SEARCHES * n):
        left = deadline - now()
        if left <= 0.0 or len(found) == n:
            break
        start = random_model(problem.shape, samples.X, rng)
        solver = VarPro(start=start, ridge=ridge, max_seconds=left)
        try:
            with one_thread():
                tried = solver.solve(problem, n_starts=_STARTS, rng=rng, progress=progress)
        except SolverError:
            continue
        if tried.status is Status.INTERRUPTED:
            break
        best = min((row.objective for row in tried.starts), default=np.inf)
        if tried.status is not Status.EXACT and best > _AS_WELL * cost:
            continue
        other = canonical_at(tried.decoupling, samples)
        if all(_differ(one, other, samples.X) for one in (model, *found)):
            found.append(other)
    return tuple(found)


def _differ(model: Decoupling, other: Decoupling, X: Float[ndarray, "S m"]) -> bool:
    """Whether some function of the model is not among those of the other."""
    pairs = zip(distances_of_functions(model, other, X), sizes_of_functions(model, X), strict=True)
    return any(bool(np.any(distance > _OTHER * size)) for distance, size in pairs)
