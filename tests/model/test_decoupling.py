import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

import decouply as dc
from tests.strategies import dims_lists, points, random_model, seeds


def values_by_definition(model, X):
    rows = []
    for x in X:
        z = x
        for W, g in zip(model.W, model.g, strict=False):
            u = W @ z
            z = np.array([sum(c * u[j] ** k for k, c in enumerate(g.C[j])) for j in range(len(u))])
        rows.append(model.W[-1] @ z)
    return np.array(rows)


@given(dims=dims_lists, seed=seeds)
def test_values_match_the_definition(dims, seed):
    model, X = random_model(dims, seed, inner_constants=True), points(dims[0], 4)
    expected = values_by_definition(model, X)
    assert_allclose(model(X), expected, rtol=1e-9, atol=1e-9 * (1 + np.abs(expected).max()))


def test_the_jacobian_is_the_derivative_of_the_values():
    model, X = random_model([3, 2, 4, 2], 3, inner_constants=True), points(3)
    for j in range(3):
        h = np.zeros(3)
        h[j] = 1e-6
        assert_allclose(model.jacobian(X)[:, :, j], (model(X + h) - model(X - h)) / 2e-6, rtol=1e-6, atol=1e-6)


def test_factors_are_the_paratuck_of_the_jacobian():
    model, X = random_model([3, 2, 4, 2], 3), points(3)
    factors = model.factors(X)
    assert factors.ranks == model.ranks == (2, 4)
    assert_allclose(factors.to_tensor(), model.jacobian(X))
    assert_allclose(factors.G[0], model.g[0].derivative(model.inner_inputs(X)[0]))


def test_parameters_are_counted_as_in_the_paper():
    # The MNIST part 80-60-40-10 has 7710 parameters; r = 10 with degree 4 saves 87.7 percent.
    model = dc.Decoupling([np.ones((10, 80)), np.ones((10, 10))], [dc.Functions(dc.Monomial(4), np.ones((10, 5)))])
    assert model.n_parameters == 950
    assert round(100 * (1 - model.n_parameters / 7710), 1) == 87.7


@pytest.mark.parametrize(("middle", "count"), [(0.0, 5), (1e-16, 5), (1e-9, 6)])
def test_a_middle_that_was_found_is_a_parameter_unless_it_is_rounding(middle, count):
    saturation = dc.Functions(dc.bases.Saturation(), [[0.0, 1.0]], domain=(middle - 1.0, middle + 1.0))
    assert dc.Decoupling([[[1.0, 2.0]], [[1.0]]], [saturation]).n_parameters == count


def test_the_worked_example_of_the_bias_theorem():
    model = dc.Decoupling(
        [[[0.5, 1], [2, 2]], [[2, 1], [0, 1]], [[1, 2], [3, 4]]],
        [dc.Functions(dc.Monomial(2), [[1, 3, 1], [2, 4, -1]]), dc.Functions(dc.Monomial(2), [[0, 1, 0], [0, -1, 1]])],
    )
    moved = model.around_zero()
    assert_allclose(moved.g[0].C, [[0, 3, 1], [0, 4, -1]], atol=1e-14)
    assert_allclose(moved.g[1].C, [[4, 1, 0], [2, 3, 1]], atol=1e-14)
    exact = model.without_inner_constants()
    assert_allclose(exact.g[1].domain, [[-5, -3], [-3, -1]])
    assert_allclose(exact.g[1].C, model.g[1].C)


@given(dims=dims_lists, seed=seeds)
def test_inner_constants_can_always_be_moved_to_the_last_layer(dims, seed):
    model, X = random_model(dims, seed, inner_constants=True), points(dims[0])
    moved = model.without_inner_constants()
    assert all(not g.constants.any() for g in moved.g[:-1])
    assert moved.degrees == model.degrees
    assert_allclose(moved(X), model(X), rtol=1e-7, atol=1e-7 * (1 + np.abs(model(X)).max()))


@pytest.mark.parametrize(
    "basis", [dc.bases.Trigonometric(1), dc.bases.Trigonometric(4), dc.bases.Tanh(), dc.Chebyshev(3)], ids=repr
)
def test_constants_move_through_layers_of_any_basis(basis):
    rng = np.random.default_rng(0)
    g = [dc.Functions(basis, rng.normal(size=(r, 1 + basis.size)), domain=(-2.0, 1.0)) for r in (2, 3, 1)]
    model = dc.Decoupling([rng.normal(size=s) for s in ((2, 2), (3, 2), (1, 3), (2, 1))], g)
    X = points(2)
    moved = model.without_inner_constants()
    assert all(not g.constants.any() for g in moved.g[:-1])
    assert_allclose(moved(X), model(X), atol=1e-13)
    assert_allclose(moved.jacobian(X), model.jacobian(X), atol=1e-12)


def test_only_polynomials_can_be_written_around_zero():
    g = dc.Functions(dc.bases.Trigonometric(1), [[0.1, 1.0]], domain=(0.0, 2.0))
    with pytest.raises(dc.InputError, match="`domain` must stay as it is for functions of Trigonometric"):
        dc.Decoupling([[[1.0]], [[1.0]]], [g]).around_zero()


