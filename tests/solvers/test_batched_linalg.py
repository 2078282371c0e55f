import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from decouply.solvers.problem._batched_linalg import solve_normal
from tests.strategies import seeds


@given(p=st.integers(1, 8), k=st.integers(1, 3), seed=seeds)
def test_well_conditioned_systems_are_solved_to_rounding(p, k, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(5, 3 * p + 2, p)) * 10.0 ** rng.uniform(-6, 6, (5, 1, p))  # badly scaled on purpose
    x = rng.normal(size=(5, p, k))
    M = A.mT @ A
    scale = np.sqrt(np.diagonal(M, axis1=1, axis2=2))[..., None]
    assert_allclose(solve_normal(M, M @ x) * scale, x * scale, rtol=1e-6, atol=1e-7 * np.abs(x * scale).max())


@pytest.mark.parametrize("p", [2, 3, 6])
def test_one_singular_system_does_not_stop_the_others(p):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 10, p))
    A[1, :, 1] = A[1, :, 0]  # exactly dependent
    A[2] = 0.0
    M, b = A.mT @ A, A.mT @ rng.normal(size=(4, 10, 1))
    x = solve_normal(M, b)
    assert np.all(np.isfinite(x))
    for i in (0, 3):
        assert_allclose(M[i] @ x[i], b[i], rtol=1e-8, atol=1e-8)
    assert_allclose(M[1] @ x[1], b[1], atol=1e-6 * np.abs(b[1]).max())
    assert_allclose(x[2], 0.0)


def test_nan_stays_in_its_own_system():
    M = np.broadcast_to(np.eye(6), (3, 6, 6)).copy()
    M[1, 0, 0] = np.nan
    x = solve_normal(M, np.ones((3, 6, 1)))
    assert np.isnan(x[1]).any() and np.allclose(x[[0, 2]], 1.0)
