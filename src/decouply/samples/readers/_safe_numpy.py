"""Arrays in NumPy's own format, of which the header is believed only once it fits the file.

NumPy makes room for what a header declares before it reads anything, and takes members of an archive that are no arrays
for bytes. Here what is declared is compared with what is there, and with a limit, first.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._errors import SampleFileError
from ..._support._memory import check_declared
from ...model._names import label

_LONGEST_HEADER = 100_000  # letters
_MOST_MEMBERS = 10_000
_READERS: dict[tuple[int, int], Callable[..., Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_file(path: Path) -> ndarray:
    """The one array of an .npy file."""
    with path.open("rb") as stream:
        _check(f"`{path}`", stream, path.stat().st_size)
        stream.seek(0)
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False, max_header_size=_LONGEST_HEADER))


def read_archive(path: Path, wanted: Callable[[tuple[str, ...]], tuple[str, ...]]) -> dict[str, ndarray]:
    """Those arrays of an .npz file that `wanted` chooses from the names of all."""
    with zipfile.ZipFile(path) as archive:
        members = dict(_members(path, archive))
        chosen = {name: members[name] for name in wanted(tuple(members)) if name in members}
        check_declared(f"`{path}`", sum(info.file_size for info in chosen.values()), SampleFileError)
        return {name: _member(path, archive, name, info) for name, info in chosen.items()}


def _members(path: Path, archive: zipfile.ZipFile) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    infos = archive.infolist()
    if len(infos) > _MOST_MEMBERS:
        raise SampleFileError(f"`{path}` must hold at most {_MOST_MEMBERS} arrays. It has {len(infos)}.")
    for info in infos:
        yield info.filename.removesuffix(".npy"), info


def _member(path: Path, archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo) -> ndarray:
    source = f"The array `{label(name)}` of `{path}`"
    if not info.filename.endswith(".npy"):
        raise SampleFileError(f"{source} must be in NumPy's format. It is a file of another kind.")
    with archive.open(info) as stream:
        _check(source, stream, info.file_size)
    with archive.open(info) as stream:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False, max_header_size=_LONGEST_HEADER))


def _check(source: str, stream: Any, there: int) -> None:
    """The header must declare no objects, no more than the limit, and what is there."""
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise SampleFileError(f"{source} must be in version 1 or 2 of NumPy's format. It is in {version}.")
    shape, _, dtype = _READERS[version](stream, max_header_size=_LONGEST_HEADER)
    if dtype.hasobject:
        raise SampleFileError(f"{source} must hold numbers. It holds objects, which could run code.")
    declared = math.prod(shape) * dtype.itemsize
    check_declared(source, declared, SampleFileError)
    header = stream.tell()
    if declared > there - header:
        raise SampleFileError(
            f"{source} must hold {declared} bytes of numbers, as its header says. It has {max(there - header, 0)}: it "
            "is cut off or damaged."
        )