@given(dims=dims_lists, seed=seeds)
def test_the_canonical_form_is_the_same_function_with_unit_scales(dims, seed):
    model, X = random_model(dims, seed, inner_constants=True), points(dims[0])
    form = model.canonical(X)
    size = 1 + np.abs(model(X)).max()
    assert_allclose(form(X), model(X), rtol=1e-6, atol=1e-6 * size)
    for u in form.inner_inputs(X):
        assert_allclose(np.ptp(u, axis=0), 2.0, rtol=1e-6)
    for W in form.W[:-1]:
        assert np.all(W[np.arange(len(W)), np.abs(W).argmax(axis=1)] >= 0)
    for shares in form.importance(X):
        assert np.all(np.diff(shares) <= 1e-9 * shares.max())


def test_the_canonical_form_does_not_depend_on_the_writing():
    model, X = dc.systems.f3(), points(4, 30)
    other = (
        model.scaled(1, [2.0, -0.5, 3.0], [1.0, -2.0, 0.1]).permuted(1, [2, 0, 1]).scaled(2, [-1.0, 4.0], [2.0, -1.0])
    )
    assert_allclose(other(X), model(X), rtol=1e-10)
    for a, b in zip(model.canonical(X).W, other.canonical(X).W, strict=True):
        assert_allclose(a, b, rtol=1e-8)


def test_models_do_not_change_and_do_not_share_memory_with_their_arguments():
    W = [np.ones((1, 2)), np.ones((1, 1))]
    model = dc.Decoupling(W, [dc.Functions(dc.Monomial(1), [[0.0, 1.0]])])
    W[0][:] = 7.0
    assert model.W[0].max() == 1.0
    with pytest.raises(ValueError, match="read-only"):
        model.W[0][0, 0] = 3.0


def test_short_and_html_representations_tell_the_shape():
    model = dc.systems.f2()
    words = "3 inputs → 2 polynomials of degree 3 → 2 polynomials of degree 3 → 3 outputs, 30 parameters"
    assert str(model) == words and repr(model) == f"Decoupling({words})"
    assert "<table>" in model._repr_html_() and "Monomial(degree=3)" in model._repr_html_()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: f(np.ones((3, 5))), r"`X` must have 3 columns.*Got shape \(3, 5\)"),
        (lambda f: f(np.ones(3)), r"`X` must be a real array of shape \(S, 3\). Got shape \(3,\)"),
        (lambda f: f([[np.nan, 0, 0]]), r"finite.*first at index \(0, 0\)"),
        (lambda f: f([["a", "b", "c"]]), r"Got entries of type"),
        (lambda f: dc.Decoupling(f.W[:2], f.g), r"L \+ 1 matrices and L layers"),
        (lambda f: dc.Decoupling([f.W[0], f.W[1], f.W[2][:, :1]], f.g), r"`W\[2\]` must have 2 columns"),
        (
            lambda f: dc.Decoupling(f.W, [f.g[0], dc.systems.f3().g[0]]),
            r"`g\[1\]` must be dc.Functions with 2 functions",
        ),
        (lambda f: dc.Functions(dc.Monomial(2), [[1, 2]]), r"`C` must have shape \(1, 3\)"),
        (lambda f: dc.Functions((dc.Monomial(2), dc.Monomial(1)), [[0, 1, 1], [0, 1, 1]]), r"must be 0 past entry 1"),
        (lambda f: f.scaled(1, [0.0, 1.0], [1.0, 1.0]), r"`inputs` must be 2 numbers other than 0"),
        (lambda f: f.permuted(1, [1, 1]), r"permutation"),
    ],
)
def test_wrong_models_and_points_are_refused_with_the_rule(make, message):
    with pytest.raises(dc.InputError, match=message):
        make(dc.systems.f2())


@pytest.mark.parametrize("size", [1e-310, 1e-200])
def test_functions_that_are_as_good_as_0_are_left_alone(size):
    """A ridge can make them so small that the inverse of their scale is infinite."""
    g = dc.Functions(dc.Monomial(3), [[0.0, 1.0, 1.0, 1.0], [0.0, size, 0.0, 0.0]])
    model = dc.Decoupling([[[1.0, 2.0], [size, 0.0]], [[1.0, 1.0]]], [g])
    X = points(2, 20)
    assert_allclose(model.canonical(X)(X), model(X), rtol=1e-12)


def test_columns_of_a_table_come_in_the_order_of_the_model():
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (5, 3))
    model = dc.systems.f2().with_names(["a", "b", "c"], None)
    table = pandas.DataFrame(X, columns=["a", "b", "c"])[["c", "a", "b"]]
    assert_allclose(model(table), model(X))
    assert_allclose(model.jacobian(table), model.jacobian(X))
    assert_allclose(model(table.set_axis(["x", "y", "z"], axis=1)), model(X[:, [2, 0, 1]]))


@pytest.mark.parametrize("rounding", [-1e-15, 0.0, 1e-15])
def test_rounding_does_not_choose_the_sign_of_equal_weights(rounding):
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    W = [np.array([[1.0, -1.0 - rounding]]), np.array([[1.0]])]
    model = dc.Decoupling(W, [dc.Functions(dc.Monomial(2), [[0.0, 0.0, 1.0]])])
    assert np.sign(model.canonical(X).W[0]).tolist() == [[1.0, -1.0]]
