"""What belongs to the whole process is as it was, also when several threads come and go."""

import copy
import os
import pickle
import subprocess
import sys
import threading
import warnings

import matplotlib as mpl
import numpy as np
import pytest
import scipy.linalg  # noqa: F401 (brings a BLAS of its own, which the first fit would load between two looks)
from threadpoolctl import threadpool_info, threadpool_limits

import decouply as dc
from decouply._support._errors import _silent, as_errors, silenced, warn
from decouply._support._machine import one_thread
from decouply.report._style import house_style
from decouply.solvers.problem import _prepared_samples
from tests.strategies import sampled


def overlapping(scope):
    """Two threads in a scope: the first to come is the first to leave."""
    first_in, second_in, first_out = (threading.Event() for _ in range(3))

    def first():
        with scope():
            first_in.set()
            second_in.wait(2)
        first_out.set()

    def second():
        first_in.wait(2)
        with scope():
            second_in.set()
            first_out.wait(0.3)  # scopes that let one thread in at a time come here afterwards

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_has_its_threads_back():
    with threadpool_limits(2, user_api="blas"):
        overlapping(one_thread)
        assert set(blas_threads()) == {2}


def test_blas_has_one_thread_until_the_last_has_left():
    seen = []
    inside, left = threading.Event(), threading.Event()

    def other():
        with one_thread():
            inside.set()
            left.wait(5)
            seen.extend(blas_threads())

    thread = threading.Thread(target=other)
    with threadpool_limits(2, user_api="blas"):
        with one_thread():
            thread.start()
            inside.wait(5)
        left.set()
        thread.join(10)
    assert seen and set(seen) == {1}


def test_every_blas_has_one_thread_in_fits():
    """NumPy and SciPy bring a library each, and SciPy's comes late."""
    script = """
import numpy as np, decouply as dc
from threadpoolctl import threadpool_info, threadpool_limits
seen = set()
def look(**values):
    seen.update((library["filepath"], library["num_threads"]) for library in threadpool_info())
X = np.linspace(-1, 1, 20)[:, None]
samples = dc.Samples(X, F=X**2, J=2 * X[:, :, None])
options = {"solver": dc.Constr(stopping=dc.solvers.Stopping(max_steps=2)), "n_starts": 1}
for _ in range(2):  # a library that came between two fits counts too
    threadpool_limits(2, user_api="blas")
    dc.decouple(samples, 1, 2, progress=look, **options)
    import scipy.linalg
assert len(seen) == len(threadpool_info()) and {number for _, number in seen} == {1}, seen
"""
    environment = os.environ | {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("scope", [silenced, lambda: as_errors(UserWarning)])
def test_filters_of_warnings_are_as_before(scope):
    before = list(warnings.filters)
    overlapping(scope)
    assert warnings.filters == before


def test_silence_is_that_of_one_thread():
    with silenced():
        warn("not heard")
        heard = []
        thread = threading.Thread(target=lambda: heard.append(_silent.get()))
        thread.start()
        thread.join()
    assert heard == [False]
    with pytest.warns(dc.DecouplingWarning, match="heard again"):
        warn("heard again")


def test_settings_of_pictures_are_as_before():
    before = dict(mpl.rcParams)
    overlapping(lambda: house_style(dark=True))
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("again", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_arrays_stay_read_only_in_copies(again):
    model = dc.systems.f1()
    samples = again(sampled(model))
    arrays = [samples.X, samples.F, samples.J, *again(model).W, again(model.g[0]).C, *again(model.factors(samples.X)).G]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_a_problem_is_built_with_one_thread(monkeypatch):
    seen = []
    build = _prepared_samples.standard_units

    def spy(*args, **options):
        seen.extend(blas_threads())
        return build(*args, **options)

    monkeypatch.setattr(_prepared_samples, "standard_units", spy)
    with threadpool_limits(2, user_api="blas"):
        dc.decouple(sampled(dc.systems.f1()), (2, 2), (3, 3), n_starts=1, progress=False)
    assert seen and set(seen) == {1}


def test_one_point_many_times_is_one_point():
    X = np.tile([[1.0, 2.0]], (40, 1))
    with pytest.raises(dc.InputError, match=r"2 different points.* Got the same point 40 times"):
        dc.decouple(dc.Samples(X, F=np.ones((40, 1)), J=np.ones((40, 1, 2))), 1, 2)
