"""The long form, `make fuzz`, in small: a process of its own, without the checks that tests add."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def fuzz(part: str, *, count: int, seed: int) -> None:
    """Run a part of tools/fuzz.py, which must find nothing."""
    command = [sys.executable, "tools/fuzz.py", part, "--count", str(count), "--seed", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
