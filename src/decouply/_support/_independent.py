"""Independent work: here, in the processes that joblib is told to use, or on the workers of a cluster.

Tasks are sent as single objects of our own classes: joblib scatters large arrays among the workers of a cluster, and a
worker that is lost would take them along.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ._cluster import active_client, spread

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


def n_at_once() -> int:
    """How many tasks others would run at a time: workers of an active client, or `joblib.parallel_config`; else 1."""
    if _inside_a_task():
        return 1
    client = active_client()
    if client is not None:
        return max(1, sum(client.nthreads().values()))
    joblib = sys.modules.get("joblib")
    return 1 if joblib is None else int(joblib.effective_n_jobs(joblib.parallel.get_active_backend()[1]))


def run_each(work: Callable[[Task], Outcome], tasks: Sequence[Task]) -> list[Outcome]:
    """What `work` gives for every task, in their order."""
    if len(tasks) <= 1 or n_at_once() <= 1:
        return [work(task) for task in tasks]
    from joblib import Parallel, delayed

    with spread() as on_workers:
        n_jobs = -1 if on_workers else None
        found: list[Any] = Parallel(n_jobs=n_jobs)(delayed(work)(task) for task in tasks)
    return found


def _inside_a_task() -> bool:
    """Whether this is a worker of a cluster at work: it has no others to ask."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True
