import re

import pytest
from matplotlib.figure import Figure

import decoupling as dc
from decoupling.report import plot_functions, plot_history, plot_starts

from .strategies import sampled


@pytest.fixture(scope="module")
def result():
    return dc.decouple(
        sampled(dc.systems.f2()), (2, 2), (3, 3), solver=dc.TwoStage(dc.Constr(max_iterations=20)), progress=False
    )


def test_figures_are_returned_and_show_every_function(result):
    figure = result.plot()
    assert isinstance(figure, Figure)
    assert [ax.get_title() for ax in figure.axes] == [f"layer {l}, function {j}" for l in (1, 2) for j in (1, 2)]
    assert len(plot_history(result).axes[0].lines) >= 2
    assert len(plot_starts(result).axes[0].lines) == len(result.path)
    wide = plot_functions(dc.systems.f3(), sampled(dc.systems.f3()))
    assert sum(ax.axison for ax in wide.axes) == 5


def test_the_report_is_one_file_that_tells_what_was_found(result, tmp_path):
    result.report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    for piece in ("ranks (2, 2)", "30 parameters", "Error(J)", "chosen", result.reason.split(";")[0], "<svg"):
        assert piece in text
    links = re.findall(r"(?:src|href)=\"(?!#)([^\"]+)\"", text)
    assert all(link.startswith("http://www.w3.org") for link in links), links
    assert len(text) < 1_000_000


def test_the_report_is_the_same_every_time_and_escapes_what_users_write(result, tmp_path):
    result.report(tmp_path / "a.html", title="<script>alert(1)</script>")
    result.report(tmp_path / "b.html", title="<script>alert(1)</script>")
    text = (tmp_path / "a.html").read_text()
    assert text == (tmp_path / "b.html").read_text()
    assert "<script>" not in text and "&lt;script&gt;" in text


@pytest.mark.parametrize("keep", ["F", "J"])
def test_values_or_notes_that_are_missing_are_left_out(keep, tmp_path):
    samples = sampled(dc.systems.random_system((3, 2, 3), (2,), rng=0))
    data = dc.Samples(samples.X, J=samples.J) if keep == "J" else samples
    result = dc.decouple(data, 2, 2, progress=False)
    result.report(tmp_path / "r.html")
    assert ("Error(F)" in (tmp_path / "r.html").read_text()) == (keep == "F")
