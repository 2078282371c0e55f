import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from tests.strategies import points, sampled

sympy = pytest.importorskip("sympy")
a, b = sympy.symbols("a b")
X = points(2, 25)


def test_the_formula_of_a_model_gives_its_samples_back():
    model = dc.systems.f2()
    symbols = sympy.symbols("x1 x2 x3")
    expected = sampled(model, 25)
    found = dc.Samples.from_sympy(model.formula("sympy"), symbols, expected.X)
    assert_allclose(found.F, expected.F, rtol=1e-11, atol=1e-12)
    assert_allclose(found.J, expected.J, rtol=1e-11, atol=1e-11)


def test_constants_functions_and_unused_symbols_are_fine():
    s = dc.Samples.from_sympy([3, sympy.sin(a) * sympy.pi, a**0 + 0.5], [a, b], X)
    assert_allclose(s.F, np.stack([np.full(25, 3.0), np.pi * np.sin(X[:, 0]), np.full(25, 1.5)], axis=1))
    assert_allclose(s.J[:, 1, 0], np.pi * np.cos(X[:, 0]))
    assert np.count_nonzero(s.J) == 25


def test_one_expression_and_a_matrix_are_taken():
    assert dc.Samples.from_sympy(a * b, [a, b], X).F.shape == (25, 1)
    assert dc.Samples.from_sympy(sympy.Matrix([a, b, a + b]), (a, b), X).F.shape == (25, 3)
    assert_allclose(dc.Samples.from_sympy(a**2, a, X[:, :1]).J[:, 0, 0], 2 * X[:, 0])


def test_inputs_are_called_what_the_symbols_are():
    assert dc.Samples.from_sympy(a * b, [b, a], X).inputs == ("b", "a")
    assert dc.Samples.from_sympy(a, [a, sympy.Symbol("a", real=True)], X).inputs is None  # twins


def test_symbols_stand_for_real_numbers():
    """Without that the derivative of |a| cannot be computed by NumPy."""
    s = dc.Samples.from_sympy([sympy.Abs(a), sympy.Max(a, b), sympy.Piecewise((a, a > 0), (b, True))], [a, b], X)
    assert_allclose(s.J[:, 0, 0], np.sign(X[:, 0]))
    assert_allclose(s.J[:, 1, 0], X[:, 0] > X[:, 1])
    assert_allclose(s.J[:, 2, 1], X[:, 0] <= 0)


def test_special_functions_of_scipy_are_taken():
    assert_allclose(
        dc.Samples.from_sympy(sympy.erf(a), [a, b], X).J[:, 0, 0], 2 / np.sqrt(np.pi) * np.exp(-(X[:, 0] ** 2))
    )


@pytest.mark.parametrize(
    ("expressions", "symbols", "message"),
    [
        (a * b, [a], "must list all free symbols.*Missing: b"),
        (a, [sympy.Symbol("a", real=True)], "a is listed with other assumptions"),
        (a, ["a", "b"], "`symbols` must be SymPy symbols"),
        (a, "ab", "`symbols` must be SymPy symbols"),
        (a, [a, a], "must be different"),
        (a, [a], "`X` must have 1 columns"),
        ([], [a, b], "Got none"),
        ("a**2", [a, b], "texts are not read as formulas"),
        ([a, None], [a, b], "`expressions` must be SymPy expressions"),
        (sympy.Eq(a, b), [a, b], "`expressions` must be SymPy expressions"),
        (sympy.log(a), [a, b], r"finite values.*the first is X\["),
        (sympy.sqrt(a - X[3, 0]) ** 3, [a, b], r"finite values"),
        (1 / (a - float(X[3, 0])), [a, b], r"1 of 25 points, the first is X\[3\]"),
        (sympy.I * a, [a, b], r"complex at 25 of 25 points"),
        (sympy.Function("g")(a), [a, b], "NumPy or SciPy can compute"),
        (sympy.Integral(sympy.Function("g")(b), (b, 0, a)), [a, b], "NumPy or SciPy can compute"),
    ],
)
def test_what_cannot_be_sampled_is_refused_with_the_rule(expressions, symbols, message):
    with pytest.raises(dc.InputError, match=message):
        dc.Samples.from_sympy(expressions, symbols, X)
