"""Worker processes that do not outlive the process they work for."""

from __future__ import annotations

import inspect
import os
import threading
import time
from typing import Any

_LOOK_EVERY = 1.0  # seconds
_watching = threading.Lock()


def end_with(boss: int) -> None:
    """End this process soon after `boss`, if that is its parent: a killed parent can no longer end it."""
    if os.getppid() != boss or not _watching.acquire(blocking=False):  # once for every process
        return
    threading.Thread(target=_watch, args=(boss,), daemon=True, name="ends with its parent").start()


def begin_with(boss: int) -> None:
    """What a worker does first: one whose parent has ended meanwhile would wait for work for minutes."""
    if os.getppid() != boss:
        os._exit(1)
    end_with(boss)


def watched(n_jobs: int) -> dict[str, Any]:
    """Arguments for joblib, by which its workers end with this process before they have been given anything to do."""
    from joblib import Parallel

    takes_them = "backend_kwargs" in inspect.signature(Parallel.__init__).parameters  # joblib 1.5 or newer
    return {"initializer": begin_with, "initargs": (os.getpid(),)} if takes_them and n_jobs != 1 else {}


def end_all() -> None:
    """End the workers of joblib in the middle of what they do."""
    from joblib.externals.loky import reusable_executor

    executor = reusable_executor._executor
    if executor is not None:
        executor.shutdown(wait=False, kill_workers=True)


def _watch(boss: int) -> None:
    while os.getppid() == boss:
        time.sleep(_LOOK_EVERY)
    os._exit(1)
