"""One BLAS thread for small problems: with more, a busy machine makes them slower by orders of magnitude."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from threadpoolctl import ThreadpoolController

# Multiplications in the largest matrix product of an iteration; below this a second thread costs more than it brings.
_LARGE = 50_000_000


def threads_for(n_multiplications: int) -> AbstractContextManager[Any]:
    """A context with one thread, or with as many as there were when the problem is large."""
    return _controller().limit(limits=1) if n_multiplications < _LARGE else nullcontext()


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries: slow, so once
