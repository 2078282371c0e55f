"""Paths of stores: on this machine, or anywhere that fsspec reaches (s3://, gs://, https://, memory://, ...)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from ..._support._errors import DataError, InputError, MissingExtraError
from ..._support._extras import needed
from ..._support._shown import shown

Path = str | os.PathLike[str]


def as_path(name: str, path: Any, what: str) -> str:
    """A path as a text."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise InputError(f"`{name}` must be the path of {what}. Got {shown(path)}.")
    return str(os.fspath(path))


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
