"""HDF5 files: data sets X, F, J and weights, or others by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._errors import DataError, InputError
from ..._support._optional_packages import needed
from .._samples import Samples
from ._paths import Path, as_path, is_remote, opened, readable
from ._stored_arrays import AbstractStoredArray, stored_data

_NAMES = ("X", "F", "J", "weights")


def _read(path: str, work: Any) -> Any:
    """What `work` finds in the open file; it is closed again, so that nobody holds a lock on it."""
    h5py = needed("h5py", "hdf5", "An HDF5 file")
    with readable(f"`{path}` must be a complete HDF5 file, neither damaged nor still open for writing elsewhere"):
        if is_remote(path):
            with opened(path) as stream, h5py.File(stream, "r") as file:
                return work(file)
        with h5py.File(path, "r") as file:
            return work(file)


@dataclass(frozen=True)
class HDF5Array(AbstractStoredArray):
    """One data set of a file."""

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk: int

    def read(self, first: int, stop: int) -> ndarray:
        part: ndarray = _read(self.path, lambda file: file[self.name][first:stop])
        return part


def open_hdf5(path: Path, arrays: dict[str, str] | None, inputs: Any, outputs: Any) -> Samples:
    """Samples of an HDF5 file; see `Samples.from_hdf5`."""
    place = as_path("path", path, "an HDF5 file")
    called = {name: (arrays or {}).get(name, name) for name in _NAMES}

    def look(file: Any) -> list[HDF5Array | None]:
        found: list[HDF5Array | None] = []
        for name, there in called.items():
            if there not in file:
                if name == "X" or name in (arrays or {}):
                    raise DataError(
                        f"`{place}` must have a data set {there!r} for {name}. It has {sorted(file)}: name them, such "
                        'as arrays={"X": "points", "J": "T"}.'
                    )
                found.append(None)
                continue
            data = file[there]
            if not hasattr(data, "shape") or data.dtype.kind not in "fiub":
                raise InputError(f"`{there}` in `{place}` must be a data set of real numbers. Got {data!r}.")
            found.append(HDF5Array(place, there, data.shape, data.dtype, data.chunks[0] if data.chunks else 1))
        return found

    X, *others = _read(place, look)
    return Samples.stored(stored_data(X, *others), inputs=inputs, outputs=outputs)
