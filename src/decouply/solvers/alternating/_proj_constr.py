r"""PROJ-CMPT-L and CONSTR-CMPT-L: alternating minimisation of ||J - PT_L||^2 + lam ||F - R W_L^T||^2.

Both update W_0, (c_1, W_1), ..., (c_L, W_L) in turn and differ in the update of the coefficients c_l only.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from ..._support._arguments import as_count, as_number, is_word
from ..._support._errors import InputError
from ..._support._messages import short_repr
from ...model._decoupling import Decoupling
from ..least_squares._roughness_penalty import check_smoothing
from ..problem._problem import Problem
from ..problem._sample_weights import by_output
from ..problem._solution import Solution
from ..problem._solver import Feature, ProgressCallback
from ..problem._start_distributions import AbstractStart, Uniform, draw_factors
from ..varpro._smoothing_choice import with_effective
from ._coefficient_updates import Update, constrained, projected, projected_weighted
from ._iterate import Iterate
from ._loop import Run, Stopping, WhichIterate, run_starts, solution_of, weighted_sum
from ._options import AbstractStartedSolver
from ._smoothed_coefficients import Smoother
from ._sweep import CoefficientUpdate, sweep


@dataclass(frozen=True, kw_only=True)
class Proj(AbstractStartedSolver):
    """PROJ-CMPT-L: least squares for G^(l) and R as if they were free, then projection onto the basis functions.

    Cheapest per iteration; the projection may raise the objective.

    Parameters
    ----------
    lam
        Weight of the value term.
    weighted_projection
        Whether the projection weighs each sample by how much the objective feels it there. False is the projection
        as printed in the paper; True gave much smaller errors on the paper's systems (notes/findings.md).
    min_steps, max_steps, patience
        A start ends after `max_steps`, or, past `min_steps`, after `patience` steps without a decrease.
    max_seconds
        All starts end after so many seconds, with the best so far; None is no limit.
    iterate
        Which iterate of a start is the answer: the "best" by the objective, or the "last", where the paper's rule of
        stopping ends. Updates that are not exact may raise the objective, so the two differ.
    start
        Distribution of the random start values, or a `Decoupling` to start from.
    smoothing
        How the roughness of functions is held down, as in `VarPro`: "auto" for bases that ask for it, with weights
        found anew in every update; a number for functions of any basis; None for none.
    """

    lam: float = 1e-6
    weighted_projection: bool = True
    min_steps: int = 10
    max_steps: int = 500
    patience: int = 50
    max_seconds: float | None = None
    iterate: WhichIterate = "best"
    start: AbstractStart | Decoupling = field(default_factory=Uniform)
    smoothing: float | Literal["auto"] | None = "auto"

    def __post_init__(self) -> None:
        check_options(
            self.lam, self.min_steps, self.max_steps, self.patience, self.iterate, self.start, self.max_seconds
        )
        check_smoothing(self.smoothing)
        if not isinstance(self.weighted_projection, bool):
            raise InputError(
                f"`weighted_projection` must be True or False. Got {short_repr(self.weighted_projection)}."
            )

    supports: ClassVar[frozenset[Feature]] = frozenset({"layers", "linear", "weights", "Jacobians only"})

    def check(self, problem: Problem) -> None:
        needs_plain_weights(problem, type(self).__name__)

    def with_lam(self, lam: float) -> Proj:
        return dataclasses.replace(self, lam=lam)

    def solve(
        self,
        problem: Problem,
        *,
        n_starts: int,
        rng: np.random.Generator,
        progress: ProgressCallback,
    ) -> Solution:
        start = draw_factors(problem, self.start, n_starts, rng)
        update = self._update()
        smoother = Smoother.of(problem.layers, self.smoothing, standard=problem.standard)
        run = run_cmpt(problem, start, self.lam, partial(update, smoother=smoother), self.stopping, progress)
        solution = with_note_about_constants(problem, self.lam, solution_of(problem, run))
        return solution if smoother is None else with_effective(problem, self.lam, solution, smoother)

    def _update(self) -> Update:
        return projected_weighted if self.weighted_projection else projected


@dataclass(frozen=True, kw_only=True)
class Constr(AbstractStartedSolver):
    """CONSTR-CMPT-L: the coefficients c_l are updated directly, all functions of a layer together.

    Dearer per iteration than `Proj` and usually more accurate.

    Parameters
    ----------
    lam
        Weight of the value term.
    min_steps, max_steps, patience
        A start ends after `max_steps`, or, past `min_steps`, after `patience` steps without a decrease.
    max_seconds
        All starts end after so many seconds, with the best so far; None is no limit.
    iterate
        Which iterate of a start is the answer: the "best" by the objective, or the "last", where the paper's rule of
        stopping ends. Updates that are not exact may raise the objective, so the two differ.
    start
        Distribution of the random start values, or a `Decoupling` to start from.
    smoothing
        How the roughness of functions is held down, as in `VarPro`: "auto" for bases that ask for it, with weights
        found anew in every update; a number for functions of any basis; None for none.
    """

    lam: float = 1e-6
    min_steps: int = 10
    max_steps: int = 500
    patience: int = 50
    max_seconds: float | None = None
    iterate: WhichIterate = "best"
    start: AbstractStart | Decoupling = field(default_factory=Uniform)
    smoothing: float | Literal["auto"] | None = "auto"

    def __post_init__(self) -> None:
        check_options(
            self.lam, self.min_steps, self.max_steps, self.patience, self.iterate, self.start, self.max_seconds
        )
        check_smoothing(self.smoothing)

    supports: ClassVar[frozenset[Feature]] = frozenset({"layers", "linear", "weights", "Jacobians only"})

    def check(self, problem: Problem) -> None:
        needs_plain_weights(problem, type(self).__name__)

    def with_lam(self, lam: float) -> Constr:
        return dataclasses.replace(self, lam=lam)

    def solve(
        self,
        problem: Problem,
        *,
        n_starts: int,
        rng: np.random.Generator,
        progress: ProgressCallback,
    ) -> Solution:
        start = draw_factors(problem, self.start, n_starts, rng)
        smoother = Smoother.of(problem.layers, self.smoothing, standard=problem.standard)
        update = partial(constrained, smoother=smoother)
        run = run_cmpt(problem, start, self.lam, update, self.stopping, progress)
        solution = with_note_about_constants(problem, self.lam, solution_of(problem, run))
        return solution if smoother is None else with_effective(problem, self.lam, solution, smoother)


def run_cmpt(
    problem: Problem,
    start: Iterate,
    lam: float,
    update_coefficients: CoefficientUpdate,
    stopping: Stopping,
    progress: ProgressCallback,
) -> Run:
    """Sweep with a fixed lam."""

    def step(state: Iterate, _: int) -> tuple[Iterate, float]:
        return sweep(problem, state, lam, update_coefficients), lam

    return run_starts(problem, start, step, weighted_sum, lam, stopping, progress)


def with_note_about_constants(problem: Problem, lam: float, solution: Solution) -> Solution:
    """Say so where values are known and do not count."""
    if lam == 0.0 and problem.F is not None:
        return dataclasses.replace(solution, notes=("lam is 0: values were not used, so constants are 0.",))
    return solution


def check_options(
    lam: float,
    min_steps: int,
    max_steps: int,
    patience: int,
    iterate: object,
    start: object,
    max_seconds: float | None = None,
) -> None:
    """The rules that the options of every alternating solver obey."""
    as_number("lam", lam)
    as_count("min_steps", min_steps, least=0)
    as_count("max_steps", max_steps)
    as_count("patience", patience)
    if max_seconds is not None:
        as_number("max_seconds", max_seconds, above=True)
    if not is_word(iterate, ("best", "last")):
        raise InputError(f'`iterate` must be "best" or "last". Got {short_repr(iterate)}.')
    if not isinstance(start, AbstractStart | Decoupling):
        raise InputError(
            f"`start` must be a distribution such as dc.Uniform(0.1, 10) or a Decoupling. Got {short_repr(start)}."
        )


def needs_plain_weights(problem: Problem, name: str) -> None:
    """The update of a linear part treats all outputs alike."""
    if problem.linear and problem.weights is not None and by_output(problem.weights):
        raise InputError(
            f"`weights` must hold one number per sample for the solver {name} with linear=True. Got shape "
            f"{problem.weights.shape}: use dc.VarPro()."
        )
