"""Jacobians of many samples, wherever they are: an array in memory, or a file that is read a portion at a time.

Alternating solvers touch J through a few sums over samples only, so that it need not be in memory as a whole. What they
ask of it is `AbstractJacobians`; nothing else may depend on where it is.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_count
from .._support._errors import DataError, InputError
from .._support._messages import short_repr

_CHUNK_ENTRIES = 2_000_000  # numbers that are read at a time: 16 MB
_IN_MEMORY = 256 * 1024**2  # bytes; products of up to this size need no file


class AbstractJacobians(ABC):
    """What solvers may ask of Jacobians, wherever these are kept."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(S, n, m)."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers where they are kept; what comes out is float64."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest absolute entry."""

    @abstractmethod
    def portions(self) -> Iterator[tuple[slice, Float[ndarray, "s n m"]]]:
        """All of them in order, in arrays of bounded size, with the samples they belong to."""

    @abstractmethod
    def take(self, rows: ndarray) -> Float[ndarray, "k n m"]:
        """Those of some samples, as an array in memory; no others are read."""

    @abstractmethod
    def some(self, rows: slice) -> Float[ndarray, "k n m"]:
        """Those of neighbouring samples."""

    @abstractmethod
    def times(self, U: Float[ndarray, "m k"], rows: Float[ndarray, " n"] | None = None) -> Jacobians:
        """J_s U for every sample, rows times factors."""

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return self.shape[0]


@dataclass(frozen=True, eq=False)
class ArrayJacobians(AbstractJacobians):
    """An array in memory, in one portion."""

    J: Float[ndarray, "S n m"]

    @property
    def shape(self) -> tuple[int, int, int]:
        S, n, m = self.J.shape
        return S, n, m

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.J.dtype

    @property
    def largest(self) -> float:
        return float(max(np.max(self.J), -np.min(self.J)))

    def portions(self) -> Iterator[tuple[slice, Float[ndarray, "s n m"]]]:
        yield slice(0, len(self.J)), self.J

    def take(self, rows: ndarray) -> Float[ndarray, "k n m"]:
        return self.J[rows]

    def some(self, rows: slice) -> Float[ndarray, "k n m"]:
        return self.J[rows]

    def times(self, U: Float[ndarray, "m k"], rows: Float[ndarray, " n"] | None = None) -> Float[ndarray, "S n k"]:
        product: ndarray = self.J @ U
        if rows is not None:
            product *= rows[:, None]
        return product


