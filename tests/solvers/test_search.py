"""Batches of starts that others run: the digits of one batch after the other."""

import numpy as np
import pytest
from joblib import parallel_config

import decouply as dc
from decouply.solvers.varpro import _search


@pytest.fixture(scope="module")
def samples():
    f = dc.systems.random_system((2, 2, 2), (2,), rng=3)
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (20, 2))
    F = f(X)
    return dc.Samples(X, F=F + 0.3 * F.std() * rng.normal(size=F.shape))


def searched(samples, **options):
    solver = dc.VarPro(batch_size=2, max_steps=3, polish_steps=3, ridge=0.0, max_seconds=600.0)
    rng = np.random.default_rng(5)
    return dc.decouple(samples, 2, 2, solver=solver, n_starts=9, progress=False, rng=rng, **options), rng


@pytest.fixture
def waves(monkeypatch):
    """How many batches were handed to others at a time."""
    sizes = []

    def watched(work, tasks):
        sizes.append(len(tasks))
        return run_each(work, tasks)

    run_each = _search.run_each
    monkeypatch.setattr(_search, "run_each", watched)
    return sizes


def test_batches_side_by_side_are_those_one_after_the_other(samples, waves):
    alone, rng = searched(samples)
    assert waves == []
    with parallel_config(backend="threading", n_jobs=3):
        found, other = searched(samples)
    assert waves == [3, 1]  # the first of five batches is run here
    assert other.bit_generator.state == rng.bit_generator.state
    for a, b in zip(found.decoupling.W, alone.decoupling.W, strict=True):
        np.testing.assert_array_equal(a, b)
    rows = [[(row.start, row.objective, row.steps, row.status) for row in one.starts] for one in (found, alone)]
    assert repr(rows[0]) == repr(rows[1])


def test_what_is_found_after_the_end_is_forgotten(samples, waves, monkeypatch):
    """The search ends after two batches: the generator stands where they left it."""
    ends = lambda search: len(search.table) < 4  # noqa: E731
    monkeypatch.setattr(_search.Search, "should_continue", ends)
    alone, rng = searched(samples)
    with parallel_config(backend="threading", n_jobs=3):
        found, other = searched(samples)
    assert waves == [3] and len(found.starts) == len(alone.starts) == 4
    assert other.bit_generator.state == rng.bit_generator.state
