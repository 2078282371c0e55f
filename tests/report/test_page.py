"""The text of the page: what it says, and that it is complete without a browser's help."""

import dataclasses
import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.bases import LayerBasis
from decouply.model._canonical_form import resize_model
from decouply.report._page import page
from decouply.report._page_charts import starts_by_lam
from decouply.report._sentences import distance, output_rows, shape_in_words, unseen_in_words
from decouply.report._signal_flow_json import steps_of_basis
from decouply.report._svg_frame import written_number
from decouply.solvers import History
from decouply.solvers.problem._solution import Status
from decouply.write._curves import Curve
from tests.strategies import points, random_model, sampled

from .results import F2, MAKERS

SQUARE = dc.Functions(dc.Monomial(2), [[0.0, 0.0, 1.0]])
VOID = {"meta", "link", "input", "br", "path", "circle", "rect"}


class Reader(HTMLParser):
    """Checks that tags are closed in turn, and collects texts, tags and addresses."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.addresses, self.words = [], [], [], ""
        self.handlers = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href", "action", "xlink:href")]
        self.handlers += [name for name, _ in attributes if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.words += data


def flow_of(text):
    found = re.search(r'<script type="application/json" id="flow">(.*?)</script>', text, flags=re.S)
    return json.loads(found.group(1))


def plain(text):
    return re.sub(r"\s+", " ", Reader(text).words)


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_every_kind_of_result_has_a_small_whole_page_without_addresses(maker):
    result = maker()
    text = page(result, title="A title")
    reader = Reader(text)
    assert reader.open == [] and reader.handlers == []
    assert all(address.startswith(("#", "data:,", "data:text/plain;base64,")) for address in reader.addresses)
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert len(text.encode()) < 1_000_000
    written = re.sub(r"[\w+/=]{200,}", "", text)  # without files, whose letters mean nothing
    assert "nan" not in re.findall(r"[a-z]+", written.lower()) and "NaN" not in reader.words
    words = plain(text)
    for piece in ("What was found", "How good it is", "Run it again", "rng="):
        assert piece in words
    assert ("Error(F)" in words) == result.samples.has_values
    assert text == page(result, title="A title")


def test_the_page_says_what_is_known_and_what_was_found():
    result = MAKERS["two_stages"]()
    words = plain(page(result, title="Two stages", command="decouply fit a.npz"))
    for piece in (
        "3 inputs → 2 polynomials of degree 3 → 2 polynomials of degree 3 → 3 outputs",
        "40 rows, each with its values and its slopes",
        "ranks 2, 2",
        "30 parameters against 480 numbers",
        "The weight λ of the values",
        "chosen",
        "2 starts",
        "decouply fit a.npz",
        "dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=8)), max_runs=4)",
        "no seed",
    ):
        assert piece in words, piece
    assert result.reason.split(";")[0].replace("`", "") in words
    assert len(re.findall("<tr", page(result, title="").split('id="path"')[1].split("</table>")[0])) == 1 + len(
        result.path
    )


@pytest.mark.slow
def test_every_way_to_end_has_words():
    result = MAKERS["one_layer"]()
    row = result.starts[0]
    rows = tuple(dataclasses.replace(row, start=k, status=status) for k, status in enumerate(Status))
    assert "how they ended" not in plain(page(dataclasses.replace(result, starts=rows), title="t"))  # it is exact
    not_exact = dataclasses.replace(result, starts=rows, status=Status.CONVERGED)
    assert "how they ended" in plain(page(not_exact, title="t"))
    words = plain(page(MAKERS["interrupted"](), title="t"))
    assert "stopped by Ctrl-C" in words and "This run was stopped by Ctrl-C" in words


def test_parts_that_were_given_are_told():
    solver = dc.VarPro(fixed={"W0": F2.W[0], "g2": F2.g[1]}, max_steps=2, polish_steps=1)
    result = dc.decouple(sampled(F2), (2, 2), (3, 3), solver=solver, n_starts=2, progress=False)
    assert "Given, and not searched for: W0, g2." in plain(page(result, title="t"))
    assert "not searched for" not in plain(page(MAKERS["one_layer"](), title="t"))


@pytest.mark.parametrize("known", ["FJ", "JF"])
def test_samples_kept_apart_are_judged_only_where_there_are_values_to_compare(known):
    result = MAKERS["jacobians_only" if known[0] == "J" else "one_layer"]()
    X = points(result.samples.n_inputs)
    F, J = result.decoupling(X), result.decoupling.jacobian(X)
    apart = dc.Samples(X, F=F + 100.0) if known[1] == "F" else dc.Samples(X, J=J)
    settings = dataclasses.replace(result.settings, validation=apart)
    text = page(dataclasses.replace(result, settings=settings), title="t")
    assert "so these are not judged here" in plain(text) and 'class="verdict exact"' in text
    assert "error, validation samples" not in text


def test_a_linear_part_is_told_counted_and_drawn():
    result = MAKERS["linear_part"]()
    text = page(result, title="t")
    words = plain(text)
    for piece in (
        "f(x) ≈ A x + W1 g1(W0 x) + b",
        "2 functions of one variable and 2 tables of weights, plus a linear part, plus a constant for every output: "
        "30 parameters",
        "Their straight lines were moved into the linear part; the curves are the rest.",
        "The box A x + b is the linear part",
        "times flow",
        "linear=True",
    ):
        assert piece in words, piece
    rows = text.split('<table id="linear">')[1].split("</table>")[0]
    cells = [float(cell.replace("−", "-")) for cell in re.findall("<td>([^·]*?)</td>", rows)]
    assert_allclose(cells, result.decoupling.linear.ravel(), rtol=0.01, atol=1e-9)
    other = plain(page(MAKERS["one_layer"](), title="t"))
    assert "linear part" not in other and "A x" not in other and "linear=" not in other


def test_domains_and_tails_are_told_where_there_is_something_to_see():
    text = page(MAKERS["straight_tails"](), title="t")
    assert "dashes beyond, a function continues linearly." in plain(text)
    assert text.count('class="curve beyond"') == 4 + 1 and text.count('class="ends"') == 2
    assert "a function keeps the value at the end" in plain(page(MAKERS["constant_tails"](), title="t"))
    for name in ("one_layer", "linear_part", "waves", "saturations"):
        text = page(MAKERS[name](), title="t")
        assert 'class="curve beyond"' not in text and 'class="ends"' not in text and "domain" not in plain(text), name


def test_names_come_with_the_samples_and_others_go_before():
    result = MAKERS["linear_part"]()
    text = page(result, title="t")
    assert [item["name"] for item in flow_of(text)["inputs"]] == ["flow", "load", "<i>temp</i>"]
    assert flow_of(text)["outputs"] == ["a", "b", "c"]
    assert "x1, x2, … and y1, y2, … stand for them" in plain(text)  # in Python, where <i>temp</i> cannot be a name
    text = page(result, title="t", inputs=["p", "q", "r"])
    assert [item["name"] for item in flow_of(text)["inputs"]] == ["p", "q", "r"]
    assert flow_of(text)["outputs"] == ["a", "b", "c"] and "temp" not in plain(text)


def test_notes_of_whoever_made_the_result_come_first():
    result = MAKERS["jacobians_only"]()
    words = plain(page(result, title="t", notes=["Read from `a.csv`."]))
    assert words.index("Note. Read from a.csv.") < words.index("Only Jacobians were given")


def test_weights_of_samples_are_told():
    result = MAKERS["one_layer"]()
    s = result.samples
    weighted = dataclasses.replace(result, samples=dc.Samples(s.X, F=s.F, J=s.J, weights=np.ones(len(s))))
    assert "came with weights" in plain(page(weighted, title="t"))
    assert "came with weights" not in plain(page(result, title="t"))


def test_the_history_has_whole_iterations_and_at_least_two_powers_of_ten():
    result = MAKERS["one_layer"]()
    unknown = np.full(3, np.nan)
    history = History(np.ones(3), np.array([4e9, 4e9, 3.9e9]), unknown, unknown)
    text = page(dataclasses.replace(result, history=history, status=Status.CONVERGED), title="t")
    ticks = re.findall(r'<text class="tick.*?>(.*?)</text>', text.split("chart history")[1].split("</svg>")[0])
    assert ticks == ["10⁹", "10¹⁰", "1", "2", "3", "iteration"]


def test_zero_has_no_sign():
    model = dc.Decoupling([[[1.0, -0.0]], [[1.0]]], [SQUARE])
    assert "−0<" not in page(given(model, sampled(model)), title="t")


def test_notes_are_shown():
    words = plain(page(MAKERS["jacobians_only"](), title="t"))
    assert "Only Jacobians were given" in words and "Only slopes were given" in words


def test_names_are_escaped_wherever_they_stand():
    names = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", 'a" onload="alert(3)']
    result = MAKERS["two_layers"]()
    text = page(
        result, title="</title><script>alert(4)</script>", inputs=names, outputs=["'\"&", "{{ 7 * 7 }}", "b_^~"]
    )
    reader = Reader(text)
    assert reader.open == [] and reader.handlers == []
    assert reader.tags.count("script") == 2 and "img" not in reader.tags
    assert [item["name"] for item in flow_of(text)["inputs"]] == names
    for name in (*names, "{{ 7 * 7 }}"):
        assert name in reader.words
    assert "x1, x2, … and y1, y2, … stand for them" in reader.words


def test_names_must_fit():
    with pytest.raises(dc.InputError, match="`inputs` must be 3 names"):
        page(MAKERS["two_layers"](), title="t", inputs=["a"])


def evaluate(flow, x):
    """The script's arithmetic again, as loops."""
    u = np.array(flow["start"]) + sum(
        np.array(column) * (value - i["base"])
        for column, value, i in zip(flow["columns"], x, flow["inputs"], strict=True)
    )
    for layer, W in zip(flow["functions"], flow["weights"], strict=True):
        u = np.array(W) @ [value_of(f, a) for f, a in zip(layer, u, strict=True)]
    straight = np.array(flow["straight"]["start"])
    for column, value, i in zip(flow["straight"]["columns"], x, flow["inputs"], strict=False):
        straight = straight + np.array(column) * (value - i["base"])
    return u + straight


