"""The loop around the sweeps of an alternating solver: all starts at once, each with its own patience.

A start is random factors, or the factors of a given decoupling. The answer is the best start as a model, with the table
of all of them.
"""

from __future__ import annotations

import abc
import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_count, as_number, is_word
from ..._support._errors import InputError, SolverError, short_repr
from ..._support._time_limit import deadline_after, now
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ..problem._problem import Problem
from ..problem._solution import History, Solution, StartRow, Status
from ..problem._solver import AbstractSolver, ProgressCallback
from ..problem._start_distributions import AbstractStart, Uniform
from ..problem._weighted_rows import by_output, weighted_mean, weighted_sums
from ._sweep import Iterate, explicit_residual, map_arrays, value_residual

WhichIterate = Literal["best", "last"]
_UNREACHED = 1e-9  # share of the bias that no constants give, above which it is not rounding


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


# (state, iteration) -> the next state and the lam it was made with
Step = Callable[[Iterate, int], tuple[Iterate, float]]
# (state, lam) -> what iterates are compared by, one number per start
Objective = Callable[[Iterate, float], Float[ndarray, " B"]]


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """When a start of an alternating solver ends, and with which of its iterates.

    Parameters
    ----------
    min_steps, max_steps, patience : int
        A start ends after `max_steps`, or, past `min_steps`, after `patience` steps without a decrease below the
        lowest objective so far.
    max_seconds : float, optional
        All starts end after the step in which this time is over, with the best so far; None is no limit.
    iterate : WhichIterate
        Which iterate of a start is the answer: the "best" by the objective, or the "last", as in the paper. Updates
        that are not exact may raise the objective, so the two differ.

    Examples
    --------
    >>> import decouply as dc
    >>> solver = dc.Proj(stopping=dc.solvers.Stopping(max_steps=50, patience=10))
    """

    min_steps: int = 10
    max_steps: int = 500
    patience: int = 50
    max_seconds: float | None = None
    iterate: WhichIterate = "best"

    def __post_init__(self) -> None:
        as_count("min_steps", self.min_steps, least=0)
        as_count("max_steps", self.max_steps)
        as_count("patience", self.patience)
        if self.max_seconds is not None:
            as_number("max_seconds", self.max_seconds, above=True)
        if not is_word(self.iterate, ("best", "last")):
            raise InputError(f'`iterate` must be "best" or "last". Got {short_repr(self.iterate)}.')


@dataclass(frozen=True, kw_only=True)
class AbstractAlternatingSolver(AbstractSolver):
    """A method that updates factors in turn, from several starts at once.

    Parameters
    ----------
    start : start or Decoupling
        Distribution of the random start values, or a `Decoupling` to start from.
    stopping : Stopping
        When a start ends, and with which of its iterates.
    """

    start: AbstractStart | Decoupling = field(default_factory=Uniform)
    stopping: Stopping = field(default_factory=Stopping)

    default_n_starts: ClassVar[int] = 8

    def __post_init__(self) -> None:
        if not isinstance(self.start, AbstractStart | Decoupling):
            raise InputError(
                "`start` must be a distribution such as dc.solvers.Uniform(0.1, 10) or a Decoupling. "
                f"Got {short_repr(self.start)}."
            )
        if not isinstance(self.stopping, Stopping):
            raise InputError(
                "`stopping` must be an object such as dc.solvers.Stopping(max_steps=50). "
                f"Got {short_repr(self.stopping)}."
            )

    def solve(
        self, problem: Problem, *, n_starts: int, rng: np.random.Generator, progress: ProgressCallback
    ) -> Solution:
        return self.solve_from(problem, draw_factors(problem, self.start, n_starts, rng), progress)

    @abc.abstractmethod
    def solve_from(self, problem: Problem, start: Iterate, progress: ProgressCallback) -> Solution:
        """The best solution that a batch of start values leads to."""

    def check(self, problem: Problem) -> None:
        # The update of a linear part treats all outputs alike.
        if problem.linear and problem.weights is not None and by_output(problem.weights):
            raise InputError(
                f"`weights` must hold one number per sample for the solver {type(self).__name__} with linear=True. "
                f"Got shape {problem.weights.shape}: use dc.VarPro()."
            )

    @property
    def given_start(self) -> Decoupling | None:
        return self.start if isinstance(self.start, Decoupling) else None

    def with_start(self, model: Decoupling, *, max_steps: int | None = None) -> AbstractAlternatingSolver:
        stopping = self.stopping
        if max_steps is not None:
            stopping = dataclasses.replace(stopping, max_steps=min(max_steps, stopping.max_steps))
        return dataclasses.replace(self, start=model, stopping=stopping)

    def with_time_limit(self, seconds: float) -> AbstractAlternatingSolver:
        known = self.stopping.max_seconds
        shorter = seconds if known is None else min(seconds, known)
        return dataclasses.replace(self, stopping=dataclasses.replace(self.stopping, max_seconds=shorter))


