"""Ctrl-C that keeps what is finished: it is raised where progress is reported, when nothing is half done."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = "Stopped by Ctrl-C: the best that was found until then is returned."


@contextmanager
def stoppable(progress: Callable[..., None]) -> Iterator[Callable[..., None]]:
    """`progress`, but raising KeyboardInterrupt at its next report once Ctrl-C was pressed; pressed again, at once.

    Solvers catch that one and return the best they have. Other threads than the main one never see Ctrl-C.
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
    finally:
        signal.signal(signal.SIGINT, before)
