"""Ctrl-C that keeps what is finished: it is raised where progress is reported, when nothing is half done."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = "Stopped by Ctrl-C: the best found so far is returned."


@contextmanager
def stoppable(progress: Callable[..., None]) -> Iterator[Callable[..., None]]:
    """`progress`, but raising KeyboardInterrupt at its next report once Ctrl-C was pressed; pressed again, at once.

    Solvers catch that one and return the best they have. Other threads than the main one never see Ctrl-C. What fails
    after it has failed because of it: a terminal sends it to all processes, and those that are starting die.
    """
    if threading.current_thread() is not threading.main_thread():
        yield progress
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # somebody has a rule of their own
        yield progress
        return
    pressed = False

    def note(number: int, frame: Any) -> None:
        nonlocal pressed
        if pressed:
            signal.default_int_handler(number, frame)
        pressed = True
        if sys.stderr.isatty():
            print("\nStopping after this step; Ctrl-C again stops at once.", file=sys.stderr)

    def report(**values: Any) -> None:
        progress(**values)
        if pressed:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield report
    except Exception as error:
        if pressed:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)


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
