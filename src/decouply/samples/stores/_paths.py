"""Paths of stores: on this machine, or anywhere that fsspec reaches (s3://, gs://, https://, memory://, ...)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from ..._support._arguments import as_path as as_local_path
from ..._support._errors import DataError, DecouplingError, InputError, MissingExtraError
from ..._support._messages import short_repr
from ..._support._optional_packages import needed
from ...model._names import one_line

_LONGEST_REASON = 300  # letters that readers of others may add to a message

Path = str | os.PathLike[str]


def as_path(name: str, path: Any, what: str) -> str:
    """A path as a text."""
    if isinstance(path, str) and is_remote(path):
        return path
    if not isinstance(path, str | os.PathLike) or (isinstance(path, str) and not path):
        raise InputError(f"`{name}` must be the path of {what}. Got {short_repr(path)}.")
    return str(as_local_path(name, path))


def is_remote(path: str) -> bool:
    return "://" in path


@contextlib.contextmanager
def opened(path: str) -> Iterator[Any]:
    """A file for reading, with errors in our words."""
    try:
        if is_remote(path):
            with needed("fsspec", "zarr", "A remote path").open(path, "rb") as stream:
                yield stream
        else:
            with open(path, "rb") as stream:  # noqa: PTH123 (the same words for both)
                yield stream
    except MissingExtraError:  # of fsspec itself
        raise
    except ImportError as error:
        raise cannot_reach(path, error) from error
    except OSError as error:
        raise DataError(
            f"`{path}` must be a file with samples. It cannot be read: {error.strerror or error}."
        ) from error


def cannot_reach(path: str, error: ImportError) -> InputError:
    """fsspec knows the service of an address, but the package for it is not there."""
    return InputError(f"`{path}` must be an address whose service can be reached from here. It cannot be: {error}.")


@contextlib.contextmanager
def readable(rule: str) -> Iterator[None]:
    """Whatever damaged bytes make a reader of others do is told as what it is: a store that cannot be read."""
    try:
        yield
    except (DecouplingError, ImportError):
        raise
    except Exception as error:
        reason = one_line(str(error))[:_LONGEST_REASON].rstrip(". ") or type(error).__name__
        raise DataError(f"{rule}. It cannot be read: {reason}.") from error