def value_of(f, u):
    t = (u - f["middle"]) / f["half"]
    if f["tails"] is None:
        return carried_out(f["steps"], t)
    inside = min(max(t, -1.0), 1.0)
    return carried_out(f["steps"], inside) + (t - inside) * f["tails"][int(t > 0)]


def carried_out(steps, t):
    v = [t]
    for name, *rest in steps:
        if name == "number":
            v.append(rest[0])
        elif name in ("sum", "product"):
            v.append(getattr(np, name if name == "sum" else "prod")([v[i] for i in rest]))
        elif name == "clip":
            v.append(np.clip(v[rest[0]], *rest[1:]))
        elif name == "polynomial":
            v.append(np.polynomial.Polynomial(rest[1:])(v[rest[0]]))
        elif name == "table":
            v.append(np.interp(v[rest[0]], np.linspace(rest[1], rest[2], len(rest) - 3), rest[3:]))
        else:
            v.append(getattr(np, name)(v[rest[0]]))
    return v[-1]


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_the_numbers_for_the_script_give_the_model(maker):
    result = maker()
    X = result.samples.shown.X
    flow = flow_of(page(result, title="t"))
    values = result.decoupling(X[:10])
    found = np.stack([evaluate(flow, x) for x in X[:10]])
    assert_allclose(found, values, atol=1e-4 * (np.ptp(values) + 1e-9))


