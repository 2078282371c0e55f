"""What a solver is asked for."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np

from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...samples._samples import Samples
from ._data_summary import Whole
from ._model_shape import ModelShape
from ._problem import Problem
from ._solution import Solution

# Called with named values now and then: stage (text), done and total (numbers of steps), objective. Alternating solvers
# also give the raw factors: iterate (an `Iterate`) and starts (the number of the start in each of its rows).
ProgressCallback = Callable[..., None]
Loss = Callable[[Decoupling], float]


class AbstractSolver(abc.ABC):
    """A method that finds a decoupling of given shape for given samples.

    Give the three abstract members and `dc.decouple(..., solver=yours)` works; `decouply.testing.check_solver` tries
    it out. The others say what the rest of the package may ask of the method. `fixed` holds the parts of the model that
    are given and stay as they are, by names such as "W0" or "g1".
    """

    fixed: Mapping[str, object] = MappingProxyType({})
    smoothing: float | Literal["auto"] | None = None  # how roughness is held down, see `VarPro`

    @abc.abstractmethod
    def check(self, problem: Problem) -> None:
        """Raise `InputError` when the method cannot be used on this problem."""

    @abc.abstractmethod
    def solve(
        self,
        problem: Problem,
        *,
        n_starts: int,
        rng: np.random.Generator,
        progress: ProgressCallback,
    ) -> Solution:
        """Run all starts and return the best. Call `progress` between steps: Ctrl-C is raised there."""

    @property
    @abc.abstractmethod
    def default_n_starts(self) -> int:
        """How many starts are run when the user does not say."""

    @property
    def uses_values(self) -> bool:
        """Whether values are fitted where they are known."""
        return True

    @property
    def stops_by_itself(self) -> bool:
        """Whether a search with many starts ends as soon as more are not worth their time."""
        return False

    @property
    def uses_validation(self) -> bool:
        """Whether validation samples have a say in what is returned."""
        return False

    @property
    def given_start(self) -> Decoupling | None:
        """The model that the user wants the search to begin at."""
        return None

    def started_at(self, model: Decoupling, *, max_steps: int | None = None) -> AbstractSolver | None:  # noqa: ARG002
        """The same method started at a model of the same shape, with at most so many steps; None if it cannot be."""
        return None

    def judged_by(self, loss: Loss) -> AbstractSolver:  # noqa: ARG002
        """The same method, choosing by a loss of the task (lower is better) where it chooses and was given none."""
        return self

    def unpenalised(self) -> AbstractSolver:
        """The same method without a penalty of its own choice, where fits are compared by their misfit."""
        return self

    def within(self, seconds: float) -> AbstractSolver:  # noqa: ARG002
        """The same method stopped after about so many seconds, if it can be."""
        return self

    def pilot_size(self, samples: Samples, layers: tuple[LayerBasis, ...], *, linear: bool) -> int | None:
        """How many samples to begin with; None to take all of them at once, as where they are in memory."""
        return None if samples.in_memory else ModelShape.of(samples, layers, linear=linear).pilot_size(samples)

    def draw_pilot(self, whole: Whole, size: int, rng: np.random.Generator) -> Samples:
        """About so many of all samples, in memory."""
        return whole.samples.pilot(size, rng=rng)

    def on_pilot(
        self, problem: Problem, *, n_starts: int, rng: np.random.Generator, progress: ProgressCallback
    ) -> Solution:
        """The answer for a pilot, from which `over_all` goes on."""
        return self.solve(problem, n_starts=n_starts, rng=rng, progress=progress)

    def nearer(
        self,
        whole: Whole,  # noqa: ARG002
        problem: Problem,  # noqa: ARG002
        found: Solution,
        progress: ProgressCallback,  # noqa: ARG002
    ) -> Solution:
        """The answer `found` for a pilot after steps on a larger part of all samples; asked before a pilot grows."""
        return found

    def over_all(
        self,
        whole: Whole,
        problem: Problem,
        found: Solution,
        progress: ProgressCallback,  # noqa: ARG002
    ) -> Solution:
        """Go on with all samples from the answer `found` for a pilot, the samples of `problem`."""
        return kept_from_pilot(self, whole, problem, found)


class AbstractWeightedSolver(AbstractSolver):
    """A method with a weight lam of the value term, which `TwoStage` can choose."""

    @abc.abstractmethod
    def with_lam(self, lam: float) -> AbstractWeightedSolver:
        """The same method with another weight."""


def kept_from_pilot(solver: AbstractSolver, whole: Whole, problem: Problem, found: Solution) -> Solution:
    """The answer for a pilot as it is, with a note that says so."""
    note = (
        f"{type(solver).__name__} needs its samples in memory: this is its answer for a pilot of "
        f"{len(problem.samples)} of the {len(whole.samples)} samples. dc.VarPro() uses all of them."
    )
    return dataclasses.replace(found, notes=(*found.notes, note))
