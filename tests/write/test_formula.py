"""Decouplings written out: the source and the expressions evaluate to the model's values."""

import numpy as np
import pandas as pd
import pytest

import decoupling as dc
from decoupling.write._formula import compiled
from tests.strategies import points

MODELS = [
    dc.systems.f1(),
    dc.systems.random_system((3, 2, 3, 2), (3, 2), rng=1),
    dc.Decoupling([np.eye(2), [[1.0, -2.0]]], [dc.Functions(dc.Trigonometric(5), np.arange(12.0).reshape(2, 6) - 4)]),
    dc.Decoupling([np.eye(2), [[1.0, -2.0]]], [dc.Functions(dc.Chebyshev(4), np.arange(10.0).reshape(2, 5) - 4)]),
    dc.Decoupling(
        [np.eye(2), [[1e-7, 3e12]]], [dc.Functions((dc.Monomial(1), dc.Bernstein(2)), [[1, 2, 0], [0, 0, -1e-5]])]
    ),
    dc.Decoupling([np.eye(2), [[1.0, 0.0], [0.0, 0.0]]], [dc.Functions(dc.Monomial(2), [[-0.0, 0, 1], [0, 0, 2]])]),
    dc.Decoupling([np.eye(2), [[1.0, 2.0]]], [dc.Functions(dc.Trigonometric(2), [[3.0, 0, 0], [0.0, 0, 0]])]),
]


@pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
def test_source_and_expressions_evaluate_to_the_model(model):
    X = np.random.default_rng(0).uniform(-1, 1, (6, model.n_inputs))
    values = model(X)
    f = compiled(model.formula("python"))
    tolerance = 1e-12 * np.abs(values).max()
    assert np.allclose(np.stack(f(*X.T), axis=1), values, atol=tolerance)
    assert np.allclose(f(*X[0].tolist()), values[0], atol=tolerance)
    import sympy

    expressions = model.formula("sympy")
    symbols = [sympy.Symbol(f"x{i + 1}") for i in range(model.n_inputs)]
    at = dict(zip(symbols, X[1], strict=True))
    assert np.allclose([float(e.subs(at)) for e in expressions], values[1], atol=tolerance)


@pytest.mark.parametrize("kind", [tuple, np.array, pd.Index], ids=repr)
def test_names_may_be_any_collection(kind):
    model = MODELS[0]
    x, y = (["a", "b", "c"][: model.n_inputs], ["p", "q", "r"][: model.n_outputs])
    assert model.formula(inputs=kind(x), outputs=kind(y)) == model.formula(inputs=x, outputs=y) != model.formula()


def test_rounded_formulas_leave_out_rounding():
    model = dc.Decoupling([[[1.0, 4e-17]], [[2.0]]], [dc.Functions(dc.Monomial(2), [[1e-18, 3e-17, 0.5]])])
    assert model.formula() == "u1 = x1\nz1 = 0.5 u1^2\ny1 = 2 z1"
    assert "4e-17" in model.formula("python") and "3e-17" in model.formula("python")
    assert "e-17" not in model.formula("python", digits=3)


def test_names_of_the_user_never_meet_our_own():
    model = dc.systems.random_system((3, 2, 2), (2,), rng=0)
    X = np.random.default_rng(0).normal(size=(4, 3))
    for names in (["u1", "z1", "v1"], ["u", "v", "s"], ["z", "w", "h"], ["_a", "uu", "zz"]):
        f = compiled(model.formula("python", inputs=names, outputs=["u2", "s1"]))
        assert np.allclose(np.stack(f(*X.T), axis=1), model(X))
    latex = model.formula("latex", inputs=["a_b", "c^2~", "50 %"])
    assert r"\mathrm{a\_b}" in latex and r"\mathrm{c{\wedge}2{\sim}}" in latex


def test_names_are_compared_as_python_reads_them():
    model = dc.systems.random_system((2, 2, 2), (2,), rng=0)
    X = points(2)
    assert np.allclose(np.stack(compiled(model.formula("python", inputs=["ᵤ1", "b"]))(*X.T), axis=1), model(X))
    with pytest.raises(dc.InputError, match="ｃｏｓ"):
        MODELS[2].formula("python", inputs=["ｃｏｓ", "b"])


def test_constants_of_zero_are_not_in_the_source_and_spaces_of_names_stay_in_latex():
    assert "    z1 = u1*(u1*(1.0))\n" in MODELS[5].formula("python")
    assert r"\mathrm{wind\ speed}" in MODELS[0].formula("latex", inputs=["wind speed", "b"])


def test_text_and_latex_are_short_and_rounded_on_request():
    g = dc.Functions(dc.Monomial(3), [[0.123456, -1.0, 0.0, 2.5e-7]])
    model = dc.Decoupling([[[1.0, -2.0]], [[-1.0]]], [g])
    assert model.formula(inputs=["a", "b"]).splitlines() == [
        "u1 = a - 2 b",
        "z1 = 0.1235 - u1 + 2.5e-07 u1^3",
        "y1 = -z1",
    ]
    assert "0.12 - u1" in model.formula(digits=2)
    latex = model.formula("latex")
    assert r"2.5 \cdot 10^{-7}\,u_{1}^{3}" in latex and r"\begin{aligned}" in latex
    assert model.formula("html", inputs=["<b>", "c"]).splitlines() == [
        "<div><i>u</i><sub>1</sub> = <i>&lt;b&gt;</i> − 2 <i>c</i></div>",
        "<div><i>z</i><sub>1</sub> = 0.1235 − <i>u</i><sub>1</sub>"
        " + 2.5·10<sup>−7</sup> <i>u</i><sub>1</sub><sup>3</sup></div>",
        "<div><i>y</i><sub>1</sub> = −<i>z</i><sub>1</sub></div>",
    ]
    zero = dc.Decoupling([[[0.0]], [[0.0]]], [dc.Functions(dc.Monomial(1), [[0.0, 0.0]])])
    assert zero.formula().splitlines() == ["u1 = 0", "z1 = 0", "y1 = 0"]


def test_bad_requests_are_refused():
    model = dc.systems.f1()
    for arguments, message in [
        ({"inputs": ["a"]}, "must be 2 names"),
        ({"inputs": ["a", "a"]}, "different names"),
        ({"inputs": ["", "b"]}, "must be 2 names"),
        ({"inputs": ["\u00b5", "\u03bc"]}, "different names"),
        ({"kind": "python", "inputs": ["a b", "c"]}, "Python names"),
        ({"kind": "python", "inputs": ["lambda", "c"]}, "Python names"),
        ({"kind": "sympy", "inputs": ["cos", "c"]}, "Python names"),
        ({"digits": 0}, "`digits`"),
    ]:
        with pytest.raises(dc.InputError, match=message):
            model.formula(**arguments)