@pytest.mark.parametrize("kind", dc.bases.OWN_BASES)
def test_every_basis_of_ours_is_written_as_steps(kind):
    basis = kind(6) if dataclasses.fields(kind) and kind is not dc.Activation else kind()
    c = np.random.default_rng(0).normal(size=1 + basis.size)
    steps = steps_of_basis(basis, c)
    assert all(step[0] != "table" for step in steps)
    t = np.linspace(-1.5, 1.5, 31)
    assert_allclose([carried_out(steps, at) for at in t], c[0] + basis.evaluate(t) @ c[1:], rtol=1e-12, atol=1e-12)


def test_steps_do_not_double_with_every_degree():
    """Clenshaw's recurrence uses every number twice: written out as one expression it would have 10^9 terms."""
    assert len(steps_of_basis(dc.Chebyshev(40), np.ones(41))) < 400


def test_a_basis_that_is_its_argument_alone_has_a_step():
    class Same(dc.bases.AbstractBasis):
        size = 1

        def evaluate(self, t):
            return t[..., None]

        derivative = second_derivative = evaluate

        def expression(self, algebra, t, c):
            algebra.number(c[..., 0])
            return t

    assert carried_out(steps_of_basis(Same(), np.array([0.0, 1.0])), 0.3) == 0.3


