"""What is shown on the way where there is no terminal."""

import itertools
import sys
import time
from types import SimpleNamespace

import pytest

from decouply._support import _progress
from decouply.cli._output import shown_progress


@pytest.fixture
def in_a_hurry(monkeypatch):
    monkeypatch.setattr(_progress, "_QUIET_SECONDS", 0.01)
    monkeypatch.setattr(_progress, "_BETWEEN_LINES", (0.01, 0.02))
    monkeypatch.setattr(_progress, "time", SimpleNamespace(monotonic=lambda: 0.0))  # on a busy machine, seconds pass


def lines_until(wanted, capsys):
    text, patience = "", time.monotonic() + 60.0
    while wanted not in text and time.monotonic() < patience:
        text += capsys.readouterr().err
        time.sleep(0.005)
    return text.splitlines()


def test_lines_have_the_best_so_far_and_wait_for_no_report(in_a_hurry, capsys):
    with shown_progress("Selecting", quiet=False) as report:
        assert lines_until("Selecting", capsys)[0] == "Selecting (0 s)"
        report(stage="ranks 2 (best so far: ranks 1)", done=1, total=None, objective=0.5)
        assert lines_until("ranks", capsys)[-1] == "Selecting, ranks 2 (best so far: ranks 1), objective 0.5 (0 s)"
        report(done=3, total=7)
        assert lines_until("of 7", capsys)[-1] == "Selecting, 3 of 7 (0 s)"
    capsys.readouterr()
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_what_takes_less_than_two_seconds_is_silent(monkeypatch, capsys):
    assert _progress._QUIET_SECONDS == 2.0
    monkeypatch.setattr(_progress, "_QUIET_SECONDS", 600.0)
    with shown_progress("Selecting", quiet=False) as report:
        report(done=1, total=2)
    assert capsys.readouterr() == ("", "")


def test_without_threads_nothing_is_printed(monkeypatch, capsys):
    """In a browser no thread starts."""

    def refused(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_progress.threading.Thread, "start", refused)
    lines = _progress.PlainLines("Fit")
    lines(objective=1.0)
    lines.close()
    assert not capsys.readouterr().err


def test_lines_become_rarer():
    assert list(itertools.islice(_progress._pauses(), 7)) == [2.0, 5.0, 10.0, 20.0, 40.0, 60.0, 60.0]


def test_commands_draw_a_bar_on_a_terminal_only(monkeypatch, capsys):
    with shown_progress("Selecting", quiet=False) as report:
        assert isinstance(report, _progress.PlainLines)
    with shown_progress("Selecting", quiet=True) as report:
        assert report is _progress.silent
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with shown_progress("Selecting", quiet=False) as report:
        assert isinstance(report, _progress.LateBar)
