"""Decoupled state space: what is fitted is found again, derivatives are exact, forms agree, bad input is named."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.bases import LayerBasis
from decouply.sysid.free_run._fit import InitialStatePrior, fit_initial_states
from decouply.sysid.free_run._linear import subspace
from decouply.sysid.free_run._simulation import normal_equations, sensitivities, simulate
from decouply.sysid.free_run._step import FreeParameters, StepArrays
from decouply.sysid.signals._records import RecordBatch
from decouply.sysid.state_space._initial_models import in_other_bases, initial_model
from decouply.sysid.state_space._structure import StateSpaceStructure

from .systems import duffing


def spring(n=600, seed=0, amplitude=1.0):
    """One state with a cubic in feedback."""
    u = amplitude * np.random.default_rng(seed).uniform(-1, 1, n)
    y = np.zeros(n)
    for t in range(1, n):
        y[t] = 0.7 * y[t - 1] - 0.1 * y[t - 1] ** 3 + u[t - 1]
    return u, y


@pytest.fixture(scope="module")
def fitted():
    u, y = spring()
    return dc.sysid.DecoupledStateSpace(1, [dc.Monomial(3)], feedthrough=False).fit(u, y, n_starts=2, progress=False)


MIXED = (LayerBasis((dc.Monomial(3), dc.bases.Tanh())),)


def structure(n, layers, **options):
    return StateSpaceStructure(n, layers, (False,) * len(layers[0].bases), **options)


def random_step(seed=0, n=2, m=2, p=2, layers=MIXED):
    """A stable model with everything in it, and which of its numbers may move: all."""
    rng = np.random.default_rng(seed)
    A = 0.4 * np.linalg.qr(rng.standard_normal((n, n)))[0]
    linear = StepArrays.of_linear(A, *(rng.standard_normal(s) for s in ((n, m), (p, n), (p, m))))
    points = rng.standard_normal((50, n + m))
    arguments = np.ones(n + m, dtype=bool)
    step = initial_model(linear, n, layers, points, rng, deterministic=False, arguments=arguments)
    W = (*step.W[:-1], 0.05 * rng.standard_normal(step.W[-1].shape))
    step = replace(step, W=W, offset=0.1 * rng.standard_normal(n + p))
    return step, structure(n, layers).free_entries(step)


@pytest.mark.parametrize(
    "layers",
    [
        MIXED,
        (LayerBasis((dc.Spline(3), dc.Spline(3))),),
        (LayerBasis((dc.bases.Tanh(), dc.bases.Tanh())), LayerBasis((dc.Monomial(2),))),
    ],
    ids=["mixed", "splines", "two layers"],
)
@pytest.mark.parametrize("oversample", [1, 2])
def test_derivatives_of_a_free_run_agree_with_finite_differences(layers, oversample):
    step, free = random_step(layers=layers)
    rng = np.random.default_rng(1)
    lengths = (9, 14)
    pieces = RecordBatch(
        tuple(rng.standard_normal((k * oversample, 2)) for k in lengths),
        tuple(rng.standard_normal((k, 2)) for k in lengths),
        oversample,
    )
    parameters, x0 = FreeParameters(step, free), rng.standard_normal((2, 2))
    equations = normal_equations(parameters, step, pieces, simulate(step, pieces, x0))

    def residuals(v):
        at = parameters.count
        return simulate(parameters.step(v[:at]), pieces, v[at:].reshape(2, 2)).residuals.ravel()

    v, h = np.concatenate([parameters.theta, x0.ravel()]), 1e-6
    Z = np.stack([(residuals(v - h * e) - residuals(v + h * e)) / (2 * h) for e in np.eye(len(v))])
    e = residuals(v)
    assert_allclose(equations.M[0], Z @ Z.T / e.size, atol=1e-6)
    assert_allclose(equations.g[0], Z @ e / e.size, atol=1e-6)


def test_blocks_of_time_give_the_same_equations(monkeypatch):
    step, free = random_step()
    rng = np.random.default_rng(1)
    pieces = RecordBatch((rng.standard_normal((50, 2)),), (rng.standard_normal((50, 2)),))
    found = simulate(step, pieces, np.zeros((1, 2)))
    whole = normal_equations(FreeParameters(step, free), step, pieces, found)
    monkeypatch.setattr("decouply.sysid.free_run._simulation._BLOCK_SIZE", 700)
    in_blocks = normal_equations(FreeParameters(step, free), step, pieces, found)
    assert_allclose(in_blocks.M, whole.M, rtol=1e-10, atol=1e-12)
    assert_allclose(in_blocks.g, whole.g, rtol=1e-10, atol=1e-12)


def test_a_free_run_is_the_recursion_by_its_definition():
    step, _ = random_step()
    u = np.random.default_rng(2).standard_normal((20, 2))
    x, y = np.zeros(2), []
    for v in u:
        out = step.values(np.concatenate([x, v])[None])[0]
        x = out[:2]
        y.append(out[2:])
    found = simulate(step, RecordBatch((u,), (np.zeros((20, 2)),)), np.zeros((1, 2)))
    assert_allclose(found.y, y, rtol=1e-10)


def test_other_coordinates_of_the_state_change_nothing_outside():
    step, _ = random_step()
    T, centre = np.array([[1.0, 2.0], [-0.5, 1.0]]), np.array([0.3, -0.2])
    u = np.random.default_rng(2).standard_normal((30, 2))
    pieces = RecordBatch((u,), (np.zeros((30, 2)),))
    x0 = np.array([[0.5, -1.0]])
    turned = step.in_states(T, centre)
    assert_allclose(
        simulate(turned, pieces, np.linalg.solve(T, (x0 - centre).T).T).y,
        simulate(step, pieces, x0).y,
        rtol=1e-9,
        atol=1e-12,
    )


def test_subspace_finds_the_poles_of_a_linear_system():
    rng = np.random.default_rng(0)
    A, B, C = np.array([[0.8, 0.3], [-0.3, 0.8]]), rng.standard_normal((2, 1)), rng.standard_normal((1, 2))
    u, x, y = rng.standard_normal((500, 1)), np.zeros(2), []
    for v in u:
        y.append(C @ x)
        x = A @ x + B @ v
    found, _ = subspace((u,), (np.array(y),), 2)
    assert_allclose(np.sort_complex(np.linalg.eigvals(found)), np.sort_complex(np.linalg.eigvals(A)), atol=1e-8)


def test_a_system_of_the_model_class_is_found_exactly(fitted):
    u, y = spring(300, seed=5, amplitude=1.2)
    assert_allclose(fitted.simulate(u, y[:20]), y, atol=1e-8)
    assert fitted.fitted.rmse[0] < 1e-8 < fitted.fitted.linear_rmse[0]
    chosen = [row for row in fitted.starts if row.chosen]
    assert len(chosen) == 1
    assert chosen[0].validation == min(row.validation for row in fitted.starts)


def test_the_oscillator_is_met_in_free_run():
    u, y = duffing(900)
    model = dc.sysid.DecoupledStateSpace(2, [dc.Monomial(3)]).fit(u, y, n_starts=1, progress=False)
    u, y = duffing(300, seed=7)
    assert_allclose(model.simulate(u, y[:30]), y, atol=1e-5)


def test_the_canonical_form_is_the_same_model_with_fewer_numbers(fitted):
    u, y = spring(100, seed=3)
    canonical = fitted.canonical()
    assert_allclose(canonical.simulate(u, y[:20]), fitted.simulate(u, y[:20]), atol=1e-9)
    # A, B, C, c_y, two weights before and one behind, two coefficients; less a scale of the state and two of the cubic.
    assert (fitted.n_parameters, canonical.n_parameters) == (9, 6)
    assert_allclose(canonical.linear().C, [[1.0]], atol=1e-12)
    assert_allclose(np.abs(canonical.step.W[0]).max(), 1.0)


@pytest.mark.parametrize("bases", [(dc.bases.Tanh(),), (dc.Monomial(3),), (dc.Monomial(3), dc.bases.Tanh())], ids=repr)
def test_the_canonical_count_is_the_rank_of_the_equations(bases):
    layers = (LayerBasis(bases),)
    step, free = random_step(seed=3, m=1, p=1, layers=layers)
    W = (step.W[0], 5.0 * step.W[1])
    parameters = FreeParameters(replace(step, W=W, offset=np.array([0.0, 0.0, 0.1])), free)  # states have no constants
    u = np.random.default_rng(1).standard_normal((400, 1))
    pieces = RecordBatch((u,), (np.zeros((400, 1)),))
    before = np.zeros((parameters.count + 2, 2))
    before[-2:] = np.eye(2)
    found = simulate(parameters.start, pieces, np.zeros((1, 2)))
    Z = sensitivities(parameters, parameters.start, found.points, before, 1)[0][: parameters.count, :, 0]
    singular = np.linalg.svd(Z / np.linalg.norm(Z, axis=1)[:, None])[1]
    assert np.count_nonzero(singular > 1e-10 * singular[0]) == parameters.count - structure(2, layers).n_redundant(
        1, None
    )


def test_several_records_inputs_and_outputs():
    rng = np.random.default_rng(0)
    u = [np.array([5.0, 0.0]) + rng.uniform(-1, 1, (300, 2)) for _ in range(2)]
    y = []
    for v in u:
        x = np.zeros(2)
        rows = []
        for a, b in v - [5.0, 0.0]:
            rows.append([3.0 + x[0], 100.0 * x[1]])
            x = np.array([0.6 * x[0] - 0.2 * np.tanh(2 * x[1]) + a, 0.5 * x[1] + 0.3 * x[0] + b])
        y.append(np.array(rows))
    model = dc.sysid.DecoupledStateSpace(2, [dc.bases.Tanh()]).fit(u, y, n_starts=2, progress=False)
    assert model.fitted.x0.shape == (2, 2)
    assert_allclose(model.simulate(u[1], y[1][:20]), y[1], atol=1e-4)


def test_state_functions_see_states_and_act_on_states_alone():
    u, y = duffing(250)
    model = dc.sysid.DecoupledStateSpace(2, [dc.Monomial(3), dc.sysid.StateFunction(dc.bases.Tanh())])
    step = model.fit(u, y, n_starts=1, progress=False).step
    assert step.W[0][1, 2] == 0.0
    assert step.W[1][2, 1] == 0.0
    assert step.W[0][0, 2] != 0.0
    assert step.W[1][2, 0] != 0.0


def test_a_wiener_hammerstein_model_has_no_feedback_around_its_function():
    rng = np.random.default_rng(0)
    u = rng.uniform(-2, 2, 1500)
    a, b = np.zeros(1500), np.zeros(1500)
    for t in range(1, 1500):
        a[t] = 0.8 * a[t - 1] + 0.2 * u[t - 1]
        b[t] = 0.4 * b[t - 1] + np.tanh(3 * a[t - 1])
    model = dc.sysid.DecoupledStateSpace(2, [dc.bases.Tanh()], feedback=False).fit(u, b, n_starts=3, progress=False)
    assert model.fitted.rmse[0] < 1e-3 * b.std()
    poles = np.sort(np.abs(model.linear().poles))
    assert_allclose(poles, [0.4, 0.8], atol=1e-2)
    seen = np.abs(model.step.W[0][0, :2]) > 1e-12
    acted = np.abs(model.step.W[1][:2, 0]) > 1e-12
    assert not np.any(seen & acted)


def test_windows_are_fitted_with_initial_states_of_their_own():
    u, y = spring()
    model = dc.sysid.DecoupledStateSpace(1, [dc.Monomial(3)]).fit(
        u, y, n_starts=1, search=dc.sysid.SearchOptions(window=60), progress=False
    )
    assert model.fitted.rmse[0] < 1e-6


def test_oversampling_keeps_the_measured_times():
    fine = np.sum([np.sin(w * np.arange(1600) + k) for k, w in enumerate((0.1, 0.17, 0.31, 0.43))], axis=0)
    x = np.zeros(1600)
    for t in range(1, 1600):
        x[t] = 0.9 * x[t - 1] - 0.01 * x[t - 1] ** 3 + 0.3 * fine[t - 1]
    u, y = fine[::2], x[::2]  # within its band an input is known between the samples
    model = dc.sysid.DecoupledStateSpace(1, [dc.Monomial(3)], oversample=2).fit(u, y, n_starts=1, progress=False)
    once = dc.sysid.DecoupledStateSpace(1, [dc.Monomial(3)]).fit(u, y, n_starts=1, progress=False)
    assert model.simulate(u, y[:20]).shape == y.shape
    assert model.fitted.rmse[0] < 0.2 * once.fitted.rmse[0]


@pytest.mark.parametrize("factor", [2, 3])
def test_inputs_between_samples_are_predicted_from_present_and_past_ones(factor, tmp_path):
    t = np.arange(1200 * factor) / factor
    fine = np.stack([np.sum([np.sin(w * t + p) for p, w in enumerate(ws)], axis=0) for ws in ((0.3, 0.7), (0.2, 0.5))])
    x = np.zeros(len(t))
    for k in range(1, len(t)):
        x[k] = 0.9 * x[k - 1] - 0.01 * x[k - 1] ** 3 + 0.3 * fine[0, k - 1] - 0.2 * fine[1, k - 1]
    u, y = fine[:, ::factor].T, x[::factor]
    model = dc.sysid.DecoupledStateSpace(1, [dc.Monomial(3)], oversample=factor, causal=True)
    model = model.fit(u, y, n_starts=1, progress=False)
    assert model.is_causal and model.fitted.rmse[0] < 0.05 * model.fitted.linear_rmse[0]
    units = model.fitted.units
    inside = units.inputs(u)[50 * factor : -50 * factor]
    assert_allclose(inside * units.u_size + units.u_mean, fine.T[50 * factor : -50 * factor], atol=5e-3)
    later = u.copy()
    later[800:] += 1.0  # outputs before do not change
    assert_allclose(model.simulate(later)[:800], model.simulate(u)[:800], atol=1e-12)
    model.save(tmp_path / "m.safetensors")
    again = dc.sysid.DecoupledStateSpace.load(tmp_path / "m.safetensors")
    assert_allclose(again.simulate(u), model.simulate(u))
    with pytest.raises(dc.InputError, match="`oversample` must be 1"):
        again.step_source()


def test_smaller_steps_meet_a_linear_model_of_constant_inputs():
    rng = np.random.default_rng(3)
    A = np.array([[0.8, 0.2], [-0.2, 0.7]])
    step = StepArrays.of_linear(
        A, rng.standard_normal((2, 1)), rng.standard_normal((1, 2)), rng.standard_normal((1, 1))
    )
    step = replace(step, offset=rng.standard_normal(3))
    x, u = rng.standard_normal(2), np.array([0.7])
    small, at = step.in_smaller_steps(2, 3), x
    assert_allclose(small.values(np.append(x, u)[None])[0, 2:], step.values(np.append(x, u)[None])[0, 2:])
    for _ in range(3):
        at = small.values(np.append(at, u)[None])[0, :2]
    assert_allclose(at, step.values(np.append(x, u)[None])[0, :2], atol=1e-12)


def corner(T=1200):
    """A kink between two filters, run eight times per sample: more harmonics than the samples hold."""
    rng, t = np.random.default_rng(5), np.arange(8 * T)
    w = rng.uniform(0.02, 0.6, 25)
    fine = np.sum([np.sin(v * t / 8 + p) for v, p in zip(w, rng.uniform(0, 6, 25), strict=True)], axis=0) / 5
    a, b = np.zeros(8 * T), np.zeros(8 * T)
    for k in range(1, 8 * T):
        a[k] = a[k - 1] + (fine[k - 1] - a[k - 1]) / 20
        b[k] = b[k - 1] + (max(a[k - 1], 0.0) - b[k - 1]) / 12
    return fine[::8], b[::8]


@pytest.mark.slow
def test_functions_between_linear_blocks_may_run_twice_per_sample():
    u, y = corner()
    options = {"functions": [dc.Spline(12)], "feedback": False}
    once, twice = (
        dc.sysid.DecoupledStateSpace(2, oversample=M, **options).fit(u, y, n_starts=3, progress=False) for M in (1, 2)
    )
    assert twice.fitted.rmse[0] < 0.7 * once.fitted.rmse[0]
    assert twice.fitted.n_free == once.fitted.n_free
    # Poles are shared out at the rate of the samples.
    assert [row.start for row in twice.starts] == [row.start for row in once.starts]
    ended = dc.sysid.DecoupledStateSpace(2, oversample=2, **options)
    with pytest.warns(dc.DecouplingWarning, match="max_seconds"):
        ended = ended.fit(u, y, n_starts=3, max_seconds=1e-3, progress=False)
    assert np.isfinite(ended.simulate(u, y[:20])).all()


def test_channels_have_names_in_formulas_and_files(fitted, tmp_path):
    named = fitted.with_names(["valve"], ["level"])
    assert "valve" in named.formula()
    assert "level =" in named.formula()
    named.save(tmp_path / "m.safetensors")
    assert "valve" in dc.sysid.DecoupledStateSpace.load(tmp_path / "m.safetensors").formula()
    assert "state1(t+1) =" in fitted.with_names(["x1"]).formula()
    with pytest.raises(dc.InputError, match="`outputs` must be 1 name"):
        fitted.with_names(outputs="level")
    for wrong in ([""], [" "], ["a", "b"]):
        with pytest.raises(dc.InputError, match="`inputs` must be 1 name, none of them empty"):
            fitted.with_names(wrong)


def test_a_model_that_is_fitted_again_keeps_the_names_of_its_channels(tmp_path):
    u, y = spring(200)
    model = dc.sysid.DecoupledStateSpace(1, [dc.Monomial(3)]).fit(u, y, n_starts=1, progress=False)
    model.with_names(["valve"], ["level"]).save(tmp_path / "m.safetensors")
    again = dc.sysid.DecoupledStateSpace.load(tmp_path / "m.safetensors").fit(u, y, n_starts=1, progress=False)
    assert again.step.inputs == ("x1", "valve")
    assert again.baseline() is not None and again.fitted.linear.outputs == ("x1(t+1)", "level")
    two = again.fit(np.c_[u, u**2], y, n_starts=1, progress=False)  # other channels, other names
    assert two.step.inputs == ("x1", "u1", "u2")


def test_states_that_no_output_sees_are_counted_and_shown(tmp_path):
    u, y = spring(400)  # one state explains everything
    model = dc.sysid.DecoupledStateSpace(2, [dc.Monomial(3)]).fit(u, y, n_starts=1, progress=False)
    assert model.n_canonical < model.n_parameters
    model.report(tmp_path / "page.html")


def test_the_same_seed_gives_the_same_model():
    u, y = duffing(200)
    first, second = (
        dc.sysid.DecoupledStateSpace(2, [dc.bases.Tanh()]).fit(u, y, n_starts=2, rng=4, progress=False)
        for _ in range(2)
    )
    assert first.starts == second.starts
    assert np.array_equal(first.step.linear, second.step.linear)


def test_ctrl_c_keeps_the_best_until_then():
    u, y = duffing(400)
    seen = []

    def stop(**values):
        seen.append(values)
        if values.get("stage", "").startswith("start 2"):
            raise KeyboardInterrupt

    model = dc.sysid.DecoupledStateSpace(2, [dc.bases.Tanh()])
    with pytest.warns(dc.DecouplingWarning, match="Stopped by Ctrl-C"):
        model = model.fit(u, y, n_starts=3, progress=stop)
    assert [row.start for row in model.starts] == ["linear", "physical", "random 1"]
    assert np.isfinite(model.simulate(u, y[:20])).all()


def test_a_limit_of_time_keeps_the_best_until_then():
    u, y = duffing(400)
    model = dc.sysid.DecoupledStateSpace(2, [dc.bases.Tanh()])
    with pytest.warns(dc.DecouplingWarning, match="`max_seconds` was reached"):
        model = model.fit(u, y, n_starts=3, max_seconds=1e-6, progress=False)
    assert [row.start for row in model.starts] == ["linear", "physical"]
    assert np.isfinite(model.simulate(u, y[:20])).all()


def test_a_simulation_that_escapes_stops_with_a_warning(fitted):
    u, y = spring(50)
    with pytest.warns(dc.DecouplingWarning, match="left the range"):
        out = fitted.simulate(1e3 * u, y[:5])
    assert np.isnan(out[-1])


def test_functions_that_stay_constant_outside_keep_a_simulation_finite(fitted):
    u, y = spring(200)
    bounded = fitted.with_outside("constant")
    assert_allclose(bounded.simulate(u, y[:20]), fitted.simulate(u, y[:20]), atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dc.sysid.DecoupledStateSpace(0), "`n_states` must be a whole number"),
        (lambda: dc.sysid.DecoupledStateSpace(2, [3]), "`functions` must be a list with one basis"),
        (lambda: dc.sysid.DecoupledStateSpace(2, [dc.bases.Tanh()], ranks=2), "without `ranks`"),
        (lambda: dc.sysid.DecoupledStateSpace(1, feedback=False), "at least 2 without feedback"),
        (lambda: dc.sysid.DecoupledStateSpace(2).step, "must be fitted first"),
    ],
)
def test_bad_options_are_named(make, message):
    with pytest.raises(dc.InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda u, y: (u[:-3], y), "must have the same length"),
        (lambda u, y: (u[:20], y[:20]), "`validation` must leave at least 8 samples"),
        (lambda u, y: (u[:0], y[:0]), "must hold samples"),
        (lambda u, y: ([u, u[:9]], [y]), "must hold as many records"),
        (lambda u, y: (0 * u, y), "`u` must vary"),
        (lambda u, y: (u, 0 * y), "`y` must vary"),
        (lambda u, y: (u, np.where(np.arange(len(y)) == 7, np.nan, y)), "must not have gaps"),
    ],
)
def test_bad_records_are_named(change, message):
    u, y = change(*duffing(300))
    with pytest.raises(dc.InputError, match=message):
        dc.sysid.DecoupledStateSpace(2, [dc.bases.Tanh()]).fit(u, y, n_starts=1, progress=False)


def test_a_fit_returns_another_model_and_changes_nothing():
    u, y = spring(200)
    asked = dc.sysid.DecoupledStateSpace(1, [dc.Monomial(3)])
    model = asked.fit(u, y, n_starts=1, progress=False)
    step = model.step
    again = model.fit(2.0 * u, y, n_starts=1, progress=False)
    assert asked.record is None and model.step is step and again.step is not step
    assert model.canonical().is_canonical and not model.is_canonical
    with pytest.raises(AttributeError):
        model.record = None


def test_bad_options_of_a_fit_are_named(fitted):
    u, y = spring(200)
    model = dc.sysid.DecoupledStateSpace(1, [dc.Monomial(3)])
    for options, message in (
        ({"validation": 2.0}, "between 0 and 1"),
        ({"validation": "x"}, "between 0 and 1"),
        ({"validation": (np.zeros((50, 2)), y[:50])}, "1 inputs and 1 outputs"),
        ({"search": dc.sysid.SearchOptions(window=1)}, "`window` must be"),
        ({"n_starts": 0}, "`n_starts` must be"),
    ):
        with pytest.raises(dc.InputError, match=message):
            model.fit(u, y, progress=False, **options)
    with pytest.raises(dc.InputError, match="at least 1 numbers"):
        fitted.simulate(u, np.zeros((0, 1)))
    with pytest.raises(dc.InputError, match="at least as long"):
        fitted.simulate(u[:5], y[:9])
    with pytest.raises(dc.InputError, match="must have 1 channel,"):
        fitted.simulate(np.zeros((20, 2)), y[:9])


def test_an_unstable_system_is_fitted_in_windows_or_named():
    u = np.random.default_rng(0).uniform(-1, 1, 400)
    y = np.zeros(400)
    for t in range(1, 400):
        y[t] = 1.02 * y[t - 1] + 0.1 * u[t - 1]
    windows = dc.sysid.SearchOptions(window=50)
    model = dc.sysid.DecoupledStateSpace(1, [dc.bases.Tanh()]).fit(u, y, n_starts=1, search=windows, progress=False)
    assert np.isfinite(model.fitted.rmse).all()


def test_the_formula_and_its_sources_are_one_step(fitted):
    assert "x1(t+1) =" in fitted.formula()
    assert "void f(const double *x, double *y)" in fitted.formula("c")
    space = {}
    exec(fitted.formula("python"), space)
    assert_allclose(space["f"](0.3, 0.4), fitted.step([[0.3, 0.4]])[0])


def test_the_linear_part_has_poles_and_a_frequency_response(fitted):
    linear = fitted.baseline()
    assert linear.is_stable
    z = np.exp(2j * np.pi * 0.1)
    by_hand = linear.C @ np.linalg.inv(z * np.eye(1) - linear.A) @ linear.B + linear.D
    assert_allclose(linear.frequency_response([0.1])[0], by_hand)
    assert "(1 state, 1 input, 1 output, " in repr(linear)


def test_the_linear_part_goes_to_python_control(fitted):
    control = pytest.importorskip("control")
    system = fitted.linear().to_control(dt=0.5)
    assert isinstance(system, control.StateSpace)
    assert system.dt == 0.5
    assert_allclose(system.A, fitted.linear().A)


def friction(n=1500, seed=0):
    """A mass with dry friction under a force: its position is an integral."""
    u = np.repeat(np.random.default_rng(seed).uniform(-1, 1, n // 25), 25)
    y, v = np.zeros(n), 0.0
    for t in range(1, n):
        y[t] = y[t - 1] + v
        v = 0.95 * v + 0.05 * (u[t - 1] + 0.1) - 0.01 * np.tanh(8.0 * v)
    return u, y


def test_an_output_that_adds_up_has_a_pole_at_exactly_one_and_does_not_drift():
    model = dc.sysid.DecoupledStateSpace(2, [dc.sysid.StateFunction(dc.bases.Tanh())], integrating=True)
    model = model.fit(*friction(), n_starts=1, progress=False)
    assert model.linear().poles[0] == 1.0
    assert_allclose(model.linear().C[0, 1], 0.0)
    u, y = friction(seed=3)
    assert np.abs(model.simulate(u, y[:20]) - y).max() < 0.02 * y.std()
    # B, two entries of A, V and W_x of two states, a force; less the scale of the velocity.
    assert (model.n_parameters, model.canonical().n_parameters) == (9, 8)


def test_the_canonical_count_of_integrating_models_is_the_rank_of_their_equations():
    rng = np.random.default_rng(0)
    linear = StepArrays.of_linear(
        np.array([[1.0, 0.1], [0.0, 0.9]]), np.array([[0.1], [1.0]]), np.eye(1, 2), np.zeros((1, 1))
    )
    layers, arguments = (LayerBasis((dc.bases.Tanh(),)),), np.ones(3, dtype=bool)
    points = rng.standard_normal((50, 3))
    step = initial_model(linear, 2, layers, points, rng, deterministic=True, arguments=arguments)
    step = replace(step, W=(step.W[0], np.array([[0.02], [-0.3], [0.0]])))
    integrating = structure(2, layers, integrating=True)
    parameters = FreeParameters(step, integrating.free_entries(step))
    pieces = RecordBatch((rng.standard_normal((400, 1)),), (np.zeros((400, 1)),))
    found = simulate(step, pieces, np.zeros((1, 2)))
    Z = sensitivities(parameters, step, found.points, np.zeros((parameters.count, 2)), 1)[0][:, :, 0]
    singular = np.linalg.svd(Z / np.linalg.norm(Z, axis=1)[:, None])[1]
    assert np.count_nonzero(singular > 1e-10 * singular[0]) == parameters.count - integrating.n_redundant(1, None)


def test_functions_written_in_a_finer_basis_are_the_same():
    layers = (LayerBasis((dc.Spline(4), dc.bases.Tanh())),)
    step, _ = random_step(layers=layers)
    points = np.random.default_rng(5).standard_normal((200, 4))
    other = in_other_bases(step, (LayerBasis((dc.Spline(8), dc.bases.Tanh())),), points)
    inside = np.clip(points, -0.4, 0.4)
    assert_allclose(other.values(inside), step.values(inside), atol=2e-3)
    assert other.g[0].layer.bases[0] == dc.Spline(8)
    assert_allclose(other.g[0].domain[1], step.g[0].domain[1])


def test_splines_are_searched_with_few_pieces_and_end_with_those_asked_for():
    rng = np.random.default_rng(0)
    u = rng.uniform(-2, 2, 800)
    y = np.zeros(800)
    for t in range(1, 800):
        y[t] = 0.7 * y[t - 1] - 0.5 * np.tanh(3 * y[t - 1]) + u[t - 1]
    model = dc.sysid.DecoupledStateSpace(1, [dc.Spline(12)]).fit(u, y, n_starts=1, progress=False)
    assert model.step.g[0].layer.bases == (dc.Spline(12),)
    assert model.fitted.rmse[0] < 0.02 * y.std()


def test_a_short_window_leaves_slow_states_where_they_usually_are():
    # A fast and a slow state, seen as their sum: ten noisy outputs do not tell the slow one.
    linear = StepArrays.of_linear(np.diag([0.5, 0.9999]), np.ones((2, 1)), np.array([[1.0, 1.0]]), np.zeros((1, 1)))
    rng = np.random.default_rng(0)
    u, x0 = 0.1 * rng.standard_normal((10, 1)), np.array([[1.0, -2.0]])
    y = simulate(linear, RecordBatch((u,), (np.zeros((10, 1)),)), x0).y
    pieces = RecordBatch((u,), (y + 0.1 * rng.standard_normal(y.shape),))
    prior = InitialStatePrior(np.zeros(2), np.diag([4.0, 1e-6]), 0.1)
    assert abs(fit_initial_states(linear, 2, pieces).x0[0, 1]) > 1.5
    assert abs(fit_initial_states(linear, 2, pieces, prior=prior).x0[0, 1]) < 0.1
    exact = fit_initial_states(
        linear, 2, RecordBatch((u,), (y,)), prior=InitialStatePrior(np.zeros(2), 4.0 * np.eye(2), 1e-6)
    ).x0
    assert_allclose(exact, x0, atol=1e-6)


def test_parallel_branches_between_linear_blocks_are_found():
    u = np.random.default_rng(0).uniform(-2, 2, 800)
    a, b, y = np.zeros(800), np.zeros(800), np.zeros(800)
    for t in range(1, 800):
        a[t] = 0.85 * a[t - 1] + 0.3 * u[t - 1]
        b[t] = 0.2 * b[t - 1] + 0.8 * u[t - 1]
        y[t] = 0.6 * y[t - 1] + np.tanh(2 * a[t - 1]) + 0.5 * np.tanh(2 * b[t - 1] - 1)
    model = dc.sysid.DecoupledStateSpace(3, [dc.bases.Tanh(), dc.bases.Tanh()], feedback=False)
    model = model.fit(u, y, n_starts=1, progress=False)
    assert model.fitted.n_front == 2
    assert_allclose(np.sort(model.linear().poles.real), [0.2, 0.6, 0.85], atol=1e-3)
