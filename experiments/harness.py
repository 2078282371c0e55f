"""What all experiments share: a command, runs that are resumed, and numbers, table and picture in files.

An experiment is a list of tasks and the work that one of them takes. A task is a dictionary of simple values that
names everything its outcome depends on; its outcome is a dictionary as well. Each finished run is one line of
NAME-runs.jsonl, so that a stopped experiment resumes where it was. From all runs come NAME.json, and from that alone
NAME.md and NAME.png: tables can be made again without running anything. Both files say which code made the numbers.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import IO, Any

import click
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray

from decouply import InputError, __version__
from decouply._support._arguments import plain
from decouply._support._atomic_files import check_target, named, replace_file, write_text
from decouply._support._parallel import spread
from decouply._support._progress import progress_callback
from decouply.cli._options import ON_SCREEN, add_options
from decouply.cli._output import print_json, shown_progress
from decouply.report._style import house_style
from experiments.code_version import code_version
from experiments.interrupts import deferred, whole_or_nothing

Task = dict[str, Any]
Outcome = dict[str, Any]
Content = dict[str, Any]
_LOCK_SECONDS = 0.2  # between two looks at a lock that another process holds
_PARENT_SECONDS = 1.0  # between two looks of a worker at its parent


@dataclass(frozen=True)
class Option:
    """An option of an experiment's command: --runs for `n_runs`.

    Its default says what it takes: a number, yes or no, or, as an empty tuple, a name that may be repeated.
    """

    name: str
    default: Any
    help: str
    least: int = 1

    @property
    def flag(self) -> str:
        return "--" + self.name.removeprefix("n_").replace("_", "-")

    def add_to(self, command: Callable[..., None]) -> Callable[..., None]:
        """Give a command this option."""
        flags: str = self.flag
        kind: Any = click.IntRange(min=self.least)
        if isinstance(self.default, bool):
            flags, kind = f"{self.flag}/--no-{self.flag[2:]}", bool
        elif isinstance(self.default, float):
            kind = click.FloatRange(min=0, min_open=True)
        elif isinstance(self.default, tuple):
            return click.option(flags, self.name, multiple=True, help=self.help)(command)
        return click.option(flags, self.name, type=kind, default=self.default, show_default=True, help=self.help)(
            command
        )


@dataclass(frozen=True)
class Experiment:
    """One experiment: what it runs and what it makes of that.

    Attributes
    ----------
    name, about
        The command and its help in one line. Both are read from the source, so that they must be plain texts.
    tasks
        All tasks for some options, as ``tasks(seed=..., **options)``.
    work
        The outcome of a task, as ``work(**task)``, in another process; with a parameter `folder` it is given the
        directory of the results too.
    table, figure
        Markdown and, if a page shows one, a picture, made from the content of NAME.json alone.
    options
        Of the command, besides those that every experiment has.
    quick
        Values of options for --quick, some of which may be no options of the command.
    begin
        What is made once before the runs, such as a trained network, as ``begin(folder=..., **options)``. The facts
        that it returns are given to `content`.
    content
        What NAME.json holds, as ``content(runs, **options, **facts)``. A run is a task and its outcome. By default
        these are the runs, the options of the command and the facts.
    fixed
        Values that `tasks`, `begin` and `content` are given besides options, such as what tells apart experiments
        that share these functions; --quick may have others.
    more_figures
        Pictures NAME-KEY.png besides the first one.
    """

    name: str
    about: str
    tasks: Callable[..., list[Task]]
    work: Callable[..., Outcome]
    table: Callable[[Content], str]
    figure: Callable[[Content], Figure] | None = None
    options: tuple[Option, ...] = ()
    quick: Mapping[str, Any] = field(default_factory=dict)
    begin: Callable[..., dict[str, Any]] = lambda **_: {}
    content: Callable[..., Content] | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    more_figures: Mapping[str, Callable[[Content], Figure]] = field(default_factory=dict)

    @classmethod
    def of(cls, file: Mapping[str, Any], name: str, about: str, **options: Any) -> Experiment:
        """The experiment whose `tasks`, `work` and `table`, and `figure`, `begin` and `content` if it needs them, are
        the functions of these names in a file: give its globals().
        """
        steps = ("tasks", "work", "table", "figure", "begin", "content")
        return cls(name, about, **{step: file[step] for step in steps if step in file}, **options)

    def run(
        self,
        folder: Path,
        *,
        n_jobs: int = 1,
        seed: int = 0,
        progress: Callable[..., None] = lambda **_: None,
        **asked: Any,
    ) -> Content:
        """Run what `folder` does not have yet; the content depends on seed and options, not on `n_jobs`."""
        options = dict(self.fixed) | {option.name: option.default for option in self.options} | asked | {"seed": seed}
        progress(stage="preparing", done=0, total=None)
        facts = self.begin(folder=str(folder), **options)
        tasks = self.tasks(**options)
        needs_folder = "folder" in inspect.signature(self.work).parameters
        work = partial(self.work, folder=str(folder)) if needs_folder else self.work
        store, code = self.store(folder), code_version(self.work.__module__)
        outcomes = run_all(tasks, work, store=store, n_jobs=n_jobs, code=code, progress=progress)
        runs = [task | outcome for task, outcome in zip(tasks, outcomes, strict=True)]
        for run in runs:
            run.pop("seed", None)
        made_by = {"code": _code_of(tasks, store)}
        if self.content is not None:
            return dict(plain(self.content(runs, **options, **facts) | made_by))
        declared = {name: options[name] for name in ("seed", *(option.name for option in self.options))}
        return dict(plain(declared | facts | {"runs": runs} | made_by))

    def write(self, content: Content, folder: Path) -> None:
        """NAME.json, NAME.md and, if there is a picture, NAME.png."""
        write_text(folder / f"{self.name}.json", json.dumps(content, indent=1) + "\n")
        write_text(folder / f"{self.name}.md", self.table(content) + "\n")
        pictures = {} if self.figure is None else {self.name: self.figure}
        pictures |= {f"{self.name}-{key}": draw for key, draw in self.more_figures.items()}
        for name, draw in pictures.items():
            with house_style(), replace_file(folder / f"{name}.png") as stream:
                draw(content).savefig(stream, format="png", dpi=150)

    def store(self, folder: Path) -> Path:
        """The file of finished runs."""
        return folder / f"{self.name}-runs.jsonl"

    def command(self) -> click.Command:
        """`python -m experiments NAME`."""

        def carry_out(jobs: int, directory: str, fresh: bool, as_json: bool, quiet: bool, **asked: Any) -> None:
            if asked.pop("quick", False):
                self._refuse_with_quick(click.get_current_context())
                asked |= self.quick
            if not directory.strip():
                raise click.BadParameter("must name a directory.", param_hint="--directory")
            folder = Path(directory)
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"`{folder}` must be a directory, or the place for one. {error.strerror}.") from error
            endings = ("json", "md", *(("png",) if self.figure else ()))
            for ending in endings:
                check_target(folder / f"{self.name}.{ending}")
            if fresh:
                self.store(folder).unlink(missing_ok=True)
            began = time.perf_counter()
            with shown_progress(self.name, quiet=quiet) as shown:
                with progress_callback(False if quiet else shown, self.name) as progress:
                    content = self.run(folder, n_jobs=jobs, progress=progress, **asked)
                self.write(content, folder)
            if as_json:
                print_json(content)
            elif not quiet:
                click.echo(self.table(content))
                written = ", ".join(f"{self.name}.{ending}" for ending in endings)
                click.echo(f"{time.perf_counter() - began:.0f} s. Written: {written} in {folder}")

        command = add_options(carry_out, "--scheduler", *ON_SCREEN)
        for add in reversed((*(option.add_to for option in self.options), *self._shared_options())):
            command = add(command)
        details = inspect.getdoc(sys.modules[self.work.__module__]) or ""
        return click.command(
            self.name,
            short_help=self.about,
            help=f"{self.about}\n\n{details}\n\nFinished runs are kept in {self.name}-runs.jsonl: a stopped command "
            "resumes where it left off.",
        )(command)

    def _shared_options(self) -> tuple[Callable[..., Any], ...]:
        quick = click.option("--quick", is_flag=True, help="A reduced form, within minutes.")
        jobs = click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Processes.")
        place = "Directory for numbers, table, picture and the runs."
        directory = click.option("--directory", default="results", show_default=True, help=place)
        fresh = click.option("--fresh", is_flag=True, help="Discard the finished runs in the directory and start over.")
        return (*((quick,) if self.quick else ()), jobs, directory, fresh)

    def _refuse_with_quick(self, context: click.Context) -> None:
        """--quick has sizes of its own, so that options of size are refused, not ignored."""
        for option in self.options:
            given = context.get_parameter_source(option.name) == click.core.ParameterSource.COMMANDLINE
            if given and option.name in self.quick:
                raise click.UsageError(f"--quick has sizes of its own: leave {option.flag} out.")


# Tasks, runs, tables, pictures


def grid(**axes: Any) -> list[Task]:
    """A task for every combination of values, the first axis slowest; what is no tuple or range is the same for all."""
    values = [axis if isinstance(axis, tuple | range) else (axis,) for axis in axes.values()]
    return [dict(zip(axes, one, strict=True)) for one in product(*values)]


def matching(runs: Iterable[Task], **fields: Any) -> list[Task]:
    """The runs that have these values."""
    return [run for run in runs if all(run[name] == value for name, value in fields.items())]


def column(runs: Iterable[Task], name: str, *, failed: float = np.inf) -> Float[ndarray, "..."]:
    """One value of every run; `failed` where it was not finite, which JSON has no number for."""
    return np.array([failed if run[name] is None else run[name] for run in runs], dtype=float)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Texts and tables of a page have an empty line between them: ``"\\n\\n".join([text, markdown(...)])``."""
    lines = ["|" + "".join(f" {cell} |" if cell else " |" for cell in line) for line in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def plot_rows(
    ax: Any, rows: Sequence[tuple[str, Any, str]], label: str, *, log: bool = False, medians: bool = False
) -> None:
    """One row of dots for each (name, values, colour), the first at the top; medians as bars."""
    for k, (_, values, colour) in enumerate(rows):
        ax.plot(values, np.full(len(values), k), "o", color=colour, alpha=0.6)
        if medians:
            ax.plot(np.median(values), k, "|", color="black", markersize=12)
    ax.set_yticks(range(len(rows)), [name for name, _, _ in rows], fontsize=8)
    ax.invert_yaxis()
    ax.set_xscale("log" if log else "linear")
    ax.set_xlabel(label)


# Many independent runs


def run_all(
    tasks: Sequence[Task],
    work: Callable[..., Outcome],
    *,
    store: Path,
    n_jobs: int,
    code: Mapping[str, str] | None = None,
    progress: Callable[..., None] = lambda **_: None,
) -> list[Outcome]:
    """The outcome of every task; those that `store` already has from this version of the package are not run again.

    `code` is noted beside every new outcome. Numbers in outcomes that are not finite come back as None. A run that is
    interrupted is not stored, whatever it has found by then. If another process works on the same store, this one waits
    for it and goes on with what is missing then. With an active client of a Dask cluster its workers do the work, as
    many at a time as there are.
    """
    from joblib import Parallel, delayed

    check_target(store)
    keys = [_key(task) for task in tasks]
    results: Generator[tuple[Task, Outcome], None, None] | None = None
    with lock(store, lambda: progress(stage="waiting for another process with the same directory")):
        known = _stored_outcomes(store)
        missing = [task for task, key in zip(tasks, keys, strict=True) if key not in known]
        n_done = len(tasks) - len(missing)
        progress(done=n_done, total=len(tasks))
        if not missing:
            return [known[key] for key in keys]
        with spread() as on_workers:
            options = {"n_jobs": -1} if on_workers else {"n_jobs": n_jobs, **end_workers_with_us(n_jobs)}
            try:
                with deferred():  # workers that are being started are nobody's yet
                    calls = (delayed(_one)(work, task, os.getpid()) for task in missing)
                    results = Parallel(return_as="generator_unordered", **options)(calls)
                assert results is not None
                for n, (task, outcome) in enumerate(results, start=n_done + 1):
                    key = _key(task)
                    known[key] = outcome
                    row = {"task": json.loads(key), "outcome": outcome} | ({"code": dict(code)} if code else {})
                    with named(store), store.open("a", encoding="utf-8") as stream:
                        stream.write(json.dumps(row) + "\n")
                    progress(done=n, total=len(tasks))
            except BaseException:
                _kill_workers()  # nobody waits for what they are at
                raise
            finally:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message=".*tasks which were still being processed")
                    if results is not None:
                        results.close()
    return [known[key] for key in keys]


