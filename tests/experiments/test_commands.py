"""The experiments as a person runs them: `python -m experiments`, in a process of its own."""

import json
import subprocess
import sys
import time

import pytest

import decouply as dc
from experiments.__main__ import experiments


def experiment(line, cwd):
    return subprocess.run(
        [sys.executable, "-m", "experiments", *line.split()],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


@pytest.mark.parametrize("command", ["", *experiments.commands])
def test_every_experiment_has_help(command, tmp_path):
    done = experiment(f"{command} --help", cwd=tmp_path)
    assert done.returncode == 0 and "Usage" in done.stdout


def test_table1_is_reproduced_in_a_small_way(tmp_path):
    done = experiment("table1 --runs 2 --n-starts 2 --jobs 1 --directory out --json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert len(content["cells"]) == 3 * 2 * (4 + 5 + 5)
    assert all(len(cell["runs"]) == 2 for cell in content["cells"])
    assert json.loads((tmp_path / "out/table1.json").read_text())["seed"] == 0
    assert "| f3 | CONSTR | e_3 (%) | 0.979 / **1.03** / 0.48 |" in (tmp_path / "out/table1.md").read_text()
    assert (tmp_path / "out/table1.png").read_bytes().startswith(b"\x89PNG")
    stored = (tmp_path / "out/table1-runs.jsonl").read_text()
    assert len(stored.splitlines()) == 2 * 3 * 2 * 3
    again = experiment("table1 --runs 2 --n-starts 2 --jobs 1 --directory out --json", cwd=tmp_path)
    assert json.loads(again.stdout) == content and (tmp_path / "out/table1-runs.jsonl").read_text() == stored


def test_recovery_is_tried_in_a_small_way(tmp_path):
    done = experiment("recovery --runs 1 --max-seconds 2 --jobs 2 --no-noise --directory out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "out/recovery.json").read_text())
    errors = {run["case"]: run["worst_error"] for run in content["recovery"]}
    assert len(errors) == 17 and max(errors[name] for name in ("f1", "f2", "f2, values only")) <= 1e-6
    assert "| f1 | 30 | **1 of 1** |" in done.stdout
    assert (tmp_path / "out/recovery.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("table2", "No such command"),
        ("benchmarks --quick --only Silverbox", "does not depend on --only: leave --only out"),
        ("vit --quick --steps 5", "leave --steps out"),
        ("mnist --quick --students --only GELU", "leave --only out"),
        ("mnist --only GELU", "are about --students"),
        ("cnn --quick --inputs 500", "leave --inputs out"),
        ("table1 --runs 1 --directory a-file", "must be a directory"),
    ],
)
def test_mistakes_give_one_message_and_exit_code_2(line, message, tmp_path):
    (tmp_path / "a-file").write_text("")
    done = experiment(line, cwd=tmp_path)
    assert done.returncode == 2 and message in " ".join(done.stderr.split()) and "Traceback" not in done.stderr


def test_an_experiment_that_cannot_be_written_is_not_begun(tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr("experiments.run_table1", lambda **_: begun.append(1))
    (tmp_path / "table1.png").mkdir()
    with pytest.raises(dc.InputError, match=r"table1.png` must be a file.*It is a directory"):
        experiments.main(["table1", "--directory", str(tmp_path)], standalone_mode=False)
    assert not begun


def test_experiments_say_how_many_runs_are_done_where_there_is_no_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("decouply._support._progress._QUIET_SECONDS", 0.01)

    def run(progress, **_):
        progress(done=2, total=9)
        time.sleep(0.5)
        raise dc.InputError("enough")

    monkeypatch.setattr("experiments.run_table1", run)
    with pytest.raises(dc.InputError, match="enough"):
        experiments.main(["table1", "--directory", str(tmp_path)], standalone_mode=False)
    assert "table1, 2 of 9 (0 s)" in capsys.readouterr().err
