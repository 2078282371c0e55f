"""Starts that are read from the data: core coordinates, algebraic ParaTuck-2, relaxed tails and peeling."""

import math
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.bases import LayerBasis
from decouply.solvers import Problem
from decouply.solvers.initial._candidates import applicable_methods, candidate_inner_layers
from decouply.solvers.initial._multivariate_polynomials import Polynomials, n_products
from decouply.solvers.initial._parallel_gradients import functions_at_bottleneck
from decouply.solvers.initial._peeling import RelaxedTail
from decouply.solvers.initial._start_data import Budget, StartData
from decouply.solvers.initial._tensor_decompositions import decompose_paratuck2, samples_for_paratuck2
from decouply.solvers.least_squares._fitting_problem import Core
from decouply.solvers.least_squares._parameters import Parameters
from tests.strategies import points, sampled

FOREVER = Budget(math.inf, lambda _: None)


def layers_of(ranks, degrees):
    return tuple(LayerBasis.of(dc.Monomial(d), r) for r, d in zip(ranks, degrees, strict=True))


def directions(W):
    return W / np.linalg.norm(W, axis=1, keepdims=True)


# Core coordinates


def test_the_core_holds_everything_of_clean_data():
    system = dc.systems.random_system((5, 2, 3, 6), (3, 2), rng=0)
    problem = Problem.build(sampled(system, 40), layers_of((2, 3), (3, 2)), standard=False)
    rows = problem.rows(1.0)
    core = Core.of(rows, 2, 3)
    small = core.rows(rows)
    assert small.X.shape == (40, 2) and small.Y.shape == (40, 3, 3)
    assert np.linalg.norm(small.Y) == pytest.approx(np.linalg.norm(rows.Y), rel=1e-12)
    inner = Parameters((np.random.default_rng(0).normal(size=(1, 2, 2)),), (np.zeros((1, 2)),), ())
    assert_allclose(core.compress(core.expand(inner)).W[0], inner.W[0])
    assert_allclose(small.X @ inner.W[0][0].T, rows.X @ core.expand(inner).W[0][0].T)


def test_a_core_as_large_as_the_data_changes_nothing():
    problem = Problem.build(sampled(dc.systems.f2(), 20), layers_of((2, 2), (3, 3)), standard=False)
    rows = problem.rows(1.0)
    assert Core.of(rows, 3, 3) == Core(None, None) and Core(None, None).rows(rows).Y is rows.Y


# Algebraic ParaTuck-2


@pytest.mark.parametrize(("r1", "r2"), [(2, 2), (3, 2), (2, 4), (4, 4)])
def test_the_factors_of_a_generic_tensor_are_found_by_algebra(r1, r2):
    rng = np.random.default_rng(r1 + 10 * r2)
    S = samples_for_paratuck2(r1, r2)
    A, B, C = rng.normal(size=(r2, r2)), rng.normal(size=(r2, r1)), rng.normal(size=(r1, r1))
    g, h = rng.normal(size=(S, r2)), rng.normal(size=(S, r1))
    T = np.stack([A @ np.diag(g[s]) @ B @ np.diag(h[s]) @ C for s in range(S)])
    found = decompose_paratuck2(T, rng)
    again = np.stack([found.A @ np.diag(found.g[s]) @ found.B @ np.diag(found.h[s]) @ found.C for s in range(S)])
    assert_allclose(again, T, atol=1e-7 * np.abs(T).max())
    assert_allclose(np.abs(directions(found.C) @ directions(C).T).max(axis=1), 1.0, rtol=1e-6)
    assert_allclose(np.abs(directions(found.A.T) @ directions(A.T).T).max(axis=1), 1.0, rtol=1e-6)
    assert decompose_paratuck2(T[:-1], rng) is None


# Relaxed tails


