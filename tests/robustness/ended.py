"""Processes that are killed or signalled at a random moment: nothing lost, nobody left behind, no tracebacks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import decouply as dc
from tests.robustness.outcome import FINE, Outcome

_ROOT = Path(__file__).parents[2]  # where `python -m experiments` is found
_LATEST = 4.0  # seconds after the start
_IMPORTS = 0.7
_WRITES = """
import sys
from pathlib import Path
import decouply as dc
old, new = dc.systems.f1(), dc.systems.f2()
while True:
    for model in (new, old):
        model.save(sys.argv[1])
"""
# A command with workers, as `python -m experiments` has them; sys.argv: "work", a folder, the seconds of a task.
_WORKS = """
import sys, time
from pathlib import Path
import click
from decouply.cli import _main
from experiments.harness import run_all

def work(index):
    time.sleep(float(sys.argv[3]))
    return {"index": index}

@_main.decouply.command("work")
@click.argument("folder")
@click.argument("seconds")
def _work(folder, seconds):
    run_all([{"index": i} for i in range(TASKS)], work, store=Path(folder) / "store", n_jobs=2)

if __name__ == "__main__":
    _main.main()
"""
_TASKS = 40
_ENDS_WITHIN = 60.0  # seconds, of workers whose parent was killed: they look every second, on a busy machine


def _interruptible() -> None:
    """A shell that started us in its background may have left Ctrl-C without effect, here and in what we start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def kills(count: int, seed: int) -> Iterator[Outcome]:
    """Writers, and every third time a command with workers, that are killed in the middle of their work."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        after = float(rng.uniform(0.0, _LATEST))
        with tempfile.TemporaryDirectory() as folder:
            trial = _killed_command if i % 3 == 2 else _killed_writer
            yield trial(Path(folder), after, f"kill {i} after {after:.3f} s")


def _killed_writer(folder: Path, after: float, trial: str) -> Outcome:
    """The file is whole, and drafts go with the next write."""
    path = folder / "model.safetensors"
    dc.systems.f1().save(path)
    process = subprocess.Popen([sys.executable, "-c", _WRITES, str(path)], process_group=0)
    time.sleep(after)
    process.kill()
    process.wait()
    if not _group_ends(process.pid):
        return Outcome("orphan", trial)
    try:
        dc.Decoupling.load(path).save(path)
    except dc.DecouplingError as error:
        return Outcome("lost", trial, str(error))
    left = [file.name for file in folder.iterdir() if file != path]
    return Outcome("draft", trial, ", ".join(left)) if left else Outcome(FINE, trial)


def _killed_command(folder: Path, after: float, trial: str) -> Outcome:
    """Workers end, finished tasks stay finished, and the next command does the rest."""
    command = _working_command(folder)
    process = subprocess.Popen([*command, str(folder), "0.1"], process_group=0, stderr=subprocess.DEVNULL)
    time.sleep(after)
    process.kill()
    process.wait()
    if not _group_ends(process.pid):
        return Outcome("orphan", trial)
    before = _finished(folder)
    again = subprocess.run([*command, str(folder), "0"], capture_output=True, text=True)
    done = _finished(folder)
    if again.returncode != 0 or len(done) != _TASKS or len(set(done)) != _TASKS or not set(before) <= set(done):
        return Outcome("lost", trial, f"{len(before)} and then {len(set(done))} of {_TASKS}: {again.stderr[-200:]}")
    return Outcome(FINE, trial)


def _working_command(folder: Path) -> list[str]:
    script = folder / "decouply"  # what an installer writes
    script.write_text(_WORKS.replace("TASKS", str(_TASKS)))
    return [sys.executable, str(script), "work"]


def _finished(folder: Path) -> list[str]:
    """Whole lines of the store; half of one may end it."""
    store = folder / "store"
    return [line for line in store.read_text().split("\n")[:-1] if line.endswith("}")] if store.exists() else []


def _group_ends(group: int) -> bool:
    """Whether all processes of a group end by themselves; those that do not are killed."""
    end = time.monotonic() + _ENDS_WITHIN
    while _group_lives(group):
        if time.monotonic() > end:
            os.killpg(group, signal.SIGKILL)
            return False
        time.sleep(0.1)
    return True


def _group_lives(group: int) -> bool:
    """Whether a process of this group runs; those that nobody has waited for do not."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = entry.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(its_group) == group and state != "Z":
            return True
    return False


def signals(count: int, seed: int) -> Iterator[Outcome]:
    """`decouply fit` that gets Ctrl-C or SIGTERM, and every fifth time a command with workers, or an experiment.

    There is no traceback, nobody is left behind, and a model is whole where there is one.
    """
    _interruptible()
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (60, 3))
    noise = dc.Samples(X, F=rng.normal(size=(60, 2)), J=rng.normal(size=(60, 2, 3)))
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder, "noise.npz"), Path(folder, "model.safetensors")
        noise.save(data)
        script = Path(folder, "decouply")  # what an installer writes
        script.write_text("import sys\nfrom decouply.cli import main\nsys.exit(main())\n")
        command = [sys.executable, str(script), "fit", str(data), "--ranks", "3,3", "--degrees", "3,3"]
        for i in range(count):
            number = (signal.SIGINT, signal.SIGTERM)[i % 2]
            # Half of them while modules are still being imported.
            after = float(rng.uniform(0.0, _IMPORTS if i % 4 < 2 else _LATEST))
            trial = f"{number.name} after {after:.3f} s"
            if i % 10 == 4:
                with tempfile.TemporaryDirectory() as place:
                    own = [sys.executable, "-m", "experiments", "units", "--jobs", "2", "--directory", place]
                    yield _signalled(own, model, number, after, f"{trial}, experiments")
            elif i % 5 == 4:
                with tempfile.TemporaryDirectory() as place:
                    working = [*_working_command(Path(place)), place, "0.1"]
                    yield _signalled(working, model, number, after, f"{trial}, with workers")
            else:
                yield _signalled([*command, "--model", str(model)], model, number, after, trial)


def _signalled(command: list[str], model: Path, number: signal.Signals, after: float, trial: str) -> Outcome:
    model.unlink(missing_ok=True)
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        cwd=_ROOT,
    )
    time.sleep(after)
    process.send_signal(number)
    try:
        _, said = process.communicate(timeout=90)
    except subprocess.TimeoutExpired:
        ended = process.poll() is not None  # workers that are left behind hold the pipes
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Outcome("orphan" if ended else "hang", trial)
    if "Traceback" in said and _is_ours(said):
        return Outcome("traceback", trial, said[-300:])
    if model.exists():
        try:
            dc.Decoupling.load(model)
        except dc.DecouplingError as error:
            return Outcome("lost", trial, str(error))
    if not _group_ends(process.pid):
        return Outcome("orphan", trial)
    return Outcome(FINE, trial)


def _is_ours(said: str) -> bool:
    """Whether our first lines had run: before that, the traceback is the interpreter's own."""
    ours = any(f'File "{folder}{os.sep}' in said for folder in (Path(dc.__file__).parent, _ROOT / "experiments"))
    return ours and not re.search(r"import (_interrupts|hand_over)\n", said)
