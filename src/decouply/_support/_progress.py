"""Progress on anything that takes longer than two seconds: a bar on a terminal, lines for commands, or silence."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ._errors import InputError, short_repr
from ._interrupts import stoppable

_QUIET_SECONDS = 2.0
_BAR_WIDTH = 16  # letters: most of a line of 80 is for what is going on
_BETWEEN_LINES = (5.0, 60.0)  # at first, and after a while: who reads the log of a night wants few of them


@contextmanager
def progress_callback(progress: bool | Callable[..., None], title: str) -> Iterator[Callable[..., None]]:
    """What solvers report to: the user's own callable, a bar, or nothing.

    The callable gets named values: `stage` (text, may be missing), `done`, `total` and `objective`. Unless `progress`
    is False, somebody is watching: the first Ctrl-C then waits for the next report, see `stoppable`.
    """
    if callable(progress):
        with stoppable(progress) as report:
            yield report
    elif progress is True:
        bar = LateBar(title) if sys.stderr.isatty() else None
        try:
            with stoppable(silent if bar is None else bar) as report:
                yield report
        finally:
            if bar is not None:
                bar.close()
    elif progress is False:
        yield silent
    else:
        raise InputError(
            f"`progress` must be True, False or a callable that takes named values. Got {short_repr(progress)}."
        )


def silent(**values: Any) -> None:
    """Report to nobody."""


@contextmanager
def shown_on_stderr(title: str, limit: float | None = None) -> Iterator[Callable[..., None]]:
    """What a whole command reports to: a bar on a terminal, lines elsewhere. `limit` is the most seconds it takes."""
    shown_as = LateBar(title, limit) if sys.stderr.isatty() else PlainLines(title)
    try:
        yield shown_as
    finally:
        shown_as.close()


class PlainLines:
    """Lines on stderr from the second second on, more and more seldom, even if nothing is reported for long."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._values: dict[str, Any] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)
        with suppress(RuntimeError):  # there are no threads in a browser, so there are no lines
            self._thread.start()

    def __call__(self, **values: Any) -> None:
        self._values = values

    def close(self) -> None:
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _tell(self) -> None:
        began = time.monotonic()
        for pause in _pauses():
            if self._closed.wait(pause):
                return
            text = f"{_in_words(self._title, self._values)} ({time.monotonic() - began:.0f} s)"
            print(text, file=sys.stderr, flush=True)


def _pauses() -> Iterator[float]:
    """Seconds before every line."""
    yield _QUIET_SECONDS
    pause, longest = _BETWEEN_LINES
    while True:
        yield pause
        pause = min(2.0 * pause, longest)


def _in_words(title: str, values: dict[str, Any]) -> str:
    stage, objective = values.get("stage"), values.get("objective")
    if not stage and values.get("total"):
        stage = f"{values.get('done', 0)} of {values['total']}"
    text = title + (f", {stage}" if stage else "")
    return text if objective is None else text + f", objective {objective:.3g}"


class LateBar:
    """A rich progress bar that appears once the work has taken two seconds, even if nothing is reported for long.

    The bar comes first and the text after it on the same line, cut at the edge of the terminal.
    """

    def __init__(self, title: str, limit: float | None = None) -> None:
        self._title = title
        self._limit = limit
        self._began = time.monotonic()
        self._values: dict[str, Any] = {}
        self._closed = False
        self._bar: Any = None
        self._task: Any = None
        self._lock = threading.RLock()  # the first report may come while the bar is being made
        self._timer = threading.Timer(_QUIET_SECONDS, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def __call__(self, **values: Any) -> None:
        with self._lock:
            self._values = values
            if self._bar is not None:
                self._show()
            elif time.monotonic() - self._began >= _QUIET_SECONDS:
                self._appear()

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()

    def _appear(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        with self._lock:
            if self._closed or self._bar is not None:
                return
            console = Console(stderr=True)
            if self._limit is not None:
                console.print(f"Up to {self._limit:.0f} s. Ctrl-C stops the search and keeps the best model so far.")
            self._bar = Progress(
                BarColumn(_BAR_WIDTH),
                TimeElapsedColumn(table_column=Column(min_width=7)),  # not cut in favour of a long text
                TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"), markup=False),
                console=console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=None)
            if self._values:
                self._show()

    def _show(self) -> None:
        values = self._values
        text = _in_words(self._title, values).removeprefix(f"{self._title}, ")
        self._bar.update(self._task, completed=values.get("done", 0), total=values.get("total"), description=text)
