"""The answer does not depend on units, places and axes of the data: x -> A x + b and f -> D f + e change nothing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.solvers import Problem
from decouply.solvers.problem._prepared_samples import PreparedSamples
from tests.strategies import points

SYSTEMS = {
    "f1": (dc.systems.f1(), 30),
    "f2": (dc.systems.f2(), 30),
    "one layer": (dc.systems.random_system((3, 2, 3), (3,), rng=1), 30),
}


def moved(samples, rng, *, by=0.0, sizes=0.0, rotate=False, outputs=False):
    """The same samples in other units; `by` in half-ranges, `sizes` in decades."""
    m, n = samples.n_inputs, samples.n_outputs
    A = np.diag(10.0 ** rng.uniform(-sizes, sizes, m))
    if rotate:
        A = np.linalg.qr(rng.normal(size=(m, m)))[0]
    d, e = (10.0 ** rng.uniform(-4, 4, n), rng.normal(size=n)) if outputs else (np.ones(n), np.zeros(n))
    b = by * np.diag(A) if not rotate else np.zeros(m)
    return dc.Samples(samples.X @ A.T + b, F=(samples.F + e) * d, J=d[:, None] * (samples.J @ np.linalg.inv(A)))


CHANGES = [
    {"by": 3.0},
    {"by": 1e3},
    {"by": 1e6},
    {"sizes": 6.0},
    {"rotate": True},
    {"outputs": True},
    {"by": 30.0, "sizes": 6.0, "outputs": True},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("name", SYSTEMS)
def test_varpro_recovers_what_it_recovers_in_other_units(name, change):
    system, S = SYSTEMS[name]
    X = points(system.n_inputs, S)
    plain = dc.Samples(X, F=system(X), J=system.jacobian(X))
    other = moved(plain, np.random.default_rng(2), **change)
    found = [dc.decouple(s, system.ranks, system.degrees, rng=1, progress=False) for s in (plain, other)]
    # Inputs of 1e6 half-ranges are known to 1e-10 of their range.
    limit = (30.0 * max(change.get("by", 0.0), 1.0) * 2.3e-16) ** 2 * 1e4 + 1e-20
    for result in found:
        assert result.status is dc.solvers.Status.EXACT
        assert result.error_jacobian < limit
    # The path is the same: the same starts, the same number of steps.
    assert len(found[0].starts) == len(found[1].starts)
    values = found[0].relative_rmse(), found[1].relative_rmse()
    assert np.max(values) < 100 * np.sqrt(limit) * 10


def fit_of_f1(samples):
    system, solver = dc.systems.f1(), dc.VarPro(polish_steps=500)
    return dc.decouple(samples, system.ranks, system.degrees, solver=solver, rng=1, n_starts=32, progress=False)


@pytest.fixture(scope="module")
def noisy_fit():
    system, rng, X = dc.systems.f1(), np.random.default_rng(0), points(2, 40)
    F, J = system(X), system.jacobian(X)
    return fit_of_f1(dc.Samples(X, F=F + 1e-2 * rng.normal(size=F.shape), J=J + 1e-2 * rng.normal(size=J.shape)))


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"by": 30.0}, {"sizes": 6.0}, {"rotate": True}, {"outputs": True}], ids=str)
def test_with_noise_too_the_same_function_is_found(change, noisy_fit):
    other = fit_of_f1(moved(noisy_fit.samples, np.random.default_rng(2), **change))
    assert_allclose(noisy_fit.relative_rmse(), other.relative_rmse(), rtol=1e-4)


@pytest.mark.parametrize(
    "solver",
    [dc.Proj(stopping=dc.solvers.Stopping(max_steps=20)), dc.Constr(stopping=dc.solvers.Stopping(max_steps=20))],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize("change", [{"by": 30.0}, {"sizes": 6.0}, {"outputs": True}], ids=str)
def test_alternating_solvers_take_the_same_path(solver, change):
    system = dc.systems.f2()
    X = points(3, 40)
    plain = dc.Samples(X, F=system(X), J=system.jacobian(X))
    other = moved(plain, np.random.default_rng(3), **change)
    first, second = (
        dc.decouple(s, (2, 2), (3, 3), solver=solver, n_starts=2, rng=0, progress=False) for s in (plain, other)
    )
    assert_allclose(first.history.objective, second.history.objective, rtol=1e-4)


def test_standard_inputs_are_white_and_standard_outputs_have_unit_spread():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4)) + 100.0
    F = np.stack([X @ rng.normal(size=4), 1e6 * np.sin(X[:, 0])], axis=1)
    samples = dc.Samples(X, F=F)
    units = PreparedSamples.of(samples).full_units
    standard = units.points(X)
    assert_allclose(np.cov(standard.T, bias=True), np.eye(4), atol=1e-8)
    assert_allclose(units.values(F).std(axis=0), 1.0)
    assert_allclose(units.T @ units.back, np.eye(4), atol=1e-9)


def test_inputs_that_do_not_vary_or_move_together_are_scaled_one_by_one():
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    for X in (np.stack([x, np.full(50, 7.0)], axis=1), np.stack([x, 2 * x], axis=1)):
        J = rng.normal(size=(50, 1, 2))
        problem = Problem.build(dc.Samples(X, J=J), ())
        back = problem.J @ problem.units.T.T * problem.units.y_scale[:, None]
        assert_allclose(back, J, atol=1e-9)


def test_models_go_to_standard_units_and_back():
    rng = np.random.default_rng(0)
    X = rng.uniform(3.0, 9.0, (60, 3))
    system = dc.systems.random_system((3, 2, 2, 3), (3, 2), rng=4)
    model = dc.Decoupling(system.W, system.g, linear=rng.normal(size=(3, 3)), offset=rng.normal(size=3))
    units = PreparedSamples.of(dc.Samples(X, F=model(X), J=model.jacobian(X))).units
    standard = units.to_standard(model)
    assert_allclose(standard(units.points(X)), units.values(model(X)), atol=1e-10)
    assert_allclose(units.to_given(standard)(X), model(X), rtol=1e-10)


@pytest.mark.parametrize("interval", [(-1.0, 1.0), (0.0, 1.0), (300.0, 302.0)], ids=str)
def test_high_degrees_are_fitted_wherever_the_inputs_lie(interval):
    t = np.random.default_rng(0).uniform(-1, 1, (100, 1))
    x = (t + 1) / 2 * (interval[1] - interval[0]) + interval[0]
    samples = dc.Samples(x, F=np.sin(3 * t) + np.exp(t))
    for basis, limit in ((dc.Monomial(20), 1e-16), (dc.Chebyshev(20), 1e-24)):
        assert dc.decouple(samples, 1, basis=basis, progress=False).error_values < limit
    assert dc.decouple(samples, 1, basis=dc.Chebyshev(60), progress=False).error_values < 1e-24


@pytest.mark.parametrize("seed", [0, 13, 16])
@pytest.mark.parametrize("basis", [dc.bases.Tanh(), dc.bases.Trigonometric(3)], ids=repr)
def test_inner_constants_are_not_lost_where_the_basis_cannot_absorb_them(basis, seed):
    rng = np.random.default_rng(seed)
    g = [dc.Functions(basis, rng.normal(size=(2, 1 + basis.size))) for _ in range(2)]
    truth = dc.Decoupling(rng.normal(size=(3, 2, 2)), g)
    X = np.random.default_rng(100 + seed).uniform(-1, 1, (100, 2))
    result = dc.decouple(dc.Samples(X, F=truth(X), J=truth.jacobian(X)), (2, 2), basis=basis, rng=0, progress=False)
    assert result.status is dc.solvers.Status.EXACT and result.error_jacobian < 1e-18


@pytest.mark.parametrize("seed", range(5))
def test_a_linear_part_is_found_beside_cubics(seed):
    rng = np.random.default_rng(seed)
    system = dc.systems.random_system((4, 2, 3), (3,), rng=seed)
    A = rng.normal(size=(3, 4))
    X = points(4, 40)
    samples = dc.Samples(X, F=system(X) + X @ A.T, J=system.jacobian(X) + A)
    result = dc.decouple(samples, 2, 3, linear=True, rng=seed, progress=False)
    assert result.error_jacobian < 1e-20 and result.error_values < 1e-20
    model = result.decoupling
    # Net of their trends, the functions have no slope on average, and A has all of it.
    assert_allclose(model.g[0].slopes(model.arguments(X)[0]).mean(axis=0), 0.0, atol=1e-10)
    assert model.n_parameters == 4 * 2 + 2 * 3 + 2 * 3 + 12 + (2 if model.offset is None else 3)
    without = dc.decouple(samples, 2, 3, rng=seed, n_starts=8, progress=False)
    assert without.error_jacobian > 1e-6
    assert result.identifiability.locally_unique


def test_a_linear_part_is_recovered_in_thirty_of_thirty_data_sets():
    met = 0
    for seed in range(100, 130):
        rng = np.random.default_rng(seed)
        system = dc.systems.random_system((3, 2, 3), (3,), rng=seed).with_parts(linear=rng.normal(size=(3, 3)))
        X = rng.uniform(-1, 1, (40, 3))
        samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
        found = dc.decouple(samples, 2, 3, linear=True, rng=seed, progress=False)
        met += found.error_jacobian < 1e-20 and found.error_values < 1e-20
    assert met == 30


@pytest.mark.parametrize("solver", [dc.Proj(), dc.Constr(), dc.Zniyed()], ids=lambda s: type(s).__name__)
def test_alternating_solvers_have_a_linear_part_too(solver):
    system, A = dc.systems.random_system((4, 2, 3), (3,), rng=1), np.random.default_rng(1).normal(size=(3, 4))
    X = points(4, 60)
    samples = dc.Samples(X, F=system(X) + X @ A.T, J=system.jacobian(X) + A)
    errors = [
        dc.decouple(samples, 2, 3, linear=linear, solver=solver, n_starts=4, progress=False).error_jacobian
        for linear in (True, False)
    ]
    assert errors[0] < 0.2 * errors[1]
