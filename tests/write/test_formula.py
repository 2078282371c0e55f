"""Decouplings written out for people: what they read is the model."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import decouply as dc
from decouply.bases import OWN_BASES
from decouply.write._formula import formula
from decouply.write._source import compiled
from tests.write.models import every_kind, is_inside, mixed_models, points
from tests.write.test_model_file import Bend

MODELS = [
    dc.systems.f1(),
    dc.systems.random_system((3, 2, 3, 2), (3, 2), rng=1),
    dc.Decoupling(
        [np.eye(2), [[1.0, -2.0]]], [dc.Functions(dc.bases.Trigonometric(5), np.arange(12.0).reshape(2, 6) - 4)]
    ),
    dc.Decoupling([np.eye(2), [[1.0, -2.0]]], [dc.Functions(dc.Chebyshev(4), np.arange(10.0).reshape(2, 5) - 4)]),
    dc.Decoupling(
        [np.eye(2), [[1e-7, 3e12]]], [dc.Functions((dc.Monomial(1), dc.bases.Bernstein(2)), [[1, 2, 0], [0, 0, -1e-5]])]
    ),
    dc.Decoupling([np.eye(2), [[1.0, 0.0], [0.0, 0.0]]], [dc.Functions(dc.Monomial(2), [[-0.0, 0, 1], [0, 0, 2]])]),
    dc.Decoupling([np.eye(2), [[1.0, 2.0]]], [dc.Functions(dc.bases.Trigonometric(2), [[3.0, 0, 0], [0.0, 0, 0]])]),
]


def _code(value):
    """A right-hand side as Python; cases are those of a spline, of which the first that holds counts."""
    if not value.startswith("{"):
        return re.sub(r"(?<=[\w)]) (?=[a-z1(])", "*", value).replace("^", "**")
    cases = [case.partition(" for ") for case in value.strip("{}").split("; ")]
    ends = [re.findall(r"\w+ <= (\S+)$", condition) for *_, condition in cases]
    name = re.search(r"\b(u\w+)", value)[1]
    conditions = [f"{name} <= {end[0]}" if end else f"{name} == {name}" for end in ends]
    return f"select([{', '.join(conditions)}], [{', '.join(_code(case) + f' + 0*{name}' for case, *_ in cases)}])"


def read(text, model, X):
    """The values of a text, read as people would; and those of all variables."""
    known = dict(zip((f"x{i + 1}" for i in range(model.n_inputs)), X.T, strict=True))
    functions = {name: getattr(np, name) for name in ("cos", "sin", "tanh", "exp", "log", "abs")}
    functions |= {"max": np.maximum, "min": np.minimum, "select": np.select}
    for line in text.splitlines():
        target, _, value = line.partition("  for ")[0].partition(" = ")
        known[target] = eval(_code(value), functions, known) + 0.0 * X[:, 0]
    return np.stack([known[f"y{i + 1}"] for i in range(model.n_outputs)], axis=1), known


@pytest.mark.parametrize("cls", OWN_BASES, ids=lambda cls: cls.__name__)
def test_what_people_read_is_the_model_where_it_is_said_to_hold(cls):
    for model in [*every_kind(cls), *(mixed_models() if cls is dc.Monomial else ())]:
        outside = model.g[0].outside
        X = points(4000)
        X = X if outside == "extend" else X[is_inside(model, X)]
        values, known = read(model.formula(digits=17), model, X)
        assert len(X) > 5 and np.max(np.abs(values - model(X))) < 1e-11 * np.max(np.abs(model(X)))
        remarks = re.findall(r"  for (\S+) <= (\w+) <= (\S+), (.*)$", model.formula(digits=17), re.MULTILINE)
        beyond = {"extend": None, "linear": "its tangents beyond", "constant": "constant beyond"}[outside]
        assert [said for *_, said in remarks] == ([beyond] * sum(model.ranks) if beyond else [])
        if beyond and model.n_layers == 1:
            X = points(400)
            _, known = read(model.formula(digits=17), model, X)
            held = [(float(low) <= known[name]) & (known[name] <= float(high)) for low, name, high, _ in remarks]
            assert_array_equal(np.all(held, axis=0), is_inside(model, X))


def plain(text):
    """HTML and LaTeX as the text that they show."""
    for old, new in (
        (r"<sub>(.*?)</sub>", lambda m: m[1].replace(",", "_")),
        (r"·10<sup>(.*?)</sup>", r"e\1"),
        (r"<sup>(.*?)</sup>", r"^\1"),
        (r"<[^>]*>", ""),
        (r" \\cdot 10\^\{(.*?)\}", r"e\1"),
        (r"_\{(.*?)\}", lambda m: m[1].replace(",", "_")),
        (r"\^\{(.*?)\}", r"^\1"),
        (r"\\text\{(.*?)\}", r"\1"),
        (r"\\begin\{cases\} ", "{"),
        (r" \\end\{cases\}", "}"),
        (r" & (?!=)", " for "),
        (r" \\\\ (?=\S)", "; "),
        (r"\\begin\{aligned\}\n|\n\\end\{aligned\}| \\\\|&(?==)| \\quad", ""),
        (r"\\le", "<="),
        (r"\\,", " "),
        (r"\\(cos|sin|tanh|exp|log|min|max)", r"\1"),
        (r"\\frac\{1\}\{(.*?)\}", r"1/(\1)"),
        (r"\|(.*?)\|", r"abs(\1)"),
        ("−", "-"),
        ("≤", "<="),
        (r"e([+-])0*", r"e\1"),
        (r"e\+?(?=\d)", "e"),
        (r" +(?=,)", ""),
        (" +", " "),
    ):
        text = re.sub(old, new, text)
    return text


def test_text_html_and_latex_say_the_same():
    assert plain("1.5·10<sup>−7</sup> <i>u</i><sub>1,2</sub><sup>3</sup>") == "1.5e-7 u1_2^3"
    for model in [m for cls in OWN_BASES for m in every_kind(cls)] + MODELS:
        text, html, latex = (plain(model.formula(kind)) for kind in ("text", "html", "latex"))
        assert text == html == latex


def test_the_middle_of_a_domain_is_taken_from_the_argument():
    g = dc.Functions(dc.Monomial(2), [[0.0, 1.0, 4.0]], domain=(299.0, 303.0), outside="constant")
    model = dc.Decoupling([[[1.0, 2.0]], [[3.0]]], [g], linear=[[0.2, -0.5]], offset=[4.0], outputs=["force"])
    assert model.formula().splitlines() == [
        "u1 = x1 + 2 x2 - 301",
        "z1 = 1.5 u1 + 3 u1^2  for -2 <= u1 <= 2, constant beyond",
        "force = z1 + 0.2 x1 - 0.5 x2 + 4",
    ]
    waves = dc.Functions(
        (dc.bases.Trigonometric(3), dc.bases.Tanh()), [[1, 0, 1, 2], [0, 3, 0, 0]], domain=[[-0.5, 0.5], [4, 8]]
    )
    model = dc.Decoupling([np.eye(2), np.eye(2)], [waves])
    assert model.formula().splitlines()[1:] == [
        "u2 = x2 - 6",
        "y1 = 1 + sin(2 u1) + 2 cos(4 u1)",
        "y2 = 3 tanh(0.5 u2)",
    ]
    assert r"y_{1} &= 1 + \sin(2\,u_{1}) + 2\,\cos(4\,u_{1}) \\" in model.formula("latex")


def test_a_middle_that_is_rounding_counts_as_none():
    square = dc.Functions(dc.Monomial(2), [[0.0, 0.0, 1.0]], domain=(-1.0 + 2e-16, 1.0 + 2e-16))
    model = dc.Decoupling([[[1.0]], [[1.0]]], [square])
    assert square.middle[0] != 0.0
    assert model.formula() == "u1 = x1\ny1 = u1^2"
    assert "e-16" in model.formula("python") and "e-16" not in model.formula("python", digits=4)


def test_arguments_far_from_zero_get_the_digits_that_their_shift_takes():
    g = dc.Functions(dc.Chebyshev(3), [[0.1234567, 1.0, 0.5, 0.2]], domain=(123455.789, 123457.789))
    model = dc.Decoupling([[[1.23456789, 0.333333333]], [[1.0]]], [g])
    assert model.formula(exact=True).splitlines()[0] == "u1 = 1.23456789 x1 + 0.333333333 x2 - 123456.789"
    assert model.formula().splitlines()[0] == "u1 = x1 + 0.270000002 x2 - 100000"
    assert model.formula().splitlines()[1].startswith("y1 = 0.1235 + ")
    X = np.random.default_rng(0).uniform([1e5, -1.0], [1e5 + 1.0, 1.0], (50, 2))
    X[:, 1] = (123456.789 + X[:, 1] / 2 - 1.23456789 * X[:, 0]) / 0.333333333
    assert np.max(np.abs(read(model.formula(), model, X)[0] - model(X))) < 2e-3


def test_names_of_the_model_are_used_unless_others_are_given():
    model = dc.systems.f1().with_names(["wind speed", "b"], ["p", "q"])
    assert model.formula().splitlines()[0].endswith("b") and "wind speed" in model.formula()
    assert model.formula(inputs=["c", "d"]) == dc.systems.f1().formula(inputs=["c", "d"], outputs=["p", "q"])


def test_a_basis_without_a_writer_gives_one_message():
    model = dc.Decoupling([np.eye(1), np.eye(1)], [dc.Functions(Bend(2.0), [[0.0, 1.0]])])
    for kind in ("text", "html", "latex", "python", "c", "sympy"):
        with pytest.raises(dc.InputError, match=r"`Bend` must have a method `expression` .* It has none"):
            model.formula(kind)


@dataclass(frozen=True)
class Bump(dc.bases.AbstractBasis):
    """exp(-t^2) and |t|, and a hat: what bases of users may be made of."""

    size = 3

    def evaluate(self, t):
        return np.stack([np.exp(-(t**2)), np.abs(t), np.clip(1.0 - 2.0 * np.abs(t), 0.0, 1.0) * (t + 2.0)], axis=-1)

    derivative = second_derivative = evaluate

    def expression(self, algebra, t, c):
        number, minus = algebra.number, algebra.number(-1.0)
        size = algebra.apply("abs", t)
        hat = algebra.clip(algebra.sum([number(1.0), algebra.product([number(-2.0), size])]), 0.0, 1.0)
        parts = [
            algebra.apply("exp", algebra.product([minus, t, t])),
            size,
            algebra.product([hat, algebra.sum([t, number(2.0)])]),
        ]
        terms = [algebra.product([number(c[..., k + 1]), part]) for k, part in enumerate(parts)]
        return algebra.sum([number(c[..., 0]), *terms])


def test_bases_of_users_write_themselves(tmp_path):
    g = dc.Functions(Bump(), [[1.0, 2.0, -3.0, 0.5]], domain=(0.0, 4.0))
    model = dc.Decoupling([[[1.0]], [[1.0]]], [g])
    X = np.linspace(-1.0, 5.0, 13)[:, None]
    assert np.allclose(compiled(model.formula("python"))(X[:, 0])[0], model(X)[:, 0], rtol=1e-14)
    assert model.formula().splitlines()[1] == (
        "y1 = 1 + 2 exp(-0.25 u1 u1) - 3 abs(0.5 u1) + 0.5 min(max(1 - 2 abs(0.5 u1), 0), 1) (0.5 u1 + 2)"
    )
    assert r"3\,|0.5\,u_{1}| + 0.5\,\min(\max(1 - 2\,|0.5" in model.formula("latex")
    import sympy

    assert np.allclose([float(model.formula("sympy")[0].subs("x1", sympy.Float(x))) for x in X[:, 0]], model(X)[:, 0])


@pytest.mark.parametrize("kind", [tuple, np.array, pd.Index], ids=repr)
def test_names_may_be_any_collection(kind):
    model = MODELS[0]
    x, y = (["a", "b", "c"][: model.n_inputs], ["p", "q", "r"][: model.n_outputs])
    assert model.formula(inputs=kind(x), outputs=kind(y)) == model.formula(inputs=x, outputs=y) != model.formula()


def test_rounded_formulas_leave_out_rounding():
    model = dc.Decoupling([[[1.0, 4e-17]], [[2.0]]], [dc.Functions(dc.Monomial(2), [[1e-18, 3e-17, 0.5]])])
    assert model.formula() == "u1 = x1\ny1 = u1^2"
    assert "4e-17" in model.formula("python") and "3e-17" in model.formula("python")
    assert "e-17" not in model.formula("python", digits=3)
    cubic = dc.Functions(dc.Chebyshev(3), [[0.0, 0.3, 0.0, 0.1]], domain=(-1e-3, 1e-3))  # 0.3 - 3 * 0.1 is not 0
    assert dc.Decoupling([[[1.0]], [[1.0]]], [cubic]).formula().splitlines()[1] == "y1 = 4e+08 u1^3"


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
    X = points()[:, :2]
    assert np.allclose(np.stack(compiled(model.formula("python", inputs=["ᵤ1", "b"]))(*X.T), axis=1), model(X))
    with pytest.raises(dc.InputError, match="ｃｏｓ"):
        MODELS[2].formula("python", inputs=["ｃｏｓ", "b"])


def test_spaces_of_names_stay_in_latex():
    assert r"\mathrm{wind\ speed}" in MODELS[0].formula("latex", inputs=["wind speed", "b"])


def test_text_and_latex_are_short_and_rounded_on_request():
    g = dc.Functions(dc.Monomial(3), [[0.123456, -1.0, 0.0, 2.5e-7]])
    model = dc.Decoupling([[[1.0, -2.0]], [[-1.0]]], [g])
    assert model.formula(inputs=["a", "b"]).splitlines() == ["u1 = -a + 2 b", "y1 = -0.1235 - u1"]
    assert model.formula(inputs=["a", "b"], exact=True).splitlines() == [
        "u1 = a - 2.0 b",
        "z1 = 0.123456 - u1 + 2.5e-07 u1^3",
        "y1 = -z1",
    ]
    assert "-0.12 - u1" in model.formula(digits=2)
    latex = model.formula("latex", digits=8)
    assert r"2.5 \cdot 10^{-7}\,u_{1}^{3}" in latex and r"\begin{aligned}" in latex
    assert model.formula("html", inputs=["<b>", "c"], digits=8).splitlines() == [
        "<div><i>u</i><sub>1</sub> = −<i>&lt;b&gt;</i> + 2 <i>c</i></div>",
        "<div><i>y</i><sub>1</sub> = −0.123456 − <i>u</i><sub>1</sub>"
        " + 2.5·10<sup>−7</sup> <i>u</i><sub>1</sub><sup>3</sup></div>",
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
        ({"kind": "python", "outputs": ["tanh", "c"]}, "Python names"),
        ({"digits": 0}, "`digits`"),
    ]:
        with pytest.raises(dc.InputError, match=message):
            model.formula(**arguments)


@pytest.mark.parametrize("basis", [dc.bases.Tanh(), dc.bases.Saturation(), dc.bases.Trigonometric(3), dc.Spline(12)])
def test_digits_that_are_left_out_cost_no_more_than_is_said(basis):
    rng, X = np.random.default_rng(0), np.random.default_rng(1).uniform(-1.0, 1.0, (300, 2))
    g = dc.Functions(basis, rng.normal(size=(1, 1 + basis.size)), domain=(-0.28, 0.43))
    model = dc.Decoupling([[[0.41, 0.2873]], [[1.026]]], [g])
    F = model(X) + 0.02 * rng.normal(size=(300, 1))
    text = formula(model, "text", inputs=None, outputs=None, exact=False, samples=dc.Samples(X, F=F))
    shown, own = (np.sqrt(np.mean((values - F) ** 2)) for values in (read(text, model, X)[0], model(X)))
    assert shown <= 1.02 * own, text
