"""The solution of a run: the best of its starts as a model, and the table of all of them."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..._support._errors import SolverError
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ..problem._problem import Problem
from ..problem._sample_weights import weighted_mean, weighted_sums
from ..problem._solution import History, Solution, StartRow, Status
from ._iterate import Iterate
from ._loop import Run

_UNREACHED = 1e-9  # share of the bias that no constants give, above which it is not rounding


def solution_of(problem: Problem, run: Run, *, jacobians_only: bool = False) -> Solution:
    """The best start of a run as a model, with the table of all starts.

    Starts that became non-finite are passed over unless all did; then the iterate kept before that is the answer.
    The constants of methods that see Jacobians only are found afterwards.
    """
    good = np.array([s is not Status.NONFINITE for s in run.status]) & np.isfinite(run.objective)
    if not good.any():
        good = np.isfinite(run.objective)
    if not good.any():
        raise SolverError(
            f"All {len(good)} starts became NaN or infinite. Scale inputs and outputs to about [-1, 1], lower the "
            "degrees, or try other starts: another `rng`, more `n_starts`, or `start=dc.Normal()`."
        )
    winner = int(np.argmin(np.where(good, run.objective, np.inf)))
    size_J = problem.size_J or 1.0
    size_F = (problem.size_F or 1.0) if problem.F is not None and not jacobians_only else np.nan
    models = StartModels(problem.without_arrays(), run.kept, corrected=jacobians_only)
    rows = tuple(
        StartRow(
            start=b,
            lam=float(run.kept_lam[b]),
            objective=float(run.objective[b]),
            error_jacobian=float(run.kept.residual_J[b] / size_J),
            error_values=float(run.kept.residual_F[b] / size_F),
            steps=int(run.steps[b]),
            status=run.status[b],
            seconds=float(run.seconds[b]),
            build=partial(models.canonical, b),
        )
        for b in range(len(good))
    )
    n = int(run.steps[winner])
    record = run.record[:n, :, winner]
    history = History(run.lam[:n], record[:, 0], record[:, 1] / size_J, record[:, 2] / size_F)
    model, notes = models.model(winner)
    return Solution(model, run.status[winner], float(run.kept_lam[winner]), history, rows, notes=notes)


class StartModels:
    """The models of all starts of a run, made from its small factors: nothing with a sample axis is kept for them.

    With `corrected` the mean of what they leave of the values is added.
    """

    def __init__(self, problem: Problem, kept: Iterate, *, corrected: bool) -> None:
        self._problem, self._corrected = problem, corrected
        self._W, self._C, self._domain, self._A = kept.W, kept.C, kept.domain, kept.A

    def model(self, b: int) -> tuple[Decoupling, tuple[str, ...]]:
        """The model of start b as one of the given data, and what there is to say about it."""
        functions = [
            Functions(layer.bases, C[b], domain[b])
            for layer, C, domain in zip(self._problem.layers, self._C, self._domain, strict=True)
        ]
        linear = None if self._A is None else self._A[b]
        model = self._problem.model([W[b] for W in self._W], functions, linear)
        return with_bias_correction(self._problem, model) if self._corrected else (model, ())

    def canonical(self, b: int) -> Decoupling:
        """The model of start b in the form that results have."""
        return self.model(b)[0].canonical(self._problem.samples.X)


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
