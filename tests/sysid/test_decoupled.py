"""Decoupled NARX models: the same interface, far fewer parameters, and refinement on simulation."""

import numpy as np
import pytest

import decoupling as dc
from decoupling.sysid._sensitivity import parameters, sensitivities, value_derivatives, with_parameters

from .systems import coupled, duffing


@pytest.fixture(scope="module")
def pair():
    narx = dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(*duffing())
    return narx, narx.decouple(2, n_samples=100, n_starts=8, rng=1, progress=False)


def test_a_decoupled_model_predicts_and_simulates_like_the_polynomial(pair):
    narx, decoupled = pair
    u, y = duffing(seed=3)
    assert decoupled.n_parameters == decoupled.decoupling.n_parameters == 18 < narx.n_parameters
    assert np.allclose(decoupled.predict_one_step(u, y), y, atol=1e-5)
    assert np.allclose(decoupled.simulate(u, y[:2]), y, atol=1e-4)
    X = narx.regressors(u, y)
    assert np.allclose(decoupled.jacobian(X), narx.jacobian(X), atol=1e-3)
    assert "y(t-2)" in decoupled.formula() and decoupled.formula().splitlines()[-1].startswith("y(t) = ")
    assert {"u(t)", "y(t-2)", "y(t)"} <= {text.get_text() for text in decoupled.plot().axes[0].texts}
    assert decoupled.result.samples.n_samples == 100


def test_offsets_and_units_do_not_change_the_decoupling():
    u, y = coupled()
    narx = dc.sysid.PolynomialNARX(1, 1, 2).fit(u, y)
    u_, y_ = u * [100.0, 1.0], y * [1.0, 1000.0] + [1e6, 40.0]
    scaled = dc.sysid.PolynomialNARX(1, 1, 2).fit(u_, y_)
    one = narx.decouple((4,), n_samples=150, n_starts=8, progress=False)
    two = scaled.decouple((4,), n_samples=150, n_starts=8, progress=False)
    again = (two.predict_one_step(u_, y_) - [1e6, 40.0]) / [1.0, 1000.0]
    assert np.allclose(one.predict_one_step(u, y), again, atol=1e-5)
    assert np.allclose(one.simulate(u, y[:1]), (two.simulate(u_, y_[:1]) - [1e6, 40.0]) / [1.0, 1000.0], atol=1e-4)
    X = narx.regressors(u, y)
    assert np.allclose(one.decoupling(X), one(X), atol=1e-9) and np.allclose(
        one.decoupling.jacobian(X), one.jacobian(X)
    )


@pytest.mark.parametrize("solver", [dc.TwoStage(dc.Constr()), dc.TwoStage(dc.Proj()), dc.Hollander()])
def test_every_solver_can_decouple_a_narx_model(pair, solver):
    narx, _ = pair
    decoupled = narx.decouple(2, 3, solver=solver, n_samples=60, scale=False, progress=False)
    assert np.isfinite(decoupled.simulate(*_short())).all()


def _short():
    u, y = duffing(n=100, seed=5)
    return u, y[:2]


def test_two_layers_and_other_bases(pair):
    narx, _ = pair
    deep = narx.decouple((2, 2), (3, 1), n_samples=80, solver=dc.VarPro(max_seconds=5), progress=False)
    assert deep.decoupling.n_layers == 2
    waves = narx.decouple(2, 4, basis=dc.Trigonometric, n_samples=80, solver=dc.VarPro(max_seconds=5), progress=False)
    u, y = duffing(n=200, seed=5)
    run = waves.simulate(u, y[:2])
    slow = y[:2].tolist()
    for t in range(2, 200):
        slow.append(float(waves([[u[t], u[t - 1], slow[t - 1], slow[t - 2]]])[0, 0]))
    assert np.allclose(run, slow, atol=1e-9)


def test_a_basis_of_ones_own_can_be_simulated():
    class Arctan(dc.AbstractBasis):
        size = property(lambda self: 2)
        scale_invariant = property(lambda self: False)

        def evaluate(self, u):
            return np.stack([u, np.arctan(u)], -1)

        def derivative(self, u):
            return np.stack([np.ones_like(u), 1 / (1 + u**2)], -1)

        def second_derivative(self, u):
            return np.stack([np.zeros_like(u), -2 * u / (1 + u**2) ** 2], -1)

    narx = dc.sysid.PolynomialNARX(1, 2, 3).fit(*duffing(n=400))
    solver = dc.VarPro(max_seconds=2)
    own = narx.decouple(2, basis=Arctan(), scale=False, n_samples=60, solver=solver, progress=False)
    assert np.isfinite(own.simulate(*_short())).all()
    with pytest.raises(dc.InputError, match="polynomial or trigonometric"):
        own.formula()


