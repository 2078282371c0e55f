"""Ctrl-C: words instead of a traceback while the command starts, and later one that keeps what is finished.

The first lines run before everything else that takes long to import. They are of use to the command `decouply`, and
to `python -m experiments`: in other programs nothing happens.
"""
# ruff: noqa: E402 (Ctrl-C is answered before `signal` and others are imported)

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` itself imports much
import os
import sys


def _stop(*_: object) -> None:
    os.write(2, b"Stopped.\n")
    os._exit(130)  # nothing has been begun that could be lost


def is_command() -> bool:
    """Whether this process is the command `decouply`, or `python -m experiments`."""
    folder, file = os.path.split(sys.argv[0] if sys.argv else "")
    if file == "__main__.py":
        return os.path.basename(folder) == "experiments"  # noqa: PTH119
    return os.path.splitext(file)[0] == "decouply"  # noqa: PTH122


if is_command() and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _stop)

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = "Stopped by Ctrl-C: the best found so far is returned."


def hand_over() -> None:
    """The command is there: Ctrl-C is its own affair from here on."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
