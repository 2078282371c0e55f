import re
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import decouply as dc
from tests.strategies import sampled
from tests.write.models import points
from tests.write.models import random_model as everything


@pytest.fixture(scope="module")
def result():
    return dc.decouple(sampled(dc.systems.f2()), (2, 2), (3, 3), progress=False)


def parsed(html):
    """As XML, so that anything left open or not escaped is an error."""
    entities = {"&times;": "×", "&hellip;": "…", "&lambda;": "λ"}
    for name, letter in entities.items():
        html = html.replace(name, letter)
    return ElementTree.fromstring(html.replace("<br>", "<br/>"))


def drawings(html):
    return list(parsed(html).iter("svg"))


def polyline(svg):
    return np.array([[float(v) for v in pair.split(",")] for pair in svg.find("polyline").get("points").split()])


def test_samples_show_the_range_and_a_histogram_of_every_variable():
    X = np.repeat(np.arange(24.0), 5)[:, None] * [1.0, -2.0]
    html = dc.Samples(X, F=np.ones((120, 1)), J=np.ones((120, 1, 2)))._repr_html_()
    assert "Samples(S=120, m=2, n=1: values and Jacobians)" in html
    assert "0 &hellip; 23" in html and "-46 &hellip; 0" in html and "1 &hellip; 1" in html
    assert "120 &times; 1 &times; 2" in html
    bars = [re.findall(r"v-([\d.]+)h", svg.find("path").get("d")) for svg in drawings(html)]
    assert [len(b) for b in bars] == [24, 24, 1] and len({*bars[0], *bars[1]}) == 1  # even values, equal bars


def test_samples_of_jacobians_have_no_outputs_to_show():
    samples = sampled(dc.systems.f1())
    assert len(drawings(dc.Samples(samples.X, J=samples.J)._repr_html_())) == 2
    stored = dc.Samples.from_batches([(samples.X, None, samples.J)], progress=False)
    assert "in a store" in stored._repr_html_()
    assert len(drawings(dc.Samples(samples.X[:1], F=samples.F[:1])._repr_html_())) == 4


def test_a_model_shows_its_functions_over_their_domains():
    model = everything([(dc.Monomial(3), dc.bases.Trigonometric(2))], "linear")
    html = model._repr_html_()
    assert f"Decoupling 3-2-2, {model.n_parameters} parameters" in html and "over the domains" in html
    assert "Monomial(degree=3), Trigonometric(count=2); tangents beyond the domains" in html
    for j, svg in enumerate(drawings(html)):
        drawn = polyline(svg)
        grid = np.linspace(*model.g[0].domain[j], len(drawn))
        expected = model.g[0](np.repeat(grid[:, None], 2, axis=1))[:, j]
        assert np.corrcoef(drawn[:, 0], grid)[0, 1] > 0.9999
        assert np.corrcoef(drawn[:, 1], expected)[0, 1] < -0.999  # y runs down
        assert drawn.min() >= 0 and drawn[:, 0].max() <= 64 and drawn[:, 1].max() <= 36


def test_a_model_shows_its_linear_part_its_offset_and_its_names():
    plain = everything([(dc.bases.Tanh(),)])
    assert "linear" not in plain._repr_html_() and "inputs" not in plain._repr_html_()
    names = (["<b>", "wind\nspeed", "c"], ["p", "q"])
    model = everything([(dc.bases.Tanh(),)], linear=True, offset=True, names=names)
    html = model._repr_html_()
    parsed(html)
    assert "2 &times; 3, a linear part" in html and f"{model.offset[0]:.3g}, {model.offset[1]:.3g}" in html
    assert "<i>&lt;b&gt;</i>, <i>wind speed</i>, <i>c</i>" in html and "<i>p</i>, <i>q</i>" in html
    assert "degree" not in html
    X = points()
    html = dc.Samples(X, F=model(X), inputs=names[0], outputs=names[1])._repr_html_()
    assert "<i>wind speed</i></th>" in html and "<i>q</i></th>" in html and "&lt;b&gt;, 40 values" in html


