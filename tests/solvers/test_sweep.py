import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from benchmarks.problems import problem_of
from decouply.bases import LayerBasis
from decouply.model._units import Units
from decouply.solvers import Problem
from decouply.solvers.alternating._coefficient_updates import update_c_constr, update_c_proj, update_c_proj_weighted
from decouply.solvers.alternating._loop import draw_factors
from decouply.solvers.alternating._sweep import explicit_residual, sweep
from decouply.solvers.problem._prepared_samples import compressed_units
from tests.strategies import points, random_model, sampled

UPDATES = [update_c_proj, update_c_proj_weighted, update_c_constr]


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("dims", [(3, 2, 3), (3, 2, 3, 3), (2, 2, 2, 2, 2)], ids=str)
def test_the_true_factors_are_a_fixed_point(update, dims):
    system = random_model(list(dims), 2, degree=2)
    problem = problem_of(sampled(system), dims[1:-1], (2,) * (len(dims) - 2))
    state = draw_factors(problem, system, 1, np.random.default_rng(0))
    for _ in range(3):
        state = sweep(problem, state, 1e-2, update)
    assert state.residual_J[0] <= 1e-16 * problem.size_J
    assert state.residual_F[0] <= 1e-16 * problem.size_F


@pytest.mark.parametrize("update", UPDATES)
def test_residuals_are_those_of_the_model(update):
    system = dc.systems.f3()
    samples = sampled(system)
    problem = problem_of(samples, (2, 2), (2, 2))
    state = draw_factors(problem, dc.solvers.Normal(), 3, np.random.default_rng(0))
    for _ in range(4):
        state = sweep(problem, state, 1e-2, update)
    assert_allclose(state.residual_J, explicit_residual(problem, state), rtol=1e-9)
    for b in range(3):
        g = [
            dc.Functions(layer.bases, C[b], domain[b])
            for layer, C, domain in zip(problem.layers, state.C, state.domain, strict=True)
        ]
        model = problem.model([w[b] for w in state.W], g)
        assert np.sum((model.jacobian(samples.X) - samples.J) ** 2) == pytest.approx(state.residual_J[b], rel=1e-9)
        assert np.sum((model(samples.X) - samples.F) ** 2) == pytest.approx(state.residual_F[b], rel=1e-9)


def test_the_direct_coefficient_update_is_a_minimum_of_the_objective():
    """No other coefficients of the last layer, with the arguments u fixed, do better before W_L is updated."""
    samples = sampled(dc.systems.f2())
    problem = problem_of(samples, (2,), (3,))
    state = draw_factors(problem, dc.solvers.Normal(), 1, np.random.default_rng(0))
    seen = {}

    def spy(system, lam, smoother):
        seen["c"], seen["system"] = update_c_constr(system, lam, smoother), system
        return seen["c"]

    after = sweep(problem, state, 0.1, spy)
    W_L = state.W[-1][0]
    X, Y = (table[0] for table in seen["system"].with_constant())

    def objective(c):
        G, R = np.einsum("sre,re->sr", X, c), np.einsum("sre,re->sr", Y, c)
        J_hat = (W_L * G[:, None, :]) @ after.W[0][0]
        return np.sum((samples.J - J_hat) ** 2) + 0.1 * np.sum((samples.F - R @ W_L.T) ** 2)

    best = objective(seen["c"][0])
    rng = np.random.default_rng(1)
    for _ in range(20):
        assert objective(seen["c"][0] * (1 + 1e-3 * rng.normal(size=seen["c"][0].shape))) > best


@pytest.mark.parametrize("update", UPDATES)
def test_a_weight_of_two_is_a_sample_given_twice(update):
    samples = sampled(dc.systems.f2(), 30)
    weights = np.ones(30)
    weights[:5] = 2.0
    weighted = dc.Samples(samples.X, F=samples.F, J=samples.J, weights=weights)
    twice = samples.take([*range(30), *range(5)])
    states = []
    for data in (weighted, twice):
        problem = problem_of(data, (2, 2), (3, 3))
        state = draw_factors(problem, random_model([3, 2, 2, 3], 5), 1, np.random.default_rng(0))
        for _ in range(2):
            state = sweep(problem, state, 1e-2, update)
        states.append(state)
    for a, b in zip(states[0].W, states[1].W, strict=True):
        assert_allclose(a, b, rtol=1e-6, atol=1e-8 * np.abs(b).max())
    assert_allclose(states[0].residual_J, states[1].residual_J, rtol=1e-7)
    assert_allclose(states[0].residual_F, states[1].residual_F, rtol=1e-7)


@pytest.mark.parametrize("update", UPDATES)
def test_a_start_does_not_depend_on_how_many_there_are(update):
    problem = problem_of(sampled(dc.systems.f2()), (2, 2), (3, 3))
    one, many = (draw_factors(problem, dc.solvers.Uniform(), n, np.random.default_rng(3)) for n in (1, 9))
    for _ in range(5):
        one, many = (sweep(problem, state, 1e-6, update) for state in (one, many))
    assert_allclose(one.residual_J[0], many.residual_J[0], rtol=1e-6)


def test_inputs_are_compressed_without_loss():
    system = dc.systems.random_system((40, 3, 4), (3,), rng=0)
    X = points(40, 60)
    samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    problem = problem_of(samples, (3,), (3,))
    assert problem.X.shape == (60, 3)
    assert_allclose(problem.J @ problem.units.T.T, samples.J, atol=1e-9 * np.abs(samples.J).max())
    for p in (problem, problem.as_given()):
        state = draw_factors(p, system, 1, np.random.default_rng(0))
        state = sweep(p, state, 1e-2, update_c_constr)
        assert state.residual_J[0] <= 1e-16 * p.size_J
    result = dc.decouple(samples, 3, 3, progress=False)
    assert result.decoupling.n_inputs == 40 and result.error_jacobian < 1e-20


@pytest.mark.parametrize(("n_rows", "rank", "found"), [(100, 30, None), (100, 12, 12), (9, 9, 9), (200, 1, 1)])
def test_only_small_row_spaces_are_compressed(n_rows, rank, found):
    rng = np.random.default_rng(0)
    J = (rng.normal(size=(n_rows, rank)) @ rng.normal(size=(rank, 30)))[:, None, :]
    data = dc.Samples(np.zeros((n_rows, 30)), J=J).data
    units = compressed_units(data, Units.given(30, 1))
    assert (units.T.shape[1] if units.changes_inputs else None) == found


def test_bases_may_differ_within_a_layer():
    layers = (LayerBasis.of((dc.Monomial(2), dc.bases.Trigonometric(3)), 2), LayerBasis.of(dc.Chebyshev(3), 2))
    samples = sampled(dc.systems.f2())
    problem = Problem.build(samples, layers)
    for update in UPDATES:
        state = draw_factors(problem, dc.solvers.Normal(), 2, np.random.default_rng(0))
        for _ in range(5):
            state = sweep(problem, state, 1e-2, update)
        assert np.all(np.isfinite(state.residual_J))
        assert not np.any(state.C[0][:, 0, 3:])
