"""One process at a time: a lock that goes with the process that holds it, however that ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ._atomic_files import named

_LOOK_EVERY = 0.2  # seconds


@contextmanager
def alone_with(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of a file, kept in `path`.lock beside it; `waiting` is called while somebody else has it."""
    place = path.with_name(f"{path.name}.lock")
    with named(place), place.open("a+b") as stream:
        while not _take(stream):
            waiting()
            time.sleep(_LOOK_EVERY)
        try:
            yield
        finally:
            _give(stream)


def _take(stream: IO[bytes]) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows
        return _take_there(stream)
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take_there(stream: IO[bytes]) -> bool:
    import msvcrt

    stream.seek(0)
    try:
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    return True


def _give(stream: IO[bytes]) -> None:
    try:
        import fcntl
    except ImportError:
        import msvcrt

        stream.seek(0)
        msvcrt.locking(stream.fileno(), msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined]
        return
    fcntl.flock(stream, fcntl.LOCK_UN)
