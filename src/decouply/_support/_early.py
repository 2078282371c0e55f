"""Ctrl-C in the first moments of the command `decouply`, while modules are still being imported: words, no traceback.

Imported before everything else, and of use to the command alone: in other programs nothing happens.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself imports much
import os
import sys


def _stop(*_: object) -> None:
    os.write(2, b"Stopped.\n")
    os._exit(130)  # nothing has been begun that could be lost


def is_command() -> bool:
    """Whether this process is the command `decouply`."""
    return os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0] == "decouply"  # noqa: PTH119, PTH122


def hand_over() -> None:
    """The command is there: Ctrl-C is its own affair from here on."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _stop)