def test_drawings_are_dashed_beyond_the_domain(result):
    narrow = result.decoupling.with_parts(
        g=[
            dc.Functions(g.basis, g.C, np.stack([g.domain[:, 0], g.middle], axis=1), "linear")
            for g in result.decoupling.g
        ]
    )
    assert not any("stroke-dasharray" in line.attrib for line in parsed(result._repr_html_()).iter("polyline"))
    for svg in drawings(replace(result, decoupling=narrow)._repr_html_()):
        solid, *dashed = svg.findall("polyline")
        assert dashed and all("stroke-dasharray" in line.attrib for line in dashed)
        assert "stroke-dasharray" not in solid.attrib
        assert re.fullmatch(r"(M[\d.]+ 36v-6)+", svg.findall("path")[-1].get("d"))


def test_a_result_shows_its_functions_where_the_samples_lie(result):
    html = result._repr_html_()
    for piece in ("Error(J)", "Error(F)", "e<sub>i</sub> in %", result.reason, "range that the samples visit"):
        assert piece in html
    u = result.decoupling.inner_inputs(result.samples.X)
    titles = [svg.find("title").text for svg in drawings(html)]
    for title, (l, j) in zip(titles, np.ndindex(2, 2), strict=True):
        assert title.startswith(f"g{l + 1}_{j + 1} from {u[l][:, j].min():.3g} to {u[l][:, j].max():.3g},")


def test_only_what_is_known_is_listed(result):
    samples = result.samples
    only_jacobians = replace(result, samples=dc.Samples(samples.X, J=samples.J))._repr_html_()
    assert "Error(F)" not in only_jacobians and "in %" not in only_jacobians and "nan" not in only_jacobians
    assert "Error(J)" not in replace(result, samples=dc.Samples(samples.X, F=samples.F))._repr_html_()


def test_large_ones_stay_small():
    model = dc.systems.random_system((512, 40, 30), (3,), rng=0)
    samples = sampled(model, 20)
    small = dc.Samples(samples.X, F=samples.F)
    result = dc.decouple(
        samples, 40, 3, solver=dc.Proj(stopping=dc.solvers.Stopping(max_steps=2)), n_starts=1, progress=False
    )
    for shown, n_drawings in ((model, 12), (small, 12), (result, 12)):
        html = shown._repr_html_()
        assert len(drawings(html)) == n_drawings and len(html) < 15_000
        assert "more" in html
    assert "… and 28 more" in model._repr_html_() and "506 more" in small._repr_html_()
    assert "… and 18 more" in result._repr_html_()  # of the e_i


def test_what_users_write_is_escaped(result):
    class Odd(dc.bases.AbstractBasis):
        size = 1

        def evaluate(self, u):
            return np.asarray(u)[..., None] * 0.0

        derivative = second_derivative = evaluate

        def __repr__(self):
            return "<script>alert('&')</script>"

    model = dc.Decoupling([np.eye(1), np.eye(1)], [dc.Functions(Odd(), [[2.0, 1.0]])])
    noted = replace(result, notes=("a <b> & c",))
    for shown in (model, noted):
        html = shown._repr_html_()
        parsed(html)
        assert "<script>" not in html and "<b>" not in html
    assert len(polyline(drawings(model._repr_html_())[0])) > 2  # a constant is a line in the middle


def test_drawings_have_the_colour_of_the_text(result):
    for html in (result._repr_html_(), result.samples._repr_html_(), result.decoupling._repr_html_()):
        assert "currentColor" in html and not re.search(r"#[0-9a-fA-F]{3,6}", html)


def test_functions_too_large_to_be_drawn_leave_an_empty_frame():
    huge = dc.Functions(dc.Monomial(1), [[1e308, 1e308]])
    with np.errstate(over="ignore"):
        html = dc.Decoupling([[[1.0]], [[1.0]]], [huge])._repr_html_()
    assert drawings(html)[0].find("polyline") is None


def test_notebooks_need_no_matplotlib():
    code = (
        "import sys, decouply as dc; m = dc.systems.f1(); m._repr_html_(); "
        "dc.Samples([[0.0, 1.0]], F=[[1.0]])._repr_html_(); print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
