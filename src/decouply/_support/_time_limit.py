"""A limit of time that ends a search as Ctrl-C does: where progress is reported, with the best so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ._checks import as_number
from ._clock import now
from ._interrupts import INTERRUPTED

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
        """Why a search was ended, in words."""
        return OUT_OF_TIME if self._over else INTERRUPTED

    def __call__(self, **values: Any) -> None:
        self._progress(**values)
        if now() > self._until:
            self._over = True
            raise KeyboardInterrupt
