"""MATLAB files up to version 7, read by a process of its own.

A damaged file can end the process that reads it inside SciPy's reader, and one that declares huge arrays can use up the
memory. A child process bears both: it has a limit, and hands over plain arrays in a file that is safe to read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._errors import SampleFileError

_LEAST_MEMORY = 4 * 2**30  # bytes of address space, SciPy included ...
_TIMES = 40  # ... and for every byte of the file: zeros compress well
_SECONDS = 120.0

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
        array = np.asarray(value.toarray() if hasattr(value, "toarray") else value)
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


def read_mat(path: Path) -> dict[str, ndarray]:
    """The variables of a file; sparse matrices are filled up, and cells and structures come as empty objects."""
    rule = f"`{path}` must be a MATLAB file of version 7 or older"
    with tempfile.TemporaryDirectory(prefix="decouply-") as folder:
        arrays = Path(folder, "arrays.npz")
        told = _told(path, arrays, rule)
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


def _told(path: Path, arrays: Path, rule: str) -> dict[str, Any]:
    """What the child says of the file."""
    try:
        limit = _LEAST_MEMORY + _TIMES * path.stat().st_size
    except OSError as error:
        raise SampleFileError(f"{rule}. It cannot be read: {error}.") from error
    command = [sys.executable, "-I", "-c", _CHILD, str(path.absolute()), str(arrays), str(limit)]
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