class StoredJacobians(AbstractJacobians):
    """Jacobians in a temporary file, for `dc.Samples(X, F=F, J=stored)` with more samples than fit into memory.

    They are written when the object is made, in the order of the samples, cannot be changed, and their file is removed
    when they are no longer used. `Proj`, `Constr` and the other alternating solvers read it twice per step, about 16 MB
    at a time; `VarPro` needs an array in memory.

    Parameters
    ----------
    chunks
        Arrays (s, n, m), with any number s of samples each; a generator may compute them on the way.
    shape
        (S, n, m) of all together.
    dtype
        float64, or float32 for half the room and seven digits; what is computed from them is float64.
    path
        The directory for the file; by default the one for temporary files.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> model = dc.systems.f2()
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 3))
    >>> stored = dc.StoredJacobians((model.jacobian(part) for part in np.split(X, 10)), shape=(1000, 3, 3))
    >>> dc.Samples(X, F=model(X), J=stored)
    Samples(S=1000, m=3, n=3: values and stored Jacobians)
    """

    def __init__(
        self,
        chunks: Iterable[object],
        *,
        shape: tuple[int, int, int],
        dtype: Any = np.float64,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(chunks, Iterable) or getattr(chunks, "ndim", 1) == 0:
            raise InputError(f"`chunks` must be a list or another iterable of arrays. Got {short_repr(chunks)}.")
        S, n, m = _checked_shape(shape)
        kind = _checked_dtype(dtype)
        room = f"{S * n * m * kind.itemsize / 1e9:.3g} GB"
        try:
            handle, name = tempfile.mkstemp(dir=path, prefix="jacobians-", suffix=".bin")
        except OSError as error:
            raise InputError(
                f"`path` must be a writable directory with {room} of room. Got {short_repr(path)}: {error.strerror}."
            ) from error
        written, largest = 0, 0.0
        try:
            with os.fdopen(handle, "wb", buffering=0) as stream:
                for chunk in chunks:
                    array = _checked_chunk(chunk, written, (S, n, m), kind)
                    largest = max(largest, float(np.max(np.abs(array), initial=0.0)))
                    _append(stream, array, f"`{name}` must hold {room} of Jacobians")
                    written += len(array)
            if written != S:
                raise InputError(f"`chunks` must hold {S} samples in all, as `shape` says. Got {written}.")
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        self._path, self._shape, self._dtype, self._largest = Path(name), (S, n, m), kind, largest
        self._finalizer = weakref.finalize(self, _remove, self._path, os.getpid())

    @property
    def shape(self) -> tuple[int, int, int]:
        """(S, n, m)."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers in the file."""
        return self._dtype

    @property
    def largest(self) -> float:
        """The largest absolute entry."""
        return self._largest

    def portions(self) -> Iterator[tuple[slice, Float[ndarray, "s n m"]]]:
        S, n, m = self._shape
        step = max(1, _CHUNK_ENTRIES // (n * m))
        with self._open() as stream:
            for first in range(0, S, step):
                count = min(step, S - first)
                yield slice(first, first + count), self._read(stream, count)

    def take(self, rows: ndarray) -> Float[ndarray, "k n m"]:
        S, n, m = self._shape
        index = np.arange(S)[rows].reshape(-1)
        found = np.empty((len(index), n, m))
        with self._open() as stream:
            for position in np.argsort(index, kind="stable"):
                stream.seek(int(index[position]) * n * m * self._dtype.itemsize)
                found[position] = self._read(stream, 1)[0]
        return found

    def some(self, rows: slice) -> Float[ndarray, "k n m"]:
        S, n, m = self._shape
        first, stop, _ = rows.indices(S)
        with self._open() as stream:
            stream.seek(first * n * m * self._dtype.itemsize)
            return self._read(stream, stop - first)

    def times(self, U: Float[ndarray, "m k"], rows: Float[ndarray, " n"] | None = None) -> Jacobians:
        """J_s U for every sample, rows times factors: an array if it is small, and stored like these if not."""
        S, n, _ = self._shape
        shape = (S, n, U.shape[1])
        factors = np.ones((n, 1)) if rows is None else rows[:, None]
        if 8 * S * n * U.shape[1] > _IN_MEMORY:
            parts = (factors * (part @ U) for _, part in self.portions())
            return StoredJacobians(parts, shape=shape, dtype=self._dtype, path=self._path.parent)
        product = np.empty(shape)
        for here, part in self.portions():
            np.matmul(part, U, out=product[here])
            product[here] *= factors
        return product

    def _open(self) -> Any:
        try:
            return self._path.open("rb", buffering=0)
        except OSError as error:
            raise DataError(
                f"`{self._path}` must hold stored Jacobians, but cannot be read: {error.strerror}."
            ) from error

    def _read(self, stream: Any, count: int) -> Float[ndarray, "s n m"]:
        """The next samples. Plain reads: pages of a memory map would count as memory of the process."""
        _, n, m = self._shape
        numbers = np.fromfile(stream, self._dtype, count * n * m)
        if numbers.size != count * n * m:
            raise DataError(f"`{self._path}` must hold {self.size} numbers. It has been cut off: write it again.")
        return numbers.reshape(count, n, m).astype(np.float64, copy=False)

    def __reduce__(self) -> Any:
        raise InputError(
            "StoredJacobians cannot be copied or sent to another process: their file belongs to one object. Use "
            "`samples.take(...)` for samples in memory."
        )

    def __repr__(self) -> str:
        return f"StoredJacobians(shape={self._shape}, {self._dtype.name})"


Jacobians = Float[ndarray, "S n m"] | AbstractJacobians


def held(J: Jacobians) -> AbstractJacobians:
    """Jacobians behind their one interface; an array is not copied."""
    return J if isinstance(J, AbstractJacobians) else ArrayJacobians(J)


def _append(stream: Any, array: ndarray, rule: str) -> None:
    """Write all of an array; trouble with the file is told apart from trouble of whoever computes the array."""
    rest = array.reshape(-1).view(np.uint8).data
    try:
        while rest:
            rest = rest[stream.write(rest) :]
    except OSError as error:
        raise DataError(
            f"{rule}, but cannot be written: {error.strerror}. Give `path=` a directory with more room, or "
            "dtype=np.float32."
        ) from error


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a process that was forked from the owner and ends before it
        path.unlink(missing_ok=True)


def _checked_shape(shape: object) -> tuple[int, int, int]:
    if not isinstance(shape, tuple | list) or len(shape) != 3:
        raise InputError(f"`shape` must be (S, n, m): samples, outputs, inputs. Got {short_repr(shape)}.")
    S, n, m = (as_count(f"shape[{i}]", size) for i, size in enumerate(shape))
    return S, n, m


def _checked_dtype(dtype: Any) -> np.dtype[Any]:
    try:
        kind: np.dtype[Any] = np.dtype(dtype)
    except Exception:  # whatever a foreign object does when it is taken for a type
        kind = np.dtype(object)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InputError(f"`dtype` must be np.float32 or np.float64. Got {short_repr(dtype)}.")
    return kind


def _checked_chunk(chunk: object, written: int, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> ndarray:
    """One portion in the type of the file, all of it finite there."""
    S, n, m = shape
    try:
        given = np.asarray(chunk)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"`chunks` must hold real arrays of shape (s, {n}, {m}). One cannot be read: {error}"
        ) from error
    if given.dtype.kind not in "fiub" or given.ndim != 3 or given.shape[1:] != (n, m):
        raise InputError(f"`chunks` must hold real arrays of shape (s, {n}, {m}). Got {given.dtype} {given.shape}.")
    if written + len(given) > S:
        raise InputError(f"`chunks` must hold {S} samples in all, as `shape` says. Got {written + len(given)} or more.")
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(given, dtype=dtype)
    bad = ~np.isfinite(array).all(axis=(1, 2))
    if bad.any():
        raise InputError(
            f"`chunks` must hold finite numbers only{'' if dtype.itemsize == 8 else ', also as float32'}. Got NaN or "
            f"infinity in sample {written + int(np.argmax(bad))}: drop those samples or repair them."
        )
    return array
