"""Splines against SciPy, their tails, penalties and shapes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import BSpline

import decouply as dc
from decouply.bases import ArrayAlgebra


def knots_and_coefficients(spline, c):
    h = 2.0 / spline.pieces
    knots = -1.0 + h * np.arange(-spline.degree, spline.pieces + spline.degree + 1)
    return BSpline(knots, np.insert(c, 0, 0.0), spline.degree)


@pytest.mark.parametrize(
    "spline", [dc.Spline(8), dc.Spline(4, 1), dc.Spline(5, 2), dc.Spline(1, 3), dc.Spline(3, 5)], ids=repr
)
def test_splines_are_those_of_scipy(spline):
    c = np.random.default_rng(0).normal(size=spline.size)
    t = np.random.default_rng(1).uniform(-1, 1, 200)
    known = knots_and_coefficients(spline, c)
    assert_allclose(spline.evaluate(t) @ c, known(t) - known(0.0), atol=1e-13)
    assert_allclose(spline.derivative(t) @ c, known(t, 1), atol=1e-11)
    assert_allclose(spline.second_derivative(t) @ c, known(t, 2), atol=1e-9)
    assert_allclose(spline.knots[[0, -1]], spline.window)


@pytest.mark.parametrize(("tails", "curved"), [("linear", 0.0), ("parabola", 0.2)])
def test_tails_go_on_as_the_spline_ends(tails, curved):
    spline, c = dc.Spline(20, 3, tails), np.random.default_rng(2).normal(size=22)
    for end in (-1.0, 1.0):
        value, slope, bend = (
            (f(np.array([end])) @ c)[0] for f in (spline.evaluate, spline.derivative, spline.second_derivative)
        )
        t = end * np.array([1.0, 1.1, 1.3, 4.0])
        v, bent = t - end, end * np.array([0.0, min(curved, 0.1), curved, curved])  # two pieces are a tenth of twenty
        assert_allclose(spline.evaluate(t) @ c, value + slope * v + bend * (bent * v - bent**2 / 2), rtol=1e-12)
        assert_allclose(spline.derivative(t) @ c, slope + bend * bent, rtol=1e-12)
        assert_allclose(spline.second_derivative(t[1:]) @ c, [bend * (curved > 0.0), 0.0, 0.0], rtol=1e-12)


@pytest.mark.parametrize(
    "spline",
    [dc.Spline(), dc.Spline(4, 1), dc.Spline(1, 3), dc.Spline(20, 3, "parabola"), dc.Spline(6, 3, "constant")],
    ids=repr,
)
def test_the_expression_is_right_beyond_the_window_too(spline):
    c, t = np.random.default_rng(3).normal(size=1 + spline.size), np.linspace(-3, 3, 401)
    assert_allclose(spline.expression(ArrayAlgebra(), t, c), c[0] + spline.evaluate(t) @ c[1:], atol=1e-12)


def test_constant_tails_keep_the_last_values():
    spline, c = dc.Spline(6, 3, "constant"), np.random.default_rng(2).normal(size=8)
    for end in (-1.0, 1.0):
        beyond = end * np.array([1.5, 4.0])
        assert_allclose(spline.evaluate(beyond) @ c, (spline.evaluate(np.array([end])) @ c)[0])
        assert not (spline.derivative(beyond) @ c).any() and not (spline.second_derivative(beyond) @ c).any()
    assert np.isnan(spline.derivative(np.array([np.nan])) @ c).all()


def test_straight_lines_have_no_roughness():
    for spline in (dc.Spline(), dc.Spline(4, 1), dc.Spline(5, 2)):
        line = spline.line()
        assert line is not None
        assert_allclose(spline.roughness() @ line[1:], 0.0, atol=1e-12)
        assert np.linalg.matrix_rank(spline.roughness()) == spline.size - 1


def test_third_differences_let_parabolas_pass():
    spline, t = dc.Spline(12), np.linspace(-1, 1, 50)
    c = np.linalg.lstsq(spline.evaluate(t), t**2, rcond=None)[0]
    assert spline.orders == (2, 3) and dc.Spline(12, 1).orders == (2,)
    assert_allclose(spline.roughness(3) @ c, 0.0, atol=1e-12)
    assert np.abs(spline.roughness(2) @ c).max() > 1e-3


@pytest.mark.parametrize("shape", ["increasing", "decreasing", "convex", "concave"])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_rows_of_a_shape_guarantee_it(shape, degree):
    spline = dc.Spline(7, degree)
    rows = spline.shape_rows(shape)
    wanted = np.abs(np.random.default_rng(4).normal(size=len(rows)))
    c = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    assert np.all(rows @ c >= -1e-12)
    t = np.linspace(-1, 1, 1001)
    slopes = spline.derivative(t) @ c
    sign = -1.0 if shape in ("decreasing", "concave") else 1.0
    tested = slopes if shape in ("increasing", "decreasing") else np.diff(slopes)
    assert np.all(sign * tested >= -1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "`pieces` must be"),
        ((8, 0), "`degree` must be"),
        ((8, 9), "at most 5"),
    ],
)
def test_wrong_splines_are_refused(arguments, message):
    with pytest.raises(dc.InputError, match=message):
        dc.Spline(*arguments)


def test_a_spline_layer_fits_what_polynomials_do_not():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 3))
    W = np.array([[1.0, 0.5, -0.3], [0.4, -1.0, 0.6]])
    F = np.clip(2 * X @ W.T, -0.8, 0.8) @ rng.normal(size=(2, 2))
    errors = [
        dc.decouple(dc.Samples(X, F=F), 2, basis=basis, n_starts=16, progress=False).relative_rmse().max()
        for basis in (dc.Monomial(5), dc.Spline(8))
    ]
    assert errors[1] < 0.5 * errors[0]
