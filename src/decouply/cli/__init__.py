"""The command line `decouply`."""

from __future__ import annotations

import sys

from .._support._interrupts import hand_over


def main() -> None:
    """Run the command line. Ctrl-C is answered in words from the first moment on."""
    try:
        from ._main import main as run

        hand_over()
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)
    run()


__all__ = ["main"]
