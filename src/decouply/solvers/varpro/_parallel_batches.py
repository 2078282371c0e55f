"""Batches of starts side by side, where there are others to run them, with the digits of one after the other.

Start values are drawn here, in the order of the batches, and what batches find is looked at in that order: what a batch
finds after the search has ended is forgotten, and the generator is put back to where it was then.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._support._blas_threads import one_thread
from ..._support._parallel import n_at_once, run_each
from ..._support._progress import silent
from ..._support._time_limit import now
from ..least_squares._parameters import Parameters
from ..problem._solution import StartRow
from ._search import Minimum, Search


@dataclass(frozen=True)
class Batch:
    """Starts that are worth running if those before do not end the search."""

    search: Search
    first: int
    theta: Parameters
    drawn: Any  # the state of the generator afterwards
    spent: float  # seconds


def run_batches(search: Search) -> None:
    """Batches while they are worth their time: the first one here, then as many at a time as there are others."""
    if search.should_continue():
        search.fit_batch_to_time()
        search.run_batch()
    while search.should_continue():
        count = n_at_once()
        if count > 1:
            _run_side_by_side(search, count)
        else:
            search.run_batch()


def _run_side_by_side(search: Search, count: int) -> None:
    elsewhere = copy.copy(search)
    elsewhere.progress, elsewhere.table = silent, search.table.before(1)
    batches: list[Batch] = []
    first = len(search.table)
    while len(batches) < count and first < search.schedule.n_starts:
        theta = search.draw_starts(min(search.schedule.batch_size, search.schedule.n_starts - first), first)
        state = copy.deepcopy(search.rng.bit_generator.state)
        batches.append(Batch(elsewhere, first, theta, state, search.seconds))
        first += len(theta)
    search.report_progress(f"starts {len(search.table) + 1} to {first}")
    for batch, (rows, minima) in zip(batches, run_each(run_in_worker, batches), strict=True):
        search.table.rows += rows
        search.table.minima += minima
        search.rng.bit_generator.state = batch.drawn
        if not search.should_continue():
            break


def run_in_worker(batch: Batch) -> tuple[list[StartRow], list[Minimum]]:
    """What a batch finds, in another process: rows of the table of starts, and minima."""
    search = copy.copy(batch.search)
    search.began = now() - batch.spent  # clocks of other processes begin anywhere
    search.table = batch.search.table.before(batch.first)
    with one_thread(), np.errstate(all="ignore"):
        search.descend_from(batch.theta)
    return search.table.rows[batch.first :], search.table.minima
