"""What there is to work with: one thread of BLAS inside solvers, and how much memory.

More threads change the rounding, and with it the path of a start: the same seed must give the same result however many
cores there are. On small problems they are also slower, by orders of magnitude on a busy machine.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

from ._arguments import as_number
from ._errors import InputError, short_repr

_lock = threading.Lock()
_inside = 0  # threads of ours that are in the section; the number of BLAS threads belongs to the whole process
_limit: Any = None
LIMIT_VARIABLE = "DECOUPLY_MAX_FILE_BYTES"
_LARGEST_FILE = 4 * 1024**3  # bytes

_SHARE = 0.5  # of what is free, where the user names no limit
_UNKNOWN = 2 * 1024**3  # bytes, where nobody can tell
_LIMITS = (  # of a container: what it may take and what it has, in the two versions of control groups
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


# One BLAS thread


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which BLAS uses one thread; the last of several threads to leave it puts back what was before."""
    # SciPy brings a BLAS of its own. Solvers import it where they need it: a library that comes inside has all threads.
    import scipy.linalg  # noqa: F401

    global _inside, _limit
    with _lock:
        if _inside == 0:
            _limit = _controller(len(sys.modules)).limit(limits=1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()
                _limit = None


@functools.lru_cache(maxsize=1)
def _controller(_modules: int) -> ThreadpoolController:
    """Looks through all loaded libraries, which is slow: again only if modules were imported since."""
    return ThreadpoolController()


# Memory


def budget(memory: float | None) -> float:
    """Bytes that may be used: the limit that the user names, or half of what is free now."""
    return _SHARE * free_memory() if memory is None else as_number("memory", memory, above=True)


def free_memory() -> float:
    """Bytes that this process could get, by the machine and by the limits of its container."""
    known = [] if (of_machine := _of_the_machine()) is None else [of_machine]
    for files in _LIMITS:
        with suppress(OSError, ValueError):  # no control groups, or the word "max"
            limit, used = (int(Path(file).read_text()) for file in files)
            known.append(float(max(limit - used, 0)))
    return min(known, default=_UNKNOWN)


def _of_the_machine() -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return None


def file_limit() -> float:
    """Bytes that a file may declare to hold before any of it is read into memory."""
    named = os.environ.get(LIMIT_VARIABLE, "").strip()
    if named:
        try:
            return as_number(LIMIT_VARIABLE, float(named), above=True)
        except ValueError as error:
            raise InputError(f"{LIMIT_VARIABLE} must be a number of bytes above 0. Got {short_repr(named)}.") from error
    return min(_LARGEST_FILE, budget(None))


def check_declared(source: str, n_bytes: float, error: type[Exception]) -> None:
    """Raise if a file declares more than `file_limit`."""
    limit = file_limit()
    if n_bytes > limit:
        raise error(
            f"{source} must hold at most {limit / 1e9:.3g} GB. It declares {n_bytes / 1e9:.3g} GB: it is damaged, or "
            f"made to fill your memory. If you trust it, allow more bytes with {LIMIT_VARIABLE}, or use a store "
            "(.zarr), which is read in portions."
        )
