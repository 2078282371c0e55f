"""What a solver takes and what it gives back."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._optional_packages import needed
from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...samples._samples import Samples
from ..least_squares._roughness_penalty import Penalty
from ._data_summary import Whole
from ._model_shape import n_free
from ._problem import Problem
from ._solution import Status

_NUMBERS_PER_UNKNOWN = 20  # of a pilot; what follows grows it where that was too few
_LEAST_PILOT = 200  # samples

# Called with named values now and then: stage (text), done and total (numbers of steps), objective. Alternating solvers
# also give the raw factors: iterate (an `Iterate`) and starts (the number of the start in each of its rows).
ProgressCallback = Callable[..., None]
Loss = Callable[[Decoupling], float]


@dataclass(frozen=True)
class History:
    """What happened to the returned start, one entry per iteration over all values of lam in turn.

    For `VarPro` it is the best cost of the batch that the result comes from, first with the last layer eliminated and
    then with all parameters; it does not look at the two errors on the way (NaN).
    """

    lam: Float[ndarray, " t"]
    objective: Float[ndarray, " t"]
    error_jacobian: Float[ndarray, " t"]
    error_values: Float[ndarray, " t"]

    @classmethod
    def of(cls, objective: Sequence[float]) -> History:
        """A history of which only the objective is known."""
        values = np.asarray(objective, dtype=float)
        unknown = np.full(len(values), np.nan)
        return cls(unknown, values, unknown, unknown)

    def __len__(self) -> int:
        return len(self.objective)

    def to_frame(self) -> Any:
        """The history as a pandas DataFrame, one row per iteration, counted from 1."""
        pandas = needed("pandas", "pandas", "History.to_frame")
        columns = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return pandas.DataFrame(columns, index=pandas.RangeIndex(1, len(self) + 1, name="iteration"))


@dataclass(frozen=True)
class StartRow:
    """One start: the objective and errors of the iterate that was kept, in the units of the solver, and how it ended.

    Errors are weighted like the samples and measured in standard units, unless the data were taken as given.
    NaN stands for what is not known: values that a solver does not look at, starts that were dropped early. `build`
    makes the model of the start, where the solver kept its factors.
    """

    start: int
    lam: float
    objective: float
    error_jacobian: float
    error_values: float
    steps: int
    status: Status
    seconds: float
    build: Callable[[], Decoupling] | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def decoupling(self) -> Decoupling | None:
        """The model that this start ended with, built when asked for; None where it was not kept, as in `VarPro`."""
        return None if self.build is None else self.build()

    def record(self) -> dict[str, Any]:
        """What is known of the start by name, without the model: plain values for tables and files."""
        known = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "build"}
        return known | {"status": self.status.name}


@dataclass(frozen=True)
class LamRow:
    """One value of lam that was tried by `TwoStage`."""

    lam: float
    loss: float
    objective: float
    error_jacobian: float
    error_values: float
    steps: int
    chosen: bool


@dataclass(frozen=True)
class Solution:
    """A solver's answer, in the user's coordinates."""

    decoupling: Decoupling
    status: Status
    lam: float
    history: History
    starts: tuple[StartRow, ...]
    path: tuple[LamRow, ...] = ()
    notes: tuple[str, ...] = ()
    as_is: bool = False  # parts were given by the user, so the model must not be rewritten in canonical form
    found_by: str = ""  # the way that led to the answer, where a method knows several
    ridge: float = 0.0  # the penalty on parameters that the method chose
    n_effective: float | None = None  # effective parameters, where a method smooths
    penalty: Penalty | None = None  # what held its functions smooth


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
        return None if samples.data.at_hand else pilot_samples(samples, layers, linear=linear)

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
        whole: Whole,  # noqa: ARG002
        problem: Problem,  # noqa: ARG002
        found: Solution,
        progress: ProgressCallback,  # noqa: ARG002
    ) -> Solution:
        """Go on with all samples from the answer `found` for a pilot, the samples of `problem`."""
        return kept_from_pilot(self, found)


class AbstractWeightedSolver(AbstractSolver):
    """A method with a weight lam of the value term, which `TwoStage` can choose."""

    @abc.abstractmethod
    def with_lam(self, lam: float) -> AbstractWeightedSolver:
        """The same method with another weight."""


def kept_from_pilot(solver: AbstractSolver, found: Solution) -> Solution:
    """The answer for a pilot as it is, with a word about it."""
    note = f"{type(solver).__name__} has no steps over stored samples here: this is its answer for the pilot."
    return dataclasses.replace(found, notes=(*found.notes, note))


def pilot_samples(samples: Samples, layers: tuple[LayerBasis, ...], *, linear: bool) -> int:
    """So many samples that there are twenty numbers for every unknown, and at least two hundred."""
    m, n = samples.n_inputs, samples.n_outputs
    unknowns = n_free(m, layers, n, values=samples.has_values, linear=linear)
    per_sample = samples.n_numbers // samples.n_samples
    return max(_LEAST_PILOT, -(-_NUMBERS_PER_UNKNOWN * unknowns // per_sample))
