"""The contract of a solver: three members that every one has, and small protocols for what some can do besides.

The package asks `with_start(solver, model)` and the other functions below, never the protocols themselves: each of them
knows what to do with a solver that cannot.

`prepare_solve` takes any solver to samples of any size: all of them at once if it can, otherwise a subsample first. One
that was too small shows in the misfit of its answer on all samples: per number it is far larger than on the subsample.
If steps on a larger one do not mend it, the subsample grows fourfold, and the search begins again at that answer.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy import ndarray

from ..._support._arguments import as_number, is_word
from ..._support._errors import InputError
from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...model._units import Units
from ...samples._portions import Portion
from ...samples._samples import Samples
from ._prepared_samples import PreparedSamples
from ._problem import ModelShape, Problem
from ._solution import Solution, Status
from ._weighted_rows import RowScaling, weighted_squares

# Called with named values now and then: stage (text), done and total (numbers of steps), objective. Alternating solvers
# also give the raw factors: iterate (an `Iterate`) and starts (the number of the start in each of its rows).
ProgressCallback = Callable[..., None]
Loss = Callable[[Decoupling], float]
Feature = Literal["layers", "linear", "weights", "values only", "Jacobians only", "many starts"]
_RATIO_OF_FAR_MISFIT = 1.5  # times the misfit that the pilot leads to expect: the pilot was too small
_EXACT_MISFIT = 1e-10  # relative squared errors below this are small enough on the pilot and on all samples
_GROWTH = 4
_TELLING = 4  # numbers for every parameter from which the misfit on a pilot tells what to expect on more samples


class AbstractSolver(abc.ABC):
    """A method that finds a decoupling of given shape for given samples.

    Give the three members and `dc.decouple(..., solver=yours)` works; `decouply.testing.check_solver` tries it out.
    What a method can do besides it says by further members, see the protocols of `decouply.solvers`.

    Examples
    --------
    >>> import decouply as dc
    >>> isinstance(dc.VarPro(), dc.solvers.AbstractSolver)
    True
    >>> dc.VarPro().default_n_starts
    1024
    """

    @property
    @abc.abstractmethod
    def supports(self) -> frozenset[Feature]:
        """What the method takes beyond one layer and unweighted samples of both values and Jacobians.

        "layers" (more than one), "linear" (a model with a linear part), "weights" (samples with weights),
        "values only", "Jacobians only". Whatever is not in the set is refused before `solve` is called. With "many
        starts" a search ends by itself as soon as more starts are not worth their time.
        """

    @property
    @abc.abstractmethod
    def default_n_starts(self) -> int:
        """How many starts are run when the user does not say."""

    @abc.abstractmethod
    def solve(
        self, problem: Problem, *, n_starts: int, rng: np.random.Generator, progress: ProgressCallback
    ) -> Solution:
        """Run all starts and return the best. Call `progress` between steps: Ctrl-C is raised there."""


def check_problem(solver: AbstractSolver, problem: Problem) -> None:
    """Raise `InputError` if the solver does not support the problem: a wish must not be ignored silently."""
    name, supported = type(solver).__name__, solver.supports
    if len(problem.layers) > 1 and "layers" not in supported:
        raise InputError(
            f"`ranks` must hold one number for the solver {name}, which knows a single layer. Got "
            f"{len(problem.layers)}: use dc.VarPro(), dc.Proj() or dc.Constr() for several layers."
        )
    if problem.J is None and "values only" not in supported:
        raise InputError(
            f"`samples` must hold Jacobians J for the solver {name}. Got values only: give J=..., sample the "
            "function itself with dc.Samples.from_function, use dc.estimate_jacobians(samples), or dc.VarPro()."
        )
    if problem.F is None and "Jacobians only" not in supported:
        raise InputError(
            f"`samples` must hold values F for the solver {name}. Got Jacobians only: give F=..., or use dc.VarPro()."
        )
    if problem.linear and "linear" not in supported:
        raise InputError(
            f"`linear` must be False for the solver {name}, which has no linear part. Got True: use dc.VarPro()."
        )
    if problem.weights is not None and "weights" not in supported:
        raise InputError(
            f"`weights` must be left out for the solver {name}, which does not use them. Got weights of shape "
            f"{problem.weights.shape}: use dc.VarPro()."
        )
    if isinstance(solver, ChecksProblem):
        solver.check(problem)


@runtime_checkable
class ChecksProblem(Protocol):
    """A method with conditions that `supports` has no word for."""

    def check(self, problem: Problem) -> None:
        """Raise `InputError` when the method cannot be used on this problem."""


@runtime_checkable
class StartsAt(Protocol):
    """A method that can start at a model."""

    @property
    def given_start(self) -> Decoupling | None:
        """The model that the user wants the search to begin at."""

    def with_start(self, model: Decoupling, *, max_steps: int | None = None) -> AbstractSolver | None:
        """The same method started at a model of the same shape, with at most `max_steps`; None if it cannot be."""


def with_start(solver: AbstractSolver, model: Decoupling, *, max_steps: int | None = None) -> AbstractSolver | None:
    """The same method started at a model of the same shape, with at most `max_steps`; None if it cannot be."""
    return solver.with_start(model, max_steps=max_steps) if isinstance(solver, StartsAt) else None


def given_start(solver: AbstractSolver) -> Decoupling | None:
    """The model that the user wants the search to begin at."""
    return solver.given_start if isinstance(solver, StartsAt) else None


@runtime_checkable
class HasFixedParts(Protocol):
    """A method that keeps parts of the model as they are given, by names such as "W0" or "g1"."""

    @property
    def fixed(self) -> Mapping[str, object]:
        """The parts that stay as they are."""


def fixed_parts(solver: AbstractSolver) -> Mapping[str, object]:
    """The parts of the model that the user has given."""
    return solver.fixed if isinstance(solver, HasFixedParts) else {}


@runtime_checkable
class HasSmoothing(Protocol):
    """A method that holds down the roughness of functions."""

    @property
    def smoothing(self) -> float | Literal["auto"] | None:
        """The weight of the roughness; "auto" lets the data choose it, None is none."""


def check_smoothing(smoothing: object) -> None:
    """Raise unless it is "auto", None or a number that is not negative."""
    if smoothing is not None and not is_word(smoothing, ("auto",)):
        as_number("smoothing", smoothing)


def smoothing_of(solver: AbstractSolver) -> float | Literal["auto"] | None:
    """The weight of the roughness of functions."""
    return solver.smoothing if isinstance(solver, HasSmoothing) else None


@runtime_checkable
class HasTimeLimit(Protocol):
    """A method that watches the clock; others are stopped as by Ctrl-C."""

    def with_time_limit(self, seconds: float) -> AbstractSolver:
        """The same method stopped after about that time, or earlier if it has a limit already."""


def with_time_limit(solver: AbstractSolver, seconds: float) -> AbstractSolver:
    """The same method stopped after about that time, if it can be."""
    return solver.with_time_limit(seconds) if isinstance(solver, HasTimeLimit) else solver


@runtime_checkable
class HasLam(Protocol):
    """A method with a weight lam of the value term, which `TwoStage` can choose."""

    def with_lam(self, lam: float) -> AbstractSolver:
        """The same method with another weight."""


@runtime_checkable
class HasLoss(Protocol):
    """A method that chooses between models by a loss of the task, lower is better."""

    @property
    def loss(self) -> Loss | None:
        """The loss that the user gave; without one the validation samples decide."""

    def with_loss(self, loss: Loss) -> AbstractSolver:
        """The same method with this loss, unless the user gave one."""


def with_loss(solver: AbstractSolver, loss: Loss) -> AbstractSolver:
    """The same method with this loss, if it chooses by a loss and the user gave none."""
    return solver.with_loss(loss) if isinstance(solver, HasLoss) else solver


def uses_validation(solver: AbstractSolver) -> bool:
    """Whether validation samples have a say in what is returned."""
    return isinstance(solver, HasLoss) and solver.loss is None


@runtime_checkable
class HasRidge(Protocol):
    """A method that chooses a penalty on its parameters."""

    def without_ridge(self) -> AbstractSolver:
        """The same method without a penalty that it chooses."""


def without_ridge(solver: AbstractSolver) -> AbstractSolver:
    """The same method without a penalty that it chooses, for fits that are compared by their misfit."""
    return solver.without_ridge() if isinstance(solver, HasRidge) else solver


@runtime_checkable
class OutOfCore(Protocol):
    """A method that fits samples of any size: it solves a subsample of them, and refines that on all."""

    def pilot_size(self, samples: Samples, layers: tuple[LayerBasis, ...], *, linear: bool) -> int | None:
        """How many samples to begin with; None to take all of them at once."""

    def draw_pilot(self, whole: Problem, size: int, rng: np.random.Generator) -> Samples:
        """About `size` of all samples, in memory."""

    def solve_pilot(
        self, problem: Problem, *, n_starts: int, rng: np.random.Generator, progress: ProgressCallback
    ) -> Solution:
        """The answer for a subsample."""

    def improve_on_subsample(
        self, whole: Problem, problem: Problem, found: Solution, progress: ProgressCallback
    ) -> Solution:
        """The answer `found` for a subsample after steps on a larger subsample; asked before a subsample grows."""

    def refine_on_all(self, whole: Problem, problem: Problem, found: Solution, progress: ProgressCallback) -> Solution:
        """The answer for all samples, from the answer `found` for a subsample, the samples of `problem`."""


def out_of_core(solver: AbstractSolver) -> OutOfCore:
    """The solver itself if it can fit samples of any size, else one that returns its answer for a subsample."""
    return solver if isinstance(solver, OutOfCore) else _PilotOnly(solver)


@dataclasses.dataclass(frozen=True)
class _PilotOnly:
    """A solver for samples in memory: of others it solves a subsample, and says so."""

    solver: AbstractSolver

    def pilot_size(self, samples: Samples, layers: tuple[LayerBasis, ...], *, linear: bool) -> int | None:
        return None if samples.in_memory else ModelShape.of(samples, layers, linear=linear).pilot_size(samples)

    def draw_pilot(self, whole: Problem, size: int, rng: np.random.Generator) -> Samples:
        return whole.samples.pilot(size, rng=rng)

    def solve_pilot(
        self, problem: Problem, *, n_starts: int, rng: np.random.Generator, progress: ProgressCallback
    ) -> Solution:
        return self.solver.solve(problem, n_starts=n_starts, rng=rng, progress=progress)

    def improve_on_subsample(
        self, whole: Problem, problem: Problem, found: Solution, progress: ProgressCallback
    ) -> Solution:
        del whole, problem, progress
        return found

    def refine_on_all(self, whole: Problem, problem: Problem, found: Solution, progress: ProgressCallback) -> Solution:
        del progress
        note = (
            f"{type(self.solver).__name__} needs its samples in memory: this is its answer for a subsample of "
            f"{len(problem.samples)} of the {len(whole.samples)} samples. dc.VarPro() uses all of them."
        )
        return dataclasses.replace(found, notes=(*found.notes, note))


# Any solver on samples of any size


def prepare_solve(
    solver: AbstractSolver,
    samples: PreparedSamples,
    layers: tuple[LayerBasis, ...],
    validation: Samples | None,
    *,
    linear: bool,
) -> Callable[..., Solution]:
    """A function of n_starts, rng and progress that solves the problem of all samples; checked as far as possible."""
    problem = Problem(samples, layers, validation, linear)
    size = out_of_core(solver).pilot_size(samples.samples, layers, linear=linear)
    if size is None:
        check_problem(solver, problem)
        return partial(solver.solve, problem)
    return partial(_solve_by_pilot, solver, problem, size)


def _solve_by_pilot(
    solver: AbstractSolver,
    whole: Problem,
    size: int,
    *,
    n_starts: int,
    rng: np.random.Generator,
    progress: ProgressCallback,
) -> Solution:
    """A subsample, as large as it must be, and then all samples."""
    samples, n_free = whole.samples, whole.n_free
    size = min(size, samples.n_samples)
    notes: list[str] = []
    search = solver
    while True:
        large = out_of_core(search)
        pilot = large.draw_pilot(whole, size, rng)
        problem = whole.of_pilot(pilot)
        check_problem(search, problem)
        found = large.solve_pilot(problem, n_starts=n_starts, rng=rng, progress=_with_stage(progress, len(pilot)))
        grown = min(_GROWTH * size, samples.n_samples)
        stopped = found.status is Status.INTERRUPTED
        try:
            enough = grown == size or stopped or not _is_far(whole, found, found, pilot, progress)
            if not enough and pilot.n_numbers >= _TELLING * n_free:
                nearer = large.improve_on_subsample(whole, problem, found, progress)
                enough = nearer is not found and not _is_far(whole, nearer, found, pilot, progress)
                found = nearer if enough else found
        except KeyboardInterrupt:
            enough = stopped = True
        if enough:
            break
        notes.append(f"A subsample of {len(pilot)} was too small: its model fits all {len(samples)} samples far worse.")
        size = grown
        search = with_start(solver, found.decoupling) or solver
    if stopped:
        note = f"Only a subsample of {len(pilot)} was used."
        return dataclasses.replace(found, status=Status.INTERRUPTED, notes=(*found.notes, note))
    solution = out_of_core(solver).refine_on_all(whole, problem, found, progress)
    return dataclasses.replace(solution, notes=(*notes, *solution.notes))


def _is_far(whole: Problem, solution: Solution, found: Solution, pilot: Samples, progress: ProgressCallback) -> bool:
    """Whether the misfit on all samples is far above what the answer `found` on the subsample promises."""
    lam = found.lam if whole.samples.has_values else 1.0
    small = whole.units, whole.prepared.row_scaling(lam)

    def mean_misfit(model: Decoupling, samples: Samples) -> float:
        cost, weight = samples.data.reduce(misfit_task, model, *small, progress=partial(progress, stage="all samples"))
        return float(cost[0] / weight[0])

    fitted = mean_misfit(found.decoupling, pilot)
    expected = fitted * pilot.n_numbers / max(pilot.n_numbers - whole.n_free, 1)
    # Costs of all samples add up to about 1 for a model that explains nothing: these are means over samples.
    least = _EXACT_MISFIT / whole.samples.n_samples
    return mean_misfit(solution.decoupling, whole.samples) > _RATIO_OF_FAR_MISFIT * expected + least


def misfit_task(portion: Portion, model: Decoupling, units: Units, scaling: RowScaling) -> tuple[ndarray, ndarray]:
    """Weighted squares of residuals in the units of the solver, and the sum of the weights."""
    total = np.zeros(1)
    if portion.F is not None:
        left = (portion.F - model.values(portion.X)) / units.y_scale
        total = total + scaling.factor_F**2 * weighted_squares(left[None], portion.weights)
    if portion.J is not None:
        left = units.jacobians(portion.J - model.jacobians(portion.X))
        total = total + scaling.factor_J**2 * weighted_squares(left[None], portion.weights)
    weight = len(portion) if portion.weights is None else np.mean(portion.weights) * len(portion)
    return total, np.array([float(weight)])


def _with_stage(progress: ProgressCallback, size: int) -> ProgressCallback:
    def report(stage: str = "", **values: object) -> None:
        progress(stage=f"subsample of {size}" + (f", {stage}" if stage else ""), **values)

    return report
