"""Other models that fit as well: a fit that is unique nearby need not be the only one.

Searches begin at random models instead of what can be read from the data, which would lead to the same model again.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._errors import SolverError
from ..._support._machine import one_thread
from ..._support._time_limit import now
from ...model._decoupling import Decoupling
from ...samples._model_errors import canonical_at
from ...samples._samples import Samples
from ..problem._problem import Problem
from ..problem._solution import Status
from ..problem._solver import ProgressCallback
from ..varpro._varpro import VarPro
from ._generic_rank import random_model
from ._uncertainty import distances_of_functions, sizes_of_functions

_AS_WELL = 1.02  # times the cost: two fits of the same data are as good
_OTHER = 0.01  # of what a function does over its range: functions that are farther apart are others
_MOST_SEARCHES = 50  # for every solution that is asked for
_STARTS = 32  # of a search: one batch


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
