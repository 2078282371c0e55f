"""SymPy expressions are the model, exactly where their arguments are exact."""

import numpy as np
import pytest
import sympy

import decouply as dc
from decouply.bases import OWN_BASES
from tests.write.models import OUTSIDES, every_kind, own_basis, points, random_model


def error(model, X):
    expressions = model.formula("sympy")
    symbols = [sympy.Symbol(name) for name in ("x1", "x2", "x3")]
    # All at once: `subs` would put in one number after the other, and SymPy think about Min and Max each time.
    at = [dict(zip(symbols, map(sympy.Float, x), strict=True)) for x in X.tolist()]
    found = [[float(e.xreplace(numbers)) for e in expressions] for numbers in at]
    return np.max(np.abs(found - model(X))) / np.max(np.abs(model(X)))


@pytest.mark.slow
@pytest.mark.parametrize("cls", OWN_BASES, ids=lambda cls: cls.__name__)
def test_expressions_are_the_model(cls):
    for model in every_kind(cls):
        if cls is dc.Spline and model.n_layers > 1:
            continue  # SymPy takes half a minute for each
        assert error(model, points(3)) < 1e-14


@pytest.mark.slow
def test_expressions_of_a_layer_of_all_bases():
    for outside in OUTSIDES:
        model = random_model([tuple(own_basis(cls, 3) for cls in OWN_BASES)], outside, linear=True, offset=True)
        assert error(model, points(3)) < 1e-14


@pytest.mark.parametrize("cls", [dc.Chebyshev, dc.bases.Bernstein])
def test_high_degrees_are_exact(cls):
    g = dc.Functions(cls(40), np.random.default_rng(0).normal(size=(1, 41)), domain=(299.0, 302.5))
    model = dc.Decoupling([[[1.0]], [[1.0]]], [g])
    (expression,) = model.formula("sympy")
    X = np.linspace(299.0, 302.5, 11)[:, None]
    found = [float(expression.subs("x1", sympy.Rational(float(x)))) for x in X[:, 0]]
    assert np.max(np.abs(np.array(found) - model(X)[:, 0])) < 1e-12 * np.max(np.abs(model(X)))


def test_expressions_are_short_and_can_be_differentiated():
    g = dc.Functions(dc.Monomial(2), [[0.0, 0.5, 1.0]])
    model = dc.Decoupling([[[1.0, 2.0]], [[3.0]]], [g], linear=[[0.0, 1.0]], inputs=["a b", "c"])
    (e,) = model.formula("sympy")
    a, c = sympy.symbols("a_b c")
    assert e.free_symbols == {a, c}
    assert sympy.expand(e - (3 * (a + 2 * c) ** 2 + 1.5 * (a + 2 * c) + c)) == 0
    assert float(sympy.diff(e, a).subs({a: 1.0, c: 0.0})) == pytest.approx(model.jacobian([[1.0, 0.0]])[0, 0, 0])


def test_digits_round_the_coefficients():
    model = random_model([(dc.Chebyshev(3),)], linear=True)
    at = dict(zip(("x1", "x2", "x3"), points(1)[0].tolist(), strict=True))
    exact, rounded = (np.array([float(e.subs(at)) for e in model.formula("sympy", digits=d)]) for d in (None, 4))
    assert 1e-9 < np.max(np.abs(exact - rounded)) < 1e-2
