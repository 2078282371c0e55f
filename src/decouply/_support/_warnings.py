"""Our warnings, and scopes without them that threads do not disturb for each other.

`warnings.catch_warnings` changes filters of the whole process: two threads that leave it in another order than they
came keep the wrong ones for good. What is silenced here is silenced in one thread.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ._errors import DecouplingWarning

_silent: ContextVar[bool] = ContextVar("silent", default=False)
_filters = threading.RLock()


def warn(message: str, *, stacklevel: int = 2) -> None:
    """Tell the user something; `stacklevel` counts from the caller of this function, as in `warnings.warn`."""
    if not _silent.get():
        warnings.warn(message, DecouplingWarning, stacklevel=stacklevel + 1)


@contextmanager
def silenced() -> Iterator[None]:
    """A scope in which `warn` says nothing, because whoever opens it tells it otherwise."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


@contextmanager
def as_errors(category: type[Warning]) -> Iterator[None]:
    """A scope in which warnings of others are errors; one thread at a time, because filters belong to the process."""
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("error", category)
        yield
