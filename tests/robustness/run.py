"""The long form, `make fuzz`, in small: a process of its own, without the checks that tests add."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def fuzz(part: str, *, count: int, seed: int) -> None:
    """Run a part of tools/fuzz.py, which must find nothing and leave nothing where it was started."""
    command = [sys.executable, str(ROOT / "tools" / "fuzz.py"), part, "--count", str(count), "--seed", str(seed)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not list(Path(folder).iterdir())
