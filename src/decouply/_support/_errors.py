"""Exceptions and warnings of the package, each also a built-in kind, and what messages are made of.

A message names the argument, the rule, what was received and the way out, in that order. What was received is quoted
in short, on one line, whatever its own `repr` does. Warnings are silenced in one thread: `warnings.catch_warnings`
changes the filters of the whole process, and two threads that leave it in another order keep the wrong ones for good.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class DecouplingError(Exception):
    """Base of every error raised on purpose by this package.

    Examples
    --------
    >>> import decouply as dc
    >>> issubclass(dc.InputError, dc.DecouplingError)
    True
    """


class InputError(DecouplingError, ValueError):
    """An argument breaks a rule that is stated in the message.

    Examples
    --------
    >>> import decouply as dc
    >>> try:
    ...     dc.Samples([[0.0], [1.0]], F=[[1.0]])
    ... except dc.InputError as error:
    ...     print(error)
    `F` must have shape (2, n): one row per row of `X`. Got (1, 1).
    """


class ModelFileError(DecouplingError, ValueError):
    """A file cannot be read as a model.

    Examples
    --------
    >>> import decouply as dc
    >>> try:
    ...     dc.Decoupling.load("nowhere.safetensors")
    ... except dc.ModelFileError as error:
    ...     print(type(error).__name__)
    ModelFileError
    """


class SampleFileError(DecouplingError, ValueError):
    """A file cannot be read as samples.

    Examples
    --------
    >>> import decouply as dc
    >>> try:
    ...     dc.Samples.load("nowhere.csv", outputs="y")
    ... except dc.SampleFileError as error:
    ...     print(type(error).__name__)
    SampleFileError
    """


class DataError(DecouplingError, RuntimeError):
    """A data set is not there, cannot be downloaded, or is damaged.

    Examples
    --------
    >>> import decouply as dc
    >>> issubclass(dc.DataError, RuntimeError)
    True
    """


class MissingExtraError(DecouplingError, ImportError):
    """A package is needed that only an extra installs; the message names the command.

    Examples
    --------
    >>> import decouply as dc
    >>> issubclass(dc.MissingExtraError, ImportError)
    True
    """


class SolverError(DecouplingError, RuntimeError):
    """No start of a solver gave a usable answer.

    Examples
    --------
    >>> import decouply as dc
    >>> issubclass(dc.SolverError, RuntimeError)
    True
    """


class DecouplingWarning(UserWarning):
    """Something the user should know, although a result is returned.

    Examples
    --------
    >>> import decouply as dc
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", dc.DecouplingWarning)
    ...     basis = dc.Spline(8)
    >>> basis.n_pieces
    8
    """


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


_LONGEST = 200  # letters
_CODES = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")


def short_repr(value: object) -> str:
    """`value` as messages show it: its `repr`, cut if it is long. Its type if that fails."""
    if isinstance(value, str | bytes | bytearray) and len(value) > _LONGEST:
        value = value[:_LONGEST]
    try:
        text = _CODES.sub(" ", repr(value)).strip()
    except Exception:  # of somebody's own, or of a number with more digits than Python writes
        return f"an object of type {type(value).__name__} that cannot be shown"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({type(value).__name__})"


def pluralised(count: int, noun: str) -> str:
    """A number with its noun, such as 1 state or 2 states."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
