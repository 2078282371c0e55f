"""Polynomial NARX models: what they find, what they compute, what they refuse."""

import numpy as np
import pytest

import decouply as dc

from .systems import coupled, duffing


@pytest.fixture(scope="module")
def narx():
    return dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(*duffing())


def test_the_coefficients_of_a_polynomial_system_are_found(narx):
    found = {tuple(e): c for e, c in zip(narx.exponents.tolist(), narx.coefficients[:, 0], strict=True)}
    truth = {
        (0, 1, 0, 0): 0.3,
        (0, 0, 1, 0): 1.2,
        (0, 0, 0, 1): -0.5,
        (0, 0, 3, 0): -0.1,
    }  # u(t), u(t-1), y(t-1), y(t-2)
    for term, value in found.items():
        assert value == pytest.approx(truth.get(term, 0.0), abs=1e-10)
    assert narx.n_parameters == 35 and narx.lags.names == ("u(t)", "u(t-1)", "y(t-1)", "y(t-2)")


def test_simulation_runs_on_from_the_given_outputs(narx):
    u, y = duffing(seed=1)
    assert np.allclose(narx.simulate(u, y[:2]), y, atol=1e-9)
    assert np.allclose(narx.predict_one_step(u, y), y, atol=1e-10)
    assert np.array_equal(narx.simulate(u, y[:50])[:50], y[:50])
    off = y.copy()
    off[600] += 1.0
    assert np.ptp(narx.predict_one_step(u, off) - narx.predict_one_step(u, y)) > 0.5  # looks at measured outputs
    assert np.array_equal(narx.simulate(u, off[:2]), narx.simulate(u, y[:2]))  # does not


def test_free_run_agrees_with_the_model_evaluated_step_by_step(narx):
    u, y = duffing(n=60, seed=2)
    slow = y[:2].tolist()
    for t in range(2, 60):
        slow.append(float(narx([[u[t], u[t - 1], slow[t - 1], slow[t - 2]]])[0, 0]))
    assert np.allclose(narx.simulate(u, y[:2]), slow, atol=1e-12)


def test_jacobians_are_the_derivatives_of_the_values(narx):
    X = np.random.default_rng(0).uniform(-1, 1, (20, 4))
    exact = narx.jacobian(X)
    step = 1e-6
    for j in range(4):
        h = step * np.eye(4)[j]
        assert np.allclose((narx(X + h) - narx(X - h)) / (2 * step), exact[:, :, j], atol=1e-8)
    samples = narx.samples(X)
    assert np.array_equal(samples.J, exact) and np.array_equal(samples.F, narx(X))
    assert samples.inputs == narx.lags.names and samples.outputs == ("y(t)",)


def test_several_channels_and_several_records():
    (u1, y1), (u2, y2) = coupled(seed=0), coupled(seed=1)
    model = dc.sysid.PolynomialNARX(n_u=1, n_y=1, degree=2).fit([u1, u2], [y1, y2])
    u, y = coupled(n=200, seed=2)
    assert model.simulate(u, y[:1]).shape == (200, 2)
    assert np.allclose(model.simulate(u, y[:1]), y, atol=1e-8)
    assert model.lags.names == ("u1(t)", "u2(t)", "u1(t-1)", "u2(t-1)", "y1(t-1)", "y2(t-1)")
    assert model.formula().count("\n") == 1 and model.formula().startswith("y1(t) = ")
    # The seam between two records is not a step of the system.
    joined = dc.sysid.PolynomialNARX(n_u=1, n_y=1, degree=2).fit(np.concatenate([u1, u2]), np.concatenate([y1, y2]))
    assert not np.allclose(joined.coefficients, model.coefficients, atol=1e-8)


def test_lists_of_records_and_of_samples_are_told_apart():
    u, y = duffing(n=300)
    arrays = dc.sysid.PolynomialNARX(1, 2, 3).fit([u, u[:200]], [y, y[:200]])
    lists = dc.sysid.PolynomialNARX(1, 2, 3).fit([u.tolist(), u[:200].tolist()], [y.tolist(), y[:200].tolist()])
    assert np.array_equal(arrays.coefficients, lists.coefficients)
    one = dc.sysid.PolynomialNARX(1, 2, 3).fit(u.tolist(), [[v] for v in y])
    assert one.simulate(u, y[:2]).shape == (300, 1)


def test_a_model_without_a_past_needs_no_first_outputs():
    u = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    y = np.stack([u[:, 0] ** 2, u[:, 0] * u[:, 1]], axis=1)
    model = dc.sysid.PolynomialNARX(n_u=0, n_y=0, degree=2).fit(u, y)
    assert np.allclose(model.simulate(u, []), y)


def test_a_refit_that_fails_leaves_the_model_as_it_was(narx):
    u, y = duffing()
    model = dc.sysid.PolynomialNARX(1, 2, 3).fit(u, y)
    with pytest.raises(dc.InputError):
        model.fit(np.stack([u, 0 * u], 1), y)
    assert np.allclose(model.simulate(u, y[:2]), y)


