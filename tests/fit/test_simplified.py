"""Simpler models: names put in place, functions dropped and merged."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.fit._simplification import parallel_pairs, with_merged_pair, without_functions
from decouply.write._readable import readable_model

X = np.random.default_rng(0).uniform(-1.0, 1.0, (150, 2))


def fitted(basis, function, u=None):
    """Coefficients of a function in a basis on [-1, 1]."""
    t = np.linspace(-1.0, 1.0, 400)
    return np.linalg.lstsq(np.insert(basis.evaluate(t), 0, 1.0, axis=1), function(t), rcond=None)[0]


def of_splines(*functions, W0, W1, **parts):
    spline = dc.Spline(20)
    return dc.Decoupling([W0, W1], [dc.Functions(spline, [fitted(spline, f) for f in functions])], **parts)


def test_a_name_takes_the_place_of_a_spline_and_is_refitted_to_the_samples():
    F = np.clip(X @ [[1.0], [0.5]], -0.7, 0.7)
    result = dc.decouple(dc.Samples(X, F=F), 1, basis=dc.Spline(16), n_starts=4, progress=False)
    simpler = result.simplified(progress=False)
    assert isinstance(simpler.result, dc.Result) and simpler.decoupling.g[0].basis == dc.bases.Saturation()
    assert simpler.changes[0].error > 0.1 > 1e-9 > simpler.changes[-1].error
    assert simpler.changes[0].n_parameters > simpler.changes[-1].n_parameters
    assert_allclose(simpler.decoupling(X), F, atol=1e-10)
    assert "g_1 is a saturation at u = ±" in repr(simpler) and "as it was" in repr(simpler)


def test_the_formula_of_splines_has_names_and_few_pieces_and_stays_as_good():
    rng = np.random.default_rng(0)
    points = rng.uniform(-1.0, 1.0, (200, 2))
    f = np.tanh(3.0 * points[:, :1]) + np.sin(4.0 * points[:, :1] + 3.0 * points[:, 1:])
    samples = dc.Samples(points, F=f + 0.02 * rng.normal(size=f.shape))
    result = dc.decouple(samples, 2, basis=dc.Spline(32), n_starts=4, progress=False)
    text, exact = result.formula(), result.formula(exact=True)
    assert "tanh(" in text and "tanh(" not in exact
    assert text.count(" for ") < 14 < 60 < exact.count(" for ")
    shown = readable_model(result)
    far = [float(np.sqrt(np.mean((model(points) - f) ** 2))) for model in (result.decoupling, shown)]
    assert far[1] < 1.1 * far[0]
    assert "tanh(" not in result.formula("c")


def test_the_formula_of_polynomials_is_that_of_the_model():
    result = dc.decouple(dc.Samples(X, F=(X @ [[1.0], [0.5]]) ** 3), 1, 3, progress=False)
    assert readable_model(result) is result.decoupling


def test_without_samples_the_model_itself_is_what_is_fitted():
    model = of_splines(lambda u: np.exp(-1.5 * u), np.abs, W0=[[0.6, 0.4], [0.5, -0.5]], W1=[[1.0, 0.5], [-0.3, 2.0]])
    simpler = model.simplified(X, progress=False)
    bases = {repr(basis) for basis in simpler.decoupling.g[0].layer.bases}
    assert bases == {"Exponential()", "Absolute()"}
    assert_allclose(simpler.decoupling(X), model(X), atol=0.05)


@pytest.mark.slow
def test_functions_that_do_nothing_are_dropped_with_their_means():
    model = of_splines(
        np.tanh, lambda u: 0.0 * u + 0.4, W0=[[0.6, 0.4], [0.5, -0.5]], W1=[[1.0, 0.5], [-0.3, 2.0]], offset=[1.0, 2.0]
    )
    assert_allclose(without_functions(model, 0, [1], X)(X), model(X), atol=1e-12)
    simpler = model.simplified(X, progress=False)
    assert simpler.decoupling.ranks == (1,)
    assert simpler.changes[-1].words == "g_2 does nothing and is dropped"
    assert_allclose(simpler.decoupling(X), model(X), atol=0.01)
    kept = model.simplified(X, prune=False, progress=False)
    assert kept.decoupling.ranks == (2,)


def test_functions_of_inner_layers_are_dropped_into_the_domains_of_the_next():
    inner = dc.Functions(dc.Monomial(2), [[0.0, 1.0, 0.5], [0.7, 0.0, 0.0]])
    outer = dc.Functions(dc.bases.Tanh(), [[0.0, 1.0], [0.0, 2.0]])
    model = dc.Decoupling([np.eye(2), [[1.0, 0.3], [-0.5, 1.0]], np.eye(2)], [inner, outer])
    assert_allclose(without_functions(model, 0, [1], X)(X), model(X), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_doubles_are_merged(side):
    """tanh 2u + u^2 and tanh 2u - u^2 of arguments that differ by rounding, a factor and a sign."""
    model = of_splines(
        lambda u: np.tanh(2.0 * u) + 0.5 * u**2,
        lambda u: np.tanh(2.0 * side * u) - 0.5 * u**2,
        W0=[[0.6, 0.4], [0.6 * side, 0.4 * side]],
        W1=[[1.0, 1.0], [-0.3, -0.3]],
    )
    assert parallel_pairs(model, X) == [(0, 0, 1)]
    assert_allclose(with_merged_pair(model, 0, 0, 1, X)(X), model(X), atol=1e-9)
    simpler = model.simplified(X, progress=False)
    assert simpler.decoupling.ranks == (1,) and simpler.decoupling.g[0].basis == dc.bases.Tanh()
    assert simpler.changes[1].words == "g_1 and g_2 are one function"
    assert_allclose(simpler.decoupling(X), model(X), atol=0.01)


def test_parallel_arguments_are_no_doubles_where_both_are_needed():
    """tanh 2u to one output and u^2 to the other."""
    model = of_splines(lambda u: np.tanh(2.0 * u), np.square, W0=[[0.6, 0.4], [0.6, 0.4]], W1=[[1.0, 0.0], [0.0, 1.0]])
    assert parallel_pairs(model, X) == [(0, 0, 1)]
    assert model.simplified(X, progress=False).decoupling.ranks == (2,)


def test_merging_inside_keeps_the_layers_behind():
    inner = dc.Functions(dc.Monomial(2), [[0.2, 1.0, 0.5], [0.7, 2.0, 1.0]])
    outer = dc.Functions(dc.bases.Tanh(), [[0.0, 1.0], [0.0, 2.0]])
    model = dc.Decoupling([[[0.5, 0.5], [0.5, 0.5]], [[1.0, 0.3], [-0.5, 1.0]], np.eye(2)], [inner, outer])
    assert_allclose(with_merged_pair(model, 0, 0, 1, X)(X), model(X), atol=1e-9)


def test_chosen_names_are_put_in_place_and_the_rest_stays():
    model = of_splines(np.tanh, np.square, W0=[[0.6, 0.4], [0.5, -0.5]], W1=[[1.0, 0.5], [-0.3, 2.0]])
    simpler = model.simplified(X, curves={(1, 2): "|u|"}, progress=False)
    assert {type(basis) for basis in simpler.decoupling.g[0].layer.bases} == {dc.bases.Absolute, dc.Spline}
    some = model.simplified(X, curves=["parabola"], progress=False)
    assert {type(basis) for basis in some.decoupling.g[0].layer.bases} == {dc.Monomial, dc.Spline}


def test_a_curve_that_is_asked_for_is_put_in_place_whatever_the_time():
    model = of_splines(np.square, W0=[[0.6, 0.4]], W1=[[1.0]])
    simpler = model.simplified(X, curves={(1, 1): "parabola"}, max_seconds=1e-9, progress=False)
    assert simpler.decoupling.g[0].layer.bases == (dc.Monomial(2),) and "`max_seconds` was reached" in simpler.notes[0]
    with pytest.raises(dc.InputError, match=r"`curves\[\(1, 1\)\]` must be one of .*parabola.*Got 'parable'"):
        model.simplified(X, curves={(1, 1): "parable"}, max_seconds=1e-9, progress=False)


def test_straight_lines_go_into_the_linear_part():
    """A saturation is a dead zone and a line."""
    model = of_splines(
        lambda u: u - np.clip(u, -0.4, 0.4), W0=[[0.6, 0.4]], W1=[[1.0], [2.0]], linear=[[0.1, 0.2], [0.3, 0.4]]
    )
    simpler = model.simplified(X, progress=False)
    assert simpler.decoupling.g[0].basis == dc.bases.Saturation()
    assert_allclose(simpler.decoupling(X), model(X), atol=0.02)


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        ({(1, 1): "tan"}, r"`curves\[\(1, 1\)\]` must be one of .*tanh.* Got 'tan'"),
        ({(2, 1): "tanh"}, r"must name a function, by layer and place from 1. Got \(2, 1\)"),
        (["tan"], "`curves` must be some of"),
    ],
)
def test_wrong_choices_are_refused(curves, message):
    model = of_splines(np.tanh, W0=[[0.6, 0.4]], W1=[[1.0]])
    with pytest.raises(dc.InputError, match=message):
        model.simplified(X, curves=curves)