def test_bases_that_cannot_be_shifted_are_scaled_only(pair):
    narx, _ = pair
    odd = narx.decouple(2, basis=dc.Trigonometric, n_samples=60, solver=dc.VarPro(max_seconds=2), progress=False)
    X = narx.regressors(*duffing(n=50))
    assert np.allclose(odd.decoupling(X), odd(X))


def test_fewer_functions_than_outputs():
    u, y = coupled()
    narx = dc.sysid.PolynomialNARX(1, 1, 2).fit(u, y)
    one = narx.decouple(1, n_samples=50, n_starts=4, progress=False)
    X = narx.regressors(u, y)
    assert np.allclose(one.decoupling(X), one(X))


def test_parts_that_are_fixed_stay_fixed(pair):
    narx, _ = pair
    u, y = noisy(0, n=400)
    W0 = np.array([[0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]])
    solver = dc.VarPro(fixed={"W0": W0}, max_seconds=5)
    held = narx.decouple(2, 3, solver=solver, scale=False, n_samples=60, n_starts=4, progress=False)
    refined = held.refine(u, y, max_steps=3, progress=False)
    assert np.array_equal(held.decoupling.W[0], W0) and np.array_equal(refined.decoupling.W[0], W0)
    assert refined.refinement[-1].training < refined.refinement[0].training
    with pytest.raises(dc.InputError, match="`scale` must be False"):
        narx.decouple(2, 3, solver=solver)


# Refinement


@pytest.mark.parametrize("dims", [(5, 3, 1), (6, 3, 2, 2)])
def test_value_derivatives_match_differences(dims):
    model = dc.systems.random_system(dims, (3,) * (len(dims) - 2), rng=2).without_inner_constants()
    X = np.random.default_rng(0).uniform(-1, 1, (7, dims[0]))
    theta = parameters(model)
    assert np.array_equal(parameters(with_parameters(model, theta)), theta)
    exact = value_derivatives(model, X)
    for p in range(len(theta)):
        h = 1e-6 * (np.arange(len(theta)) == p)
        difference = (with_parameters(model, theta + h)(X) - with_parameters(model, theta - h)(X)) / 2e-6
        assert np.allclose(exact[:, :, p], difference, atol=1e-6 * max(1.0, np.abs(exact).max()))


@pytest.mark.parametrize("record", ["one", "two"])
def test_sensitivities_of_a_free_run_match_differences(record):
    u, y = duffing(n=80) if record == "one" else coupled(n=80)
    fit = duffing() if record == "one" else coupled()
    narx = dc.sysid.PolynomialNARX(1, 2 if record == "one" else 1, 2).fit(*fit)
    decoupled = narx.decouple(2, n_samples=60, progress=False, solver=dc.VarPro(max_seconds=2))
    k, lags = narx.lags.longest, narx.lags
    model, theta = decoupled.decoupling, parameters(decoupled.decoupling)

    def run(parameters_):
        from decoupling.sysid._free_run import free_run, step_of

        y_init = y[:k].reshape(k, -1)
        u_ = u.reshape(len(u), -1)
        bounds = np.full(lags.n_outputs, 1e9)
        return free_run(step_of(with_parameters(model, parameters_)), lags, u_, y_init, -bounds, bounds)[0]

    X = lags.regressors(u.reshape(80, -1), run(theta))
    exact = sensitivities(model, lags, X)
    for p in range(len(theta)):
        h = 1e-6 * (np.arange(len(theta)) == p)
        difference = (run(theta + h) - run(theta - h))[k:] / 2e-6
        assert np.allclose(exact[:, :, p], difference, atol=1e-5 * max(1.0, np.abs(exact).max()))


def noisy(seed, n=1500):
    u, y = duffing(n=n, seed=seed)
    return u, y + 0.05 * np.random.default_rng(seed + 100).normal(size=n)


