"""The end of a search with smoothing: phases of steps, each with new domains and new weights of the penalty.

A search with few pieces ends here with many: the model is written in the bases that were asked for, and goes on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...bases import LayerBasis
from ..least_squares._derivatives import Parameters, run_chain
from ..least_squares._fitting_problem import WEIGHT_STEPS, Equations
from ..least_squares._levenberg_marquardt import Dense, descend
from ..least_squares._rescaling import on_window
from ..least_squares._roughness_penalty import FIRST_WEIGHT, Penalty, orders
from ..least_squares._variable_projection import Complete

_NEW_DOMAINS = 2  # phases that begin with domains at the visited range; later ones keep those that nearly are
_MOST_FACTOR = 1e3  # of the values, against Jacobians
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
    factor
        By how much values count more, against Jacobians, than in the search.
    """

    theta: Parameters
    cost: float
    record: list[float]
    penalty: Penalty
    n_effective: float
    score: float
    factor: float


def smooth(
    equations: Equations,
    penalty: Penalty,
    theta: Parameters,
    *,
    chosen: bool,
    phases: int = WEIGHT_STEPS,
    factor: float = 1.0,
    follows: bool = False,
    deadline: float,
    progress: Callable[[float], None],
) -> Smoothed:
    """Go on from one model in phases; where weights are `chosen`, each phase but the first has new ones.

    Where the weight of the values `follows`, values and Jacobians end with the same weighted misfit per number.
    """
    record: list[float] = []
    L, layers = len(equations.problem.layers), equations.problem.layers
    follows = follows and equations.rows.values and equations.rows.jacobians
    for phase in range(phases if chosen else 2):
        rows = equations.rows if factor == 1.0 else equations.rows.balanced(factor)
        complete = dataclasses.replace(equations.complete, penalty=penalty, rows=rows)
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
        per_number = float(misfit[0])
        ended = descent.out_of_time or descent.interrupted or phase == (phases if chosen else 2) - 1
        if follows and equations.floor < per_number < np.inf:
            ratio, per_number = _balance(complete, theta, factor)
            factor = factor if ended else float(np.clip(factor * ratio, 1.0 / _MOST_FACTOR, _MOST_FACTOR))
        if ended:
            break
        if chosen:
            penalty = better
    left = max(rows.n_numbers - used, 1.0)
    score = per_number / left**2 if np.isfinite(misfit[0]) else np.inf
    return Smoothed(theta, float(cost[0]), record, penalty, used, score, factor)


def _balance(complete: Complete, theta: Parameters, factor: float) -> tuple[float, float]:
    """By how much values should count more, and a misfit that does not depend on how much they do.

    That misfit is the geometric mean of those of values and Jacobians, each number counting once: the likelihood with a
    noise level of its own for each.
    """
    rows = complete.rows
    residual = complete.residual(theta, run_chain(complete.layers, theta[: 2 * len(complete.layers) - 1], rows.X))[0]
    of_values, of_slopes = float(np.mean(residual[:, :1] ** 2)), float(np.mean(residual[:, 1:] ** 2))
    if of_values == 0.0 or of_slopes == 0.0:
        return 1.0, float(np.sum(residual**2)) / factor
    share = 1.0 / rows.Y.shape[1]
    mean = np.exp(share * np.log(of_values / factor) + (1.0 - share) * np.log(of_slopes))
    return of_slopes / of_values, float(mean) * rows.Y.size


def refined(coarse: Equations, fine: Equations, found: Smoothed, **options: Any) -> Smoothed:
    """Go on from a model of a search with fewer functions, written in the bases that were asked for."""
    assert fine.penalty is not None
    theta = rewritten(found.theta, coarse.problem.layers, fine.problem.layers)
    penalty = fine.penalty.matched(theta, found.penalty, found.theta)
    ended = smooth(fine, penalty, theta, factor=found.factor, **options)
    return dataclasses.replace(ended, record=found.record + ended.record)


def of_best_order(equations: Equations, found: Smoothed, **options: Any) -> Smoothed:
    """The model with the kind of roughness that the data ask for: go on with the other ones, and compare."""
    best = found
    for order in orders(equations.problem.layers)[1:]:
        other = Penalty.of(equations.problem.layers, FIRST_WEIGHT, everything=False, order=order)
        assert other is not None
        penalty = other.matched(found.theta, found.penalty, found.theta)
        tried = smooth(equations, penalty, found.theta, factor=found.factor, **options)
        if tried.score < best.score:
            best = dataclasses.replace(tried, record=found.record + tried.record)
    return best


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


def balance_note(factor: float) -> tuple[str, ...]:
    """What has become of the weight of the values; nothing where it is as it was."""
    if factor == 1.0:
        return ()
    return (f"Values count {factor:.2g} times as much as Jacobians (`lam`): that is how well each of them is met.",)
