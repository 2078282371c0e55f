"""One BLAS thread inside solvers.

More threads change the rounding, and with it the path of a start: the same seed must give the same result however many
cores there are. On small problems they are also slower, by orders of magnitude on a busy machine.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread."""
    return _controller().limit(limits=1)


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries: slow, so once
