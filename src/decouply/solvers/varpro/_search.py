"""The search of VarPro: candidates, then batches of random starts, and what they have found so far.

A candidate is read from the data (see `initial`) and polished alone. Random starts descend in batches with the last
layer eliminated, the worse half dropped now and then. The best ones get a last layer of rank one per function and are
polished with all parameters free. New batches are drawn until one start meets the data to machine precision, several
agree on the same minimum, or the budget of starts or seconds is used up.

If there are others to run them, batches run side by side, with the digits of one after the other. Start values are
drawn here, in the order of the batches, and results are looked at in that order. What a batch finds after the
search has ended is forgotten, and the generator is put back to its state then.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._errors import SolverError
from ..._support._machine import one_thread
from ..._support._parallel import n_at_once, run_each
from ..._support._progress import silent
from ..._support._time_limit import now
from ...model._decoupling import Decoupling
from ..initial._candidates import PEELING, applicable_methods, candidate_inner_layers
from ..initial._start_data import Budget, StartData
from ..least_squares._fitting_problem import FittingProblem, meets_rounding
from ..least_squares._levenberg_marquardt import SETTLING_STEPS, Descent, DescentOptions, descend
from ..least_squares._parameters import (
    Parameters,
    blank_parameters,
    existing_coefficients,
    parameters_of,
    rescale_to_window,
)
from ..least_squares._variable_projection import Complete, Eliminated
from ..problem._solution import History, Solution, StartRow, Status
from ..problem._solver import ProgressCallback
from ..problem._start_distributions import AbstractStart, Normal, Orthonormal

GIVEN = "the given start"
_CLOCK_TICK = 1e-9  # seconds


@dataclass(frozen=True)
class SearchSchedule:
    """How long a search goes on, and how; each number with its reason. notes/strategies.md compares them."""

    n_starts: int  # random starts in all ...
    batch_size: int  # ... and side by side
    max_steps: int  # of a batch with the last layer eliminated ...
    polish_steps: int  # ... and of its best starts with all parameters free
    max_seconds: float  # of everything, also of what follows the search
    stops_at_noise: bool = False  # a ridge or smoothing follows: the lowest of all noisy minima would not be kept
    of_pilot: bool = False  # what is found goes on over more samples: the search ends as soon as its batches agree
    is_hurried: bool = False  # only the cost of the best start is asked for, and elimination finds that: no polishing

    # Shares of the time after which no descent, and no polishing, goes on. Candidates that take luck have a share of
    # that for descents.
    descent_share: float = 0.85
    polish_share: float = 1.0
    candidate_share: float = 0.8
    min_batch_steps: int = 15  # in the time that is left: fewer starts run side by side if it is short

    # Steps of a descent. The worse half of a batch is dropped now and then: costs tell early which starts are poor.
    halvings: tuple[int, ...] = (10, 20, 40, 80)
    halvings_of_few: tuple[int, ...] = (5, 10, 20, 40)
    few_starts: int = 8  # who asks for at most this many is in a hurry
    settles_after: int = SETTLING_STEPS  # without a decrease that counts
    polish_settles_at: float = 1e-4  # the share of its cost that a polished start must still lose in so many steps
    n_polished: int = 4  # of a batch: elimination ranks starts well, not perfectly
    nearly_exact: float = 1e-9  # a cost from which a start may be exact: steps that keep more digits go on ...
    sharp_damping: float = 1e-10  # ... with next to no damping, since they begin next to an exact model

    # The end of a search.
    noisy_cost: float = 1e-6  # noise or a missing function explains more than this
    n_agreeing: int = 3  # starts that must reach the same minimum ...
    same_minimum: float = 1e-6  # ... up to this relative difference
    min_starts: int = 32  # before agreement counts: a poor minimum may be found three times before the best one
    same_cost: float = 1e-3  # a batch of a pilot ends if half of it has the lowest cost up to this:
    same_share: float = 0.5  # the rest is polishing
    n_lucky_candidates: int = 4  # of the same method if finding one takes luck: none for who is in a hurry

    @property
    def n_lucky(self) -> int:
        return 0 if self.n_starts <= self.few_starts else self.n_lucky_candidates

    def suited_to(self, equations: FittingProblem, memory: float, *, eliminates: bool) -> SearchSchedule:
        """The schedule for this problem: batches that fit into memory, more starts for deeper models, and so on."""
        problem, layers = equations.problem, equations.problem.layers
        # The deeper the model, the smaller the share of starts that find the best minimum.
        changes: dict[str, object] = {"min_starts": self.min_starts * 4 ** (len(layers) - 1)}
        if self.of_pilot:
            changes |= {"descent_share": 0.4, "polish_share": 0.5}
        elif self.stops_at_noise:
            changes |= {"descent_share": 0.65, "polish_share": 0.75}
        batch_size = self.batch_size
        if equations.penalty is not None:
            # A penalised cost tells early which starts are worth their steps; so there can be more of them.
            batch_size *= 2
            changes |= {"halvings": (8, 16, 32, 64), "halvings_of_few": (8, 16, 32, 64)}
        fitting = problem.shape.n_starts_within(memory, equations.eliminated.rows)
        changes["batch_size"] = min(batch_size, self.n_starts, fitting) if equations.small else 1
        # With one layer and one output, elimination has the same minima as all parameters together, so there is little
        # to polish if noise is expected.
        plain = len(layers) == 1 and problem.samples.n_outputs == 1 and equations.penalty is None
        noisy = self.stops_at_noise or equations.complete.ridge > 0.0
        if 1 < self.n_starts <= self.few_starts and plain and noisy and eliminates and not self.of_pilot:
            changes |= {"is_hurried": True, "settles_after": 6, "n_polished": 2}
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Minimum:
    """The place where a polished start ended."""

    cost: float
    theta: Parameters
    record: list[float]
    status: Status
    found_by: str


@dataclass
class StartTable:
    """All starts so far, one row each, and the minima that the polished ones reached."""

    lam: float
    floor: float  # costs up to this are rounding
    schedule: SearchSchedule
    rows: list[StartRow] = field(default_factory=list)
    minima: list[Minimum] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def has_exact_minimum(self) -> bool:
        """Whether a start meets the data to machine precision."""
        return any(minimum.status is Status.EXACT for minimum in self.minima)

    @property
    def best(self) -> Minimum:
        return min(self.minima, key=lambda minimum: minimum.cost)

    @property
    def lowest_cost(self) -> float:
        return min((minimum.cost for minimum in self.minima), default=np.inf)

    @property
    def n_agreeing(self) -> int:
        """How many polished starts reached the lowest cost, up to machine precision."""
        highest = self.lowest_cost * (1.0 + self.schedule.same_minimum) + self.floor
        return sum(minimum.cost <= highest for minimum in self.minima)

    def add_batch(self, descent: Descent[Parameters], size: int, seconds: float) -> None:
        """Rows for a batch of starts, most of which were dropped on the way."""
        position = {int(i): k for k, i in enumerate(descent.index)}
        for b in range(size):
            broken = b in position and not np.isfinite(descent.cost[position[b]])
            status = Status.NONFINITE if broken else Status.DROPPED
            # Costs are known once a start has a last layer of its own, that is, when it is polished.
            nan = float("nan")
            self.rows.append(StartRow(len(self.rows), self.lam, nan, nan, nan, descent.steps, status, seconds))

    def before(self, first: int) -> StartTable:
        """An empty table for a batch whose first start has this number; the rows before it are never looked at."""
        return dataclasses.replace(self, rows=self.rows[:1] * first, minima=[])

    def notes(self) -> tuple[str, ...]:
        """How sure it is that the best minimum is the lowest."""
        reached, n = self.n_agreeing, len(self.rows)
        if self.best.status is Status.EXACT:
            return ()
        if reached >= self.schedule.n_agreeing:
            return (f"{reached} of {n} starts agree on this minimum.",)
        return (
            f"{reached} of {n} starts reached this minimum: too few to rule out a lower one. Raise `n_starts` or "
            "`max_seconds` to look for it.",
        )


def history_of(record: list[float], lam: float) -> History:
    """The costs of one start on its way, all with the same lam."""
    return dataclasses.replace(History.of(record), lam=np.full(len(record), float(lam)))


class Search:
    """The starts of one call, run by a schedule."""

    def __init__(
        self,
        equations: FittingProblem,
        schedule: SearchSchedule,
        start: AbstractStart | Decoupling,
        lam: float,
        rng: np.random.Generator,
        progress: ProgressCallback,
        memory: float = np.inf,
    ) -> None:
        self.equations, self.problem, self.L = equations, equations.problem, len(equations.problem.layers)
        self.rng, self.progress = rng, progress
        self.given = start if isinstance(start, Decoupling) else None
        self.distribution = Orthonormal() if isinstance(start, Decoupling) else start
        last_is_given = equations.fixed is not None and {f"W{self.L}", f"g{self.L}"} & set(equations.fixed.given)
        self.eliminates = not last_is_given and not (self.given is not None and schedule.n_starts == 1)
        self.schedule = schedule.suited_to(equations, memory, eliminates=self.eliminates)
        self.began, self.interrupted = now(), False
        self.table = StartTable(lam, equations.floor, self.schedule)

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return now() - self.began

    def time_after(self, share: float) -> float:
        """The time of `now` at which this share of all seconds is over."""
        return self.began + share * self.schedule.max_seconds

    def run(self) -> None:
        """Candidates, then batches of random starts while they are worth their time."""
        self.try_candidates()
        if self.should_continue():
            self.fit_batch_to_time()
            self.descend_from(self.draw_batch(len(self.table)))
        while self.should_continue():
            count = n_at_once()
            if count > 1:
                self.run_side_by_side(count)
            else:
                self.descend_from(self.draw_batch(len(self.table)))

    def should_continue(self) -> bool:
        """Whether another batch is worth its time."""
        table, schedule = self.table, self.schedule
        if not table.rows:
            return True
        late = now() > self.time_after(schedule.descent_share)
        if self.interrupted or late or len(table) >= schedule.n_starts or table.has_exact_minimum:
            return False
        noisy = schedule.noisy_cost < table.lowest_cost < np.inf
        if schedule.stops_at_noise and len(table) >= schedule.min_starts and noisy:
            return False
        if schedule.of_pilot and table.n_agreeing == len(table.minima) > schedule.n_polished:
            return False  # more than one batch, or the given start, led to this minimum, and nothing to another
        return table.n_agreeing < schedule.n_agreeing or len(table) < schedule.min_starts

    def try_candidates(self) -> None:
        """Polish what can be read from the data, until that is exact; who gives a ridge does not expect it to be."""
        equations, layers, schedule = self.equations, self.problem.layers, self.schedule
        if equations.complete.ridge > 0.0 or equations.fixed is not None or self.given is not None:
            return
        if self.problem.linear and self.L > 1:
            return
        data = StartData.of(equations.eliminated.rows)
        if self.problem.linear and data.J is not None:
            data = dataclasses.replace(data, J=data.J - data.J.mean(axis=0))  # A is the same in all slices
        deadline = self.time_after(schedule.candidate_share * schedule.descent_share)
        names = [
            name for name in applicable_methods(data, layers) for _ in range(schedule.n_lucky if name == PEELING else 1)
        ]
        for name in names[: schedule.n_starts]:
            budget = Budget(deadline, self.reporter(name, len(self.table)))
            try:
                inner = candidate_inner_layers(name, data, layers, self.rng, budget)
            except KeyboardInterrupt:
                return
            if inner is None and name == PEELING:
                return
            if inner is not None:
                first = len(self.table)
                inner = rescale_to_window(equations.eliminated.rows.X, layers, inner, exactly=True)
                descent = self._descend(inner, name, ())
                self.table.add_batch(descent, 1, self.seconds)
                if np.isfinite(descent.cost[0]):
                    whole = equations.with_last_layer(descent.theta, is_known=True)
                    self._polish(whole, descent, np.array([0]), first, name)
            if self.table.has_exact_minimum or self.interrupted:
                return

    # Batches of random starts

    def fit_batch_to_time(self) -> None:
        """Run fewer starts side by side if all of them together would not get far in the time that is left."""
        if self.schedule.batch_size == 1 or not self.eliminates:
            return
        before = copy.deepcopy(self.rng.bit_generator.state)
        inner = self.equations.core.compress(self.draw_starts(1, 0).inner)
        self.rng.bit_generator.state = before
        began = now()
        with np.errstate(all="ignore"):
            self.equations.eliminated.linearise(inner)
        per_step = max(now() - began, _CLOCK_TICK)
        left = self.time_after(self.schedule.descent_share) - now()
        affordable = left / (self.schedule.min_batch_steps * per_step)  # infinite without end
        size = max(1, int(min(self.schedule.batch_size, affordable)))
        self.schedule = dataclasses.replace(self.schedule, batch_size=size)

    def draw_batch(self, first: int) -> Parameters:
        """Start values of the batch that begins with this start."""
        return self.draw_starts(min(self.schedule.batch_size, self.schedule.n_starts - first), first)

    def draw_starts(self, size: int, first: int) -> Parameters:
        """This many start values; the very first one may be given."""
        problem, fixed = self.problem, self.equations.fixed
        coefficients = Normal() if isinstance(self.distribution, Orthonormal) else self.distribution
        theta = blank_parameters(problem, size)  # a linear part begins at 0
        for l, W in enumerate(theta.W):
            W[:] = np.stack([self.distribution.draw(self.rng, W.shape[1:]) for _ in range(size)])
            if l < self.L:
                c = theta.c[l]
                c[:] = np.stack([coefficients.draw(self.rng, c.shape[1:]) for _ in range(size)])
                c *= existing_coefficients(problem.layers[l], c.shape[-1])  # those past a basis do not exist
        if fixed is None:
            theta = rescale_to_window(self.equations.rows.X, problem.layers, theta, exactly=True)
        if first == 0 and self.given is not None:
            theta[:1] = parameters_of(problem, self.given)
        if problem.F is None:
            theta.c[-1][..., 0] = 0.0  # nothing determines the constants
        if fixed is not None:
            fixed.write_into(theta)
        return theta

    def descend_from(self, theta: Parameters) -> None:
        """Run a batch from its start values."""
        equations, schedule = self.equations, self.schedule
        first, size = len(self.table), len(theta)
        complete: Parameters | None = theta
        if self.eliminates:
            # All of them without the last layer; those that end lowest go on with all parameters.
            halvings = schedule.halvings_of_few if size <= schedule.few_starts else schedule.halvings
            inner = equations.core.compress(theta.inner)
            stage = f"starts {first + 1} to {first + size}"
            descent = self._descend(inner, stage, halvings if size > schedule.n_polished else ())
            best = np.argsort(descent.cost, kind="stable")[: schedule.n_polished]
            best = best[np.isfinite(descent.cost[best])]
            complete = equations.with_last_layer(descent.theta[best]) if best.size else None
            starts = descent.index[best]
        else:
            starts = np.arange(size)
            descent = Descent(theta, np.zeros(size), starts, 0, np.zeros(size, dtype=bool))
            if not equations.small and equations.fixed is None:
                # Conjugate gradients, the only method for so many unknowns, would take most of their steps for the
                # last layer. A given start has that of its inner layers in the core, fitted to the data, if it is
                # better.
                fitted = equations.with_last_layer(equations.core.compress(theta.inner))
                costs = [float(equations.complete.linearise(one)[0][0]) for one in (theta, fitted)]
                complete = fitted if costs[1] < costs[0] else theta
        self.table.add_batch(descent, size, self.seconds)
        if self.eliminates and first == 0 and self.given is not None and not schedule.is_hurried:
            # A last layer with more functions than inputs is not what elimination would find again.
            self._polish(theta[:1], descent, np.array([0]), first)
        if complete is not None:
            self._polish(complete, descent, starts, first)

    def run_side_by_side(self, count: int) -> None:
        """As many batches at a time as there are others to run them."""
        elsewhere, first = copy.copy(self), len(self.table)
        elsewhere.progress, elsewhere.table = silent, self.table.before(1)
        batches: list[Batch] = []
        while len(batches) < count and first < self.schedule.n_starts:
            theta = self.draw_batch(first)
            state = copy.deepcopy(self.rng.bit_generator.state)
            batches.append(Batch(elsewhere, first, theta, state, self.seconds))
            first += len(theta)
        try:  # tell, and hear of Ctrl-C
            self.reporter(f"starts {len(self.table) + 1} to {first}", len(self.table))(self.table.lowest_cost)
        except KeyboardInterrupt:
            self.interrupted = True
        for batch, (rows, minima) in zip(batches, run_each(run_in_worker, batches), strict=True):
            self.table.rows += rows
            self.table.minima += minima
            self.rng.bit_generator.state = batch.drawn
            if not self.should_continue():
                break

    # Descents

    def _descend(self, inner: Parameters, stage: str, halvings: tuple[int, ...]) -> Descent[Parameters]:
        """Core coordinates, the last layer eliminated."""
        eliminated, schedule = self.equations.eliminated, self.schedule

        def goes_on(_: Parameters, cost: ndarray) -> bool:
            # On a pilot it decides that half of a batch has found the lowest cost: the rest is polishing.
            lowest = cost.min()
            alike = np.count_nonzero(cost <= (1.0 + schedule.same_cost) * lowest)
            small = not schedule.of_pilot or len(cost) <= schedule.n_polished
            return bool(small or lowest <= schedule.noisy_cost or alike < schedule.same_share * len(cost))

        descent = descend(
            eliminated.linearise,
            eliminated.after_step,
            inner,
            DescentOptions(
                max_steps=schedule.max_steps,
                exact=self.equations.floor,
                settles_after=schedule.settles_after,
                halve_at=halvings,
            ),
            deadline=self.time_after(schedule.descent_share),
            observe=goes_on,
            progress=self.reporter(stage, len(self.table)),
        )
        self._sharpen(eliminated, descent)
        return descent

    def _polish(
        self, theta: Parameters, descent: Descent[Parameters], starts: ndarray, first: int, name: str = ""
    ) -> None:
        """Free all parameters of the best starts of a batch and note if they end."""
        equations, table, schedule = self.equations, self.table, self.schedule
        noisy = float(descent.cost.min()) > schedule.noisy_cost
        only_cost = schedule.is_hurried and schedule.stops_at_noise and noisy
        polished = descend(
            equations.complete.linearise,
            equations.complete.after_step,
            theta,
            DescentOptions(
                max_steps=0 if only_cost else schedule.polish_steps,
                exact=equations.floor,
                settles_at=schedule.polish_settles_at,
                settles_after=schedule.settles_after,
                to_rounding=True,
            ),
            deadline=self.time_after(schedule.polish_share),
            progress=self.reporter(name or f"polishing starts {first + 1} to {len(table)}", first),
        )
        if polished.cost.min() > equations.floor:
            self._sharpen(equations.complete, polished)
        thetas = [polished.theta[i : i + 1] for i in range(len(polished.cost))]
        exact = [
            meets_rounding(equations.complete, one, float(cost), equations.floor)
            for cost, one in zip(polished.cost, thetas, strict=True)
        ]
        for i, one in enumerate(thetas):
            cost = float(polished.cost[i])
            if not np.isfinite(cost):
                continue
            if exact[i]:
                status = Status.EXACT
            elif polished.settled[i] or (only_cost and descent.settled[descent.index == starts[i]].all()):
                status = Status.CONVERGED
            elif any(exact):
                status = Status.DROPPED
            elif polished.interrupted:
                status = Status.INTERRUPTED
            else:
                status = Status.OUT_OF_TIME if polished.out_of_time else Status.OUT_OF_STEPS
            row = first + int(starts[polished.index[i]])
            given = row == 0 and self.given is not None
            found_by = name or (GIVEN if given else f"random start {row + 1}")
            table.minima.append(Minimum(cost, one, descent.record + polished.record, status, found_by))
            if table.rows[row].objective <= cost:
                continue
            error_J, error_F = equations.errors(one)
            table.rows[row] = dataclasses.replace(
                table.rows[row],
                objective=cost,
                error_jacobian=error_J,
                error_values=error_F,
                steps=descent.steps + polished.steps,
                status=status,
                seconds=self.seconds,
            )

    def _sharpen(self, residuals: Eliminated | Complete, descent: Descent[Parameters]) -> None:
        """Go on with the best of a batch, if it is nearly exact, by steps that keep more digits."""
        equations, schedule, best = self.equations, self.schedule, int(np.argmin(descent.cost))
        plain = equations.small and residuals.ridge == 0.0 and residuals.free is None
        far = not descent.cost[best] <= schedule.nearly_exact
        if not plain or far or descent.out_of_time or self.interrupted:
            return
        sharp = descend(
            residuals.linearise_precisely,
            residuals.after_step,
            descent.theta[best : best + 1],
            DescentOptions(
                max_steps=schedule.polish_steps,
                exact=equations.floor,
                first_damping=schedule.sharp_damping,
                to_rounding=True,
            ),
            deadline=self.time_after(schedule.polish_share),
            progress=self.reporter("polishing to machine precision", len(self.table)),
        )
        descent.theta[best : best + 1] = sharp.theta
        descent.cost[best], descent.settled[best] = sharp.cost[0], sharp.settled[0]
        descent.steps += sharp.steps
        descent.record.extend(sharp.record[1:])

    # Progress and answer

    def reporter(self, stage: str, done: int) -> Callable[[float], None]:
        def report(cost: float) -> None:
            try:
                self.progress(stage=stage, done=done, total=self.schedule.n_starts, objective=cost)
            except KeyboardInterrupt:
                self.interrupted = True
            if self.interrupted:
                raise KeyboardInterrupt

        return report

    def solution(self) -> Solution:
        if not self.table.minima:
            raise SolverError(
                f"All {len(self.table)} starts became NaN or infinite. Scale the inputs to about [-1, 1], lower the "
                "degrees, or try other starts: another `rng`, more `n_starts`, or `start=dc.solvers.Normal()`."
            )
        best = self.table.best
        return Solution(
            self.equations.model(best.theta),
            best.status,
            self.table.lam,
            history_of(best.record, self.table.lam),
            tuple(self.table.rows),
            notes=self.table.notes(),
            as_is=self.equations.fixed is not None,
            found_by=best.found_by,
        )


@dataclass(frozen=True)
class Batch:
    """Starts for another process, which are worth running if those before do not end the search."""

    search: Search
    first: int
    theta: Parameters
    drawn: Any  # the state of the generator afterwards
    spent: float  # seconds


def run_in_worker(batch: Batch) -> tuple[list[StartRow], list[Minimum]]:
    """What a batch finds, in another process: rows of the table of starts, and minima."""
    search = copy.copy(batch.search)
    search.began = now() - batch.spent  # clocks of other processes begin anywhere
    search.table = batch.search.table.before(batch.first)
    with one_thread(), np.errstate(all="ignore"):
        search.descend_from(batch.theta)
    return search.table.rows[batch.first :], search.table.minima
