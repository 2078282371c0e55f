"""Names for curves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.fit.interpret._named_curves import KINDS, fit_named_curve
from decouply.fit.interpret._partial_residuals import function_readings

X = np.random.default_rng(0).uniform(-1.0, 1.0, (150, 2))
DOMAINS = {  # of functions whose arguments run from -1 to 1
    "tanh": (-0.2, 0.4),
    "saturation": (-0.9, 1.1),
    "dead zone": (-0.5, 0.7),
    "friction": (-0.05, 0.07),
    "sine": (-0.3, 0.3),
    "exponential": (-0.5, 0.5),
    "logarithm": (-1.3, -1.1),
    "Gaussian": (-0.3, 0.5),
    "rational": (-0.3, 0.4),
}


def one_function(basis, c, domain=(-1.0, 1.0), **parts):
    """A single function of an argument that fills [-1, 1]."""
    g = dc.Functions(basis, [c], domain)
    return dc.Decoupling([[[0.6, 0.4]], [[1.0], [-2.0]]], [g], **parts)


def of_kind(kind):
    c = np.zeros(1 + kind.basis.size)
    c[kind.used] = (0.3, -1.0, 0.7, 0.5, 0.9, -1.2)[: len(kind.used)]
    return one_function(kind.basis, c, DOMAINS.get(kind.name, (-0.9, 1.1) if kind.kinks else (-1.0, 1.0)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_is_recognised(kind):
    model = of_kind(kind)
    best = model.recognise(X)[1, 1].best
    assert best.name == kind.name and best.n_parameters == kind.n_parameters
    u = np.linspace(-0.9, 0.9, 50)
    spread = np.std(model.g[0].values(u[:, None]))
    assert np.max(np.abs(best(u) - model.g[0].values(u[:, None])[:, 0])) < 0.01 * max(spread, 1e-9)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("exponential", lambda u: np.exp(-2.0 * u)),
        ("ReLU", lambda u: np.maximum(0.2 - u, 0.0)),
        ("logarithm", lambda u: np.log(1.1 - u)),
    ],
)
def test_curves_of_minus_u_are_told_as_such(name, function):
    u = np.linspace(-1.0, 1.0, 200)
    spline = dc.Spline(60)
    c = np.linalg.lstsq(np.insert(spline.evaluate(u), 0, 1.0, axis=1), function(u), rcond=None)[0]
    best = one_function(spline, c).recognise(X)[1, 1].best
    assert (best.name, best.turned) == (name, True)
    u = 0.9 * u
    assert_allclose(best(u), function(u), atol=0.01)


def noisy(model, noise, seed=1, points=X):
    rng = np.random.default_rng(seed)
    F = model(points)
    return dc.Samples(points, F=F + noise * F.std(axis=0) * rng.normal(size=F.shape))


def test_noise_decides_what_can_be_told_apart():
    model = one_function(dc.bases.Tanh(), [0.0, 1.0], (-1.0, 1.0))
    assert model.recognise(noisy(model, 0.002)).names == ("tanh",)
    best = model.recognise(noisy(model, 3.0))[1, 1].best
    assert best.name == "line"  # most of what is seen is noise


def test_a_polynomial_has_the_name_until_another_curve_clearly_wins():
    wave = one_function(dc.bases.Trigonometric(2), [0.0, 0.5, 1.0], (-0.8, 0.8))
    noisy_one = wave.recognise(noisy(wave, 0.1))[1, 1]
    scores = {curve.name: curve.score for curve in noisy_one.candidates}
    assert noisy_one.name == "cubic" and scores["sine"] < scores["cubic"]
    assert repr(noisy_one) == "layer 1, function 1: a cubic"
    assert wave.recognise(noisy(wave, 0.001)).names == ("sine",)


def test_samples_are_asked_and_not_the_functions():
    """A polynomial cannot be a saturation, but what it leaves of the samples says that it should be one."""
    truth = one_function(dc.bases.Saturation(), [0.0, 1.0], (-0.8, 0.8))
    X = np.random.default_rng(4).uniform(-1.0, 1.0, (300, 2))
    result = dc.decouple(noisy(truth, 0.01, points=X), 1, 7, progress=False)
    assert result.recognise().names == ("saturation",)
    assert result.decoupling.recognise(X).names == ("",)


def test_readings_are_the_function_and_what_the_samples_leave_over():
    rng = np.random.default_rng(3)
    model = dc.Decoupling(
        [rng.normal(size=(2, 2)), rng.normal(size=(3, 2))], [dc.Functions(dc.Monomial(3), rng.normal(size=(2, 4)))]
    )
    samples = noisy(model, 0.1)
    left = samples.F - model(X)
    variance = np.mean(left**2, axis=0) * left.size / (left.size - 10.0)
    for e, w in zip(function_readings(model, X, samples, 10.0, 1e-9), model.W[1].T, strict=True):
        for s in range(5):
            sharp = w / variance
            assert_allclose(e.readings.target[s], e.values[s] + sharp @ left[s] / (sharp @ w), rtol=1e-6)
            assert_allclose(e.readings.variance[s], 1.0 / (sharp @ w), rtol=1e-6)


def test_slopes_alone_are_enough():
    model = one_function(dc.bases.DeadZone(), [0.0, 1.0], (-0.6, 0.8))
    samples = dc.Samples(X, J=model.jacobian(X))
    assert model.recognise(samples).names == ("dead zone",)
    both = dc.Samples(X, F=model(X), J=model.jacobian(X), weights=np.ones((len(X), 2)))
    assert model.recognise(both).names == ("dead zone",)


def test_functions_of_two_layers_have_names_of_their_own():
    inner = dc.Functions((dc.bases.Tanh(), dc.bases.Absolute()), [[0.0, 1.0], [0.0, 1.0]], [[-0.3, 0.3], [-1.0, 1.0]])
    outer = dc.Functions(dc.Monomial(2), [[0.0, 0.2, 1.0], [0.1, -0.3, 0.5]])
    model = dc.Decoupling([[[0.7, 0.2], [-0.3, 0.8]], [[0.6, 0.5], [-0.5, 0.8]], np.eye(2)], [inner, outer])
    found = model.recognise(noisy(model, 0.003, seed=2))
    assert found.names == ("tanh", "|u|", "parabola", "parabola")
    assert found.sentences()[1].startswith("g_1,2 is |u| with its kink at u = ")
    assert [f.layer for f in found] == [1, 1, 2, 2] and len(found) == 4


def test_with_a_linear_part_straight_lines_belong_to_nobody():
    model = one_function(dc.bases.ReLU(), [0.0, 1.0], (-1.0, 1.4), linear=[[0.3, 0.2], [0.0, 0.1]])
    assert model.recognise(X).names == ("|u|",)
    best = model.recognise(X, curves=["ReLU"])[1, 1].best
    assert best.name == "ReLU"
    assert model.with_parts(linear=None).recognise(X).names == ("ReLU",)


def test_what_has_no_name_gets_none():
    c = np.random.default_rng(5).normal(size=18)
    found = one_function(dc.Spline(15), c).recognise(X)
    assert found.names == ("",) and found[1, 1].best is None
    assert "no name" in repr(found)
    assert found.sentences() == ("g_1 is no curve that has a name here",)


def test_many_samples_are_averaged():
    model = one_function(dc.bases.Gaussian(), [0.0, 1.0], (-0.4, 0.4))
    points = np.random.default_rng(2).uniform(-1.0, 1.0, (3000, 2))
    samples = noisy(model, 0.02, points=points)
    readings = function_readings(model, points, samples, 4.0, 1e-3)[0].readings
    assert len(readings.u) <= 1000 and readings.count == 3000
    assert model.recognise(samples).names == ("Gaussian",)


def test_functions_that_do_not_vary_are_constants():
    g = dc.Functions(dc.Monomial(2), [[2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    model = dc.Decoupling([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], np.ones((1, 3))], [g])
    assert model.recognise(X).names == ("constant", "constant", "parabola")
    assert model.recognise(noisy(model, 0.01)).names == ("constant", "constant", "parabola")


def test_grids_find_the_kink():
    model = one_function(dc.bases.Absolute(), [0.0, 1.0], (0.137, 2.137))
    (e,) = function_readings(model, X, None, 1.0, 1e-3)
    kind = next(k for k in KINDS if k.name == "|u|")
    assert abs(fit_named_curve(kind, e.readings, with_line=False).middle - 1.137) > 0.1  # not among the arguments
    model = one_function(dc.bases.Absolute(), [0.0, 1.0], (-0.863, 1.137))
    (e,) = function_readings(model, X, None, 1.0, 1e-3)
    assert_allclose(fit_named_curve(kind, e.readings, with_line=False).middle, 0.137, atol=1e-4)


def test_tables_tell_what_speaks_for_a_name():
    found = of_kind(next(k for k in KINDS if k.name == "saturation")).recognise(X, curves=("line", "saturation"))
    lines = repr(found).splitlines()
    assert lines[0].split() == ["function", "name", "off", "parameters", "score"]
    assert lines[1].startswith("g_1       a saturation at u = −0.4 and 0.6")
    assert [c.name for c in found[1, 1].candidates] == ["saturation", "line"]
    html = found._repr_html_()
    assert "<b>a saturation at u = −0.4 and 0.6</b>" in html and "g<sub>1</sub>" in html


@pytest.mark.parametrize(
    ("where", "options", "message"),
    [
        (X, {"curves": ["saturaton"]}, "`curves` must be some of constant, line, .* Got 'saturaton'"),
        (X, {"curves": []}, "`curves` must be some of"),
        (X, {"tolerance": 0.0}, "`tolerance` must be a number above 0"),
        (X[:, :1], {}, "`X` must have 2 columns"),
        (X[:5], {}, "`X` must hold at least 8 points .* Got 5"),
        (np.where(X > 0.99, np.nan, X), {}, "`X` must hold finite numbers"),
        (dc.Samples(X, F=X[:, :1]), {}, "`samples` must have 2 outputs, like the model. Got 1"),
        (dc.Samples(np.c_[X, X], F=X), {}, "`X` must have 2 columns"),
    ],
)
def test_wrong_requests_are_refused(where, options, message):
    with pytest.raises(dc.InputError, match=message):
        one_function(dc.bases.Tanh(), [0.0, 1.0]).recognise(where, **options)


def test_places_that_are_not_there_are_refused():
    found = one_function(dc.bases.Tanh(), [0.0, 1.0]).recognise(X, curves="tanh")
    with pytest.raises(dc.InputError, match=r"must name a function, .* Got \(1, 2\): there are \(1, 1\)"):
        found[1, 2]
