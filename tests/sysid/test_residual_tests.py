"""Percent fit, noise floor, residual tests."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc


def test_percent_fit_is_that_of_its_definition():
    y = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 11.0]])
    y_hat = y + np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    expected = [100 * (1 - 1 / np.sqrt(8)), 100 * (1 - 2 / np.sqrt(56))]
    assert_allclose(dc.sysid.percent_fit(y, y_hat), expected)
    with pytest.raises(dc.InputError, match="same shape"):
        dc.sysid.percent_fit(y, y[:2])
    with pytest.raises(dc.InputError, match="must vary"):
        dc.sysid.percent_fit(np.ones(5), np.ones(5))
    with pytest.raises(dc.InputError, match="`y_hat` must be finite"):
        dc.sysid.percent_fit(y, np.where(np.arange(3)[:, None] < 2, y_hat, np.nan))


def test_the_noise_floor_is_what_differs_between_periods():
    rng = np.random.default_rng(0)
    u = np.tile(rng.standard_normal(200), 6)
    y = np.convolve(u, 0.5 ** np.arange(20))[:1200] + 0.1 * rng.standard_normal(1200)
    assert_allclose(dc.sysid.noise_floor(u, y), 0.1, rtol=0.1)
    assert_allclose(dc.sysid.noise_floor(u, y, period=200), dc.sysid.noise_floor(u, y))
    assert dc.sysid.noise_floor(rng.standard_normal(1200), y) is None


def test_residuals_of_noise_pass_and_those_of_missing_dynamics_fail():
    rng = np.random.default_rng(0)
    u, e = rng.standard_normal(2000), rng.standard_normal(2000)
    good = dc.sysid.residual_tests(u, e)
    assert good.is_white
    assert good.is_independent
    coloured = np.convolve(e, [1.0, 0.8])[:2000]
    assert not dc.sysid.residual_tests(u, coloured).is_white
    traced = e + 0.5 * np.roll(u, 3)
    found = dc.sysid.residual_tests(u, traced)
    assert not found.is_independent
    assert int(np.argmax(np.abs(found.cross[:, 0, 0]))) == 3
    assert "a linear correlation with the input" in found.in_words()
    with pytest.raises(dc.InputError, match="more than twice"):
        dc.sysid.residual_tests(u[:20], e[:20])
