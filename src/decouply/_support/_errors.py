"""Exceptions and warnings of the package, each also a built-in kind.

Every message names the argument, the rule, what was received and the way out, in that order.

Our warnings, and scopes without them that threads do not disturb for each other.

`warnings.catch_warnings` changes filters of the whole process: two threads that leave it in another order than they
came keep the wrong ones for good. What is silenced here is silenced in one thread.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class DecouplingError(Exception):
    """Base of every error raised on purpose by this package."""


class InputError(DecouplingError, ValueError):
    """An argument breaks a rule that is stated in the message."""


class ModelFileError(DecouplingError, ValueError):
    """A file cannot be read as a model."""


class SampleFileError(DecouplingError, ValueError):
    """A file cannot be read as samples."""


class DataError(DecouplingError, RuntimeError):
    """A data set is not there, cannot be downloaded, or is damaged."""


class MissingExtraError(DecouplingError, ImportError):
    """A package is needed that only an extra installs; the message names the command."""


class SolverError(DecouplingError, RuntimeError):
    """No start of a solver gave a usable answer."""


class DecouplingWarning(UserWarning):
    """Something the user should know, although a result is returned."""


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
