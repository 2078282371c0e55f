"""Peeling: the first layer of a deep model, with everything after it relaxed to one polynomial (see `_relaxed`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from ..least_squares._derivatives import Parameters
from ..least_squares._levenberg_marquardt import descend
from ..least_squares._parameters import exists
from ..problem._start_distributions import Orthonormal
from ._relaxed_tail import Relaxed
from ._start_data import Budget, with_offset

MOST_ROUNDS = 400
_BATCH = 16  # starts of a relaxed search that run side by side
_STEPS, _HALVINGS = 60, (10, 20, 40)
_NEAR, _MET = 1e-8, 1e-23  # relaxed costs: worth more steps, and below which a first layer is believed
_ELITE = 6  # minima of a relaxed search that children are drawn from
_SAME = 1e-2  # costs within this relative distance are the same minimum
_AGREEING, _LEAST_ROUNDS = 3, 40
_NOISY, _NOISY_ROUNDS = 1e-6, 15  # poor minima of exact data are rarely so high


def peeled(
    relaxed: Relaxed,
    after: Callable[[Parameters], Parameters | None],
    rng: np.random.Generator,
    budget: Budget,
    rounds: int = MOST_ROUNDS,
) -> Parameters | None:
    """Rounds of relaxed searches: new starts and children of good minima, until a first layer leads on.

    `after` finds the layers that come after a first one, where that is possible.
    Where the best minimum is found again and again but does not meet the data, these are noisy, and it is taken.
    """
    elite: list[_Minimum] = []
    for count in range(1, rounds + 1):
        if budget.over():
            return None
        end = descend(
            relaxed.linearise,
            relaxed.moved,
            _drawn(relaxed, elite, rng),
            max_steps=_STEPS,
            exact=_MET,
            deadline=budget.deadline,
            halve_at=_HALVINGS,
            progress=budget.progress,
        )
        if end.interrupted:
            return None
        for i in np.argsort(end.cost, kind="stable")[:4]:
            _enter(elite, float(end.cost[i]), [p[i : i + 1] for p in end.theta])
        elite.sort(key=lambda minimum: minimum.cost)
        del elite[_ELITE:]
        for minimum in [minimum for minimum in elite if minimum.cost <= _NEAR and not minimum.tried]:
            minimum.tried = True
            theta, cost = _sharpened(relaxed, minimum.theta, budget)
            minimum.theta, minimum.cost = theta, cost
            rest = after(theta) if cost <= _MET else None
            if rest is not None:
                return [p[0] for p in theta] + rest
        enough = _NOISY_ROUNDS if elite and elite[0].cost > _NOISY else _LEAST_ROUNDS
        if count >= enough and elite and elite[0].found >= _AGREEING:
            best = elite[0].theta
            rest = after(best)
            return None if rest is None else [p[0] for p in best] + rest
    return None


@dataclass
class _Minimum:
    """Where relaxed starts have ended, how often, and whether it was followed."""

    cost: float
    theta: Parameters
    found: int = 1
    tried: bool = False


def _sharpened(relaxed: Relaxed, theta: Parameters, budget: Budget) -> tuple[Parameters, float]:
    end = descend(
        relaxed.precisely,
        relaxed.moved,
        theta,
        max_steps=_STEPS,
        exact=_MET,
        to_rounding=True,
        deadline=budget.deadline,
        progress=budget.progress,
    )
    return end.theta, float(end.cost[0])


def _drawn(relaxed: Relaxed, elite: list[_Minimum], rng: np.random.Generator) -> Parameters:
    """A batch of starts; once minima are known, three quarters are their children."""
    r, m, d = len(relaxed.layer.bases), relaxed.rows.X.shape[1], relaxed.layer.size
    W = np.stack([with_offset(Orthonormal().draw(rng, (r, m))) for _ in range(_BATCH)])
    C = rng.normal(size=(_BATCH, r, d)) * exists(relaxed.layer, d)
    for b in range(_BATCH * 3 // 4 if elite else 0):
        parent_W, parent_C = elite[min(int(rng.exponential(1.5)), len(elite) - 1)].theta
        W[b], C[b] = _child(parent_W[0], parent_C[0], W[b], C[b], rng)
    return relaxed.on_window([W, C], exactly=True)


def _child(W: ndarray, C: ndarray, new_W: ndarray, new_C: ndarray, rng: np.random.Generator) -> tuple[ndarray, ndarray]:
    """Directions are often right where functions are not: take new coefficients for all functions, or for one; reflect
    one function; or take one function with a new direction."""
    W, C = W.copy(), C.copy()
    move, j = rng.integers(4), rng.integers(len(C))
    if move == 0:
        C = new_C
    elif move == 1:
        C[j] = new_C[j]
    elif move == 2:
        C[j, ::2] *= -1.0
    else:
        W[j], C[j] = new_W[j], new_C[j]
    return W, C


def _enter(elite: list[_Minimum], cost: float, theta: Parameters) -> None:
    """Note a minimum, or that it was found again."""
    if not np.isfinite(cost):
        return
    for known in elite:
        if abs(np.log(max(cost, 1e-300) / max(known.cost, 1e-300))) <= _SAME:
            known.found += 1
            return
    elite.append(_Minimum(cost, theta))
