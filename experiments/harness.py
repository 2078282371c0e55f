"""What every experiment leaves behind: its numbers as JSON, its table as Markdown, its picture as PNG.

Many independent runs: in parallel, with progress, and so that a stopped experiment goes on where it was.

Every finished run is one line of a JSON-lines file: the task, with everything its outcome depends on, and the outcome.
"""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from matplotlib.figure import Figure

from decouply._support._atomic_files import check_target, named, replace_file, write_text
from decouply._support._interrupts import deferred, whole_or_nothing
from decouply._support._locks import alone_with
from decouply._support._parallel import spread
from decouply._support._plain import plain
from decouply._support._workers import end_all, end_with, watched
from decouply.report._style import house_style


def write_experiment(directory: Path, name: str, content: dict[str, Any], markdown: str, figure: Figure) -> None:
    """NAME.json, NAME.md and NAME.png."""
    write_text(directory / f"{name}.json", json.dumps(plain(content), indent=1) + "\n")
    write_text(directory / f"{name}.md", markdown + "\n")
    write_figure(directory / f"{name}.png", figure)


def write_figure(path: Path, figure: Figure) -> None:
    """One picture as PNG."""
    with replace_file(path) as stream, house_style():
        figure.savefig(stream, format="png", dpi=150)


Task = TypeVar("Task")
Outcome = dict[str, Any]


def run_all(
    tasks: Sequence[Task],
    work: Callable[[Task], Outcome],
    *,
    store: Path | None,
    n_jobs: int,
    progress: Callable[..., None] = lambda **_: None,
) -> dict[Task, Outcome]:
    """The outcome of every task; those that `store` already has are not run again.

    Tasks are frozen dataclasses with simple fields; they name whatever a caller can change, and the version of the
    package. Outcomes depend on the tasks only, not on `n_jobs`; numbers in them that are not finite come back as None.
    A run that is interrupted is not stored, whatever it has found by then. Where another process works on the same
    store, this one waits for it, and goes on with what is missing then. With an active client of a Dask cluster its
    workers do the work, as many at a time as there are.
    """
    if store is None:
        return _run_missing(tasks, work, None, n_jobs, progress)
    check_target(store)
    with alone_with(store, lambda: progress(stage="waiting for another process with the same directory")):
        return _run_missing(tasks, work, store, n_jobs, progress)


def _run_missing(
    tasks: Sequence[Task],
    work: Callable[[Task], Outcome],
    store: Path | None,
    n_jobs: int,
    progress: Callable[..., None],
) -> dict[Task, Outcome]:
    known = _read(store)
    found = {task: known[_key(task)] for task in tasks if _key(task) in known}
    missing = [task for task in tasks if task not in found]
    progress(done=len(found), total=len(tasks))

    def keep(task: Task, outcome: Outcome) -> None:
        found[task] = outcome
        if store is not None:
            with named(store), store.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"task": json.loads(_key(task)), "outcome": outcome}) + "\n")
        progress(done=len(found), total=len(tasks))

    if missing:
        with spread() as on_workers:
            options = {"n_jobs": -1} if on_workers else {"n_jobs": n_jobs, **watched(n_jobs)}
            _run(missing, work, options, keep)
    return {task: found[task] for task in tasks}


def _run(
    tasks: Sequence[Task],
    work: Callable[[Task], Outcome],
    options: dict[str, Any],
    keep: Callable[[Task, Outcome], None],
) -> None:
    from joblib import Parallel, delayed

    results: Generator[tuple[Task, Outcome], None, None] | None = None
    try:
        with deferred():  # workers that are being started are nobody's yet
            calls = (delayed(_one)(work, task, os.getpid()) for task in tasks)
            results = Parallel(return_as="generator_unordered", **options)(calls)
        assert results is not None
        for task, outcome in results:
            keep(task, outcome)
    except BaseException:
        end_all()  # nobody waits for what they are at
        raise
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*tasks which were still being processed")
            if results is not None:
                results.close()


def _one(work: Callable[[Task], Outcome], task: Task, boss: int) -> tuple[Task, Outcome]:
    end_with(boss)
    with whole_or_nothing(boss):
        outcome = work(task)
    return task, plain(outcome)


def _key(task: Any) -> str:
    return json.dumps(dataclasses.asdict(task), sort_keys=True)


def _read(store: Path | None) -> dict[str, Outcome]:
    """Finished runs; a line cut short by a crash is left out and run again."""
    known: dict[str, Outcome] = {}
    if store is None or not store.is_file():
        return known
    text = store.read_text(encoding="utf-8", errors="replace")
    if text and not text.endswith("\n"):
        with store.open("a", encoding="utf-8") as stream:
            stream.write("\n")
    for line in text.splitlines():
        try:
            row = json.loads(line)
            key, outcome = json.dumps(row["task"], sort_keys=True), row["outcome"]
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(outcome, dict) and outcome:
            known[key] = outcome
    return known
