"""Arrays in .npy files, read a portion at a time: pages of a memory map would count as memory of the process."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._errors import DataError, InputError
from .._samples import Samples
from ._paths import Path, as_path, is_remote, opened, readable
from ._stored_arrays import AbstractStoredArray, stored_data


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
