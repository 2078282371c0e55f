"""One BLAS thread inside solvers.

More threads change the rounding, and with it the path of a start: the same seed must give the same result however many
cores there are. On small problems they are also slower, by orders of magnitude on a busy machine.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = 0  # threads of ours that are in the section; the number of BLAS threads belongs to the whole process
_limit: Any = None


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
