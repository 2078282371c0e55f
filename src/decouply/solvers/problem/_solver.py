"""The contract of a solver: three members that every one has, and small protocols for what some can do besides.

The package asks `with_start(solver, model)` and the other functions below, never the protocols themselves: each of them
knows what to do with a solver that cannot.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from ..._support._arguments import as_number, is_word
from ..._support._errors import InputError
from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...samples._samples import Samples
from ._problem import ModelShape, Problem
from ._solution import Solution

# Called with named values now and then: stage (text), done and total (numbers of steps), objective. Alternating solvers
# also give the raw factors: iterate (an `Iterate`) and starts (the number of the start in each of its rows).
ProgressCallback = Callable[..., None]
Loss = Callable[[Decoupling], float]
Feature = Literal["layers", "linear", "weights", "values only", "Jacobians only", "many starts"]


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
