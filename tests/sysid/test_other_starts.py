"""State-space models that begin with others: NARX models, and polynomial state space that is decoupled."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc

from .systems import duffing


@pytest.fixture(scope="module")
def record():
    return duffing(150)


@pytest.fixture(scope="module")
def narx(record):
    model = dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(*record)
    return model.decouple(1, linear=True, n_samples=60, n_starts=4, progress=False)


@pytest.mark.parametrize("lags", [(1, 2), (0, 1), (2, 0)])
def test_a_narx_model_is_a_state_space_model_of_its_lags(lags):
    u, y = duffing(80)
    model = dc.sysid.PolynomialNARX(*lags, degree=2).fit(u, y)
    model = model.decouple(1, linear=True, n_samples=30, n_starts=1, progress=False)
    n, k = model.n_states, model.lags.longest
    x = np.concatenate([u[k - 1 :: -1][: lags[0]] if lags[0] else [], y[k - 1 :: -1][: lags[1]]])
    simulated = model.simulate(u, y[:k])
    for t in range(k, 40):
        out = model.step(np.append(x, u[t])[None])[0]
        x = out[:n]
        assert_allclose(out[n], simulated[t], rtol=1e-9, atol=1e-12)


def test_a_state_space_model_begins_with_a_narx_model(record, narx):
    model = dc.sysid.DecoupledStateSpace(3, [dc.Monomial(3)])
    model = model.fit(*record, n_starts=1, search=dc.sysid.SearchOptions(start=narx), progress=False)
    assert [row.start for row in model.starts] == ["linear", "given", "physical"]
    assert model.starts[1].validation < 1e-6  # it was exact, and stays so
    assert model.starts[1].steps < 10


def test_polynomials_of_states_are_fitted_and_decoupled():
    u, y = np.random.default_rng(0).uniform(-1, 1, 150), np.zeros(150)
    for t in range(1, 150):
        y[t] = 0.7 * y[t - 1] - 0.1 * y[t - 1] ** 3 + u[t - 1]
    pnlss = dc.sysid.PolynomialStateSpace(1, feedthrough=False).fit(u, y, progress=False)
    assert pnlss.fitted.fitted.rmse[0] < 1e-4 * y.std()
    assert pnlss.n_parameters == 4 + 7  # A, B, C, c_y; three quadratic and four cubic monomials of state and input
    decoupled = pnlss.decouple(1, n_samples=60, n_starts=2, progress=False)
    assert decoupled.canonical().n_parameters < pnlss.n_parameters
    assert np.abs(decoupled.simulate(u, y[:30]) - y).max() < 0.01 * y.std()
    refined = dc.sysid.DecoupledStateSpace(1, ranks=1, degrees=3, feedthrough=False)
    refined = refined.fit(u, y, n_starts=1, search=dc.sysid.SearchOptions(start=decoupled), progress=False)
    assert refined.starts[1].start == "given"
    assert refined.starts[1].validation < 1e-6


def test_starts_of_another_shape_are_named(record, narx):
    for model, message in (
        (dc.sysid.DecoupledStateSpace(2, [dc.Monomial(3)]), "must have 2 states.* Got 3 states"),
        (dc.sysid.DecoupledStateSpace(3, [dc.bases.Tanh()]), "the functions .*Tanh"),
        (dc.sysid.DecoupledStateSpace(3, [dc.Monomial(3)], feedback=False), "needs `feedback`"),
    ):
        with pytest.raises(dc.InputError, match=message):
            model.fit(*record, search=dc.sysid.SearchOptions(start=narx), progress=False)
    with pytest.raises(dc.InputError, match="`start` must be a model"):
        dc.sysid.DecoupledStateSpace(3).fit(*record, search=dc.sysid.SearchOptions(start=3), progress=False)
    with pytest.raises(dc.InputError, match="`degree` must be 2 or 3"):
        dc.sysid.PolynomialStateSpace(2, degree=4)
    with pytest.raises(dc.InputError, match="must be fitted first"):
        dc.sysid.PolynomialStateSpace(2).simulate(record[0])


def test_a_narx_model_has_a_linear_bypass_and_a_tanh():
    rng = np.random.default_rng(0)
    u, y = rng.uniform(-1, 1, 150), np.zeros(150)
    for t in range(2, 150):
        y[t] = 0.9 * y[t - 1] - 0.2 * y[t - 2] + 0.5 * u[t - 1] - 0.3 * np.tanh(2.0 * y[t - 1])
    model = dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(u, y)
    model = model.decouple(1, basis=[dc.bases.Tanh()], linear=True, n_samples=60, n_starts=2, progress=False)
    refined = model.refine(u, y, max_steps=5, progress=False)
    assert refined.decoupling.linear is not None
    for some in (model, refined):
        assert np.sqrt(np.mean((some.simulate(u, y[:2]) - y) ** 2)) < 0.02 * y.std()


def test_polynomial_models_end_in_time(record):
    with pytest.warns(dc.DecouplingWarning, match="max_seconds"):
        pnlss = dc.sysid.PolynomialStateSpace(2).fit(*record, max_seconds=1e-6, progress=False)
    assert np.isfinite(pnlss.simulate(*record)).all()
    narx = dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(*record)
    for model in (pnlss, narx):
        with pytest.raises(dc.InputError, match="`max_seconds` must be"):
            model.decouple(1, n_samples=60, max_seconds=-1.0, progress=False)