def test_products_are_all_polynomials_up_to_a_total_degree():
    polynomials, z = Polynomials(2, 3), np.random.default_rng(0).uniform(-1, 1, (1, 2, 50))
    box = np.zeros((1, 2)), np.ones((1, 2))
    tables = polynomials.tables(z, box)
    values = polynomials.values(tables)[0]
    assert len(values) == n_products(2, 3) == 10
    x, y = z[0]
    for monomial in (x**3, x * y**2, y, np.ones(50)):
        assert np.linalg.lstsq(values.T, monomial, rcond=None)[1] < 1e-20
    step, slopes = 1e-6, polynomials.slopes(tables)[0]
    A = np.random.default_rng(1).normal(size=(1, 10, 2))
    bends = polynomials.bends(tables, A)[0]
    for k in range(2):
        move = step * np.eye(2)[k][None, :, None]
        high, low = (polynomials.tables(z + s * move, box) for s in (1, -1))
        expected = (polynomials.values(high) - polynomials.values(low))[0] / (2 * step)
        assert_allclose(slopes[:, k], expected, atol=1e-8)
        of_slopes = (polynomials.slopes(high) - polynomials.slopes(low))[0] / (2 * step)  # (p, r, S)
        assert_allclose(bends[k], np.einsum("pn,prs->rns", A[0], of_slopes), atol=1e-7)


@pytest.mark.parametrize("known", ["both", "values", "jacobians"])
def test_the_gradient_of_a_relaxed_cost_agrees_with_finite_differences(known):
    samples = sampled(dc.systems.random_system((3, 2, 2, 2), (3, 2), rng=1), 25)
    data = StartData(samples.X, None if known == "jacobians" else samples.F, None if known == "values" else samples.J)
    relaxed = RelaxedTail(data.rows(), layers_of((2,), (3,))[0], 2)
    rng = np.random.default_rng(0)
    W, b, c = (rng.normal(size=shape) for shape in ((2, 2, 3), (2, 2), (2, 2, 3)))
    theta = relaxed.rescale_to_window(Parameters((W,), (b,), (c,)), exactly=True)
    _, equations = relaxed.linearise(theta)
    for k in range(12):
        step = np.zeros((2, 12))
        step[:, k] = 1e-6
        plus, minus = (relaxed.linearise(relaxed.after_step(theta, s * step))[0] for s in (1, -1))
        expected = (plus - minus) / -4e-6
        assert_allclose(equations.g[:, k], expected, rtol=1e-4, atol=1e-6 * np.abs(equations.g).max())
    one = theta[:1]
    cost, precise = relaxed.linearise_precisely(one)
    assert_allclose(cost, relaxed.linearise(one)[0])
    assert_allclose(precise.Z[0] @ precise.residual[0], equations.g[0], atol=1e-9 * np.abs(equations.g).max())


def test_the_true_first_layer_leaves_nothing_of_the_data_and_its_tail_is_known():
    system = dc.systems.random_system((3, 2, 2, 3), (3, 2), rng=2)
    samples = sampled(system, 30)
    relaxed = RelaxedTail(StartData(samples.X, samples.F, samples.J).rows(), layers_of((2,), (3,))[0], 2)
    first = Parameters((system.W[0][None],), (np.zeros((1, 2)),), (system.g[0].C[None, :, 1:],))
    theta = relaxed.rescale_to_window(first, exactly=True)
    assert relaxed.linearise(theta)[0][0] < 1e-18
    z, h, slopes = relaxed.tail(theta, np.zeros((1, 2)))
    assert_allclose(h[:-1], samples.F, atol=1e-8 * np.abs(samples.F).max())
    middle = (relaxed.tail(theta, z[:1] + 1e-5)[1][-1] - relaxed.tail(theta, z[:1] - 1e-5)[1][-1]) / 2e-5
    assert_allclose(middle, slopes[0].sum(axis=1), rtol=1e-4, atol=1e-6 * np.abs(slopes).max())


# The way to the inner layers


