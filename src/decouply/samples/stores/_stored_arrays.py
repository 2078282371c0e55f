"""Samples in files: arrays that are opened anew wherever they are sent, and read by the workers of a cluster.

Those in .npy files are read a portion at a time: pages of a memory map would count as memory of the process. A path is
on this machine, or anywhere that fsspec reaches (s3://, gs://, https://, memory://, ...).
"""

from __future__ import annotations

import abc
import contextlib
import functools
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._arguments import as_path as as_local_path
from ..._support._errors import DataError, DecouplingError, InputError, MissingExtraError, short_repr
from ..._support._optional_packages import needed
from ...model._names import one_line
from .._array_checks import as_weights, check_stored_shapes, finite_rows
from .._portions import AbstractData, Portion, Task, entries_per_sample, even_spans, work_on
from .._samples import Samples

_LONGEST_REASON = 300  # letters that readers of others may add to a message
LONGEST_HEADER = 100_000  # letters, of an array

Path = str | os.PathLike[str]


class AbstractStoredArray(abc.ABC):
    """An array in a file: small itself, and opened anew wherever it is sent.

    Attributes
    ----------
    path
        Of the file or store.
    shape, dtype
        As they are there.
    chunk
        Samples that are read together; 1 if any number is as good.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk: int

    @property
    def place(self) -> str:
        """The file, as messages call it."""
        return f"`{self.path}`"

    @abc.abstractmethod
    def read(self, first: int, stop: int) -> ndarray:
        """These samples."""


class StoredData(AbstractData):
    """Arrays in files. An active client of a cluster has its workers read them."""

    @property
    def place(self) -> str:
        return "a store"

    @functools.cached_property
    def _spans(self) -> list[tuple[int, int]]:
        largest = self.points if self.jacobians is None else self.jacobians
        return even_spans(self.shape[0], entries_per_sample(self), largest.chunk)

    def spans(self) -> list[tuple[int, int]]:
        return self._spans

    def portion(self, span: tuple[int, int]) -> Portion:
        kept = zip(
            ("X", "F", "J", "weights"), (self.points, self.given_values, self.jacobians, self.factors), strict=True
        )
        X, F, J, weights = (None if array is None else read_checked(name, array, span) for name, array in kept)
        assert X is not None
        if weights is not None:
            weights = as_weights(weights, len(X), self.shape[1])
        return Portion(span[0], X, F if F is None or F.ndim == 2 else F[:, None], J, weights)

    def _results(
        self, spans: list[Sequence[tuple[int, int]]], task: Task, small: tuple[Any, ...], join: Any
    ) -> Iterator[tuple[ndarray, ...]]:
        """One task of a worker per group; a worker that dies costs the time of its tasks, which others run again."""
        from ..._support._parallel import active_client

        client = active_client()
        if client is None:
            yield from (work_on(self, group, task, small, join) for group in spans)
            return
        futures = client.map(
            lambda group: work_on_one_thread(self, group, task, small, join), spans, pure=False, batch_size=len(spans)
        )
        try:
            for future in futures:
                yield future.result()
        finally:
            client.cancel(futures)


def work_on_one_thread(data: AbstractData, group: Any, task: Task, small: Any, join: Any) -> tuple[ndarray, ...]:
    """`work_on` with the threads of BLAS that it has everywhere, so that the digits are the same."""
    from ..._support._machine import one_thread

    with one_thread(), np.errstate(all="ignore"):
        return work_on(data, group, task, small, join)


def read_checked(name: str, array: AbstractStoredArray, span: tuple[int, int]) -> ndarray:
    """Samples of a stored array as finite numbers in float64, or an error that says which rows are not."""
    raw = array.read(*span)
    if len(raw) != span[1] - span[0]:
        raise DataError(
            f"{array.place} must hold {array.shape[0]} samples, as it says. Samples {span[0]} to {span[1] - 1} are not "
            "all there: it is cut off, or still being written."
        )
    return finite_rows(f"`{name}` in {array.place}", np.asarray(raw, dtype=np.float64), span[0])


def stored_data(
    points: AbstractStoredArray,
    values: AbstractStoredArray | None,
    jacobians: AbstractStoredArray | None,
    weights: AbstractStoredArray | None,
) -> StoredData:
    """Stored arrays together, if their shapes fit."""
    given = {"X": points, "F": values, "J": jacobians, "weights": weights}
    check_stored_shapes({name: array.shape for name, array in given.items() if array is not None}, points.place)
    return StoredData(points, values, jacobians, weights)


# Paths


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
def open_file(path: str) -> Iterator[Any]:
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
def readable(rule: str, kind: type[DecouplingError] = DataError) -> Iterator[None]:
    """Whatever a foreign reader does with damaged bytes, the message says that the file cannot be read."""
    try:
        yield
    except (DecouplingError, ImportError):
        raise
    except Exception as error:
        reason = one_line(str(error))[:_LONGEST_REASON].rstrip(". ") or type(error).__name__
        raise kind(f"{rule}. It cannot be read: {reason}.") from error


# Files of NumPy


def npy_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of the array that follows in a stream."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):  # 3 is for names in other alphabets
        raise ValueError(f"it is of version {version[0]} of NumPy's format, and must be of 1 or 2")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(stream, max_header_size=LONGEST_HEADER)


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
        with open_file(path) as stream, readable(rule):
            shape, fortran, dtype = npy_header(stream)
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
        with open_file(self.path) as stream:
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
