"""What each function is worth."""

import numpy as np
import pytest

import decouply as dc

X = np.random.default_rng(0).uniform(-1, 1, (80, 2))


def test_a_function_is_worth_the_error_without_it_and_not_its_size():
    """Two large lines cancel: the small parabola beside them is what the model needs."""
    g = dc.Functions(dc.Monomial(2), [[0.0, 50.0, 0.0], [0.0, -50.0, 0.0], [0.0, 0.0, 1.0]])
    model = dc.Decoupling([[[1.0, 0.0], [1.0, 0.001], [1.0, 1.0]], [[1.0, 1.0, 1.0]]], [g])
    assert np.argmin(model.importance(X)[0]) == 2
    rows = model.ablation(dc.Samples(X, F=model(X)), progress=False)
    assert [(row.layer, row.index) for row in rows] == [(1, 1), (1, 2), (1, 3)]
    assert all(row.refitted for row in rows) and all(row.error < 1e-6 for row in rows)
    assert rows[2].error_without > 10 * max(rows[0].error_without, rows[1].error_without)


def test_the_only_function_leaves_the_linear_part_or_a_constant():
    F = X[:, :1] ** 2 + 3 * X[:, 1:]
    for linear, worth in ((False, (99.9, 100.1)), (True, (5.0, 40.0))):
        result = dc.decouple(dc.Samples(X, F=F), 1, 2, linear=linear, n_starts=2, progress=False)
        (row,) = result.ablation(progress=False)
        assert worth[0] < row.error_without < worth[1]


def test_two_layers_and_too_little_time_are_told():
    system = dc.systems.f2()
    points = np.random.default_rng(1).uniform(-1, 1, (60, 3))
    samples = dc.Samples(points, F=system(points), J=system.jacobian(points))
    rows = system.ablation(samples, progress=False)
    assert [(row.layer, row.index) for row in rows] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert all(row.error_without > 0.01 for row in rows)
    assert not any(row.refitted for row in system.ablation(samples, max_seconds=1e-9, progress=False))


def test_samples_must_be_in_memory_and_hold_something():
    with pytest.raises(dc.InputError, match="in memory"):
        dc.systems.f2().ablation(np.zeros((3, 3)))