def given(model, samples):
    """A result as if `model` had been found."""
    return dataclasses.replace(MAKERS["one_layer"](), decoupling=model, samples=samples)


@pytest.mark.slow
def test_large_models_keep_the_inputs_of_the_diagram_and_fold_the_rest():
    model = dc.systems.random_system((2000, 20, 1500), (2,), rng=0)
    X = points(2000, 12)
    text = page(given(model, dc.Samples(X, F=model(X))), title="t")
    assert len(text.encode()) < 1_000_000
    flow = flow_of(text)
    assert (len(flow["inputs"]), len(flow["outputs"])) == (12, 12)
    assert "the other 1988 stay at their mean" in plain(text) and "Too long for this page" in text
    x = X.mean(axis=0)
    moved = [int(item["name"][1:]) - 1 for item in flow["inputs"]]
    x[moved] = X[3, moved]
    shown = [int(name[1:]) - 1 for name in flow["outputs"]]
    assert_allclose(evaluate(flow, X[3, moved]), model(x[None])[0, shown], rtol=1e-6)


def test_a_model_with_too_many_weights_has_a_page_without_sliders():
    model = random_model([3, 200, 200, 2], 0, degree=1)
    text = page(given(model, sampled(model, 5)), title="t")
    assert 'id="flow"' not in text and "too many weights" in plain(text) and len(text.encode()) < 1_000_000


def test_pages_of_many_wide_layers_give_up_what_can_be_had_elsewhere():
    model = random_model([20, *[13] * 10, 20], 0, degree=1)
    model = dc.Decoupling([W / np.linalg.norm(W, 2) for W in model.W], model.g)
    text = page(given(model, sampled(model, 100)), title="t")
    assert len(text.encode()) < 1_000_000 and "The formula is too long" in plain(text) and 'id="flow"' not in text


def test_starts_are_counted_by_the_objective_they_reached():
    result = MAKERS["one_layer"]()
    row = result.starts[0]
    rows = [dataclasses.replace(row, start=k, objective=0.25 if k < 30 else 0.25 + k) for k in range(60)]
    lost = dataclasses.replace(row, objective=float("nan"), status=Status.DROPPED)
    words = plain(page(dataclasses.replace(result, starts=(*rows, lost), status=Status.CONVERGED), title="t"))
    assert "61 starts" in words and "21 more starts ended above these" in words
    assert "1 start, not in the table: given up for better ones" in words


