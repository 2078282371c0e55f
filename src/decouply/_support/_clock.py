"""The clock that limits of time are measured with: that on the wall, or that of the processor for experiments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_CLOCK: ContextVar[Callable[[], float]] = ContextVar("clock", default=time.perf_counter)


def now() -> float:
    """Seconds since some moment."""
    return _CLOCK.get()()


@contextmanager
def by_processor_time() -> Iterator[None]:
    """Limits count the time of the processor: what an experiment finds then does not depend on other work."""
    token = _CLOCK.set(time.process_time)
    try:
        yield
    finally:
        _CLOCK.reset(token)
