"""What is shown on the way where there is no terminal."""

from decoupling._support import _progress
from decoupling.cli._screen import shown_progress


def test_lines_come_every_few_seconds_with_the_best_so_far(monkeypatch, capsys):
    moments = iter([0.0, 1.0, 6.0, 7.0, 12.0])
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(moments))
    lines = _progress.PlainLines("Selecting")
    for k in range(4):
        lines(stage=f"ranks {k} (best so far: ranks 1)", done=k, objective=0.5 if k == 3 else None)
    assert capsys.readouterr().err == (
        "Selecting, ranks 1 (best so far: ranks 1) (6 s)\n"
        "Selecting, ranks 3 (best so far: ranks 1), objective 0.5 (12 s)\n"
    )


def test_commands_draw_a_bar_on_a_terminal_only(monkeypatch):
    assert isinstance(shown_progress("Selecting", quiet=False), _progress.PlainLines)
    assert shown_progress("Selecting", quiet=True) is _progress.silent
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert shown_progress("Selecting", quiet=False) is True
