r"""What keeps a model from following noise: a ridge chosen from the misfit, or weights of roughness.

If data are noisy, the lowest minimum lies below the truth: it follows the noise, with large weights that cancel each
other at the samples and nowhere else. The ridge is 30 c / N, with c the cost without a ridge and N the numbers that are
fitted. It was the best of those compared (docs/benchmarks/exact-recovery.md). Restricted maximum likelihood and
generalised cross-validation look at one minimum at a time, and choose too little. The more numbers, the smaller it is.
It is taken only if the data allow it: the true model has N / (N - p) times the misfit of a fit of p parameters. A ridge
that raises the misfit much above that distorts the model, and a third of it is tried.

Functions with many pieces are smoothed after the search, in phases of steps, each with new domains and new weights of
the penalty. The search is made with few functions of each basis. The best minima are smoothed in those. The best of
them are then written in the bases that were asked for and smoothed again. The kinds of roughness are compared at last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...bases import LayerBasis
from ..least_squares._derivatives import run_chain
from ..least_squares._fitting_problem import WEIGHT_STEPS, FittingProblem, effective_note
from ..least_squares._levenberg_marquardt import Dense, DescentOptions, descend
from ..least_squares._parameters import Parameters, rescale_to_window
from ..least_squares._roughness_penalty import FIRST_WEIGHT, Penalty, roughness_orders
from ..least_squares._variable_projection import Complete
from ..problem._solution import Solution, Status
from ._search import GIVEN, Minimum, Search, history_of

_RIDGE_PER_COST = 30.0  # of the cost per number
_ALLOWED_RISE = 2.5  # times the rise p / (N - p) of the misfit that the truth would show
_RIDGE_SHRINKAGE, _MAX_TRIES = 3.0, 4
_LEAST_RIDGE = 1e-13  # changes no digit that counts

_FEW_PHASES = 3  # of models that are only compared, or that begin near their end
_N_SMOOTHED = 2  # minima that are smoothed in the bases that were asked for ...
_N_COMPARED = 4  # ... and in those of a search with fewer functions
_NEW_DOMAINS = 2  # phases that begin with domains at the visited range; later ones keep those that nearly are
_MAX_FACTOR = 1e3  # of the values, against Jacobians
_PHASE_STEPS = 25  # of a phase, within which weights stay as they are ...
_PHASE_SETTLES_AFTER = 4  # ... and which ends after so many steps that gained next to nothing
_SAME_COST = 1e-3  # relative difference of minima that are one and the same


# A ridge


@dataclass(frozen=True)
class RidgeChoice:
    """Which ridges to try, and which of them the data allow."""

    cost: float  # of the best model without a ridge
    n_numbers: int  # that are fitted
    n_free: int  # parameters
    zero_cost: float  # of the model 0

    def candidates(self) -> Iterator[float]:
        """Ridges to try, largest first; take the first that is allowed."""
        for k in range(_MAX_TRIES):
            ridge = _RIDGE_PER_COST * self.cost / self.n_numbers / _RIDGE_SHRINKAGE**k
            if ridge > _LEAST_RIDGE:
                yield ridge

    @property
    def max_misfit(self) -> float:
        """The misfit up to which a model with a ridge may be as good as the truth.

        At least half of what was explained stays explained, so that no ridge leads to the model 0.
        """
        as_the_truth = self.cost * (1.0 + _ALLOWED_RISE * self.n_free / max(self.n_numbers - self.n_free, 1))
        return min(as_the_truth, (self.cost + self.zero_cost) / 2.0)


def ridge_note(ridge: float) -> str:
    """What the user reads of the ridge that was chosen."""
    return f"A small penalty (ridge {ridge:.1e}, chosen from the misfit) keeps the weights moderate."


def solution_with_ridge(plain: Solution, search: Search, search_with: Callable[[float, float], Search]) -> Solution:
    """The answer with the largest ridge that the data allow; the plain one, of `search`, if they allow none.

    `search_with` searches with a given ridge for this many seconds.
    """
    problem, rows = search.problem, search.equations.rows
    zero_cost = problem.prepared.zero_cost(problem.prepared.row_scaling(plain.lam))
    choice = RidgeChoice(search.table.best.cost, rows.n_numbers, problem.n_free, zero_cost)
    for ridge in choice.candidates():
        left = search.schedule.max_seconds - search.seconds
        if left <= 0.0:
            note = "There was no time left to choose a ridge: raise `max_seconds`."
            return dataclasses.replace(plain, notes=(*plain.notes, note))
        ridged = search_with(ridge, left)
        if not ridged.table.minima:
            continue
        best = ridged.table.best
        misfit = best.cost - ridge * float(np.sum(ridged.equations.unknowns.flatten(best.theta) ** 2))
        if misfit <= choice.max_misfit:
            found = ridged.solution()
            return dataclasses.replace(
                found,
                starts=plain.starts,
                history=plain.history,
                notes=(*plain.notes, ridge_note(ridge)),
                found_by=found.found_by if found.found_by != GIVEN else plain.found_by,
                ridge=ridge,
            )
    return plain


# Weights of roughness


@dataclass(frozen=True)
class Smoothed:
    """A model with the smoothing that the data ask for."""

    theta: Parameters
    cost: float  # with the penalty
    record: list[float]  # costs on the way
    penalty: Penalty  # what held its functions smooth
    n_effective: float  # parameters
    score: float  # generalised cross-validation: the misfit over the square of the numbers that are left
    factor: float  # by which values count more, against Jacobians, than in the search
    interrupted: bool  # by Ctrl-C


@dataclass(frozen=True)
class SmoothingChoice:
    """How the minima of a search are smoothed."""

    coarse: FittingProblem  # of the search
    fine: FittingProblem | None  # with the bases that were asked for; None if these are the same
    chooses_weights: bool  # of roughness by the data; otherwise these stay as they are given
    chooses_lam: bool  # so that values and Jacobians end with the same weighted misfit per number
    deadline: float  # a time of `now`
    progress: Callable[[float], None]  # called with the cost after every step

    def best_of(self, minima: list[Minimum]) -> tuple[Smoothed, Minimum]:
        """The best model with the smoothing that the data ask for, and the minimum that it comes from."""
        penalty = self.coarse.penalty
        assert penalty is not None
        count, phases = (_N_SMOOTHED, WEIGHT_STEPS) if self.fine is None else (_N_COMPARED, _FEW_PHASES)
        found: list[tuple[Smoothed, Minimum]] = []
        for minimum in _different(minima)[:count]:
            found.append((self.smooth(self.coarse, penalty, minimum.theta, phases=phases), minimum))
            if found[-1][0].interrupted:
                break
        found.sort(key=lambda pair: pair[0].score)
        if self.fine is not None:
            found = [(self._refine_basis(one, self.fine), origin) for one, origin in found[:_N_SMOOTHED]]
        best, origin = min(found, key=lambda pair: pair[0].score)
        if self.chooses_weights and not any(one.interrupted for one, _ in found):
            best = self._best_order(best)
        return best, origin

    def smooth(
        self,
        equations: FittingProblem,
        penalty: Penalty,
        theta: Parameters,
        *,
        phases: int = WEIGHT_STEPS,
        factor: float = 1.0,
        before: Sequence[float] = (),
    ) -> Smoothed:
        """Go on from one model in phases; each but the first has new weights, if the data choose them."""
        record, layers = list(before), equations.problem.layers
        chooses_lam = self.chooses_lam and equations.rows.values and equations.rows.jacobians
        phases = phases if self.chooses_weights else 2
        for phase in range(phases):
            rows = equations.rows if factor == 1.0 else equations.rows.with_values_times(factor)
            complete = dataclasses.replace(equations.complete, penalty=penalty, rows=rows)
            # Other domains are other knots, which cost a function with kinks much of what it had learned.
            theta = rescale_to_window(rows.X, layers, theta, exactly=phase < _NEW_DOMAINS)
            descent = descend(
                complete.linearise,
                complete.after_step,
                theta,
                DescentOptions(_PHASE_STEPS, equations.floor, settles_after=_PHASE_SETTLES_AFTER),
                deadline=self.deadline,
                progress=self.progress,
            )
            theta = descent.theta
            record += descent.record
            # Weights for the next phase, from the matrix without the penalty.
            misfit, plain = dataclasses.replace(complete, penalty=None).linearise(theta)
            assert isinstance(plain, Dense)
            better, used = penalty.improve_weights(
                plain.M[0], float(misfit[0]), rows.n_numbers, theta, complete.unknowns
            )
            cost = float(misfit[0] + penalty.value(theta)[0])
            per_number = float(misfit[0])
            ended = descent.out_of_time or descent.interrupted or phase == phases - 1
            if chooses_lam and equations.floor < per_number < np.inf:
                ratio, per_number = _balance_of(complete, theta, factor)
                factor = factor if ended else float(np.clip(factor * ratio, 1.0 / _MAX_FACTOR, _MAX_FACTOR))
            if ended:
                break
            if self.chooses_weights:
                penalty = better
        left = max(rows.n_numbers - used, 1.0)
        score = per_number / left**2 if np.isfinite(misfit[0]) else np.inf
        return Smoothed(theta, cost, record, penalty, used, score, factor, descent.interrupted)

    def _refine_basis(self, found: Smoothed, fine: FittingProblem) -> Smoothed:
        """Go on from a model of a search with fewer functions, written in the bases that were asked for."""
        assert fine.penalty is not None
        theta = in_other_bases(found.theta, self.coarse.problem.layers, fine.problem.layers)
        penalty = fine.penalty.with_effect_of(theta, found.penalty, found.theta)
        return self.smooth(fine, penalty, theta, factor=found.factor, before=found.record)

    def _best_order(self, found: Smoothed) -> Smoothed:
        """The model with the kind of roughness that the data ask for: go on with the other ones, and compare."""
        equations, best = self.fine or self.coarse, found
        for order in roughness_orders(equations.problem.layers)[1:]:
            other = Penalty.of(equations.problem.layers, FIRST_WEIGHT, everything=False, order=order)
            assert other is not None
            penalty = other.with_effect_of(found.theta, found.penalty, found.theta)
            tried = self.smooth(
                equations, penalty, found.theta, phases=_FEW_PHASES, factor=found.factor, before=found.record
            )
            best = min(best, tried, key=lambda one: one.score)
        return best


def _different(minima: list[Minimum]) -> list[Minimum]:
    """Minima by their costs; of those that several starts have reached, one."""
    found: list[Minimum] = []
    for one in sorted(minima, key=lambda minimum: minimum.cost):
        if not found or one.cost > (1.0 + _SAME_COST) * found[-1].cost:
            found.append(one)
    return found


def smoothed_solution(
    search: Search, fine: FittingProblem | None, *, chooses_weights: bool, chooses_lam: bool
) -> Solution:
    """The answer of a search with the smoothing that the data ask for, from its best few minima."""
    plain = search.solution()
    choice = SmoothingChoice(
        search.equations,
        fine,
        chooses_weights,
        chooses_lam,
        search.began + search.schedule.max_seconds,
        search.reporter("smoothing", len(search.table)),
    )
    best, origin = choice.best_of(search.table.minima)
    equations, lam = fine or search.equations, search.table.lam
    notes = [*plain.notes]
    if best.factor != 1.0:
        notes.append(
            f"Values count {best.factor:.2g} times as much as Jacobians (`lam`): that is how well each of them is met."
        )
    return dataclasses.replace(
        plain,
        decoupling=equations.model(best.theta, with_domain_of_data=False),  # with the knots that were found
        status=Status.INTERRUPTED if search.interrupted else Status.CONVERGED,
        lam=lam * best.factor,
        history=history_of(origin.record + best.record, lam),
        found_by=origin.found_by,
        notes=(*notes, effective_note(best.n_effective, equations.unknowns.count(best.theta))),
        n_effective=best.n_effective,
        smoothing=best.penalty,
    )


def _balance_of(complete: Complete, theta: Parameters, factor: float) -> tuple[float, float]:
    """By how much values should count more, and a misfit that does not depend on how much they do.

    That misfit is the geometric mean of those of values and Jacobians, each number counting once: the likelihood with a
    noise level of its own for each.
    """
    rows = complete.rows
    residual = complete.residual(theta, run_chain(complete.layers, theta.inner, rows.X))[0]
    of_values, of_slopes = float(np.mean(residual[:, :1] ** 2)), float(np.mean(residual[:, 1:] ** 2))
    if of_values == 0.0 or of_slopes == 0.0:
        return 1.0, float(np.sum(residual**2)) / factor
    share = 1.0 / rows.Y.shape[1]
    mean = np.exp(share * np.log(of_values / factor) + (1.0 - share) * np.log(of_slopes))
    return of_slopes / of_values, float(mean) * rows.Y.size


def in_other_bases(theta: Parameters, old: tuple[LayerBasis, ...], new: tuple[LayerBasis, ...]) -> Parameters:
    """The same models in other bases, constants of inner layers moved on into the arguments behind them."""
    b, c = list(theta.b), list(theta.c)
    for l, (before, after) in enumerate(zip(old, new, strict=True)):
        if l == len(old) - 1:
            c[l] = before.rewritten(c[l], after)
            break
        full = before.rewritten(np.concatenate([np.zeros((*c[l].shape[:-1], 1)), c[l]], axis=-1), after)
        b[l + 1] = b[l + 1] + (theta.W[l + 1] @ full[..., :1])[..., 0]
        c[l] = full[..., 1:]
    return dataclasses.replace(theta, b=tuple(b), c=tuple(c))
