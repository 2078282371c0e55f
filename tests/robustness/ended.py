"""Processes that are killed or signalled at a random moment: nothing lost, nobody left behind, no tracebacks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import decoupling as dc
from tests.robustness.outcome import FINE, Outcome

_LATEST = 4.0  # seconds after the start
_IMPORTS = 0.7
_WRITES = """
import sys
from pathlib import Path
import decoupling as dc
old, new = dc.systems.f1(), dc.systems.f2()
while True:
    for model in (new, old):
        model.save(sys.argv[1])
"""


def _interruptible() -> None:
    """A shell that started us in its background may have left Ctrl-C without effect."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def kills(count: int, seed: int) -> Iterator[Outcome]:
    """Writers that are killed in the middle of their work: the file is whole, and drafts go with the next write."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.safetensors")
            dc.systems.f1().save(path)
            process = subprocess.Popen([sys.executable, "-c", _WRITES, str(path)])
            time.sleep(float(rng.uniform(0.0, _LATEST)))
            process.kill()
            process.wait()
            try:
                dc.Decoupling.load(path).save(path)
            except dc.DecouplingError as error:
                yield Outcome("lost", f"kill {i}", str(error))
                continue
            left = [file.name for file in Path(folder).iterdir() if file != path]
            yield Outcome("draft", f"kill {i}", ", ".join(left)) if left else Outcome(FINE, f"kill {i}")


def signals(count: int, seed: int) -> Iterator[Outcome]:
    """`decouple fit` that gets Ctrl-C or SIGTERM: no traceback, and a model that is whole where there is one."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (60, 3))
    noise = dc.Samples(X, F=rng.normal(size=(60, 2)), J=rng.normal(size=(60, 2, 3)))
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder, "noise.npz"), Path(folder, "model.safetensors")
        noise.save(data)
        script = Path(folder, "decouple")  # what an installer writes
        script.write_text("import sys\nfrom decoupling.cli import main\nsys.exit(main())\n")
        command = [sys.executable, str(script), "fit", str(data), "--ranks", "3,3", "--degrees", "3,3"]
        for i in range(count):
            number = (signal.SIGINT, signal.SIGTERM)[i % 2]
            # Half of them while modules are still being imported.
            after = float(rng.uniform(0.0, _IMPORTS if i % 4 < 2 else _LATEST))
            trial = f"{number.name} after {after:.3f} s"
            yield _signalled([*command, "--model", str(model)], model, number, after, trial)


def _signalled(command: list[str], model: Path, number: signal.Signals, after: float, trial: str) -> Outcome:
    model.unlink(missing_ok=True)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_interruptible, process_group=0
    )
    time.sleep(after)
    process.send_signal(number)
    try:
        _, said = process.communicate(timeout=90)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Outcome("hang", trial)
    if "Traceback" in said and _is_ours(said):
        return Outcome("traceback", trial, said[-300:])
    if model.exists():
        try:
            dc.Decoupling.load(model)
        except dc.DecouplingError as error:
            return Outcome("lost", trial, str(error))
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return Outcome(FINE, trial)
    return Outcome("orphan", trial)


def _is_ours(said: str) -> bool:
    """Whether our code had begun: before that, the traceback is the interpreter's own."""
    return "/decoupling/" in said
