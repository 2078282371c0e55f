"""Closed-form derivatives against finite differences, for any basis and any number of layers."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.bases import LayerBasis
from decouply.solvers import Problem
from decouply.solvers.least_squares._derivatives import adjoint, dense_derivatives, directional_derivative, run_chain
from decouply.solvers.least_squares._parameters import Unknowns, blank_parameters, rescale_to_window
from decouply.solvers.least_squares._variable_projection import Complete, Eliminated
from tests.strategies import sampled

CASES = [
    ((3, 2, 3), [dc.Monomial(3)]),
    ((3, 2, 3, 2), [dc.Monomial(3), dc.Chebyshev(2)]),
    ((2, 3, 2, 2, 3), [dc.bases.Bernstein(2), dc.bases.Trigonometric(3), dc.Monomial(2)]),
    ((3, 2, 2, 2), [dc.bases.Tanh(), dc.bases.Tanh()]),
]
KNOWN = ["both", "values", "jacobians"]


def setting(dims, bases, known="both", weights=False, linear=False):
    samples = sampled(dc.systems.random_system(dims, (2,) * (len(dims) - 2), rng=1), 15)
    samples = dc.Samples(
        samples.X,
        F=None if known == "jacobians" else samples.F,
        J=None if known == "values" else samples.J,
        weights=np.linspace(0.5, 2.0, 15) if weights else None,
    )
    layers = tuple(LayerBasis.of(b, r) for b, r in zip(bases, dims[1:-1], strict=True))
    problem = Problem.build(samples, layers, linear=linear)
    rng = np.random.default_rng(0)
    theta = blank_parameters(problem, 3)
    for l, W in enumerate(theta.W):
        if l == len(layers):
            W[:] = rng.normal(size=W.shape)
            break
        drawn = rng.normal(size=(*W.shape[:2], W.shape[2] + 1))
        W[:], theta.b[l][:], theta.c[l][:] = drawn[..., :-1], drawn[..., -1], rng.normal(size=theta.c[l].shape)
    if theta.A is not None:
        theta.A[:] = rng.normal(size=theta.A.shape)
    return problem, theta


@pytest.mark.parametrize(("dims", "bases"), CASES, ids=str)
@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("linear", [False, True])
def test_derivatives_of_all_rows_agree_with_finite_differences(dims, bases, known, linear):
    problem, theta = setting(dims, bases, known, weights=True, linear=linear)
    complete = Complete(problem.rows(0.3), problem.layers, linear)

    def residual(step):
        parts = complete.unknowns.after_step(theta, step)
        return complete.residual(parts, run_chain(problem.layers, parts.inner, problem.X))

    Z = complete.derivatives(theta, run_chain(problem.layers, theta.inner, problem.X), slice(None))
    Z = Z.transpose(0, 4, 3, 2, 1)  # (B, S, q, n, N)
    for k in range(complete.unknowns.count(theta)):
        h = np.zeros((3, complete.unknowns.count(theta)))
        h[:, k] = 1e-6
        expected = (residual(h) - residual(-h)) / -2e-6
        assert_allclose(Z[..., k], expected, atol=1e-6 * (1 + np.abs(expected).max()))


@pytest.mark.parametrize(("dims", "bases"), CASES, ids=str)
@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("linear", [False, True])
def test_the_gradient_after_elimination_is_that_of_the_cost(dims, bases, known, linear):
    """Kaufman's approximation drops a part of the Jacobian that is orthogonal to the residual: gradients are exact."""
    problem, theta = setting(dims, bases, known, linear=linear)
    theta = theta.inner
    reduced = Eliminated(problem.rows(0.3), problem.layers, linear)
    _, equations = reduced.linearise(theta)
    for k in range(0, reduced.unknowns.count(theta), 3):
        h = np.zeros((3, reduced.unknowns.count(theta)))
        h[:, k] = 1e-5
        plus, minus = (reduced.linearise(reduced.unknowns.after_step(theta, s * h))[0] for s in (1, -1))
        expected = (plus - minus) / -4e-5  # the gradient of half the cost, downhill
        assert_allclose(equations.g[:, k], expected, rtol=1e-3, atol=1e-5 * np.abs(equations.g).max())


@pytest.mark.parametrize(("dims", "bases"), CASES, ids=str)
def test_adjoint_is_the_transpose_of_directional(dims, bases):
    problem, theta = setting(dims, bases)
    theta = theta.inner
    chain = run_chain(problem.layers, theta, problem.X)
    rng = np.random.default_rng(1)
    direction = theta.map(lambda p: rng.normal(size=p.shape))
    dt, dV = directional_derivative(chain, theta, direction)
    t_bar, V_bar = rng.normal(size=dt.shape), rng.normal(size=dV.shape)
    left = np.sum(t_bar * dt, axis=(1, 2)) + np.sum(V_bar * dV, axis=(1, 2, 3))
    gradient = adjoint(chain, theta, t_bar, V_bar)
    pairs = zip(gradient.arrays(), direction.arrays(), strict=True)
    right = sum(np.sum(g * d, axis=tuple(range(1, g.ndim))) for g, d in pairs)
    assert_allclose(left, right, rtol=1e-9)


