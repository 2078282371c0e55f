"""Ctrl-C while something is running, in processes of their own."""

import signal
import subprocess
import sys
import textwrap

import pytest

import decouply as dc
from experiments.harness import end_workers_with_us
from experiments.interrupts import deferred

HEAD = """
import os, signal, sys
import numpy as np
import decouply as dc

X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
F = np.stack([np.sin(3 * X[:, 0] + X[:, 1] * X[:, 2]), np.exp(X @ [1, 2, 3])], axis=1)
J = np.random.default_rng(1).normal(size=(60, 2, 3))
samples = dc.Samples(X, F=F, J=J)
seen = []

def press(times=1, at=5):
    def progress(**values):
        seen.append(values)
        if len(seen) == at:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
    return progress
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(code)], capture_output=True, text=True, timeout=120
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver",
    [
        "dc.VarPro()",
        "dc.Constr(stopping=dc.solvers.Stopping(patience=10**6))",
        "dc.TwoStage(dc.Proj(stopping=dc.solvers.Stopping(patience=10**6)))",
        "dc.TwoStage(dc.VarPro())",
    ],
)
def test_solvers_return_the_best_until_then(solver):
    done = run(f"""
        result = dc.decouple(samples, (2, 2), (3, 3), solver={solver}, progress=press())
        assert 5 <= len(seen) < 12, len(seen)
        assert result.status is dc.solvers.Status.INTERRUPTED and "Ctrl-C" in result.reason
        assert np.isfinite(result.error_values)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    """)
    assert done.returncode == 0, done.stderr


def test_a_second_press_and_one_that_nobody_watches_stop_at_once():
    done = run("""
        from decouply._support._interrupts import stoppable
        try:
            with stoppable(lambda **_: None) as report:
                os.kill(os.getpid(), signal.SIGINT)
                print("once")
                os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            print("twice")
        decouple, endless = dc.decouple, dc.Constr(stopping=dc.solvers.Stopping(patience=10**6, max_steps=10**6))
        decouple(samples, 1, 1, progress=False)  # a press while modules are imported is another matter
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            decouple(samples, (2, 2), (3, 3), solver=endless, progress=False)
        except KeyboardInterrupt:
            print("stopped")
    """)
    assert done.stdout.split() == ["once", "twice", "stopped"], done.stderr


def test_refining_keeps_the_best_iterate():
    done = run("""
        import warnings
        u = np.random.default_rng(0).uniform(-1, 1, 400)
        y = np.zeros(400)
        for t in range(2, 400):
            y[t] = 0.6 * y[t - 1] - 0.2 * y[t - 2] + 0.3 * u[t - 1] - 0.1 * y[t - 1] ** 3
        y += 0.02 * np.random.default_rng(1).normal(size=400)
        narx = dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(u, y).decouple(ranks=2, n_starts=4, progress=False)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            refined = narx.refine(u, y, progress=press(at=2))
        assert len(refined.refinement) == 3, len(refined.refinement)
        assert any("Ctrl-C" in str(w.message) for w in caught)
    """)
    assert done.returncode == 0, done.stderr


def test_the_command_line_saves_what_it_has(tmp_path):
    done = run(f"""
        from decouply._support import _progress
        from decouply.cli import main

        os.chdir({str(tmp_path)!r})
        samples.save("noise.npz")
        pressed = press()
        _progress.PlainLines.__call__ = lambda _, **values: pressed(**values)  # what reports go to in a pipe
        arguments = "fit noise.npz --ranks 2,2 --degrees 3,3 --model model.safetensors"
        sys.argv = ["decouply", *arguments.split()]
        main()
    """)
    assert done.returncode == 130 and "Stopped." in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert "Model: model.safetensors" in done.stdout
    assert dc.Decoupling.load(tmp_path / "model.safetensors").ranks == (2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["select noise.npz --max-ranks 2 --model", "fit noise.npz --ranks auto --model"])
def test_a_scan_on_the_command_line_saves_what_it_has(arguments, tmp_path):
    done = run(f"""
        from decouply._support import _progress
        from decouply.cli import main

        os.chdir({str(tmp_path)!r})
        samples.save("noise.npz")
        pressed = press(at=2)
        _progress.PlainLines.__call__ = lambda _, **values: pressed(**values)
        sys.argv = ["decouply", *{arguments.split()!r}, "model.safetensors"]
        main()
    """)
    assert done.returncode == 130 and "Stopped." in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert "The scan was interrupted" in done.stdout
    assert dc.Decoupling.load(tmp_path / "model.safetensors").n_inputs == 3


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_runs_that_were_interrupted_are_not_taken_for_finished_ones(n_jobs, tmp_path):
    done = run(f"""
        import json, pathlib
        from experiments.harness import run_all

        def work(number):
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:  # as `select` does, which returns the best until then
                return {{"whole": False}}
            return {{"whole": True}}

        store = pathlib.Path({str(tmp_path / "runs.jsonl")!r})
        try:
            run_all([{{"number": 1}}], work, store=store, n_jobs={n_jobs})
        except KeyboardInterrupt:
            print("stopped")
        print(*[json.loads(line)["outcome"]["whole"] for line in store.open()] if store.exists() else [])
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    """)
    assert done.stdout.split() == (["stopped"] if n_jobs == 1 else ["True"]), done.stderr


def test_what_fails_after_a_press_has_failed_because_of_it():
    done = run("""
        from decouply._support._interrupts import stoppable
        for times in (0, 1):
            try:
                with stoppable(lambda **_: None):
                    for _ in range(times):
                        os.kill(os.getpid(), signal.SIGINT)
                    raise RuntimeError("a worker died")
            except BaseException as error:
                print(type(error).__name__)
    """)
    assert done.stdout.split() == ["RuntimeError", "KeyboardInterrupt"], done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_wait_for_the_end_of_a_short_block(number):
    done = []

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(number, stop)
    try:
        with pytest.raises(KeyboardInterrupt), deferred():
            signal.raise_signal(number)
            done.append("whole")
        assert done == ["whole"] and signal.getsignal(number) is stop
    finally:
        signal.signal(number, before)


def test_a_worker_whose_parent_has_ended_ends_at_once():
    code = "import time; from experiments.harness import begin_worker; begin_worker(2**30); time.sleep(60)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 1
    assert end_workers_with_us(1) == {}