@pytest.mark.parametrize(
    ("dims", "degrees", "jacobians", "expected"),
    [
        ((5, 4, 5), (3,), True, "CPD"),
        ((3, 2, 2, 3), (3, 3), True, "algebraic ParaTuck-2"),
        ((3, 2, 2, 3), (3, 3), False, "peeling"),
        ((8, 5, 5, 8), (2, 3), True, "parallel gradients"),
        ((3, 2, 2, 2, 3), (3, 2, 2), True, "parallel gradients"),
        ((4, 3, 3, 3, 4), (2, 2, 2), True, "parallel gradients"),
        ((3, 2, 3, 2, 3), (2, 3, 2), True, "parallel gradients"),  # and a search for two layers with (2, 3) functions
        ((4, 3, 2, 3, 4), (2, 2, 2), True, "bottleneck"),
    ],
)
def test_inner_layers_are_read_from_clean_data(dims, degrees, jacobians, expected):
    system = dc.systems.random_system(dims, degrees, rng=4)
    samples = sampled(system, 60)
    problem = Problem.build(dc.Samples(samples.X, F=samples.F, J=samples.J), layers_of(system.ranks, degrees))
    rows = problem.rows(1.0)
    data = StartData.of(Core.of(rows, dims[1], dims[-2]).rows(rows))
    data = data if jacobians else StartData(data.X, data.F, None)
    assert applicable_methods(data, problem.layers)[0] == expected
    inner = candidate_inner_layers(expected, data, problem.layers, np.random.default_rng(0), FOREVER)
    assert len(inner) == 1 and (len(inner.W), len(inner.c)) == (len(degrees), len(degrees) - 1)
    result = dc.decouple(
        samples if jacobians else dc.Samples(samples.X, F=samples.F), system.ranks, degrees, progress=False
    )
    assert result.found_by == expected and result.status is dc.solvers.Status.EXACT and len(result.starts) == 1
    assert f"by {expected}" in repr(result)


def test_there_is_no_way_where_bases_or_ranks_do_not_allow_one():
    X = points(2, 30)
    data = StartData(X, np.zeros((30, 2)), np.zeros((30, 2, 2)))
    tanh = tuple(LayerBasis.of(dc.bases.Tanh(), 2) for _ in range(3))
    assert applicable_methods(data, tanh) == []
    assert applicable_methods(data, layers_of((3,), (3,))) == []
    assert applicable_methods(StartData(X, data.F, None), layers_of((2,), (3,))) == []
    assert applicable_methods(data, layers_of((2, 2, 3), (2, 2, 2))) == ["peeling"]
    assert applicable_methods(data, layers_of((3, 2, 3), (2, 2, 2))) == []
    assert candidate_inner_layers("CPD", data, layers_of((2,), (3,)), np.random.default_rng(0), FOREVER) is None


def test_functions_at_a_bottleneck_are_those_of_the_layer_up_to_a_matrix():
    system = dc.systems.random_system((3, 3, 2, 3), (3, 2), rng=1)
    X, rng = points(3, 40), np.random.default_rng(0)
    v, _ = functions_at_bottleneck(X, system.jacobian(X), 2, 3, rng)
    u = np.insert(system.inner_inputs(X)[1], 0, 1.0, axis=1)
    assert_allclose(u @ np.linalg.lstsq(u, v)[0], v, atol=1e-9 * np.abs(v).max())
    step = 1e-5 * np.eye(3)[0]
    again = functions_at_bottleneck(
        np.vstack([X, X[:1] + step]), system.jacobian(np.vstack([X, X[:1] + step])), 2, 3, rng
    )
    assert_allclose((again[0][-1] - again[0][0]) / 1e-5, again[1][0, :, 0], rtol=1e-3, atol=1e-6)
    assert functions_at_bottleneck(X, rng.normal(size=(40, 3, 3)), 2, 3, rng) is None
    wider = dc.systems.random_system((3, 3, 3), (3,), rng=1)
    assert functions_at_bottleneck(X, wider.jacobian(X), 2, 3, rng) is None


