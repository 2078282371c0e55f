"""Closed-form derivatives against finite differences, for any basis and any number of layers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decoupling as dc
from decoupling.bases import LayerBasis
from decoupling.solvers import Problem
from decoupling.solvers._chain import adjoint, directional, flatten, run_chain, unflatten
from decoupling.solvers._parameters import blank_parameters
from decoupling.solvers._residuals import Complete, Eliminated, Rows, unit_scales
from tests.strategies import sampled

CASES = [
    ((3, 2, 3), [dc.Monomial(3)]),
    ((3, 2, 3, 2), [dc.Monomial(3), dc.Chebyshev(2)]),
    ((2, 3, 2, 2, 3), [dc.Bernstein(2), dc.Trigonometric(3), dc.Monomial(2)]),
]
KNOWN = ["both", "values", "jacobians"]


def setting(dims, bases, known="both", weights=False):
    samples = sampled(dc.systems.random_system(dims, (2,) * (len(dims) - 2), rng=1), 15)
    samples = dc.Samples(
        samples.X,
        F=None if known == "jacobians" else samples.F,
        J=None if known == "values" else samples.J,
        weights=np.linspace(0.5, 2.0, 15) if weights else None,
    )
    layers = tuple(LayerBasis.of(b, r) for b, r in zip(bases, dims[1:-1], strict=True))
    problem = Problem.build(samples, layers)
    rng = np.random.default_rng(0)
    theta = [rng.normal(size=(3, *p.shape[1:])) for p in blank_parameters(problem)]
    return problem, theta


@pytest.mark.parametrize(("dims", "bases"), CASES, ids=str)
@pytest.mark.parametrize("known", KNOWN)
def test_derivatives_of_all_rows_agree_with_finite_differences(dims, bases, known):
    problem, theta = setting(dims, bases, known, weights=True)
    complete = Complete(Rows.of(problem, 0.3), problem.layers)

    def residual(flat):
        parts = unflatten(flat, theta)
        return complete.residual(parts, run_chain(problem.layers, parts[:-2], problem.X))

    flat = flatten(theta)
    Z = complete.derivatives(theta, run_chain(problem.layers, theta[:-2], problem.X), slice(None))
    for k in range(flat.shape[1]):
        h = np.zeros_like(flat)
        h[:, k] = 1e-6
        expected = (residual(flat + h) - residual(flat - h)) / -2e-6
        assert_allclose(Z[..., k], expected, atol=1e-6 * (1 + np.abs(expected).max()))


@pytest.mark.parametrize(("dims", "bases"), CASES, ids=str)
@pytest.mark.parametrize("known", KNOWN)
def test_the_gradient_after_elimination_is_that_of_the_cost(dims, bases, known):
    """Kaufman's approximation drops a part of the Jacobian that is orthogonal to the residual: gradients are exact."""
    problem, theta = setting(dims, bases, known)
    theta = theta[:-2]
    reduced = Eliminated(Rows.of(problem, 0.3), problem.layers)
    flat = flatten(theta)
    _, linear = reduced.linearise(theta)
    for k in range(0, flat.shape[1], 3):
        h = np.zeros_like(flat)
        h[:, k] = 1e-5
        plus, minus = (reduced.linearise(unflatten(flat + s * h, theta))[0] for s in (1, -1))
        expected = (plus - minus) / -4e-5  # the gradient of half the cost, downhill
        assert_allclose(linear.g[:, k], expected, rtol=1e-3, atol=1e-5 * np.abs(linear.g).max())


@pytest.mark.parametrize(("dims", "bases"), CASES, ids=str)
def test_adjoint_is_the_transpose_of_directional(dims, bases):
    problem, theta = setting(dims, bases)
    theta = theta[:-2]
    chain = run_chain(problem.layers, theta, problem.X)
    rng = np.random.default_rng(1)
    direction = [rng.normal(size=t.shape) for t in theta]
    du, dV = directional(chain, theta, direction)
    u_bar, V_bar = rng.normal(size=du.shape), rng.normal(size=dV.shape)
    left = np.sum(u_bar * du, axis=(1, 2)) + np.sum(V_bar * dV, axis=(1, 2, 3))
    right = np.sum(flatten(adjoint(chain, theta, u_bar, V_bar)) * flatten(direction), axis=1)
    assert_allclose(left, right, rtol=1e-9)


@pytest.mark.parametrize("kind", [Eliminated, Complete])
@pytest.mark.parametrize("known", KNOWN)
def test_the_matrix_free_equations_are_the_dense_ones(kind, known, monkeypatch):
    problem, theta = setting((3, 2, 3, 2), [dc.Monomial(3), dc.Chebyshev(2)], known)
    theta = [t[:1] for t in (theta[:-2] if kind is Eliminated else theta)]
    residuals = kind(Rows.of(problem, 0.3), problem.layers, ridge=1e-3)
    cost, dense = residuals.linearise(theta)
    monkeypatch.setattr("decoupling.solvers._residuals._DENSE_UP_TO", 0)
    same_cost, free = residuals.linearise(theta)
    assert_allclose(cost, same_cost)
    assert_allclose(free.g, dense.g, rtol=1e-7, atol=1e-9 * np.abs(dense.g).max())
    v = np.random.default_rng(2).normal(size=free.g.shape)
    product = free.backward(free.forward(v)) + 1e-3 * v
    assert_allclose(product, (dense.M @ v[..., None])[..., 0], rtol=1e-6, atol=1e-7 * np.abs(product).max())
    assert np.isfinite(free.step(np.array([1e-2]))[0]).all()


def test_unit_scales_keep_the_model():
    problem, theta = setting((3, 2, 3, 2), [dc.Monomial(3), dc.Chebyshev(2)])
    complete = Complete(Rows.of(problem, 1.0), problem.layers)
    normal = complete.normalise(theta)
    for t in (theta, normal):
        assert len(t) == 5
    assert_allclose(complete.linearise(normal)[0], complete.linearise(theta)[0], rtol=1e-8)
    inner = unit_scales(problem.X, problem.layers, theta[:-2])
    for u in run_chain(problem.layers, inner, problem.X).u:
        assert_allclose(np.abs(u).max(axis=1), 1.0, rtol=1e-9)
    reduced = Eliminated(Rows.of(problem, 1.0), problem.layers)
    assert_allclose(reduced.linearise(inner)[0], reduced.linearise(theta[:-2])[0], rtol=1e-6)


def test_memory_is_bounded_by_working_on_some_samples_at_a_time(monkeypatch):
    problem, theta = setting((3, 2, 3, 2), [dc.Monomial(3), dc.Chebyshev(2)])
    for kind, parameters in ((Eliminated, theta[:-2]), (Complete, theta)):
        residuals = kind(Rows.of(problem, 0.3), problem.layers)
        whole = residuals.linearise(parameters)[1]
        with monkeypatch.context() as patch:
            patch.setattr("decoupling.solvers._residuals._CHUNK_ENTRIES", 1)
            parts = residuals.linearise(parameters)[1]
        assert_allclose(parts.M, whole.M, rtol=1e-9, atol=1e-9 * np.abs(whole.M).max())
        assert_allclose(parts.g, whole.g, rtol=1e-9, atol=1e-9 * np.abs(whole.g).max())
