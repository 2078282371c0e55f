"""Zarr stores: a group with the arrays X, F, J and weights, chunked by samples.

A store that we write says so when it is complete. Zarr reads a chunk that is missing as zeros. A store that is being
written, or has lost a file, would then look like data. So the chunks are counted when it is opened. Batches that come
one after the other, from a generator or a queue, are written in one pass and bounded memory.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._arguments import as_array, read_array
from ..._support._atomic_files import named
from ..._support._errors import DataError, InputError, short_repr
from ..._support._optional_packages import needed
from .._array_checks import as_array_names, finite_rows
from .._portions import PORTION_ENTRIES, Portion
from .._samples import Samples
from ._stored_arrays import AbstractStoredArray, Path, as_path, cannot_reach, readable, stored_data

_NAMES = ("X", "F", "J", "weights")
_COMPLETE = "decoupling_complete"


@functools.lru_cache(maxsize=32)
def _group(path: str) -> Any:
    """An open group; workers keep theirs from task to task."""
    zarr = needed("zarr", "zarr", "A Zarr store")
    try:
        return zarr.open_group(path, mode="r")
    except ImportError as error:
        raise cannot_reach(path, error) from error
    except Exception as error:  # of damaged metadata
        raise DataError(
            f"`{path}` must be a Zarr group with the arrays X and F or J, as `samples.to_zarr` writes it. It cannot be "
            f"opened: {error or type(error).__name__}"
        ) from error


@dataclass(frozen=True)
class ZarrArray(AbstractStoredArray):
    """One array of a group."""

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk: int

    @classmethod
    def open(cls, path: str, name: str) -> ZarrArray:
        array = _group(path)[name]
        if np.dtype(array.dtype).kind not in "fiub":
            raise InputError(f"`{name}` in `{path}` must hold real numbers. Got entries of type {array.dtype}.")
        if any(c < s for c, s in zip(array.chunks[1:], array.shape[1:], strict=True)):
            raise InputError(
                f"`{name}` in `{path}` must be cut into chunks by samples only, such as ({array.chunks[0]}, "
                f"{', '.join(map(str, array.shape[1:]))}). Got chunks {array.chunks}: rechunk it."
            )
        there, wanted = int(array.nchunks_initialized), int(array.nchunks)
        if there < wanted:
            raise DataError(
                f"`{name}` in `{path}` must have all its {wanted} chunks. Got {there}: the store is cut off or still "
                "being written. If Zarr left out chunks that hold zeros only, write them with "
                'config={"write_empty_chunks": True}.'
            )
        length = array.shards[0] if array.shards else array.chunks[0]
        return cls(path, name, tuple(array.shape), np.dtype(array.dtype), int(length))

    def read(self, first: int, stop: int) -> ndarray:
        try:
            return np.asarray(_group(self.path)[self.name][first:stop])
        except Exception as error:  # of damaged chunks
            raise DataError(
                f"`{self.name}` in `{self.path}` must be readable. Samples {first} to {stop - 1} are not: {error}. The "
                "store is damaged: write it again."
            ) from error


def open_zarr(path: Path, arrays: Any, inputs: Any, outputs: Any) -> Samples:
    """Samples of a Zarr store; see `Samples.from_zarr`."""
    theirs = as_array_names(arrays)
    place = as_path("path", path, "a Zarr store")
    _group.cache_clear()  # a store may have been written again since
    with readable(f"`{place}` must be a Zarr group with the arrays X and F or J, as `samples.to_zarr` writes it"):
        return _samples_of(_group(place), place, theirs, inputs, outputs)


def _samples_of(group: Any, place: str, arrays: dict[str, str] | None, inputs: Any, outputs: Any) -> Samples:
    called = {name: (arrays or {}).get(name, name) for name in _NAMES}
    for name, there in called.items():
        if (name == "X" or name in (arrays or {})) and there not in group:
            raise DataError(
                f"`{place}` must have an array {there!r} for {name}. It has {sorted(group.array_keys())}: name them, "
                'such as arrays={"X": "points", "J": "T"}.'
            )
    if group.attrs.get(_COMPLETE) is False:
        raise DataError(
            f"`{place}` must be complete. It says that it is still being written, or that its writer was stopped: "
            "wait, or write it again."
        )
    found = [ZarrArray.open(place, there) if there in group else None for there in called.values()]
    assert found[0] is not None
    check_chunks({name: a.chunk for name, a in zip(_NAMES, found, strict=True) if a is not None}, place)
    names = [
        group.attrs.get(key) if given is None else given for key, given in (("inputs", inputs), ("outputs", outputs))
    ]
    return Samples.stored(stored_data(found[0], *found[1:]), inputs=names[0], outputs=names[1])


def check_chunks(chunks: dict[str, int], place: str) -> None:
    """Chunks of different arrays must begin together, or every portion would read parts of them again and again."""
    longest = max(chunks.values())
    if any(longest % length for length in chunks.values()):
        got = ", ".join(f"{name} {length}" for name, length in chunks.items())
        raise InputError(
            f"The chunks of the arrays in `{place}` must hold the same number of samples, or a divisor of it. Got "
            f"{got}: rechunk them alike."
        )


def write_zarr(
    path: Path,
    portions: Iterable[Portion],
    *,
    n_samples: int | None,
    dtype: Any,
    names: tuple[tuple[str, ...] | None, tuple[str, ...] | None],
    progress: Callable[..., None] = lambda **_: None,
) -> str:
    """Write portions one after the other into a new store; it grows if their number is not known."""
    place = as_path("path", path, "a new Zarr store")
    zarr = needed("zarr", "zarr", "A Zarr store")
    try:
        kind = np.dtype(dtype)
    except Exception:  # whatever a foreign object does when NumPy asks it for its parts
        kind = np.dtype(object)
    if dtype is None or kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InputError(f"`dtype` must be np.float32 or np.float64. Got {short_repr(dtype)}.")
    try:
        group = zarr.open_group(place, mode="w-")
    except ImportError as error:
        raise cannot_reach(place, error) from error
    except FileExistsError as error:
        raise InputError(
            f"`path` must not be there yet. Got {place!r}, which is: remove it, or write elsewhere."
        ) from error
    except OSError as error:
        raise DataError(f"`{place}` must be writable. It is not: {error.strerror or error}.") from error
    group.attrs[_COMPLETE] = False
    written = 0
    arrays: dict[str, Any] = {}
    rest: dict[str, ndarray] = {}
    length = 0
    for portion in portions:
        given = {name: a for name in _NAMES if (a := getattr(portion, name)) is not None}
        if not arrays:
            per_sample = sum(int(np.prod(a.shape[1:], dtype=int)) for a in given.values())
            length = max(1, PORTION_ENTRIES // per_sample)
            length = length if n_samples is None else min(length, n_samples)
            for name, a in given.items():
                arrays[name] = group.create_array(
                    name,
                    shape=(n_samples or 0, *a.shape[1:]),
                    chunks=(length, *a.shape[1:]),
                    dtype=kind,
                    compressors=None,
                    config={"write_empty_chunks": True},
                )
        if given.keys() != arrays.keys() or any(a.shape[1:] != arrays[name].shape[1:] for name, a in given.items()):
            raise InputError(
                f"All batches must hold the same arrays, {_shapes(arrays)} per sample. Got {_shapes(given)} from "
                f"sample {written + _n_rows(rest)} on."
            )
        for name, a in given.items():
            finite_rows(f"`{name}`", a, written + _n_rows(rest))
        rest = {name: np.concatenate([rest[name], a]) if rest else a for name, a in given.items()}
        whole = _n_rows(rest) - _n_rows(rest) % length
        if whole:
            with named(place):
                _append(arrays, {name: a[:whole] for name, a in rest.items()}, written)
            written, rest = written + whole, {name: a[whole:].copy() for name, a in rest.items()}
        progress(done=written, total=n_samples)
    if not arrays:
        raise InputError("There must be at least one batch of samples. Got none.")
    if _n_rows(rest):
        with named(place):
            _append(arrays, rest, written)
        written += _n_rows(rest)
    for key, value in zip(("inputs", "outputs"), names, strict=True):
        if value is not None:
            group.attrs[key] = list(value)
    group.attrs[_COMPLETE] = True
    return place


def _append(arrays: dict[str, Any], parts: dict[str, ndarray], at: int) -> None:
    for name, part in parts.items():
        array, end = arrays[name], at + len(part)
        if array.shape[0] < end:
            array.resize((end, *array.shape[1:]))
        array[at:end] = part


def _n_rows(rest: dict[str, ndarray]) -> int:
    return len(rest["X"]) if rest else 0


def _shapes(arrays: dict[str, Any]) -> str:
    return ", ".join(f"{name} {a.shape[1:]}" for name, a in arrays.items())


# Batches


def store_batches(
    batches: Iterable[Any], path: Path | None, dtype: Any, inputs: Any, outputs: Any, progress: Callable[..., None]
) -> Samples:
    """Samples of batches; see `Samples.from_batches`."""
    if path is None:  # a place that is removed when the program ends
        directory = tempfile.mkdtemp(prefix="samples-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        path = str(FilePath(directory) / "samples.zarr")
    write_zarr(path, _portions(batches), n_samples=None, dtype=dtype, names=(None, None), progress=progress)
    return open_zarr(path, None, inputs, outputs)


def store_samples(samples: Samples, path: Path, dtype: Any, progress: Callable[..., None]) -> Samples:
    """Write any samples into a store; see `Samples.to_zarr`."""
    data = samples.data
    portions = (data.portion(span) for span in data.spans())
    names = (samples.inputs, samples.outputs)
    write_zarr(path, portions, n_samples=samples.n_samples, dtype=dtype, names=names, progress=progress)
    return open_zarr(path, None, None, None)


def _portions(batches: Iterable[Any]) -> Iterator[Portion]:
    if not isinstance(batches, Iterable) or getattr(batches, "ndim", 1) == 0:
        raise InputError(
            f"`batches` must be a list or a generator of tuples (X, F) or (X, F, J). Got {short_repr(batches)}."
        )
    for k, batch in enumerate(batches):
        given = batch if isinstance(batch, tuple | list) else None
        if isinstance(batch, Samples) and batch.in_memory and batch.weights is None:
            given = (batch.X, batch.F, batch.J)
        if given is None or not 2 <= len(given) <= 3:
            raise InputError(
                f"`batches` must give tuples (X, F) or (X, F, J), with None for what is not known, or dc.Samples. Got "
                f"{type(batch).__name__} as batch {k}."
            )
        flat = given[1] is not None and read_array("`F` must be an array", given[1]).ndim == 1
        axes = (("S", "m"), ("S",) if flat else ("S", "n"), ("S", "n", "m"))
        arrays = [
            None if a is None else as_array(f"{name} of batch {k}", a, its_axes)
            for name, a, its_axes in zip("XFJ", (*given, None)[:3], axes, strict=True)
        ]
        X, F, J = arrays
        if X is None or (F is None and J is None) or any(a is not None and len(a) != len(X) for a in (F, J)):
            shapes = ", ".join("None" if a is None else str(a.shape) for a in arrays)
            raise InputError(
                f"Batch {k} must hold points X with values F, Jacobians J or both, as many of each. Got {shapes}."
            )
        yield Portion(0, X, None if F is None else F.reshape(len(F), -1), J, None)