def test_offsets_and_units_do_not_matter():
    u, y = duffing()
    plain = dc.sysid.PolynomialNARX(1, 2, 3).fit(u, y)
    moved = dc.sysid.PolynomialNARX(1, 2, 3).fit(1e6 * u + 3e6, 1e-3 * y + 0.2)
    run = moved.simulate(1e6 * u + 3e6, 1e-3 * y[:2] + 0.2)
    assert np.allclose((run - 0.2) / 1e-3, plain.simulate(u, y[:2]), atol=1e-6)


def test_a_simulation_that_escapes_stops_with_its_step_and_never_overflows():
    u, y = duffing()
    narx = dc.sysid.PolynomialNARX(1, 2, 3).fit(u, y)
    wild = 50.0 * u
    with pytest.warns(dc.DecouplingWarning, match=r"left the range .* at step \d+ of 1200"):
        run = narx.simulate(wild, y[:2])
    bad = np.flatnonzero(np.isnan(run))
    assert len(run) == 1200 and bad.size and np.array_equal(bad, np.arange(bad[0], 1200))
    assert np.all((run[: bad[0]] >= narx.limits.low[0]) & (run[: bad[0]] <= narx.limits.high[0]))
    assert np.allclose((narx.limits.high - narx.limits.low) / np.ptp(y), 10.0)


def test_poor_excitation_is_told_and_gives_the_smallest_model():
    rng = np.random.default_rng(0)
    u = np.sign(rng.normal(size=500))  # two values: u^2 is a constant
    y = np.zeros(500)
    for t in range(1, 500):
        y[t] = 0.5 * y[t - 1] + u[t]
    with pytest.warns(dc.DecouplingWarning, match="determine .* of 10 coefficients"):
        model = dc.sysid.PolynomialNARX(n_u=0, n_y=1, degree=3).fit(u, y)
    assert np.allclose(model.simulate(u, y[:1]), y)


@pytest.mark.parametrize(
    ("u", "y", "message"),
    [
        (np.zeros(100) + 2.0, np.arange(100.0), "`u` must vary. It is 2 throughout"),
        (np.arange(100.0), np.ones(100), "`y` must vary"),
        (np.arange(100.0), np.arange(90.0), "same length. Got 100 and 90"),
        (np.arange(3.0), np.arange(3.0), "longer than the longest lag, 3"),
        (np.arange(30.0), np.arange(30.0), "at least 56 equations"),
        (np.where(np.arange(100) == 40, np.nan, np.arange(100.0)), np.arange(100.0), "gaps.*first at 40.*pieces"),
        (np.zeros((2, 3, 4)), np.zeros(2), r"shape \(T,\) or"),
        ("abc", np.zeros(3), "entries of type <U3"),
        (np.arange(9.0) + 0j, np.zeros(9), "entries of type complex128"),
        (np.array([None, "a", 3]), np.zeros(3), "cannot be read"),
        (np.zeros((1, 500)), np.zeros(500), "transpose it"),
        (np.ma.masked_equal(np.arange(100.0), 40), np.arange(100.0), "gaps.*first at 40"),
        (np.linspace(-1e200, 1e200, 100), np.arange(100.0), "choose other units"),
        ([np.arange(9.0), np.arange(9.0)], [np.arange(9.0)], "as many records"),
        ([np.ones((9, 2)), np.ones((9, 1))], [np.arange(9.0), np.arange(9.0)], "same channels"),
        (np.array([]), np.array([]), "`u` must hold samples"),
    ],
)
def test_bad_records_are_refused_with_the_rule(u, y, message):
    with pytest.raises(dc.InputError, match=message):
        dc.sysid.PolynomialNARX(n_u=1, n_y=3, degree=3).fit(u, y)


def test_bad_use_is_refused_with_the_rule(narx):
    u, y = duffing()
    cases = [
        (lambda: dc.sysid.PolynomialNARX(1, 2, 3).simulate(u, y[:2]), "fitted first"),
        (lambda: dc.sysid.PolynomialNARX(n_u=-1), "`n_u` must be a whole number of at least 0"),
        (lambda: dc.sysid.PolynomialNARX(20, 20, 8).fit(u, y), "at most 20000 monomials"),
        (lambda: narx.simulate(u, y[:1]), "`y_init` must hold at least 2 outputs"),
        (lambda: narx.simulate(u[:5], y[:50]), "at least as long as `y_init`"),
        (lambda: narx.simulate(np.stack([u, u], 1), y[:2]), "must have 1 channel,"),
        (lambda: narx.predict_one_step([u, u], [y, y]), "one record"),
        (lambda: narx.decouple(2, n_samples=10**6), "`n_samples` must be at most 1198"),
        (lambda: narx([[1.0, 2.0]]), "must have 4 columns"),
    ]
    for act, message in cases:
        with pytest.raises(dc.InputError, match=message):
            act()