def _one(work: Callable[..., Outcome], task: Task, parent: int) -> tuple[Task, Outcome]:
    _end_with(parent)
    with whole_or_nothing(parent):
        outcome = work(**task)
    return task, plain(outcome)


def _key(task: Task) -> str:
    return json.dumps(plain(task) | {"version": __version__}, sort_keys=True)


def _code_of(tasks: Sequence[Task], store: Path) -> dict[str, str]:
    """The code that made all these runs, room by room; "several" or "unknown" for rooms without just one."""
    rows = _stored_rows(store)
    codes = [rows.get(_key(task), {}).get("code", {}) for task in tasks]
    found = {}
    for room in dict.fromkeys(room for code in codes for room in code):
        digests = {code.get(room, "unknown") for code in codes}
        found[room] = digests.pop() if len(digests) == 1 else "several"
    return found


def _stored_outcomes(store: Path) -> dict[str, Outcome]:
    """Finished runs; a line cut short by a crash is left out and run again."""
    text = store.read_bytes() if store.is_file() else b""
    if text and not text.endswith(b"\n"):
        with store.open("a", encoding="utf-8") as stream:
            stream.write("\n")
    return {key: row["outcome"] for key, row in _stored_rows(store).items()}


def _stored_rows(store: Path) -> dict[str, dict[str, Any]]:
    """Lines that are whole, by the keys of their tasks."""
    known = dict[str, dict[str, Any]]()
    if not store.is_file():
        return known
    for line in store.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
            key, outcome = json.dumps(row["task"], sort_keys=True), row["outcome"]
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(outcome, dict) and outcome:
            known[key] = row
    return known


