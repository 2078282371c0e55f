"""A virtual environment per peer, and scripts run inside it; whatever goes wrong becomes one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from .roster import Peer

ROOT = Path(".venv-peers")
INSTALL_SECONDS, RUN_SECONDS = 1200, 1800
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}


class PeerError(Exception):
    """A peer cannot be installed or run; the message goes into the table."""


def install(peer: Peer) -> Path:
    """The interpreter of the environment, which is made unless it is there with the same versions."""
    directory = ROOT / peer.name
    python = directory / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    stamp, wanted = directory / "installed.txt", "\n".join(peer.requirements)
    if not (stamp.exists() and stamp.read_text(encoding="utf-8") == wanted):
        venv.create(directory, clear=True, with_pip=True)
        _run([str(python), "-m", "pip", "install", "-qq", *peer.requirements], INSTALL_SECONDS, "did not install")
        stamp.write_text(wanted, encoding="utf-8")
    return python


def run_script(python: Path, peer: Peer, arguments: list[str]) -> None:
    """The script of a peer, in isolated mode so that only its environment is imported from, with one thread."""
    script = Path(__file__).with_name(f"{peer.name}.py")
    _run([str(python), "-I", str(script), *arguments], RUN_SECONDS, "did not run")


def _run(command: list[str], seconds: int, failure: str) -> None:
    try:
        subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=seconds, env={**os.environ, **ONE_THREAD}
        )
    except subprocess.TimeoutExpired:
        raise PeerError(f"{failure}: not finished after {seconds} s") from None
    except subprocess.CalledProcessError as error:
        said = [line.strip() for line in error.stderr.splitlines() if line.strip()]
        errors = [line for line in said if "error" in line.lower()]  # notices may come after them
        raise PeerError(f"{failure}: {(errors or said or ['no message'])[-1][:160]}") from error
