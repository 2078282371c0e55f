"""Ctrl-C while workers run: what they have finished is kept, and nothing is torn apart."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def deferred() -> Iterator[None]:
    """A short block that Ctrl-C and `SIGTERM` do not tear apart: what came meanwhile is done at its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = [number for number, handler in before.items() if callable(handler)]
    for number in ours:
        signal.signal(number, lambda which, _: came.append(which))
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
    for which in came:
        signal.raise_signal(which)


@contextmanager
def whole_or_nothing(boss: int) -> Iterator[None]:
    """A block whose outcome counts only if it was not interrupted: a Ctrl-C that it has caught is raised at its end.

    In other processes than `boss` Ctrl-C does nothing: a terminal sends it to all of them, and the boss decides.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    interrupted = False

    def note(number: int, frame: Any) -> None:
        nonlocal interrupted
        if os.getpid() != boss or not callable(before):
            return
        try:
            before(number, frame)
        except KeyboardInterrupt:
            interrupted = True
            raise

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt
