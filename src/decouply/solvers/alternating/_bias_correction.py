"""Constants for methods that see Jacobians only."""

from __future__ import annotations

import numpy as np

from ...model._decoupling import Decoupling
from ..problem._problem import Problem
from ..problem._sample_weights import weighted_mean, weighted_sums

_UNREACHED = 1e-9  # share of the bias that no constants give, above which it is not rounding


def with_bias_correction(problem: Problem, model: Decoupling) -> tuple[Decoupling, tuple[str, ...]]:
    """Add the weighted mean b of F - model(X) to the outputs, through constants c with W_L c = b.

    With fewer functions than outputs, no constants give b in general. The model has an offset then; as the
    paper's methods are printed, the closest constants are taken, measured by the sum of the weights.
    """
    samples = problem.samples
    if samples.F is None:
        return model, ()
    b = weighted_mean(samples.F - model(samples.X), problem.weights)
    if model.offset is not None:
        return model.with_parts(offset=model.offset + b), ()

    W_L, last = model.W[-1], model.g[-1]
    design, target = W_L, b
    total, _ = weighted_sums(samples.F, problem.weights)
    if total.size > 1:  # outputs count differently
        root = np.sqrt(total)
        design, target = W_L * root[:, None], b * root
    constants, *_ = np.linalg.lstsq(design, target, rcond=None)

    missed, size = float(np.linalg.norm(b - W_L @ constants)), float(np.linalg.norm(b))
    reached = missed <= _UNREACHED * max(size, 1e-300)
    if not reached and problem.standard:
        return model.with_parts(offset=b), ()
    C = last.C.copy()
    C[:, 0] += constants
    corrected = model.with_parts(g=[*model.g[:-1], last.with_coefficients(C)])
    if reached:
        return corrected, ()
    note = (
        f"The bias correction could not be met in full: {last.rank} functions do not reach {W_L.shape[0]} outputs; "
        f"{missed:.2g} of {size:.2g} is left."
    )
    return corrected, (note,)
