"""Files of arrays: NumPy's .npz and .npy, and MATLAB's .mat up to version 7.

The header of a NumPy file is believed only once it fits the file. NumPy makes room for what a header declares before it
reads anything, and takes members of an archive that are no arrays for bytes.

A damaged .mat file can end the process that reads it inside SciPy's reader, and one that declares huge arrays can use
up the memory. A child process bears both: it has a limit, and hands over plain arrays in a file that is safe to read.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._errors import SampleFileError
from ..._support._machine import check_declared
from ...model._names import label
from ..stores._stored_arrays import LONGEST_HEADER, npy_header, readable

PARTS = ("X", "F", "J", "weights")
NAMES_OF = {"inputs": "input_names", "outputs": "output_names"}  # as `Samples.save` writes them
SAMPLE_ARRAYS = (*PARTS, *NAMES_OF.values())
_MAGIC = b"\x93NUMPY"
_MOST_MEMBERS = 10_000
_LEAST_MEMORY = 4 * 2**30  # bytes of address space, SciPy included ...
_TIMES = 40  # ... and for every byte of the file: zeros compress well
_SECONDS = 120.0
_MOST_FILLED = 500_000_000  # bytes of a sparse matrix with its zeros

_CHILD = """
import json, sys
import numpy as np
from scipy.io import loadmat
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[3]),) * 2)
except (ImportError, ValueError, OSError):
    pass
told, arrays = {"names": [], "shapes": {}}, {}
try:
    for name, value in loadmat(sys.argv[1]).items():
        if name.startswith("__"):
            continue
        if hasattr(value, "toarray"):
            filled = 8e-9 * value.shape[0] * value.shape[1]
            if filled > 1e-9 * int(sys.argv[4]):
                raise ValueError(f"the sparse matrix {name[:50]} of shape {value.shape} takes {filled:.3g} GB in full")
            value = value.toarray()
        array = np.asarray(value)
        key = f"a{len(told['names'])}"
        told["names"].append(name)
        if array.dtype.hasobject or array.dtype.names is not None:
            told["shapes"][key] = array.shape
        else:
            arrays[key] = array
    np.savez(sys.argv[2], **arrays)
except MemoryError:
    told = {"error": "it declares more than the memory that a file of its size may use", "kind": "MemoryError"}
except Exception as error:
    told = {"error": str(error), "kind": type(error).__name__}
print(json.dumps(told))
"""


# NumPy


def read_npz(path: Path, *, as_samples: bool) -> dict[str, ndarray]:
    """The arrays of an .npz file, or only those of samples; objects, which could run code, are refused."""
    rule = f"`{path}` must be an .npz file with the arrays X and F or J"
    with readable(rule, SampleFileError), path.open("rb") as stream:
        if stream.read(len(_MAGIC)) == _MAGIC:
            raise SampleFileError(f"{rule}. It holds one bare array: save with np.savez(path, X=X, F=F, J=J).")
    with readable(rule, SampleFileError), zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        if len(infos) > _MOST_MEMBERS:
            raise SampleFileError(f"`{path}` must hold at most {_MOST_MEMBERS} arrays. It has {len(infos)}.")
        members = {info.filename.removesuffix(".npy"): info for info in infos}
        if as_samples and "X" in members:
            members = {name: members[name] for name in SAMPLE_ARRAYS if name in members}
        check_declared(f"`{path}`", sum(info.file_size for info in members.values()), SampleFileError)
        found = {}
        for name, info in members.items():
            source = f"The array `{label(name)}` of `{path}`"
            if not info.filename.endswith(".npy"):
                raise SampleFileError(f"{source} must be in NumPy's format. It is a file of another kind.")
            with archive.open(info) as stream:
                _check_header(source, stream, info.file_size)
            with archive.open(info) as stream:
                found[name] = _read_array(stream)
        return found


def read_npy(path: Path) -> dict[str, ndarray]:
    """The columns of the one array in an .npy file: its fields, or the numbers 1, 2, ..."""
    rule = f"`{path}` must be an .npy file with a matrix, one row per sample, or an array with named fields"
    if zipfile.is_zipfile(path):
        raise SampleFileError(f"{rule}. It is an archive: give it the ending .npz.")
    with readable(rule, SampleFileError), path.open("rb") as stream:
        _check_header(f"`{path}`", stream, path.stat().st_size)
        stream.seek(0)
        array = _read_array(stream)
    if array.dtype.names is not None and array.ndim == 1:
        return {name: array[name] for name in array.dtype.names}
    if array.ndim != 2 or array.dtype.names is not None:
        raise SampleFileError(f"{rule}. Its shape is {array.shape}.")
    return {str(i + 1): column for i, column in enumerate(array.T)}


def _read_array(stream: Any) -> ndarray:
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False, max_header_size=LONGEST_HEADER))


def _check_header(source: str, stream: Any, there: int) -> None:
    """The header must declare no objects, no more than the limit, and what is there."""
    shape, _, dtype = npy_header(stream)
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


# MATLAB


def read_mat(path: Path) -> dict[str, ndarray]:
    """The variables of a file; sparse matrices are filled up, and cells and structures come as empty objects."""
    rule = f"`{path}` must be a MATLAB file of version 7 or older"
    with tempfile.TemporaryDirectory(prefix="decouply-") as folder:
        arrays = Path(folder, "arrays.npz")
        told = _child_report(path, arrays, rule)
        if told.get("kind") == "NotImplementedError":
            raise SampleFileError(
                f"{rule}. It is of version 7.3, which is HDF5: save it again in MATLAB with "
                f"save('{path.name}', '-v7', 'X', 'F'), naming your variables."
            )
        if "error" in told:
            raise SampleFileError(f"{rule}. It cannot be read: {told['error'] or told['kind']}.")
        with np.load(arrays, allow_pickle=False) as archive:
            return {
                name: np.empty(told["shapes"][key], dtype=object) if key in told["shapes"] else archive[key]
                for key, name in ((f"a{i}", name) for i, name in enumerate(told["names"]))
            }


def _child_report(path: Path, arrays: Path, rule: str) -> dict[str, Any]:
    """What the child says of the file."""
    try:
        limit = _LEAST_MEMORY + _TIMES * path.stat().st_size
    except OSError as error:
        raise SampleFileError(f"{rule}. It cannot be read: {error}.") from error
    command = [sys.executable, "-I", "-c", _CHILD, str(path.absolute()), str(arrays), str(limit), str(_MOST_FILLED)]
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, capture_output=True, env=quiet, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise SampleFileError(f"{rule}. It cannot be read in {_SECONDS:g} seconds.") from error
    try:
        told: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise SampleFileError(f"{rule}. It is damaged: reading it crashed the process that tried.") from error
    return told
