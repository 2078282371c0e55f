"""Constants for methods that see Jacobians only."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...samples._portions import Portion
from ..problem._data_summary import Whole
from ..problem._problem import Problem
from ..problem._sample_weights import mean_of_sums, root_of, weigh, weigh_values, weighted_mean, weighted_sums


def with_bias_correction(problem: Problem, model: Decoupling) -> tuple[Decoupling, tuple[str, ...]]:
    """Add the weighted mean b of F - model(X) to the outputs, through constants c with W_L c = b.

    Where there are fewer functions than outputs, no constants give b in general. The model has an offset then; as the
    paper's methods are printed, the closest constants are taken, measured by the sum of the weights.
    """
    samples = problem.samples
    if samples.F is None:
        return model, ()
    b = weighted_mean(samples.F - model(samples.X), problem.weights)
    total, _ = weighted_sums(samples.F, problem.weights)
    return _shifted(model, b, total, standard=problem.standard)


def with_bias_over_all(whole: Whole, model: Decoupling) -> tuple[Decoupling, tuple[str, ...]]:
    """The same with the mean over all samples, wherever they are."""
    if not whole.samples.has_values:
        return model, ()
    total, rhs = whole.samples.data.reduce(bias_task, model)
    return _shifted(model, mean_of_sums(total, rhs), total, standard=whole.overview.standard)


def bias_task(portion: Portion, model: Decoupling) -> tuple[ndarray, ndarray]:
    """Weighted sums of what a model leaves of the values."""
    assert portion.F is not None
    return weighted_sums(portion.F - model(portion.X), portion.weights)


def _shifted(
    model: Decoupling, b: Float[ndarray, " n"], total: Float[ndarray, "_ *n"], *, standard: bool
) -> tuple[Decoupling, tuple[str, ...]]:
    """A model with b added to its outputs; `total` is the sum of the weights."""
    if model.offset is not None:
        return model.with_parts(offset=model.offset + b), ()
    W_L, last = model.W[-1], model.g[-1]
    design, target = W_L, b
    if total.size > 1:  # outputs count differently
        root = root_of(total[None])
        design, target = weigh(W_L[None], root)[0], weigh_values(b[None], root)[0]
    constants, *_ = np.linalg.lstsq(design, target, rcond=None)
    C = last.C.copy()
    C[:, 0] += constants
    corrected = model.with_parts(g=[*model.g[:-1], last.with_coefficients(C)])
    missed = float(np.linalg.norm(b - W_L @ constants))
    if missed > 1e-9 * max(float(np.linalg.norm(b)), 1e-300):
        if standard:
            return model.with_parts(offset=b), ()
        note = (
            f"The bias correction could not be met in full: {last.rank} functions do not reach {W_L.shape[0]} outputs; "
            f"{missed:.2g} of {np.linalg.norm(b):.2g} is left."
        )
        return corrected, (note,)
    return corrected, ()
