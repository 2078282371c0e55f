"""PROJ-CMPT-L and CONSTR-CMPT-L: Algorithm 1 of the paper with its two ways to update the coefficients c_l."""

from __future__ import annotations

import abc
import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..._support._arguments import as_number, settle_numbers
from ..._support._errors import InputError, short_repr
from ..problem._problem import Problem
from ..problem._solution import Solution
from ..problem._solver import Feature, ProgressCallback, check_smoothing
from ._coefficient_updates import (
    CoefficientUpdate,
    Smoother,
    update_c_constr,
    update_c_proj,
    update_c_proj_weighted,
    with_effective_parameters,
)
from ._loop import AbstractAlternatingSolver, Run, Stopping, objective_of, run_starts, solution_of
from ._sweep import Iterate, sweep


@dataclass(frozen=True, kw_only=True)
class _AbstractCMPT(AbstractAlternatingSolver):
    """Sweeps W_0, (c_1, W_1), ..., (c_L, W_L) with a fixed lam."""

    lam: float = 1e-6
    smoothing: float | Literal["auto"] | None = "auto"

    supports: ClassVar[frozenset[Feature]] = frozenset({"layers", "linear", "weights", "Jacobians only"})

    def __post_init__(self) -> None:
        super().__post_init__()
        as_number("lam", self.lam)
        settle_numbers(self, "lam")
        check_smoothing(self.smoothing)

    @property
    @abc.abstractmethod
    def update_c(self) -> CoefficientUpdate:
        """The way to the coefficients."""

    def with_lam(self, lam: float) -> _AbstractCMPT:
        return dataclasses.replace(self, lam=lam)

    def solve_from(self, problem: Problem, start: Iterate, progress: ProgressCallback) -> Solution:
        smoother = Smoother.of(problem.layers, self.smoothing, standard=problem.standard)
        run = run_cmpt(problem, start, self.lam, self.update_c, smoother, self.stopping, progress)
        solution = solution_of(problem, run)
        if self.lam == 0.0 and problem.F is not None:
            note = "lam is 0: values were not used, so constants are 0."
            solution = dataclasses.replace(solution, notes=(note,))
        return solution if smoother is None else with_effective_parameters(problem, self.lam, solution, smoother)


@dataclass(frozen=True, kw_only=True)
class Proj(_AbstractCMPT):
    """PROJ-CMPT-L: least squares for G^(l) and R as if they were free, then projection onto the basis functions.

    Cheapest per iteration; the projection may raise the objective.

    Parameters
    ----------
    lam : float
        Weight of the value term.
    weighted_projection : bool
        Whether the projection weighs each sample by how much the objective feels it there. False is the projection
        as printed in the paper. True gave much smaller errors on the paper's systems (notes/findings.md).
    start : start or Decoupling
        Distribution of the random start values, or a `Decoupling` to start from.
    stopping : Stopping
        When a start ends, and with which of its iterates, see `Stopping`.
    smoothing : float or "auto", optional
        How the roughness of functions is held down, as in `VarPro`: "auto" for bases that ask for it, with weights
        found anew in every update. A number for functions of any basis. None for none.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    >>> result = dc.decouple(samples, ranks=2, degrees=3, solver=dc.Proj(), n_starts=2)
    >>> result.decoupling.ranks, len(result.starts)
    ((2,), 2)
    """

    weighted_projection: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.weighted_projection, bool):
            raise InputError(
                f"`weighted_projection` must be True or False. Got {short_repr(self.weighted_projection)}."
            )

    @property
    def update_c(self) -> CoefficientUpdate:
        return update_c_proj_weighted if self.weighted_projection else update_c_proj


@dataclass(frozen=True, kw_only=True)
class Constr(_AbstractCMPT):
    """CONSTR-CMPT-L: the coefficients c_l are updated directly, all functions of a layer together.

    Dearer per iteration than `Proj` and usually more accurate.

    Parameters
    ----------
    lam : float
        Weight of the value term.
    start : start or Decoupling
        Distribution of the random start values, or a `Decoupling` to start from.
    stopping : Stopping
        When a start ends, and with which of its iterates, see `Stopping`.
    smoothing : float or "auto", optional
        How the roughness of functions is held down, as in `VarPro`: "auto" for bases that ask for it, with weights
        found anew in every update. A number for functions of any basis. None for none.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    >>> result = dc.decouple(samples, ranks=2, degrees=3, solver=dc.Constr(), n_starts=2)
    >>> result.decoupling.ranks, len(result.starts)
    ((2,), 2)
    """

    @property
    def update_c(self) -> CoefficientUpdate:
        return update_c_constr


def run_cmpt(
    problem: Problem,
    start: Iterate,
    lam: float,
    update_c: CoefficientUpdate,
    smoother: Smoother | None,
    stopping: Stopping,
    progress: ProgressCallback,
) -> Run:
    """Algorithm 1: sweeps with a fixed lam until the stopping criterion is met."""

    def step(state: Iterate, _: int) -> tuple[Iterate, float]:
        return sweep(problem, state, lam, update_c, smoother), lam

    return run_starts(problem, start, step, objective_of, lam, stopping, progress)