@pytest.mark.parametrize("kind", [Eliminated, Complete])
@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize(
    "bases", [[dc.Monomial(3), dc.Chebyshev(2)], [dc.bases.Trigonometric(3), dc.Monomial(2)]], ids=str
)
def test_the_matrix_free_equations_are_the_dense_ones(kind, known, linear, bases, monkeypatch):
    problem, theta = setting((3, 2, 3, 2), bases, known, linear=linear)
    theta = (theta.inner if kind is Eliminated else theta)[:1]
    residuals = kind(problem.rows(0.3), problem.layers, linear, ridge=1e-3)
    cost, dense = residuals.linearise(theta)
    monkeypatch.setattr("decouply.solvers.problem._weighted_rows._MAX_DENSE_UNKNOWNS", 0)
    same_cost, free = residuals.linearise(theta)
    assert_allclose(cost, same_cost)
    assert_allclose(free.g, dense.g, rtol=1e-7, atol=1e-9 * np.abs(dense.g).max())
    v = np.random.default_rng(2).normal(size=free.g.shape)
    product = free.backward(free.forward(v)) + 1e-3 * v
    assert_allclose(product, (dense.M @ v[..., None])[..., 0], rtol=1e-6, atol=1e-7 * np.abs(product).max())
    assert np.isfinite(free.step(np.array([1e-2]))[0]).all()


@pytest.mark.parametrize("exactly", [False, True])
def test_arguments_are_brought_onto_the_window_without_changing_the_model(exactly):
    bases = [dc.Monomial(3), dc.bases.Trigonometric(2), dc.Chebyshev(2)]
    problem, theta = setting((3, 2, 3, 2, 2), bases)
    complete = Complete(problem.rows(1.0), problem.layers, linear=False)
    moved = rescale_to_window(problem.X, problem.layers, theta, exactly=exactly)
    assert_allclose(complete.linearise(moved)[0], complete.linearise(theta)[0], rtol=1e-8)
    chain = run_chain(problem.layers, moved.inner, problem.X)
    if exactly:
        for l in (0, 2):
            assert_allclose(chain.t[l].max(axis=1), 1.0, rtol=1e-9)
            assert_allclose(chain.t[l].min(axis=1), -1.0, rtol=1e-9)
    else:
        assert all(np.abs(chain.t[l]).max() <= 1.05 + 1e-9 for l in (0, 2))
    reduced = Eliminated(problem.rows(1.0), problem.layers, linear=False)
    before = rescale_to_window(problem.X, problem.layers, theta.inner, exactly=exactly)
    assert_allclose(reduced.linearise(before)[0], reduced.linearise(theta.inner)[0], rtol=1e-6)


def test_unknowns_leave_out_the_places_of_domains_that_follow_the_samples():
    problem, theta = setting((3, 2, 3, 2), [dc.Monomial(3), dc.bases.Trigonometric(3)])
    unknowns = Unknowns.of(problem.layers)
    flat, k = unknowns.flatten(theta), problem.dims[0]
    assert flat.shape[1] == unknowns.count(theta) == k * 2 + 2 * 3 + 2 * 3 + 3 + 3 * 4 + 3 * 2
    back = unknowns.split(flat, theta)
    assert not back.b[0].any() and np.array_equal(back.b[1], theta.b[1])
    assert all(np.array_equal(own, other) for own, other in zip(back.W, theta.W, strict=True))
    assert np.array_equal(unknowns.flatten(unknowns.after_step(theta, flat)), 2 * flat)


def test_memory_is_bounded_by_working_on_some_samples_at_a_time():
    problem, theta = setting((3, 2, 3, 2), [dc.Monomial(3), dc.Chebyshev(2)])
    for kind, parameters in ((Eliminated, theta.inner), (Complete, theta)):
        residuals = kind(problem.rows(0.3), problem.layers, linear=False)
        whole = residuals.linearise(parameters)[1]
        one_by_one = dataclasses.replace(residuals, rows=dataclasses.replace(residuals.rows, max_derivatives=1))
        parts = one_by_one.linearise(parameters)[1]
        assert_allclose(parts.M, whole.M, rtol=1e-9, atol=1e-9 * np.abs(whole.M).max())
        assert_allclose(parts.g, whole.g, rtol=1e-9, atol=1e-9 * np.abs(whole.g).max())


@pytest.mark.parametrize(("dims", "bases"), CASES, ids=str)
@pytest.mark.parametrize("known", KNOWN)
def test_derivatives_with_samples_last_are_those_along_single_parameters(dims, bases, known):
    problem, theta = setting(dims, bases, known)
    theta, rng = theta.inner, np.random.default_rng(3)
    chain, unknowns = run_chain(problem.layers, theta, problem.X), Unknowns.of(problem.layers)
    D, E = rng.normal(size=(2, 3, problem.X.shape[0], dims[-1], dims[-2]))
    values, jacobians = known != "jacobians", known != "values"
    last = [np.moveaxis(table, 1, -1) for table in (D, E)]
    Z = dense_derivatives(chain, theta, unknowns, *last, values=values, jacobians=jacobians)
    for k in range(unknowns.count(theta)):
        dt, dV = directional_derivative(chain, theta, unknowns.split(np.eye(1, Z.shape[1], k).repeat(3, axis=0), theta))
        of_F = np.einsum("bsnr,bsr->bns", D, dt)[:, :, None]
        of_J = np.moveaxis((E * dt[:, :, None]) @ chain.V[-1] + D @ dV, 1, -1)
        expected = np.concatenate([of_F] * values + [of_J] * jacobians, axis=2)
        assert_allclose(Z[:, k], expected, rtol=1e-12, atol=1e-12 * (1 + np.abs(expected).max()))