# The same factors as a decomposition of its own


def tensor_by_definition(W, G):
    slices = []
    for s in range(len(G[0])):
        M = W[0]
        for g, w in zip(G, W[1:], strict=True):
            M = w @ np.diag(g[s]) @ M
        slices.append(M)
    return np.stack(slices)


@pytest.mark.parametrize(
    ("dims", "S", "name"),
    [((4, 3, 5), 20, "CPD"), ((4, 2, 3, 3), 40, "algebraic ParaTuck-2"), ((2, 3, 2), 8, "random start")],
)
def test_a_tensor_is_decomposed_without_functions(dims, S, name):
    rng = np.random.default_rng(1)
    W = [rng.normal(size=(after, before)) for before, after in pairwise(dims)]
    G = [rng.normal(size=(S, r)) for r in dims[1:-1]]
    J = tensor_by_definition(W, G)
    fit = dc.paratuck(J, dims[1:-1])
    found = tensor_by_definition(fit.paratuck.W, fit.paratuck.G)
    assert fit.error == pytest.approx(np.sum((J - found) ** 2) / np.sum(J**2), rel=1e-3, abs=1e-26)
    assert fit.error < 1e-6 and fit.found_by.startswith(name) and fit.found_by in repr(fit)


def test_algebra_alone_and_least_squares_alone_can_be_asked_for():
    rng = np.random.default_rng(4)
    W = [rng.normal(size=size) for size in ((2, 3), (2, 2), (3, 2))]
    J = tensor_by_definition(W, [rng.normal(size=(12, 2)) for _ in range(2)])
    algebra, als = (dc.paratuck(J, (2, 2), method=method, max_steps=3) for method in ("algebra", "als"))
    assert algebra.found_by == "algebraic ParaTuck-2" and algebra.n_steps == 0 and algebra.error < 1e-12
    assert als.found_by.startswith("random start") and als.n_steps == 3
    with pytest.raises(dc.InputError, match=r"9 slices.* Got ranks .2, 2. and 8 slices"):
        dc.paratuck(J[:8], (2, 2), method="algebra")
    with pytest.raises(dc.InputError, match='use method="als"'):
        dc.paratuck(J, (2, 2, 2), method="algebra")
    with pytest.raises(dc.InputError, match="`method` must be"):
        dc.paratuck(J, (2, 2), method="svd")


def test_three_layers_are_fitted_by_least_squares():
    rng = np.random.default_rng(2)
    J = rng.normal(size=(12, 3, 3))
    few, many = (dc.paratuck(J, (2, 2, 2), max_steps=steps, n_starts=3) for steps in (2, 60))
    assert many.error < few.error < 1.0 and many.n_steps > few.n_steps
    assert many.paratuck.ranks == (2, 2, 2)


def test_one_layer_is_as_good_as_the_cpd_of_tensorly():
    decomposition = pytest.importorskip("tensorly.decomposition")
    rng = np.random.default_rng(3)
    system = dc.systems.random_system((4, 3, 4), (3,), rng=5)
    J = system.jacobian(points(4, 25))
    J = J + 0.05 * J.std() * rng.normal(size=J.shape)
    ours = dc.paratuck(J, 3)
    theirs = dc.ParaTuck.from_cp(decomposition.parafac(J, 3, n_iter_max=2000, tol=1e-12, random_state=0))
    assert ours.error == pytest.approx(np.sum((J - theirs.to_tensor()) ** 2) / np.sum(J**2), rel=1e-3)


@pytest.mark.parametrize(
    ("J", "ranks", "message"),
    [
        (np.zeros((3, 2, 2)), 1, "`J` must not be 0"),
        (np.ones((3, 2, 2)), (), "`ranks` must be"),
        (np.ones(3), 1, "J"),
    ],
)
def test_wrong_tensors_and_ranks_are_refused(J, ranks, message):
    with pytest.raises(dc.InputError, match=message):
        dc.paratuck(J, ranks)
