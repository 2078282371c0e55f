"""The search of VarPro: candidates, then batches of random starts, and what they have found so far.

A candidate is read from the data (see `_structured`) and polished alone. Random starts descend in batches with the last
layer eliminated, the worse half dropped now and then; the best ones get a last layer of rank one per function and are
polished with all parameters free. New batches are drawn until one start meets the data to rounding, several agree on
the same minimum, or the budget of starts or seconds is used up.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._errors import SolverError
from ..._support._time_limit import now
from ...model._decoupling import Decoupling
from ..initial._candidates import PEELING, inner_layers, ways
from ..initial._start_data import Budget, Sampled
from ..least_squares._derivatives import Parameters
from ..least_squares._fitting_problem import WEIGHT_STEPS, Equations, effective_note
from ..least_squares._levenberg_marquardt import SETTLED_AFTER, Descent, descend, goes_on
from ..least_squares._parameters import exists, parameters_of
from ..least_squares._rescaling import on_window
from ..least_squares._variable_projection import Complete, Eliminated
from ..problem._solution import History, Solution, StartRow, Status
from ..problem._solver import ProgressCallback
from ..problem._start_distributions import AbstractStart, Normal, Orthonormal
from ._smoothing_choice import Smoothed, balance_note, of_best_order, refined, smooth

GIVEN = "the given start"
_HALVINGS = (10, 20, 40, 80)  # steps after which the worse half of a batch is dropped (notes/strategies.md)
_OF_FEW, _EARLIER = 8, (5, 10, 20, 40)  # up to so many starts: who asks for few is in a hurry
_SETTLED_SOON, _POLISHED_OF_FEW = 6, 2  # a hurried search settles after so many steps, and polishes so many starts
_SMOOTHED = 2  # minima that are given the smoothing that the data ask for ...
_COMPARED, _FEW_PHASES = 4, 3  # ... and those of a search with fewer functions, of which the best ones go on
# A penalised cost tells early which starts are worth their steps; so there can be more of them.
_LARGER, _SOON = 2, (8, 16, 32, 64)
_POLISHED = 4  # starts of a batch that are polished
_SETTLED = 1e-4  # the share of its cost that a polished start must still lose in fifteen steps
_HALF, _ALIKE = 0.5, 1e-3  # on a pilot a batch ends when this share of it has the lowest cost, up to this difference
_NEARLY = 1e-9  # a cost from which a start may be exact
_SHARP = 1e-10  # damping of steps that begin next to an exact model
_NOISY = 1e-6  # a cost that noise or a missing function explains
# Shares of `max_seconds` after which no descent, and no polishing, goes on: alone, before a ridge or smoothing is
# chosen, and on a pilot, before passes over all samples.
_ALONE, _BEFORE_MORE, _ON_PILOT = (0.85, 1.0), (0.65, 0.75), (0.4, 0.5)
_CANDIDATES = 4  # candidates that are tried where finding them takes luck ...
_PEELING = 0.8  # ... and the share of the time for descents that this may take
_LEAST_STEPS = 15  # of a batch, within the time that is left: fewer starts run side by side where it is short
# Agreement of starts counts from so many on, times 4 for every further layer: the deeper the model, the smaller the
# share of starts that find the best minimum, and a poor one may be found three times before it.
_LEAST_STARTS = 32
_AGREEING = 3  # starts that must reach the same minimum ...
_AGREEMENT = 1e-6  # ... up to this relative difference
_TICK = 1e-9  # seconds


@dataclass(frozen=True)
class SearchOptions:
    """What the search is told of the options of VarPro."""

    lam: float
    max_steps: int
    polish_steps: int
    batch_size: int
    max_seconds: float
    start: AbstractStart | Decoupling
    ridge_follows: bool = False  # a ridge will be chosen from the misfit
    lam_follows: bool = False  # lam will be chosen from the misfits, where functions are smoothed
    memory: float = np.inf  # bytes for the starts that run side by side
    of_pilot: bool = False  # what is found goes on over more samples


@dataclass(frozen=True)
class Minimum:
    """Where a polished start ended."""

    cost: float
    theta: Parameters
    record: list[float]
    status: Status
    found_by: str


class Search:
    """The starts of one call and what they have found so far."""

    def __init__(
        self,
        options: SearchOptions,
        equations: Equations,
        n_starts: int,
        rng: np.random.Generator,
        progress: ProgressCallback,
    ) -> None:
        self.options, self.equations = options, equations
        self.n_starts, self.rng, self.progress = n_starts, rng, progress
        self.began = now()
        shares = _ON_PILOT if options.of_pilot else _BEFORE_MORE if options.ridge_follows else _ALONE
        self.descend_for, self.polish_for = (share * options.max_seconds for share in shares)
        self.problem, self.L = equations.problem, len(equations.problem.layers)
        larger = 1 if equations.penalty is None else _LARGER
        problem = equations.problem
        fitting = problem.shape.n_starts_within(options.memory, equations.eliminated.rows)
        most = min(larger * options.batch_size, n_starts, fitting)
        self.batch_size = most if equations.small else 1  # large starts run one at a time
        self.given = options.start if isinstance(options.start, Decoupling) else None
        last_is_given = equations.fixed is not None and {f"W{self.L}", f"g{self.L}"} & set(equations.fixed.given)
        self.eliminates = not last_is_given and not (self.given is not None and n_starts == 1)
        self.interrupted = False
        self.table: list[StartRow] = []
        self.minima: list[Minimum] = []

    @property
    def hurried(self) -> bool:
        """Whether few starts are asked for where noise is expected: one layer, one output, and a ridge or one to come.

        With one output, elimination has the same minima as all parameters together, so there is little to polish.
        """
        plain = self.L == 1 and self.problem.samples.n_outputs == 1 and self.equations.penalty is None
        noisy = self.options.ridge_follows or self.equations.complete.ridge > 0.0
        return 1 < self.n_starts <= _OF_FEW and plain and noisy and self.eliminates and not self.options.of_pilot

    # Budget

    @property
    def found(self) -> bool:
        """Whether a start meets the data to rounding."""
        return any(minimum.status is Status.EXACT for minimum in self.minima)

    @property
    def best(self) -> Minimum:
        return min(self.minima, key=lambda minimum: minimum.cost)

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return now() - self.began

    @property
    def misfit(self) -> float:
        """The cost of the best minimum without its ridge; infinite if there is none."""
        if not self.minima:
            return np.inf
        size = float(np.sum(self.equations.unknowns.flatten(self.best.theta) ** 2))
        return self.best.cost - self.equations.complete.ridge * size

    def go_on(self) -> bool:
        """Whether another batch is worth its time."""
        if not self.table:
            return True
        out_of_time = self.seconds > self.descend_for
        if self.interrupted or out_of_time or len(self.table) >= self.n_starts or self.found:
            return False
        least = _LEAST_STARTS * 4 ** (self.L - 1)
        if self.options.ridge_follows and len(self.table) >= least and self.minima and self.best.cost > _NOISY:
            return False  # the lowest of all minima follows the noise, and would not be kept
        if self.options.of_pilot and self.agreeing() == len(self.minima) > _POLISHED:
            return False  # more than one batch, or the given start, led to this minimum, and nothing to another
        return self.agreeing() < _AGREEING or len(self.table) < least

    def agreeing(self) -> int:
        """How many polished starts reached the best cost, up to rounding."""
        best = min((minimum.cost for minimum in self.minima), default=np.inf)
        return sum(m.cost <= best * (1.0 + _AGREEMENT) + self.equations.floor for m in self.minima)

    # Candidates

    def try_candidates(self) -> None:
        """Polish what can be read from the data, until that is exact; who gives a ridge does not expect it to be."""
        if self.equations.complete.ridge > 0.0:
            return
        if self.given is not None or self.equations.fixed is not None or (self.problem.linear and self.L > 1):
            return
        data = Sampled.of(self.equations.eliminated.rows)
        if self.problem.linear and data.J is not None:
            data = dataclasses.replace(data, J=data.J - data.J.mean(axis=0))  # A is the same in all slices
        deadline = self.began + _PEELING * self.descend_for
        names = [name for name in ways(data, self.problem.layers) for _ in range(_CANDIDATES if name == PEELING else 1)]
        for name in names[: self.n_starts]:
            budget = Budget(deadline, self._report(name, len(self.table)))
            try:
                inner = inner_layers(name, data, self.problem.layers, self.rng, budget)
            except KeyboardInterrupt:
                return
            if inner is not None:
                self._try(name, [p[None] for p in inner])
            elif name == PEELING:
                return
            if self.found or self.interrupted:
                return

    def _try(self, name: str, inner: Parameters) -> None:
        eliminated, first = self.equations.eliminated, len(self.table)
        descent = self._descend(on_window(eliminated.rows.X, self.problem.layers, inner, exactly=True), name, ())
        self._tabulate(descent, 1)
        if np.isfinite(descent.cost[0]):
            self._polish(self.equations.with_last_layer(descent.theta), descent, np.array([0]), first, name)

    # Random starts

    def suit_time(self) -> None:
        """Run fewer starts side by side where all of them together would not get far in the time that is left."""
        if self.batch_size == 1 or not self.eliminates:
            return
        before = copy.deepcopy(self.rng.bit_generator.state)
        inner = self.equations.core.enter(self.drawn(1, 0)[: 2 * self.L - 1])
        self.rng.bit_generator.state = before
        began = now()
        with np.errstate(all="ignore"):
            self.equations.eliminated.linearise(inner)
        spent = max(now() - began, _TICK)
        self.batch_size = max(1, min(self.batch_size, int((self.descend_for - self.seconds) / (_LEAST_STEPS * spent))))

    def run_batch(self) -> None:
        first = len(self.table)
        self.descend_from(self.drawn(min(self.batch_size, self.n_starts - first), first))

    def descend_from(self, theta: Parameters) -> None:
        """Run a batch from its start values."""
        first, size = len(self.table), len(theta[0])
        stage = f"starts {first + 1} to {first + size}"
        if self.eliminates:
            halvings = _SOON if self.equations.penalty is not None else _EARLIER if size <= _OF_FEW else _HALVINGS
            inner = self.equations.core.enter(theta[: 2 * self.L - 1])
            polished = _POLISHED_OF_FEW if self.hurried else _POLISHED
            descent = self._descend(inner, stage, halvings if size > polished else ())
            best = np.argsort(descent.cost, kind="stable")[:polished]
            best = best[np.isfinite(descent.cost[best])]
            whole = self.equations.with_last_layer([t[best] for t in descent.theta]) if best.size else []
            starts = descent.index[best]
        else:
            descent = Descent(theta, np.zeros(size), np.arange(size), 0, np.zeros(size, dtype=bool))
            starts, whole = np.arange(size), theta if self.equations.small else self._with_better_last_layer(theta)
        self._tabulate(descent, size)
        if self.eliminates and first == 0 and self.given is not None and not self.hurried:
            # A last layer with more functions than inputs is not what elimination would find again.
            self._polish([t[:1] for t in theta], descent, np.array([0]), first)
        if starts.size:
            self._polish(whole, descent, starts, first)

    def _with_better_last_layer(self, theta: Parameters) -> Parameters:
        """A given start with many unknowns, or its inner layers in the core with a last layer fitted to the data.

        Where conjugate gradients are all there is, they would take most of their steps for what least squares do.
        """
        equations = self.equations
        if equations.fixed is not None:
            return theta
        fitted = equations.with_last_layer(equations.core.enter(theta[: 2 * self.L - 1]))
        costs = [float(equations.complete.linearise(one)[0][0]) for one in (theta, fitted)]
        return fitted if costs[1] < costs[0] else theta

    def drawn(self, size: int, first: int) -> Parameters:
        """Start values for one batch; the very first one may be given."""
        start, problem, L, fixed = self.options.start, self.problem, self.L, self.equations.fixed
        random_start = Orthonormal() if isinstance(start, Decoupling) else start
        coefficients = Normal() if isinstance(random_start, Orthonormal) else random_start
        theta = [np.zeros((size, *p.shape[1:])) for p in self.equations.template]
        for i, p in enumerate(theta[: 2 * L + 1]):  # a linear part begins at 0
            source = random_start if i % 2 == 0 else coefficients
            own = p[..., :-1] if i % 2 == 0 and i < 2 * L else p
            own[:] = np.stack([source.draw(self.rng, own.shape[1:]) for _ in range(size)])
            if i % 2 == 1:  # coefficients past the basis of a function do not exist
                own *= exists(problem.layers[i // 2], p.shape[-1])
        if fixed is None:
            theta[: 2 * L] = on_window(self.equations.rows.X, problem.layers, theta[: 2 * L], exactly=True)
        if first == 0 and self.given is not None:
            for p, given in zip(theta, parameters_of(problem, self.given), strict=True):
                p[0] = given
        if problem.F is None:
            theta[2 * L - 1][..., 0] = 0.0  # nothing determines the constants
        if fixed is not None:
            fixed.put(theta)
        return theta

    # Descents

    @property
    def _settles_after(self) -> int:
        return _SETTLED_SOON if self.hurried else SETTLED_AFTER

    def _descend(self, inner: Parameters, stage: str, halvings: tuple[int, ...]) -> Descent:
        """Core coordinates, the last layer eliminated."""
        eliminated = self.equations.eliminated
        descent = descend(
            eliminated.linearise,
            eliminated.moved,
            inner,
            max_steps=self.options.max_steps,
            exact=self.equations.floor,
            settles_after=self._settles_after,
            deadline=self.began + self.descend_for,
            halve_at=halvings,
            observe=self._undecided if self.options.of_pilot else goes_on,
            progress=self._report(stage, len(self.table)),
        )
        self._sharpen(eliminated, descent)
        return descent

    def _undecided(self, _: Parameters, cost: ndarray) -> bool:
        """Whether half of a batch has not found the lowest cost yet: on a pilot that decides, the rest is polishing."""
        lowest = cost.min()
        alike = np.count_nonzero(cost <= (1.0 + _ALIKE) * lowest)
        return bool(len(cost) <= _POLISHED or lowest <= _NOISY or alike < _HALF * len(cost))

    def _polish(self, theta: Parameters, descent: Descent, starts: ndarray, first: int, name: str = "") -> None:
        """Free all parameters of the best starts and note where they end."""
        equations = self.equations
        # Where a ridge will follow the noise, only the cost is asked for, and elimination has found that.
        enough = self.hurried and self.options.ridge_follows and float(descent.cost.min()) > _NOISY
        polished = descend(
            equations.complete.linearise,
            equations.complete.moved,
            theta,
            max_steps=0 if enough else self.options.polish_steps,
            exact=equations.floor,
            settles_at=_SETTLED,
            settles_after=self._settles_after,
            to_rounding=True,
            deadline=self.began + self.polish_for,
            progress=self._report(name or f"polishing starts {first + 1} to {len(self.table)}", first),
        )
        if polished.cost.min() > equations.floor:
            self._sharpen(equations.complete, polished)
        thetas = [[t[i : i + 1] for t in polished.theta] for i in range(len(polished.cost))]
        exact = [equations.is_exact(float(cost), t) for cost, t in zip(polished.cost, thetas, strict=True)]
        for i, one in enumerate(thetas):
            cost = float(polished.cost[i])
            if not np.isfinite(cost):
                continue
            if exact[i]:
                status = Status.EXACT
            elif polished.settled[i] or (enough and descent.settled[descent.index == starts[i]].all()):
                status = Status.CONVERGED
            elif any(exact):
                status = Status.DROPPED
            else:
                status = Status.OUT_OF_TIME if polished.out_of_time else Status.OUT_OF_STEPS
                status = Status.INTERRUPTED if polished.interrupted else status
            row = first + int(starts[polished.index[i]])
            given = row == 0 and self.given is not None
            found_by = name or (GIVEN if given else f"random start {row + 1}")
            self.minima.append(Minimum(cost, one, descent.record + polished.record, status, found_by))
            if self.table[row].objective <= cost:
                continue
            error_J, error_F = equations.errors(one)
            self.table[row] = dataclasses.replace(
                self.table[row],
                objective=cost,
                error_jacobian=error_J,
                error_values=error_F,
                steps=descent.steps + polished.steps,
                status=status,
                seconds=now() - self.began,
            )

    def _sharpen(self, residuals: Eliminated | Complete, descent: Descent) -> None:
        """Go on with the best of a batch, where it is nearly exact, by steps that keep more digits."""
        equations, best = self.equations, int(np.argmin(descent.cost))
        plain = equations.small and residuals.ridge == 0.0 and residuals.free is None
        if not plain or not descent.cost[best] <= _NEARLY or descent.out_of_time or self.interrupted:
            return
        one = descend(
            residuals.precisely,
            residuals.moved,
            [t[best : best + 1] for t in descent.theta],
            first_damping=_SHARP,
            max_steps=self.options.polish_steps,
            exact=equations.floor,
            to_rounding=True,
            deadline=self.began + self.polish_for,
            progress=self._report("polishing to rounding", len(self.table)),
        )
        for whole, better in zip(descent.theta, one.theta, strict=True):
            whole[best] = better[0]
        descent.cost[best], descent.settled[best] = one.cost[0], one.settled[0]
        descent.steps += one.steps
        descent.record.extend(one.record[1:])

    def _tabulate(self, descent: Descent, size: int) -> None:
        survivors = {int(i): position for position, i in enumerate(descent.index)}
        for b in range(size):
            position = survivors.get(b)
            broken = position is not None and not np.isfinite(descent.cost[position])
            self.table.append(
                StartRow(
                    start=len(self.table),
                    lam=self.options.lam,
                    objective=float("nan"),  # known once a start has a last layer of its own, that is, when polished
                    error_jacobian=float("nan"),
                    error_values=float("nan"),
                    steps=descent.steps,
                    status=Status.NONFINITE if broken else Status.DROPPED,
                    seconds=now() - self.began,
                )
            )

    def _report(self, stage: str, done: int) -> Callable[[float], None]:
        def report(cost: float) -> None:
            try:
                self.progress(stage=stage, done=done, total=self.n_starts, objective=cost)
            except KeyboardInterrupt:
                self.interrupted = True
            if self.interrupted:
                raise KeyboardInterrupt

        return report

    def tell(self, stage: str) -> None:
        """Report, and hear of Ctrl-C, between batches."""
        try:
            self._report(stage, len(self.table))(min((m.cost for m in self.minima), default=np.inf))
        except KeyboardInterrupt:
            self.interrupted = True

    # The answer

    def solution(self) -> Solution:
        if not self.minima:
            raise SolverError(
                f"All {len(self.table)} starts became NaN or infinite. Scale the inputs to about [-1, 1], lower the "
                "degrees, or try other starts: another `rng`, more `n_starts`, or `start=dc.Normal()`."
            )
        return self._solution_of(self.best)

    def _solution_of(self, best: Minimum, *, on_range: bool = True) -> Solution:
        objective = np.array(best.record)
        unknown = np.full(len(objective), np.nan)
        return Solution(
            self.equations.model(best.theta, on_range=on_range),
            best.status,
            self.options.lam,
            History(np.full(len(objective), self.options.lam), objective, unknown, unknown),
            tuple(self.table),
            notes=self._notes(),
            as_is=self.equations.fixed is not None,
            found_by=best.found_by,
        )

    def smoothed(self, *, chosen: bool, wanted: Equations | None = None) -> Solution:
        """The answer with the smoothing that the data ask for, from the best few minima.

        `wanted` has the bases that were asked for, where the search was made with fewer functions.
        """
        penalty = self.equations.penalty
        assert penalty is not None
        if not self.minima:
            return self.solution()
        options: dict[str, Any] = {
            "chosen": chosen,
            "follows": self.options.lam_follows,
            "deadline": self.began + self.options.max_seconds,
            "progress": self._report("smoothing", len(self.table)),
        }
        count, phases = (_SMOOTHED, WEIGHT_STEPS) if wanted is None else (_COMPARED, _FEW_PHASES)
        found: list[tuple[Smoothed, Minimum]] = []
        for minimum in sorted(self.minima, key=lambda one: one.cost)[:count]:
            found.append((smooth(self.equations, penalty, minimum.theta, phases=phases, **options), minimum))
            if self.interrupted:
                break
        found.sort(key=lambda pair: pair[0].score)
        plain = self.solution()
        if wanted is not None:
            found = [(refined(self.equations, wanted, one, **options), origin) for one, origin in found[:_SMOOTHED]]
            self.equations = wanted
        best, origin = min(found, key=lambda pair: pair[0].score)
        if chosen and not self.interrupted:
            best = of_best_order(self.equations, best, phases=_FEW_PHASES, **options)
        status = Status.INTERRUPTED if self.interrupted else Status.CONVERGED
        ended = Minimum(best.cost, best.theta, origin.record + best.record, status, origin.found_by)
        note = effective_note(best.n_effective, self.equations.unknowns.count(best.theta))
        answer = self._solution_of(ended, on_range=False)  # with the knots that were found
        return dataclasses.replace(
            answer,
            lam=self.options.lam * best.factor,
            starts=plain.starts,
            notes=(*plain.notes, *balance_note(best.factor), note),
            n_effective=best.n_effective,
            smoothing=best.penalty,
        )

    def _notes(self) -> tuple[str, ...]:
        reached, n = self.agreeing(), len(self.table)
        if self.best.status is Status.EXACT:
            return ()
        if reached >= _AGREEING:
            return (f"{reached} of {n} starts agree on this minimum.",)
        return (
            f"{reached} of {n} starts reached this minimum: too few to rule out a lower one. Raise `n_starts` or "
            "`max_seconds` to look for it.",
        )
