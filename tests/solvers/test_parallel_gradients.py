"""Parallel gradients: the arguments of the last layer by linear algebra."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.solvers.initial._parallel_gradients import (
    Parallel,
    has_enough_equations,
    null_vectors,
    slopes_of_arguments,
)
from decouply.solvers.initial._start_data import Budget
from tests.strategies import points, sampled

FOREVER = Budget(math.inf, lambda _: None)


def slopes_before_the_last(system, X):
    """Gradients of the arguments of the last layer, layer by layer."""
    u, J = X @ system.W[0].T, np.broadcast_to(system.W[0], (len(X), *system.W[0].shape))
    for W, g in zip(system.W[1:-1], system.g, strict=False):
        u, J = g(u) @ W.T, W @ (g.derivative(u)[..., None] * J)
    return u, J


def assert_parallel_somewhere(found, expected):
    """Every expected field is a multiple of one that was found."""
    a, b = (np.moveaxis(J, 1, 0).reshape(J.shape[1], -1) for J in (found, expected))
    a, b = (t / np.linalg.norm(t, axis=1, keepdims=True) for t in (a, b))
    assert_allclose(np.abs(b @ a.T).max(axis=1), 1.0, rtol=1e-9)


@pytest.mark.parametrize(
    ("dims", "degrees", "S"),
    [((2, 2, 2, 2), (3, 3), 30), ((3, 3, 3, 3), (3, 2), 40), ((3, 3, 3, 3, 3), (2, 2, 2), 25)],
    ids=["eigenvalues of two", "products of three", "a search, for few samples"],
)
def test_the_arguments_of_the_last_layer_are_found_whatever_its_functions_are(dims, degrees, S):
    system = dc.systems.random_system(dims, degrees, rng=1)
    X = points(dims[0], S)
    u, slopes = slopes_before_the_last(system, X)
    degree = math.prod(degrees[:-1])
    assert has_enough_equations(S, dims[0], dims[-2], degree)
    for derivative in (1.0 / np.cosh(u / np.abs(u).max(axis=0)) ** 2, system.g[-1].derivative(u)):
        J = system.W[-1] @ (derivative[..., None] * slopes)
        found = slopes_of_arguments(X, J, degree, np.random.default_rng(0), FOREVER)
        assert_parallel_somewhere(found, slopes)


def test_noise_has_no_parallel_gradients_to_be_searched_for():
    rng = np.random.default_rng(0)
    X, J = rng.uniform(-1, 1, (25, 3)), rng.normal(size=(25, 3, 3))
    assert slopes_of_arguments(X, J, 4, rng, FOREVER) is None
    assert slopes_of_arguments(X, np.zeros_like(J), 4, rng, FOREVER) is None
    assert slopes_of_arguments(X, np.ones_like(J), 4, rng, FOREVER) is None


def test_samples_must_give_as_many_equations_as_there_are_coefficients():
    assert has_enough_equations(200, 2, 2, 16) and not has_enough_equations(150, 2, 2, 16)
    assert not has_enough_equations(1000, 1, 1, 3)


def test_newtons_steps_lead_from_nearby_to_the_combination():
    system = dc.systems.random_system((3, 3, 3, 3), (2, 2), rng=2)
    X = points(3, 30)
    pairs = [(i, j) for i in range(3) for j in range(i, 3)]  # all x_i x_j, then x_i
    unit = np.eye(3)[..., None]
    slopes = np.stack(
        [unit[i] * X[:, j] + unit[j] * X[:, i] for i, j in pairs] + [unit[i] + 0 * X[:, 0] for i in range(3)]
    )
    parallel = Parallel(system.jacobian(X), slopes, np.random.default_rng(0), FOREVER)
    K = np.linalg.inv(system.W[-1])
    K /= np.linalg.norm(K, axis=1, keepdims=True)
    truth, away = parallel.at(K[0]), parallel.at(K[0] + [0.0, 0.03, -0.02])
    assert truth.size < 1e-12 < 1e-4 < away.size
    assert abs(parallel.refine(away).k @ K[0]) == pytest.approx(1.0, abs=1e-12)


def test_null_vectors_are_those_of_the_singular_value_decomposition():
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.normal(size=(n, 6)))[0] for n in (20, 6))
    M = U @ np.diag([3.0, 2.0, 1.0, 1.0, 1e-9, 0.0]) @ V.T
    found = null_vectors(M, 2, rng)
    assert_allclose(found @ found.T, V[:, 4:] @ V[:, 4:].T, atol=1e-10)
    assert np.linalg.norm(np.zeros((8, 3)) @ null_vectors(np.zeros((8, 3)), 1, rng)) == 0.0
    with pytest.raises(np.linalg.LinAlgError):
        null_vectors(M[:4], 1, rng)


@pytest.mark.parametrize(
    ("dims", "S"), [((4, 3, 3, 3, 3, 4), 200), ((3, 2, 2, 2, 2, 2, 3), 200)], ids=["four of rank 3", "five of rank 2"]
)
def test_deep_systems_are_recovered_without_a_random_start(dims, S):
    system = dc.systems.random_system(dims, (2,) * (len(dims) - 2), rng=6)
    result = dc.decouple(sampled(system, S), system.ranks, system.degrees, progress=False)
    assert result.status is dc.solvers.Status.EXACT and result.found_by == "parallel gradients"
    assert 1.0 - dc.factor_match(system, result.decoupling, points(dims[0], 100)) < 1e-6
