"""The command line without a process of its own, whose imports would take a second."""

import io
import signal
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest import mock

from decouply._support import _progress
from decouply.cli import _main


class EveryReport:
    """Lines on stderr at the beginning and at every report, and not by the clock: no stage is too short to be seen."""

    def __init__(self, title):
        self._title = title
        self()

    def __call__(self, **values):
        print(_progress._in_words(self._title, values), file=sys.stderr)

    def close(self):
        pass


def tell_every_report(monkeypatch):
    monkeypatch.setattr(_progress, "PlainLines", EveryReport)


def run_here(words, cwd, group=_main.decouply):
    """What `decouply`, or another group of commands, prints and returns in a folder, as of a process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    ended = signal.getsignal(signal.SIGTERM)
    with warnings.catch_warnings(), chdir(cwd), redirect_stdout(out), redirect_stderr(err):
        warnings.simplefilter("default")
        with mock.patch.object(sys, "argv", ["decouply", *words]):
            try:
                _main.main(group)
            except SystemExit as end:
                code = end.code
            finally:
                signal.signal(signal.SIGTERM, ended)
    return CompletedProcess(words, code, out.getvalue(), err.getvalue())
