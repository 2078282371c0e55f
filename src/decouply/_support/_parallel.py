"""Independent work: here, in the processes that joblib uses, or on the workers of a Dask cluster.

Whoever made a ``distributed.Client`` gets work sent there; it is found without importing Dask, and checked once.

Tasks are sent as single objects of our own classes: joblib scatters large arrays among the workers of a cluster, and a
worker that is lost would take them along.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from .. import __version__
from ._errors import InputError
from ._optional_packages import needed

_SECONDS = 10  # to wait for a scheduler
_checked: set[str] = set()  # clients whose workers were asked for their version


def active_client() -> Any | None:
    """The client in use, if Dask is imported and somebody made one; its workers must have this package."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        client = distributed.default_client()
    except ValueError:
        return None
    if client.id not in _checked:
        _check_workers(client)
        _checked.add(client.id)
    return client


def connect(address: str) -> Any:
    """A client of the scheduler at this address."""
    distributed = needed("distributed", "cluster", "A scheduler")
    try:
        return distributed.Client(address, timeout=_SECONDS)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"The scheduler must be the address of a running Dask scheduler, such as tcp://10.0.0.1:8786. Got "
            f"{address!r}, which does not answer within {_SECONDS} s: start it with `dask scheduler`, and look at the "
            f"address, the port and the firewall. ({type(error).__name__})"
        ) from error


@contextlib.contextmanager
def spread() -> Iterator[bool]:
    """A context in which joblib runs independent work on the cluster, if there is one; says whether there is."""
    if active_client() is None:
        yield False
        return
    from joblib import parallel_config

    with parallel_config(backend="dask"):
        yield True


def _check_workers(client: Any) -> None:
    """Every worker must have the package in the same version: tasks are sent by the names of functions."""
    found = client.run(eval, "__import__('decouply').__version__", on_error="return")
    for worker, version in found.items():
        if version != __version__:
            got = f"version {version}" if isinstance(version, str) else f"an error ({version})"
            raise InputError(
                f"The workers must have decouply {__version__} installed, as this process has. Got {got} at "
                f"{worker}: install the same version there and start that worker again."
            )


Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


def n_at_once() -> int:
    """How many tasks others would run at a time: workers of an active client, or `joblib.parallel_config`. Else 1."""
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
