import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decouply as dc
from tests.strategies import seeds


def f2_by_hand(x):
    """The appendix of the paper, written out."""
    u = np.array([[1.08, 1.71, 0.44], [-1.4, -0.04, -0.49]]) @ x
    z = np.array([2.67 * u[0] ** 3 + 2.49 * u[0] ** 2 - 0.03 * u[0], 1.33 * u[1] ** 3 - 1.49 * u[1] ** 2 + 0.2 * u[1]])
    v = np.array([[0.21, -0.94], [-1.12, 0.56]]) @ z
    y = np.array(
        [
            -0.88 * v[0] ** 3 - 1.64 * v[0] ** 2 - 0.01 * v[0] - 0.8,
            1.69 * v[1] ** 3 - 1.61 * v[1] ** 2 - 1.12 * v[1] + 0.91,
        ]
    )
    return np.array([[-0.59, 0.86], [0.02, -1.1], [-1.02, 1.17]]) @ y


def test_f2_is_the_one_of_the_appendix():
    x = np.array([0.3, -0.8, 0.5])
    assert dc.systems.f2()(x[None])[0] == pytest.approx(f2_by_hand(x), rel=1e-12)


def test_the_systems_have_the_shapes_of_the_appendix_and_constants_in_the_last_layer_only():
    for make, dims, degrees in ((dc.systems.f1, (2, 2, 2, 2), (5, 2)), (dc.systems.f3, (4, 3, 2, 3), (3, 4))):
        f = make()
        assert (f.n_inputs, *f.ranks, f.n_outputs) == dims
        assert f.degrees == degrees
        assert not f.g[0].constants.any() and f.g[1].constants.all()
    assert dc.systems.f1().g[0].C[0].tolist() == [0, 0.58, -2.69, 2.37, 1.37, 1.91]
    assert dc.systems.f3().g[1].C[1].tolist() == [-0.23, 0.74, -1.67, 1.4, -0.71]


def collinearity(W):
    D = W / np.linalg.norm(W, axis=0)
    return np.max(np.abs(D.T @ D) - np.eye(W.shape[1]))


@pytest.mark.slow
@given(dims=st.lists(st.integers(1, 5), min_size=3, max_size=6), seed=seeds)
def test_random_systems_follow_the_recipe_for_any_dims(dims, seed):
    f = dc.systems.random_system(tuple(dims), (2,) * (len(dims) - 2), rng=seed)
    assert (f.n_inputs, *f.ranks, f.n_outputs) == tuple(dims)
    for l, W in enumerate(f.W):
        assert np.abs(W).max() <= (2.0 if l in (0, len(f.W) - 1) else 1.5)
        assert min(collinearity(W), collinearity(W.T)) < 0.5
        if W.shape[1] <= W.shape[0]:
            assert collinearity(W) < 0.5
    assert all(np.abs(g.C).max() <= 3.0 for g in f.g)
    assert all(not g.constants.any() for g in f.g[:-1])


def test_random_systems_are_reproducible_and_wrong_dims_are_refused():
    first, again = (dc.systems.random_system((4, 3, 3, 4), (3, 3), rng=2) for _ in range(2))
    assert np.array_equal(first.W[1], again.W[1])
    with pytest.raises(dc.InputError, match=r"4 numbers for 2 degrees\. Got 3"):
        dc.systems.random_system((2, 2, 2), (3, 3))


def largest_cosine(W, *, absolute):
    directions = W / np.linalg.norm(W, axis=0)
    cosines = directions.T @ directions - 2 * np.eye(W.shape[1])
    return np.max(np.abs(cosines + 2 * np.eye(W.shape[1])) - np.eye(W.shape[1])) if absolute else np.max(cosines)


def test_the_papers_systems_bound_the_signed_cosine_only():
    """Within the two digits that are printed."""
    systems = dc.systems.f1(), dc.systems.f2(), dc.systems.f3()
    matrices = [W for f in systems for W in f.W if W.shape[0] >= W.shape[1]]
    assert max(largest_cosine(W, absolute=False) for W in matrices) < 0.5
    assert largest_cosine(dc.systems.f1().W[1], absolute=True) == pytest.approx(0.96, abs=0.005)


@pytest.mark.parametrize("seed", range(5))
def test_random_systems_bound_the_cosine_that_is_asked_for(seed):
    for angles in ("absolute", "signed"):
        f = dc.systems.random_system((4, 3, 3, 4), (2, 2), angles=angles, rng=seed)
        assert max(largest_cosine(W if len(W) >= 3 else W.T, absolute=angles == "absolute") for W in f.W) < 0.5
    plane = dc.systems.random_system((3, 2, 3), (2,), angles="signed", rng=seed)
    assert largest_cosine(plane.W[0], absolute=False) < 0.5  # three directions fit into a plane, three lines do not