def test_the_verdict_speaks_of_the_worst_output_and_of_samples_kept_apart():
    result = MAKERS["two_layers"]()
    assert result.verdict.grade is dc.fit.Grade.EXACT
    W = [w.copy() for w in result.decoupling.W]
    W[-1][1] *= 1.05
    rough = dataclasses.replace(result, decoupling=dc.Decoupling(W, result.decoupling.g))
    rows = output_rows(rough, ["a", "b", "c"])
    assert rough.verdict.grade is not dc.fit.Grade.EXACT and "error of y2 in cross-validation" in rough.verdict.sentence
    assert "On the validation samples the error of b is" in unseen_in_words(rows)
    assert_allclose([row.fitted for row in rows], rough.relative_rmse(), rtol=1e-9, atol=1e-9)
    assert_allclose([row.unseen for row in rows], rough.relative_rmse(result.settings.validation), rtol=1e-9, atol=1e-9)
    assert [row.words for row in rows] == ["exact", rough.verdict.word, "exact"]


def test_slopes_that_are_off_are_told_where_values_are_exact():
    result = MAKERS["one_layer"]()
    s = result.samples
    J = s.J.copy()
    J[:, 1] *= 1.05
    verdict = dataclasses.replace(result, samples=dc.Samples(s.X, F=s.F, J=J)).verdict
    assert (
        verdict.grade is dc.fit.Grade.BETTER
        and "The error of the slopes of y2 in cross-validation is 4.8 % of their size" in verdict.sentence
    )


def test_an_output_that_does_not_vary_is_judged_by_its_size():
    rows = output_rows(MAKERS["constant_output"](), ["a", "b", "c"])
    assert [row.constant for row in rows] == [False, True, True]
    assert all(np.isfinite(row.worst) for row in rows)
    assert rows[1].words.endswith("does not vary in the samples")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda u: 0 * u + 3, "is constant"),
        (lambda u: 2 * u, "is nearly a straight line and rises"),
        (lambda u: 1 - u + 0.01 * u**2, "is nearly a straight line and falls"),
        (lambda u: u**3, "rises throughout"),
        (lambda u: u**3 - 0.01 * u, "rises throughout"),
        (lambda u: u**3 - 0.08 * u, "rises, but for a small dip"),
        (lambda u: 0.08 * u - u**3, "falls, but for a small bump"),
        (lambda u: (u + 0.6) ** 2, "rises, but for a small dip"),
        (lambda u: u**2, "falls, then rises"),
        (lambda u: u - u**3, "falls, then rises, then falls"),
        (lambda u: np.cos(20 * u), "turns 13 times"),
    ],
)
def test_curves_are_told_in_words(function, words):
    u = np.linspace(-1.0, 1.0, 101)
    assert shape_in_words(Curve(u, function(u), None)) == words


def test_starts_share_a_row_where_their_objectives_are_alike():
    near, far = (
        dc.solvers.StartRow(k, 1.0, o, np.nan, o, 5, dc.solvers.Status.CONVERGED, 0.1)
        for k, o in enumerate((2.649, 2.9))
    )
    rows = [far, dataclasses.replace(near, start=2, objective=2.651), near]  # 2.6 and 2.7, rounded to two digits
    (group,) = starts_by_lam(rows)
    assert [(level.objective, level.count) for level in group.levels] == [(2.649, 2), (2.9, 1)]


def test_a_curve_that_is_met_to_rounding_is_met_exactly():
    assert distance(1e-9) == "exactly" and distance(3.09) == "to 3.09 % of its standard deviation"


def test_numbers_are_written_for_people():
    values = (0.0, -1.5, 1234.5, 1e-6, -1e20, 2.5e-13, 1e5)
    written = ["0", "−1.5", "1230", "10⁻⁶", "−10²⁰", "2.5·10⁻¹³", "10⁵"]
    assert [written_number(value, 3) for value in values] == written


def test_the_report_is_a_method_and_writes_the_file(tmp_path):
    result = MAKERS["one_layer"]()
    result.report(tmp_path / "r.html", title="A & B", inputs=["a", "b", "c"], outputs=["d", "e"])
    text = (tmp_path / "r.html").read_text()
    assert text == page(result, title="A & B", inputs=["a", "b", "c"], outputs=["d", "e"])
    assert "<h1>A &amp; B</h1>" in text


