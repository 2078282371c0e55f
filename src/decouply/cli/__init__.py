"""The command line `decouply`."""

from __future__ import annotations

import sys

from .._support._interrupts import hand_over


def main() -> None:
    """Run the command line. From the first moment on, Ctrl-C gives a message."""
    try:
        from ._main import main as run

        hand_over()
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)
    run()


__all__ = ["main"]
