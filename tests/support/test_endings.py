"""Processes that are ended or killed: nothing hangs, nobody is left behind, no drafts stay, work is done once."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import decouply as dc
from decouply._support._atomic_files import named, replace_file, write_text
from experiments.harness import lock

WORK = """
import os, sys, time
from pathlib import Path
from experiments.harness import run_all

def work(index):
    with open(sys.argv[1] + "/begun", "a") as stream:
        stream.write(f"{os.getpid()}\\n")
    time.sleep(float(sys.argv[2]))
    return {"pid": os.getpid()}
"""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of this kind are those of POSIX systems")


def start(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", WORK + textwrap.dedent(code), *map(str, arguments)], stderr=subprocess.PIPE, text=True
    )


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def begun(directory):
    path = directory / "begun"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_process_they_work_for(tmp_path, number):
    boss = start(
        "run_all([{'index': i} for i in range(4)], work, store=Path(sys.argv[1]) / 's', n_jobs=2)", tmp_path, 120
    )
    wait_for(lambda: len(begun(tmp_path)) == 2)
    boss.send_signal(number)
    boss.wait(timeout=120)
    boss.stderr.close()
    wait_for(lambda: not any(alive(pid) for pid in begun(tmp_path)))
    assert boss.returncode != 0 and len(begun(tmp_path)) == 2


@pytest.mark.slow
def test_a_command_that_is_ended_stops_like_one_that_is_interrupted(tmp_path):
    code = """
        import click, signal
        from decouply.cli import _main

        @_main.decouply.command()
        def wait():
            print("ready", file=sys.stderr, flush=True)
            time.sleep(60)

        sys.argv = ["decouply", "wait"]
        _main.main()
    """
    process = start(code, tmp_path, 0)
    assert process.stderr.readline() == "ready\n"
    process.terminate()
    assert process.wait(timeout=120) == 130
    assert process.stderr.read().split() == ["Stopped."]
    process.stderr.close()


@pytest.mark.slow
def test_two_processes_with_one_store_do_the_work_once(tmp_path):
    code = "run_all([{'index': i} for i in range(6)], work, store=Path(sys.argv[1]) / 's', n_jobs=1)"
    both = [start(code, tmp_path, 0.1) for _ in range(2)]
    for process in both:
        assert process.wait(timeout=60) == 0, process.stderr.read()
        process.stderr.close()
    assert len(begun(tmp_path)) == 6 and len((tmp_path / "s").read_text().splitlines()) == 6


def test_a_lock_is_given_back(tmp_path):
    waited = []
    with lock(tmp_path / "s"):
        pass
    with lock(tmp_path / "s", lambda: waited.append(1)):
        assert not waited


def test_drafts_of_killed_processes_go_with_the_next_write(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in (f".model.json.{ended.pid}.x1", f".model.json.{os.getpid()}.x2", ".model.json.x3", ".other.json.1.x4"):
        (tmp_path / name).write_text("half")
    write_text(tmp_path / "model.json", "whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f".model.json.{os.getpid()}.x2",
        ".model.json.x3",
        ".other.json.1.x4",
        "model.json",
    ]


def test_a_full_disk_says_whose_file_it_was(tmp_path):
    with pytest.raises(OSError, match="No space left") as caught, replace_file(tmp_path / "a.npz"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.filename == str(tmp_path / "a.npz") and list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="no such file") as caught, named(tmp_path / "a.npz"):
        raise OSError(errno.ENOENT, "no such file", "x.csv")
    assert caught.value.filename == "x.csv"


def test_a_full_disk_is_told_for_stores_and_pictures(tmp_path, monkeypatch):
    pytest.importorskip("zarr")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    samples = dc.Samples([[0.0], [1.0]], F=[[0.0], [1.0]])
    monkeypatch.setattr("decouply.samples.stores._zarr._append", full)
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    figure = dc.systems.f1().plot([[0.0, 0.0], [1.0, 1.0]])
    for write, path in ((samples.to_zarr, tmp_path / "s.zarr"), (figure.savefig, tmp_path / "p.png")):
        with pytest.raises(OSError, match="No space left") as caught:
            write(path)
        assert caught.value.filename == str(path)


def test_private_files_stay_private(tmp_path):
    path = tmp_path / "model.json"
    write_text(path, "old")
    assert path.stat().st_mode & 0o600 == 0o600
    path.chmod(0o600)
    write_text(path, "new")
    assert path.stat().st_mode & 0o777 == 0o600 and path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
