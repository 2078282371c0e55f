"""The end of a search with smoothing: phases of steps, each with new domains and new weights of the penalty.

A search with few pieces ends here with many: the model is written in the bases that were asked for, and goes on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bases import LayerBasis
from ._abstract import Solution
from ._chain import Parameters
from ._equations import Equations
from ._levenberg import Dense, descend
from ._parameters import parameters_of
from ._problem import Problem
from ._smooth_coefficients import Smoother
from ._smoothing import FIRST_WEIGHT, Penalty
from ._window import on_window

PHASES = 6
_NO_VALUES = 1e-12  # weight of values that do not count
_NEW_DOMAINS = 2  # phases that begin with domains at the visited range; later ones keep those that nearly are
_STEPS = 25  # of a phase, within which weights stay as they are


@dataclass(frozen=True)
class Smoothed:
    """A model with the smoothing that the data ask for.

    Attributes
    ----------
    theta, cost, record
        Parameters, penalised cost, and the costs on the way.
    penalty
        What held its functions smooth.
    n_effective
        Effective number of parameters.
    score
        Generalised cross-validation: the misfit over the square of the numbers that are left.
    """

    theta: Parameters
    cost: float
    record: list[float]
    penalty: Penalty
    n_effective: float
    score: float


def smooth(
    equations: Equations,
    penalty: Penalty,
    theta: Parameters,
    *,
    chosen: bool,
    phases: int = PHASES,
    deadline: float,
    progress: Callable[[float], None],
) -> Smoothed:
    """Go on from one model in phases; where weights are `chosen`, each phase but the first has new ones."""
    record: list[float] = []
    L, rows, layers = len(equations.problem.layers), equations.rows, equations.problem.layers
    for phase in range(phases if chosen else 2):
        complete = dataclasses.replace(equations.complete, penalty=penalty)
        # Other domains are other knots, which cost a function with kinks much of what it had learned.
        theta = [*on_window(rows.X, layers, theta[: 2 * L], exactly=phase < _NEW_DOMAINS), *theta[2 * L :]]
        descent = descend(
            complete.linearise,
            complete.moved,
            theta,
            max_steps=_STEPS,
            exact=equations.floor,
            deadline=deadline,
            progress=progress,
        )
        theta = descent.theta
        record += descent.record
        cost, at = complete.linearise(theta)
        misfit, plain = dataclasses.replace(complete, penalty=None).linearise(theta)
        assert isinstance(at, Dense) and isinstance(plain, Dense)
        better, used = penalty.improved(at.M[0], plain.M[0], float(misfit[0]), rows.n_numbers, theta, complete.unknowns)
        if descent.out_of_time or descent.interrupted:
            break
        if chosen and phase < phases - 1:
            penalty = better
    left = max(rows.n_numbers - used, 1.0)
    score = float(misfit[0]) / left**2 if np.isfinite(misfit[0]) else np.inf
    return Smoothed(theta, float(cost[0]), record, penalty, used, score)


def refined(coarse: Equations, fine: Equations, found: Smoothed, **options: Any) -> Smoothed:
    """Go on from a model of a search with fewer functions, written in the bases that were asked for."""
    assert fine.penalty is not None
    theta = rewritten(found.theta, coarse.problem.layers, fine.problem.layers)
    ended = smooth(fine, fine.penalty.matched(theta, found.penalty, found.theta), theta, **options)
    return dataclasses.replace(ended, record=found.record + ended.record)


def rewritten(theta: Parameters, old: tuple[LayerBasis, ...], new: tuple[LayerBasis, ...]) -> Parameters:
    """The same models in other bases, constants of inner layers moved on into the arguments behind them."""
    out = [*theta]
    for l, (before, after) in enumerate(zip(old, new, strict=True)):
        C = out[2 * l + 1]
        if l == len(old) - 1:
            out[2 * l + 1] = before.rewritten(C, after)
            break
        full = before.rewritten(np.concatenate([np.zeros((*C.shape[:-1], 1)), C], axis=-1), after)
        following = out[2 * l + 2].copy()
        following[..., -1] += (following[..., :-1] @ full[..., :1])[..., 0]
        out[2 * l + 1], out[2 * l + 2] = full[..., 1:], following
    return out


def with_effective(problem: Problem, lam: float, solution: Solution, smoother: Smoother) -> Solution:
    """The answer of an alternating solver with its effective number of parameters, where the model is small enough."""
    values = 0.0 if problem.F is None else float(np.sum((problem.F - problem.F.mean(axis=0)) ** 2))
    share = lam * values / (problem.size_J or 1.0) or _NO_VALUES  # lam of VarPro, whose terms have size 1
    weight = FIRST_WEIGHT if smoother.smoothing == "auto" else smoother.smoothing
    everything = smoother.smoothing != "auto"
    penalty = Penalty.of(problem.layers, weight, everything=everything)
    equations = Equations(problem, lam=share, ridge=0.0, fixed={}, penalty=penalty)
    if equations.penalty is None:
        return solution
    theta = [p[None] for p in parameters_of(problem, solution.decoupling)]
    _, used = weighed(equations, theta, chosen=not everything)
    note = effective_note(used, equations.unknowns.count(theta))
    return dataclasses.replace(solution, notes=(*solution.notes, note), n_effective=used)


def weighed(equations: Equations, theta: Parameters, *, chosen: bool = True) -> tuple[Penalty, float]:
    """The weights that the data ask for at a model that stays as it is, and its effective number of parameters."""
    penalty, used = equations.penalty, 0.0
    assert penalty is not None
    misfit, plain = dataclasses.replace(equations.complete, penalty=None).linearise(theta)
    for phase in range(PHASES if chosen else 1):
        complete = dataclasses.replace(equations.complete, penalty=penalty)
        _, at = complete.linearise(theta)
        assert isinstance(at, Dense) and isinstance(plain, Dense)
        better, used = penalty.improved(
            at.M[0], plain.M[0], float(misfit[0]), equations.rows.n_numbers, theta, complete.unknowns
        )
        if phase < PHASES - 1 and chosen:
            penalty = better
    return penalty, used


def effective_note(used: float, whole: int) -> str:
    """What smoothing has come to."""
    return f"Smoothing leaves {used:.1f} effective parameters of {whole}."
