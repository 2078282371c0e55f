"""Decoupled NARX models: the same interface, far fewer parameters, measured units throughout."""

import dataclasses

import numpy as np
import pytest

import decouply as dc

from .systems import coupled, duffing, noisy


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
    assert decoupled.result.samples.n_samples == 100


def test_the_names_of_the_regressors_travel_to_every_writing(pair):
    _, decoupled = pair
    model = decoupled.decoupling
    assert model.inputs == ("u(t)", "u(t-1)", "y(t-1)", "y(t-2)") and model.outputs == ("y(t)",)
    assert "y(t-2)" in decoupled.formula() and decoupled.formula().splitlines()[-1].startswith("y(t) = ")
    assert {"u(t)", "y(t-2)", "y(t)"} <= {text.get_text() for text in decoupled.plot().axes[0].texts}
    space = {}
    exec(decoupled.formula("python"), space)
    X = np.random.default_rng(0).uniform(-1, 1, (5, 4))
    assert np.allclose(space["f"](*X.T)[0], decoupled(X)[:, 0])


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


@pytest.mark.parametrize("as_given", [False, True])
@pytest.mark.parametrize(
    "solver",
    [
        dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=60))),
        dc.TwoStage(dc.Proj(stopping=dc.solvers.Stopping(max_steps=60))),
        dc.Hollander(),
    ],
    ids=["Constr", "Proj", "Hollander"],
)
def test_every_solver_can_decouple_a_narx_model(pair, solver, as_given):
    narx, _ = pair
    decoupled = narx.decouple(2, 3, solver=solver, as_given=as_given, n_samples=60, n_starts=4, progress=False)
    assert np.isfinite(decoupled.simulate(*_short())).all()
    assert decoupled.result.settings.as_given is as_given


def _short():
    u, y = duffing(n=100, seed=5)
    return u, y[:2]


def step_by_step(narx, u, y):
    """The free run by its definition: y(t) = f(u(t), u(t-1), y(t-1), y(t-2))."""
    run = y[:2].tolist()
    for t in range(2, len(u)):
        run.append(float(narx([[u[t], u[t - 1], run[t - 1], run[t - 2]]])[0, 0]))
    return run


@pytest.mark.parametrize("outside", ["extend", "linear", "constant"])
@pytest.mark.parametrize("linear", [False, True])
def test_a_free_run_is_the_model_evaluated_step_by_step(pair, outside, linear):
    narx, plain = pair
    decoupled = narx.decouple(1, n_samples=80, n_starts=4, linear=True, progress=False) if linear else plain
    assert (decoupled.decoupling.linear is not None) == linear
    model = decoupled.with_outside(outside)
    u, y = duffing(n=200, seed=5, amplitude=1.3)
    assert np.allclose(model.simulate(u, y[:2]), step_by_step(model, u, y), atol=1e-9)


@pytest.mark.slow
def test_two_layers_and_other_bases(pair):
    narx, _ = pair
    u, y = duffing(n=200, seed=5)
    deep = narx.decouple((2, 2), (3, 1), n_samples=80, n_starts=8, progress=False)
    assert deep.decoupling.n_layers == 2
    assert np.allclose(deep.simulate(u, y[:2]), step_by_step(deep, u, y), atol=1e-9)
    waves = narx.decouple(2, 4, basis=dc.bases.Trigonometric, n_samples=80, n_starts=8, progress=False)
    assert np.allclose(waves.simulate(u, y[:2]), step_by_step(waves, u, y), atol=1e-9)
    (g,) = waves.decoupling.g
    narrow = waves.decoupling.with_parts(g=[dc.Functions(g.layer.bases, g.C, 0.5 * g.domain)])
    with pytest.raises(dc.InputError, match='`outside` must be "extend" for functions of Trigonometric'):
        dataclasses.replace(waves, decoupling=narrow).with_outside("constant")


def test_a_basis_of_ones_own_can_be_simulated():
    class Arctan(dc.bases.AbstractBasis):
        size = property(lambda self: 2)

        def evaluate(self, t):
            return np.stack([t, np.arctan(t)], -1)

        def derivative(self, t):
            return np.stack([np.ones_like(t), 1 / (1 + t**2)], -1)

        def second_derivative(self, t):
            return np.stack([np.zeros_like(t), -2 * t / (1 + t**2) ** 2], -1)

    narx = dc.sysid.PolynomialNARX(1, 2, 3).fit(*duffing(n=400))
    own = narx.decouple(2, basis=Arctan(), n_samples=60, n_starts=4, progress=False)
    assert np.isfinite(own.simulate(*_short())).all()
    with pytest.raises(dc.InputError, match="Arctan"):
        own.formula()


def test_fewer_functions_than_outputs():
    u, y = coupled()
    narx = dc.sysid.PolynomialNARX(1, 1, 2).fit(u, y)
    one = narx.decouple(1, n_samples=50, n_starts=4, progress=False)
    error = one.predict_one_step(u, y) - y
    assert np.max(np.abs(error.mean(axis=0))) < 0.1 * np.min(np.std(y, axis=0))  # the centre, 3, is met in both
    after = one.refine(u, y, max_steps=3, on="prediction", progress=False)
    assert after.refinement[-1].training < after.refinement[0].training


