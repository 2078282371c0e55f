import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.samples import _estimation
from tests.strategies import points


def quadratic(m, n, seed=0):
    """A random quadratic map and its Jacobian."""
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(n, m, m)), rng.normal(size=(n, m))
    return (
        lambda X: np.einsum("nij,si,sj->sn", A, X, X) + X @ B.T + 1.0,
        lambda X: np.einsum("nij,sj->sni", A + A.mT, X) + B,
    )


@pytest.mark.parametrize(("m", "n", "S"), [(1, 1, 30), (2, 3, 60), (4, 2, 100)])
def test_local_polynomials_are_exact_for_polynomials_of_their_degree(m, n, S):
    f, jacobian = quadratic(m, n)
    X = points(m, S)
    found = dc.estimate_jacobians(dc.Samples(X, F=f(X)))
    assert_allclose(found.J, jacobian(X), atol=1e-9)
    plane = X @ np.ones((m, n)) + 2.0
    assert_allclose(dc.estimate_jacobians(dc.Samples(X, F=plane), degree=1).J, 1.0, atol=1e-10)


def test_units_and_offsets_of_the_data_do_not_matter():
    f, jacobian = quadratic(2, 2)
    X, size = points(2, 80), np.array([1e6, 1e-4])
    F = f(X) * [1e5, 1e-5] + [0.0, 7.0]
    found = dc.estimate_jacobians(dc.Samples(X * size + [0.0, 3.0], F=F))
    expected = jacobian(X) * np.array([1e5, 1e-5])[:, None] / size
    assert np.max(np.abs(found.J / expected - 1.0)) < 1e-4


@pytest.mark.parametrize("size", [1e-200, 1e300])
def test_inputs_whose_squares_are_no_numbers_are_fine(size):
    X = points(2, 40)
    found = dc.estimate_jacobians(dc.Samples(size * X, F=X @ [[1.0], [2.0]]))
    assert_allclose(found.J * size, np.broadcast_to([1.0, 2.0], (40, 1, 2)))


def weighted_fit_by_definition(X, F, s, k):
    """One local quadratic, by loops and lstsq."""
    Z = X / X.std(axis=0)
    d = np.linalg.norm(Z - Z[s], axis=1)
    order = np.argsort(d)
    h = d[order[k]]
    rows, targets = [], []
    for j in order[:k]:
        z = X[j] - X[s]
        w = np.sqrt((1 - (d[j] / h) ** 3) ** 3)
        rows.append(w * np.array([1.0, *z, *(z[a] * z[b] for a in range(len(z)) for b in range(a, len(z)))]))
        targets.append(w * F[j])
    return np.linalg.lstsq(np.array(rows), np.array(targets), rcond=None)[0]


def test_the_estimate_is_the_weighted_fit_of_the_definition():
    X = points(2, 50)
    F = np.stack([np.sin(3 * X[:, 0]), X[:, 0] * np.exp(X[:, 1])], axis=1)
    found = dc.estimate_jacobians(dc.Samples(X, F=F), degree=2, neighbours=15)
    for s in (0, 17, 49):
        assert_allclose(found.J[s], weighted_fit_by_definition(X, F, s, 15)[1:3].T, rtol=1e-8)


def test_the_error_at_left_out_points_is_that_of_leaving_them_out():
    X = points(1, 25)
    F = np.sin(4 * X)
    Z, G = X / X.std(), F / F.std()
    from scipy.spatial import cKDTree

    distance, index = cKDTree(Z).query(Z, k=11)
    weights = _estimation._weights(distance, 10)
    fit = _estimation._local_fit(Z, G, 1, index[:, :10], weights)
    squares = []
    for s in range(25):
        others = index[s, 1:10]
        root = np.sqrt(weights[s, 1:10])
        design = np.stack([np.ones(9), Z[others, 0] - Z[s, 0]], axis=1)
        value = np.linalg.lstsq(root[:, None] * design, root * G[others, 0], rcond=None)[0][0]
        squares.append((G[s, 0] - value) ** 2)
    assert fit.error == pytest.approx(np.mean(squares))