def test_functions_that_have_names_are_called_by_them():
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (120, 2))
    samples = dc.Samples(X, F=np.clip(X @ [[1.0], [0.5]], -0.7, 0.7))
    text = page(dc.decouple(samples, 1, basis=dc.Spline(10), n_starts=2, progress=False), title="t")
    assert re.search(
        r"</strong> is <strong>a saturation at u = ±0\.\d+</strong> \(to [\d.]+ % of its standard deviation\);", text
    )
    assert text.count('class="named"') == 1 + 1 and "result.simplified()" in text
    assert text.count('class="curve beyond"') == 2 + 1 and 'class="ends"' in text  # tails


def test_the_formula_says_if_only_some_splines_have_got_names(monkeypatch):
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (120, 2))
    samples = dc.Samples(X, F=np.stack([(X[:, 0] + X[:, 1]) ** 2, np.tanh(4 * X[:, 0])], axis=1))
    result = dc.decouple(samples, 2, basis=dc.Spline(10), n_starts=2, progress=False)
    layer = LayerBasis((dc.Chebyshev(2), dc.Spline(4)))
    mixed = resize_model(result.decoupling, (layer,), X, np.random.default_rng(0))
    monkeypatch.setattr("decouply.report._page.readable_model", lambda result: mixed)
    assert "With named curves in place of some splines: error" in plain(page(result, title="t"))


def test_the_page_opens_with_verdict_picture_and_what_matters_and_folds_source_code():
    text = page(MAKERS["values_only"](), title="t")
    pieces = ('class="verdict', 'id="diagram"', 'id="matters"', 'id="functions"', 'id="good"')
    places = [text.index(piece) for piece in pieces]
    assert places == sorted(places)
    assert "<details open>" not in text.split('id="formula"')[1].split("</section>")[0]
    assert text.count('class="dots"') == 4  # measured against predicted, and residuals, for two outputs


def test_the_verdict_knows_noise_and_cards_tell_what_a_function_is_worth():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (120, 2))
    F = np.stack([(X[:, 0] + X[:, 1]) ** 3 + 0.3 * rng.normal(size=120)], axis=1)
    words = plain(page(dc.decouple(dc.Samples(X, F=F), 1, 3, n_starts=2, progress=False), title="t"))
    assert "as good as the data allow" in words and "look like noise" in words
    assert "Without it, the error rises from" in words
    words = plain(page(dc.decouple(dc.Samples(X, F=F), 1, 1, n_starts=2, progress=False), title="t"))
    assert "the data would allow better" in words and "of it: try more functions" in words


def test_straight_lines_that_cancel_are_drawn_as_a_linear_part():
    g = dc.Functions(dc.Monomial(2), [[0.0, 50.0, 1.0], [0.0, -50.0, 0.5]])
    model = dc.Decoupling([[[1.0, 0.0], [1.0, 0.02]], [[1.0, 1.0]]], [g])
    assert model.cancellation(points(2)) > 10
    words = plain(page(given(model, sampled(model)), title="t"))
    assert (
        "cancelled each other" in words and "The linear part" in words and "g_1 and g_2 have nearly the same" in words
    )


def test_every_verdict_has_its_colour():
    """What is not good is orange; a new verdict must be put on one side or the other."""
    css = (files("decouply.report") / "templates" / "report.css").read_text()
    good = {dc.fit.Grade.EXACT, dc.fit.Grade.NOISE, dc.fit.Grade.CLOSE}
    warned = {grade for grade in dc.fit.Grade if f".{grade.name.lower()}," in css or f".{grade.name.lower()})" in css}
    assert warned == set(dc.fit.Grade) - good


def test_no_rule_is_meant_for_a_curve_and_meets_a_verdict():
    """The name of a grade is a class of the verdict; a rule `.noise` for a chart once faded the badge."""
    css = (files("decouply.report") / "templates" / "report.css").read_text(encoding="utf-8")
    for grade in dc.fit.Grade:
        assert not re.search(rf"^\.{grade.name.lower()}\b", css, flags=re.MULTILINE), grade