def objective_of(state: Iterate, lam: float) -> Float[ndarray, " B"]:
    """||J - J_hat||^2 + lam ||F - F_hat||^2, the objective of the coupled problem."""
    return state.residual_J + lam * state.residual_F if lam > 0.0 else state.residual_J


@dataclass
class Run:
    """The iterate that is kept of every start and the record of all steps (NaN once a start has ended)."""

    kept: Iterate
    objective: Float[ndarray, " B"]
    kept_lam: Float[ndarray, " B"]
    steps: ndarray
    status: list[Status]
    seconds: Float[ndarray, " B"]
    lam: Float[ndarray, " t"]
    record: Float[ndarray, "t 3 B"]  # objective, residual of J, residual of F


def run_starts(
    problem: Problem,
    start: Iterate,
    step: Step,
    objective_of: Objective,
    first_lam: float,
    stopping: Stopping,
    progress: ProgressCallback,
) -> Run:
    """Iterate until every start has ended; starts that end, or become non-finite, leave the batch.

    A start whose residuals are known (a warm start) counts as an iterate: the best one is not worse than it. The last
    iterate is the last one with finite residuals.
    """
    began = time.perf_counter()
    deadline = deadline_after(stopping.max_seconds)
    B = start.W[0].shape[0]
    active, state = np.arange(B), start
    kept = map_arrays(start, lambda a: np.full_like(a, np.nan))
    objective, kept_lam, since = np.full(B, np.inf), np.full(B, first_lam, dtype=float), np.zeros(B, dtype=int)
    given = objective_of(start, first_lam)
    rated = np.isfinite(given)
    _store(kept, np.flatnonzero(rated), start, rated)
    objective[rated] = given[rated]
    lowest = objective.copy()
    steps, seconds = np.zeros(B, dtype=int), np.zeros(B)
    status = [Status.OUT_OF_STEPS] * B
    rounding = problem.prepared.rounding_floor
    lams: list[float] = []
    record: list[ndarray] = []
    with np.errstate(all="ignore"):  # a start that overflows is found below, by its objective
        for t in range(1, stopping.max_steps + 1):
            state, lam = step(state, t)
            value = objective_of(state, lam)
            lams.append(lam)
            row = np.full((3, B), np.nan)
            row[:, active] = value, state.residual_J, state.residual_F
            record.append(row)
            finite = np.isfinite(value)
            improved = finite & (value < lowest[active])
            lowest[active[improved]] = value[improved]
            since[active] = np.where(improved, 0, since[active] + 1)
            stored = finite if stopping.iterate == "last" else improved
            _store(kept, active[stored], state, stored)
            objective[active[stored]], kept_lam[active[stored]] = value[stored], lam
            steps[active] = t
            seconds[active] = time.perf_counter() - began
            exact = state.residual_J <= rounding * problem.size_J
            if lam > 0.0:
                exact &= state.residual_F <= rounding * problem.size_F
            stalled = (since[active] >= stopping.patience) & (t >= stopping.min_steps)
            for mask, reason in ((stalled, Status.STALLED), (exact, Status.EXACT), (~finite, Status.NONFINITE)):
                for index in active[mask]:
                    status[index] = reason
            keep = finite & ~exact & ~stalled
            lowest_of_all = float(np.min(lowest))
            try:
                progress(done=t, total=stopping.max_steps, objective=lowest_of_all, iterate=state, starts=active)
                ended = Status.OUT_OF_TIME if now() > deadline else None
            except KeyboardInterrupt:
                ended = Status.INTERRUPTED
            if ended is not None:
                for index in active[keep]:
                    status[index] = ended
                break
            if not keep.all():
                active, state = active[keep], state.take(keep)
            if active.size == 0:
                break
    return Run(kept, objective, kept_lam, steps, status, seconds, np.array(lams, dtype=float), np.array(record))


def _store(kept: Iterate, rows: ndarray, state: Iterate, mask: ndarray) -> None:
    """Write some starts of a state over those with these numbers."""
    for name, old in vars(kept).items():
        new = getattr(state, name)
        for a, b in zip(old, new, strict=True) if isinstance(old, list) else [(old, new)]:
            if a is not None:
                a[rows] = b[mask]


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
            "degrees, or try other starts: another `rng`, more `n_starts`, or `start=dc.solvers.Normal()`."
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
