"""Calls that never end are ended, and told."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class HangError(BaseException):
    """Not an Exception, so that nobody takes it for a fault of what was given."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """End a block of Python that takes longer, in seconds of processor time."""
    if not hasattr(signal, "setitimer"):  # Windows
        yield
        return

    def stop(*_: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
