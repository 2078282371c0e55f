"""The rough inverse for many unknowns: exact where slopes do not change, and the diagonal of the last layer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.bases import LayerBasis
from decouply.solvers.least_squares._derivatives import run_chain
from decouply.solvers.least_squares._levenberg_marquardt import Preconditioner
from decouply.solvers.least_squares._parameters import Parameters
from decouply.solvers.least_squares._variable_projection import Complete
from decouply.solvers.problem._problem import Problem

R, M, N = 2, 4, 3
SHAPES_OF_TWO_LAYERS = ((R, M), (3, R)), ((R,), (3,)), ((R, 2),)  # of W, b and c before the last functions


def setting(degree, known):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20, M))
    given = {"F": rng.normal(size=(20, N)), "J": rng.normal(size=(20, N, M))}
    samples = dc.Samples(X, **{name: given[name] for name in known})
    problem = Problem.build(samples, (LayerBasis.of(dc.Monomial(degree), R),))
    W, b = (rng.normal(size=(1, R, M)), rng.normal(size=(1, N, R))), (rng.normal(size=(1, R)),)
    theta = Parameters(W, b, (rng.normal(size=(1, R, 1 + degree)),))
    return problem, theta


def both(problem, theta, monkeypatch):
    """The normal matrix itself, and its preconditioner."""
    residuals = Complete(problem.rows(0.3), problem.layers, linear=False)
    _, dense = residuals.linearise(theta)
    monkeypatch.setattr("decouply.solvers.problem._weighted_rows._MAX_DENSE_UNKNOWNS", 0)
    _, free = residuals.linearise(theta)
    return dense.M[0], free


def test_lines_with_jacobians_alone_have_the_block_of_w0_itself(monkeypatch):
    problem, theta = setting(1, "J")
    matrix, free = both(problem, theta, monkeypatch)
    assert_allclose(np.kron(free.rough.K, np.eye(M)), matrix[: R * M, : R * M], atol=1e-10 * matrix.max())


@pytest.mark.parametrize("known", ["J", "FJ"])
def test_what_follows_w0_is_scaled_by_its_diagonal(known, monkeypatch):
    problem, theta = setting(3, known)
    matrix, free = both(problem, theta, monkeypatch)
    expected = np.diagonal(matrix)[R * M :]
    assert_allclose(free.rough.diagonal[expected > 0], expected[expected > 0], rtol=1e-9)


def test_the_inverse_inverts_the_block_and_the_diagonal():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(R, R))
    rough = Preconditioner(root @ root.T, M, rng.uniform(1, 2, 5))
    damping, ridge = 0.1, 0.02
    whole = np.zeros((R * M + 5, R * M + 5))
    whole[: R * M, : R * M] = np.kron(rough.K, np.eye(M))
    whole[range(R * M, R * M + 5), range(R * M, R * M + 5)] = rough.diagonal
    whole += np.diag(damping * rough.scale[0] + ridge)
    v = rng.normal(size=(1, R * M + 5))
    assert_allclose(whole @ rough.inverse(damping, ridge)(v)[0], v[0])


def test_slopes_are_carried_back_through_all_layers():
    rng = np.random.default_rng(2)
    X, J = rng.uniform(-1, 1, (15, M)), rng.normal(size=(15, N, M))
    layers = (LayerBasis.of(dc.Monomial(2), R), LayerBasis.of(dc.Monomial(1), 3))
    problem = Problem.build(dc.Samples(X, J=J), layers)
    W, b, c = (tuple(rng.normal(size=(1, *shape)) for shape in shapes) for shapes in SHAPES_OF_TWO_LAYERS)
    theta = Parameters(W, b, c)
    chain = run_chain(problem.layers, theta, problem.X)
    rows, D = problem.rows(1.0), rng.normal(size=(1, 15, N, 3))
    slopes = np.stack([D[0, s] @ theta.W[1][0] @ np.diag(chain.a[0][0, s]) for s in range(15)])
    K = np.einsum("s,snr,snq->rq", rows.weights[:, 0] ** 2, slopes, slopes)
    assert_allclose(Preconditioner.of(rows, chain, theta, D, 50).K, K, rtol=1e-9)