# Workers that do not outlive the process they work for


def end_workers_with_us(n_jobs: int) -> dict[str, Any]:
    """Arguments for joblib, by which its workers end with this process before they have been given anything to do."""
    from joblib import Parallel

    takes_them = "backend_kwargs" in inspect.signature(Parallel.__init__).parameters  # joblib 1.5 or newer
    return {"initializer": begin_worker, "initargs": (os.getpid(),)} if takes_them and n_jobs != 1 else {}


def begin_worker(parent: int) -> None:
    """What a worker does first: one whose parent has ended meanwhile would wait for work for minutes."""
    if os.getppid() != parent:
        os._exit(1)
    _end_with(parent)


_watching = threading.Lock()  # held by a process that already looks at its parent


def _end_with(parent: int) -> None:
    """End this process soon after `parent`, if that is its parent: a killed parent can no longer end it."""
    if os.getppid() != parent or not _watching.acquire(blocking=False):
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="ends with its parent").start()


def _kill_workers() -> None:
    """End the workers of joblib in the middle of what they do."""
    from joblib.externals.loky import reusable_executor

    executor = reusable_executor._executor
    if executor is not None:
        executor.shutdown(wait=False, kill_workers=True)


# A lock that goes with the process that holds it, however that ends


@contextmanager
def lock(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of a file, kept in `path`.lock beside it; `waiting` is called while another process has it."""
    place = path.with_name(f"{path.name}.lock")
    with named(place), place.open("a+b") as stream:
        while not _locks(stream, hold=True):
            waiting()
            time.sleep(_LOCK_SECONDS)
        try:
            yield
        finally:
            _locks(stream, hold=False)


def _locks(stream: IO[bytes], *, hold: bool) -> bool:
    """Take the lock of a file if nobody has it, or give it back; says whether that was done."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        stream.seek(0)
        try:
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK if hold else msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB if hold else fcntl.LOCK_UN)
    except BlockingIOError:
        return False
    return True