def test_noise_asks_for_more_neighbours_and_gets_them():
    """With the number that is best without noise the estimate would be far worse."""
    X = points(2, 600)
    F, J = np.sin(2 * X[:, :1] + X[:, 1:]), np.cos(2 * X[:, :1] + X[:, 1:])[:, :, None] * [2.0, 1.0]
    noisy = dc.Samples(X, F=F + 0.1 * np.random.default_rng(0).normal(size=F.shape))
    chosen = dc.error_jacobian(J, dc.estimate_jacobians(noisy, degree=2).J)
    few = dc.error_jacobian(J, dc.estimate_jacobians(noisy, degree=2, neighbours=10).J)
    assert chosen < 0.1 * few
    clean = dc.estimate_jacobians(dc.Samples(X, F=F), degree=2)
    assert dc.error_jacobian(J, clean.J) < 1e-3


def test_an_alternating_solver_runs_on_estimated_jacobians():
    system = dc.systems.random_system((3, 2, 2), (3,), rng=1)
    X = points(3, 200)
    samples = dc.estimate_jacobians(dc.Samples(X, F=system(X)))
    result = dc.decouple(
        samples, 2, 3, solver=dc.Proj(stopping=dc.solvers.Stopping(max_steps=100), lam=1.0), n_starts=4, progress=False
    )
    assert result.error_values < 0.02


def test_weights_are_kept_and_the_samples_are_new():
    X, w = points(2, 40), np.linspace(1, 2, 40)
    samples = dc.Samples(X, F=X, weights=w)
    found = dc.estimate_jacobians(samples)
    assert_allclose(found.weights, w)
    assert samples.J is None


def test_repeated_points_are_fine_as_long_as_others_are_near():
    f, jacobian = quadratic(2, 1)
    X = np.repeat(points(2, 60), 3, axis=0)
    assert_allclose(dc.estimate_jacobians(dc.Samples(X, F=f(X))).J, jacobian(X), atol=1e-8)


def test_two_levels_per_input_leave_curvature_open_and_degree_1_is_taken():
    X = np.array([[a, b, c] for a in (0.0, 1.0) for b in (0.0, 1.0) for c in (0.0, 1.0)] * 4)
    samples = dc.Samples(X, F=X @ [[1.0], [2.0], [3.0]])
    assert_allclose(dc.estimate_jacobians(samples).J[:, 0], np.tile([1.0, 2.0, 3.0], (32, 1)), atol=1e-9)
    with pytest.raises(dc.InputError, match=r"`degree` must be 1.*around X\[\d+\]"):
        dc.estimate_jacobians(samples, degree=2)


def test_few_samples_give_polynomials_of_degree_1():
    X = points(4, 12)
    assert_allclose(dc.estimate_jacobians(dc.Samples(X, F=X)).J, np.tile(np.eye(4), (12, 1, 1)), atol=1e-9)


LINE = np.linspace(0, 1, 30)[:, None] * [1.0, 2.0]


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (points(4, 5), {}, "at least 6 points for polynomials of degree 1 in 4 inputs. Got 5. Use values only"),
        (points(4, 12), {"degree": 2}, "at least 16 points.*Take degree=1"),
        (points(40, 60), {"degree": 2}, "861 coefficients, and 500 are the most. Take degree=1"),
        (points(600, 5), {}, "601 coefficients.*Use values only"),
        (points(2, 30), {"degree": 2, "neighbours": 6}, "`neighbours` must lie between 7 and 30.*Got 6"),
        (points(2, 30), {"neighbours": 31}, "`neighbours` must lie between 7 and 30"),
        (LINE, {}, "points in all directions.*inputs that follow from others"),
        (np.repeat(points(2, 3), 20, axis=0), {"neighbours": 10}, "average repeated points"),
        (np.hstack([points(1, 30), np.full((30, 1), 4.0)]), {}, r"X\[:, 1\] is 4 throughout"),
    ],
)
def test_what_cannot_be_estimated_is_refused_with_the_way_out(X, options, message):
    F = X[:, :1]
    with pytest.raises(dc.InputError, match=message):
        dc.estimate_jacobians(dc.Samples(X, F=F), **options)


def test_samples_without_values_or_with_jacobians_are_refused():
    X = points(2, 30)
    J = np.ones((30, 1, 2))
    with pytest.raises(dc.InputError, match="must hold values"):
        dc.estimate_jacobians(dc.Samples(X, J=J))
    with pytest.raises(dc.InputError, match=r"must hold no Jacobians.*--no-jacobians"):
        dc.estimate_jacobians(dc.Samples(X, F=X[:, :1], J=J))
