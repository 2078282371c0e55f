"""Arrays in .npy files, read a portion at a time, and the paths of stores.

Pages of a memory map would count as memory of the process. A path is on this machine, or anywhere that fsspec reaches
(s3://, gs://, https://, memory://, ...).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._arguments import as_path as as_local_path
from ..._support._errors import DataError, DecouplingError, InputError, MissingExtraError, short_repr
from ..._support._optional_packages import needed
from ...model._names import one_line
from .._samples import Samples
from ._stored_arrays import AbstractStoredArray, stored_data

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


@dataclass(frozen=True)
class NpyArray(AbstractStoredArray):
    """An array in C order in an .npy file."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    begins: int  # bytes of the header
    chunk: int = 1

    @classmethod
    def open(cls, path: str) -> NpyArray:
        rule = f"`{path}` must be an .npy file, as numpy.save writes it"
        with opened(path) as stream, readable(rule):
            version = np.lib.format.read_magic(stream)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = header(stream)
            begins = stream.tell()
        if not shape or min(shape) < 0:
            raise DataError(f"{rule}, with a row for every sample. Its shape is {shape}.")
        if fortran or dtype.kind not in "fiub":
            got = "Fortran order" if fortran else f"entries of type {dtype}"
            raise InputError(
                f"`{path}` must hold real numbers in C order. Got {got}: save np.ascontiguousarray(array)."
            )
        array = cls(path, shape, dtype, begins)
        if array._row == 0:
            raise InputError(f"`{path}` must hold numbers. Got shape {shape}.")
        if not is_remote(path) and os.stat(path).st_size < begins + array._row * shape[0]:  # noqa: PTH116
            raise DataError(
                f"`{path}` must hold {shape[0]} samples, as its header says. It is cut off, or still being written: "
                "write it again."
            )
        return array

    @property
    def _row(self) -> int:
        """Bytes of one sample."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def read(self, first: int, stop: int) -> ndarray:
        with opened(self.path) as stream:
            stream.seek(self.begins + first * self._row)
            content = stream.read((stop - first) * self._row)
        whole = len(content) // self._row
        return np.frombuffer(content[: whole * self._row], self.dtype).reshape(whole, *self.shape[1:])


def open_npy(X: Path, F: Path | None, J: Path | None, weights: Path | None, inputs: Any, outputs: Any) -> Samples:
    """Samples in .npy files; see `Samples.from_npy`."""
    points = NpyArray.open(as_path("X", X, "an .npy file"))
    others = [
        None if path is None else NpyArray.open(as_path(name, path, "an .npy file"))
        for name, path in (("F", F), ("J", J), ("weights", weights))
    ]
    return Samples.stored(stored_data(points, *others), inputs=inputs, outputs=outputs)
