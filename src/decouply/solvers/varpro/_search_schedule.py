"""The numbers that rule a search of VarPro, in one place."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ..least_squares._fitting_problem import FittingProblem
from ..least_squares._levenberg_marquardt import SETTLING_STEPS


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