def test_refining_on_simulation_beats_the_fit_on_one_step(pair):
    """Output noise biases one-step fits; the simulation error is what a free run minimises."""
    u, y = noisy(0)
    narx = dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(u, y)
    before = narx.decouple(2, n_starts=8, progress=False)
    after = before.refine(u, y, progress=False)
    u_test, clean = duffing(seed=9)
    errors = [np.sqrt(np.mean((m.simulate(u_test, clean[:2]) - clean) ** 2)) for m in (narx, before, after)]
    assert errors[2] < 0.5 * min(errors[:2])
    assert before.refinement == () and len(after.refinement) > 1
    rows = after.refinement
    chosen = [row for row in rows if row.chosen]
    assert len(chosen) == 1 and chosen[0].validation == min(row.validation for row in rows)
    training = [row.training for row in rows]
    assert training == sorted(training, reverse=True)
    assert "refined" in repr(after) and after.n_parameters == before.n_parameters
    assert before.plot().axes[0].collections and not after.plot().axes[0].collections  # bands


def test_refining_with_a_validation_record_and_on_prediction(pair):
    _, decoupled = pair
    u, y = noisy(0, n=600)
    validation = noisy(1, n=300)
    one = decoupled.refine(u, y, validation=validation, max_steps=3, progress=False)
    two = decoupled.refine([u, u], [y, y], on="prediction", validation=validation, max_steps=3, progress=False)
    assert len(one.refinement) <= 4 and len(two.refinement) <= 4
    for refined in (one, two):
        assert refined.refinement[-1].training < refined.refinement[0].training


def test_bad_refinements_are_refused(pair):
    _, decoupled = pair
    u, y = duffing()
    cases = [
        (lambda: decoupled.refine(u[:4], y[:4]), "after a quarter was held back"),
        (lambda: decoupled.refine(u, y, validation=(u,)), "a record \\(u, y\\)"),
        (lambda: decoupled.refine(u, y, validation=3), "a record \\(u, y\\)"),
        (lambda: decoupled.refine(u, y, validation=(u[:1], y[:1])), "`validation` must be longer"),
        (lambda: decoupled.refine(u, y, n_init=1), "`n_init` must be at least the longest lag, 2"),
        (lambda: decoupled.refine(u, y, max_steps=0), "`max_steps`"),
    ]
    for act, message in cases:
        with pytest.raises(dc.InputError, match=message):
            act()
    with pytest.raises(dc.SolverError, match="leaves its range on the training record"):
        decoupled.refine(60 * u, y)
    with pytest.raises(dc.SolverError, match="on the validation record at every step"):
        decoupled.refine(u, y, validation=(60 * u, y), progress=False)


def test_refining_a_chaotic_model_is_told():
    y = np.empty(3000)
    y[0] = 0.3
    for t in range(1, 3000):
        y[t] = 3.9 * y[t - 1] * (1.0 - y[t - 1])
    u = np.random.default_rng(0).normal(size=3000)
    chaotic = dc.sysid.PolynomialNARX(0, 1, 2).fit(u, y).decouple(2, n_samples=50, n_starts=4, progress=False)
    with pytest.raises(dc.SolverError, match=r"derivatives overflow|leaves its range"):
        chaotic.refine(u, y, progress=False)


# The real record


def test_the_reference_model_of_the_silverbox(real_data):
    d = dc.data.silverbox()
    narx = dc.sysid.PolynomialNARX(n_u=1, n_y=3, degree=3).fit(*d.train)
    assert narx.n_parameters == 56
    runs = [narx.simulate(test.u, test.y_init) for test in d.tests]
    assert d.multisine.relative_rmse(runs[0]) == pytest.approx(0.880, abs=1e-3)
    assert [1e3 * test.rmse(y) for test, y in zip(d.tests, runs, strict=True)] == pytest.approx(
        [0.47763, 0.54438, 0.44486], abs=5e-5
    )


def test_a_rank_three_decoupling_of_the_silverbox_refined_beats_the_reference(real_data):
    d = dc.data.silverbox()
    narx = dc.sysid.PolynomialNARX(n_u=1, n_y=3, degree=3).fit(*d.train)
    decoupled = narx.decouple(3, n_starts=16, rng=11, progress=False)
    refined = decoupled.refine(*d.train, max_steps=6, progress=False)
    assert refined.n_parameters == 30
    errors = [1e3 * test.rmse(refined.simulate(test.u, test.y_init)) for test in d.tests]
    assert errors[0] < 0.477 and errors[1] < 0.544 and errors[2] < 0.444