def test_a_linear_part_takes_over_the_linear_dynamics(pair):
    """The oscillator is linear but for one cube of y(t-1), so one function is enough."""
    narx, _ = pair
    one = narx.decouple(1, n_samples=100, n_starts=8, linear=True, progress=False)
    u, y = duffing(seed=3)
    assert one.decoupling.linear.shape == (1, 4) and one.n_parameters == 4 + 3 + 1 + 1 + 4
    assert np.allclose(one.simulate(u, y[:2]), y, atol=1e-4)
    without = narx.decouple(1, n_samples=100, n_starts=8, progress=False)
    assert np.max(np.abs(without.predict_one_step(u, y) - y)) > 1e-2


def test_ranks_can_be_left_to_the_data(pair):
    narx, _ = pair
    found = narx.decouple("auto", 3, n_samples=60, progress=False)
    assert found.decoupling.ranks == (2,) and "meet the samples to machine precision" in found.result.notes[0]
    with pytest.raises(dc.InputError, match="`n_starts` must be left out"):
        narx.decouple("auto", 3, n_starts=4)


# The record


def test_the_page_says_what_the_result_says(pair, tmp_path):
    """Samples and validation are in the units of the model: an exact decoupling is not called poor."""
    u, y = duffing()
    narx = dc.sysid.PolynomialNARX(1, 2, 3).fit(1e3 * u + 5e3, 1e-3 * y + 0.2)
    decoupled = narx.decouple(2, n_samples=100, n_starts=8, rng=1, progress=False)
    result = decoupled.result
    seen, unseen = result.relative_rmse()[0], result.relative_rmse(result.settings.validation)[0]
    assert max(seen, unseen) < 1e-3
    assert len(result.samples) + len(result.settings.validation) == len(narx.trained_on.X)
    decoupled.result.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert 'class="verdict exact"' in page or 'class="verdict close"' in page
    assert "u(t-1)" in page


def test_a_changed_model_does_not_pass_for_the_one_that_was_fitted(tmp_path):
    u, y = noisy(0, n=600)
    narx = dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(u, y)
    decoupled = narx.decouple(2, n_samples=100, n_starts=8, progress=False)
    refined = decoupled.refine(u, y, max_steps=3, progress=False)
    assert refined.result is decoupled.result and decoupled.decoupling is decoupled.result.decoupling
    X = narx.regressors(u, y)
    assert not np.allclose(refined(X), decoupled(X), atol=1e-6) and np.array_equal(refined(X), refined.decoupling(X))
    with pytest.raises(dc.InputError, match="`u` and `y` must be given"):
        refined.report(tmp_path / "page.html")


def test_run_again_gives_the_same_model(pair):
    _, decoupled = pair
    result = decoupled.result
    s = result.settings
    again = dc.decouple(
        result.samples,
        s.ranks,
        s.degrees,
        basis=s.basis,
        linear=s.linear,
        solver=result.solver,
        as_given=s.as_given,
        n_starts=s.n_starts,
        validation=s.validation,
        rng=s.rng,
        progress=False,
    ).decoupling
    for a, b in zip((*again.W, again.g[0].C), (*result.decoupling.W, result.decoupling.g[0].C), strict=True):
        assert np.array_equal(a, b)


# Beyond the training data


def test_inside_the_training_data_all_tails_are_alike(pair):
    narx, decoupled = pair
    X = narx.regressors(*duffing())
    for outside in ("extend", "linear", "constant"):
        assert np.allclose(decoupled.with_outside(outside)(X), decoupled(X), atol=1e-12)


@pytest.mark.parametrize("amplitude", [10.0, 1e6])
def test_constant_tails_bound_every_free_run(pair, amplitude):
    """|y| <= sum_j |W_L[j]| max |g_Lj|, whatever goes in."""
    _, decoupled = pair
    u, y = duffing(seed=8)
    with pytest.warns(dc.DecouplingWarning, match="left the range"):
        decoupled.simulate(amplitude * u, y[:2])
    held = decoupled.with_outside("constant")
    run = held.simulate(amplitude * u, y[:2])  # warnings are errors
    model = held.decoupling
    largest = np.max(np.abs(model.g[0].values(np.linspace(*model.g[0].domain.T, 1001))), axis=0)
    bound = float(np.abs(model.W[1][0]) @ largest) + (0.0 if model.offset is None else abs(model.offset[0]))
    assert np.all(np.abs(run) <= bound) and np.ptp(run[-100:]) > 0.0


def test_linear_tails_keep_a_free_run_finite_on_hard_inputs(pair):
    _, decoupled = pair
    held = decoupled.with_outside("linear")
    for seed in range(5):
        u, y = duffing(seed=seed)
        run = held.simulate(10.0 * u, y[:2])
        assert np.isfinite(run).all() and np.max(np.abs(run)) < 100.0 * np.max(np.abs(y))


def test_an_unstable_linear_part_is_stopped_before_it_overflows(pair):
    narx, _ = pair
    one = narx.decouple(1, n_samples=60, n_starts=4, linear=True, progress=False)
    A = np.array([[0.0, 0.0, 3.0, 0.0]])
    wild = type(one)(one.result, one.decoupling.with_parts(linear=A), one.training).with_outside("constant")
    u, y = duffing(seed=8)
    with pytest.warns(dc.DecouplingWarning, match="left the range"):
        run = wild.simulate(u, y[:2])
    assert np.isnan(run[-1]) and np.all(np.abs(run[np.isfinite(run)]) <= 1e100)


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
