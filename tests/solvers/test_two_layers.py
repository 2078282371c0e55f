"""Domains that are read from slopes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.solvers.initial._two_layers import fit_domain


@pytest.mark.parametrize(
    "basis",
    [dc.bases.Tanh(), dc.bases.Trigonometric(3), dc.bases.Gaussian(), dc.bases.Sigmoid(), dc.bases.Exponential()],
    ids=repr,
)
def test_slopes_tell_where_a_curve_lies(basis):
    rng = np.random.default_rng(3)
    t, c = rng.uniform(-2.0, 3.0, 200), rng.normal(size=basis.size)
    slopes = basis.derivative((t - 0.3) / 0.7) @ c / 0.7
    found = fit_domain(basis, t, slopes)
    assert found is not None
    assert_allclose(basis.derivative((t - found.middle) / found.half) @ found.c / found.half, slopes, atol=1e-8)
    assert found.half == pytest.approx(0.7)


def test_arguments_or_slopes_that_tell_nothing_give_nothing():
    t = np.linspace(-1.0, 1.0, 20)
    assert fit_domain(dc.bases.Tanh(), np.zeros(20), np.ones(20)) is None
    assert fit_domain(dc.bases.Tanh(), t, np.zeros(20)) is None
    assert fit_domain(dc.bases.Tanh(), t, np.full(20, np.nan)) is None
