"""A limit of time ends a search as Ctrl-C does: when progress is reported, with the best so far.

Its clock is that on the wall, or that of the processor for experiments.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ._arguments import as_number
from ._interrupts import INTERRUPTED

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


OUT_OF_TIME = "`max_seconds` was reached: the best found so far is returned. Raise it to search longer."


def deadline_after(max_seconds: Any) -> float:
    """The time of `now` at which `max_seconds` are over; infinite if that is None."""
    return math.inf if max_seconds is None else now() + as_number("max_seconds", max_seconds, above=True)


class TimeLimit:
    """A progress callable that raises KeyboardInterrupt once the time is used up."""

    def __init__(self, progress: Callable[..., None], max_seconds: Any) -> None:
        self._progress = progress
        self._until = deadline_after(max_seconds)
        self._over = False

    @property
    def is_over(self) -> bool:
        """Whether the time was used up at a report."""
        return self._over

    @property
    def reason(self) -> str:
        """Why a search was ended, as a sentence."""
        return OUT_OF_TIME if self._over else INTERRUPTED

    def __call__(self, **values: Any) -> None:
        self._progress(**values)
        if now() > self._until:
            self._over = True
            raise KeyboardInterrupt
