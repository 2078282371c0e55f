import dataclasses
import io
import subprocess
import sys
import tempfile

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

import decouply as dc
from decouply.report import Layout, draw_diagram, plot_functions
from decouply.report._dynamic_page import _modes
from decouply.report._style import COLOURS
from decouply.solvers import History, LamRow
from tests.strategies import points, sampled

from .results import MAKERS


@pytest.fixture(scope="module")
def result():
    return dc.decouple(
        sampled(dc.systems.f2()),
        (2, 2),
        (3, 3),
        solver=dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=20))),
        progress=False,
    )


@pytest.fixture(scope="module")
def noisy():
    samples, rng = sampled(dc.systems.f1()), np.random.default_rng(0)
    F = samples.F + 0.02 * samples.F.std(axis=0) * rng.normal(size=samples.F.shape)
    return dc.decouple(dc.Samples(samples.X, F=F, J=samples.J), (2, 2), (5, 2), progress=False)


PICTURES = ("plot", "plot_functions", "plot_history", "plot_starts", "plot_fit")


def texts(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def lines(ax):
    return {line.get_gid(): line for line in ax.lines if line.get_gid()}


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("dark", [False, True])
def test_pictures_are_figures_on_light_or_dark_paper(result, name, dark):
    figure = getattr(result, name)(dark=dark)
    assert isinstance(figure, Figure)
    assert (sum(figure.get_facecolor()[:3]) < 1.0) == dark
    assert figure._repr_png_().startswith(b"\x89PNG")  # notebooks show it without pyplot
    for ax in figure.axes:
        assert (sum(to_rgb(ax.xaxis.label.get_color())) > 1.5) == dark


@pytest.mark.slow
def test_pictures_leave_no_trace_and_need_no_window():
    code = """
import sys, matplotlib, numpy as np, decouply as dc
before = matplotlib.rcParams.copy()
system, X = dc.systems.f1(), np.random.default_rng(0).uniform(-1, 1, (30, 2))
result = dc.decouple(dc.Samples(X, F=system(X), J=system.jacobian(X)), (2, 2), (3, 3), n_starts=4, progress=False)
for draw in (result.plot, result.plot_functions, result.plot_history, result.plot_starts, result.plot_fit):
    for dark in (False, True):
        draw(dark=dark).savefig(sys.argv[1])
system.plot(X), system.plot_functions(X)
assert "matplotlib.pyplot" not in sys.modules
assert matplotlib.rcParams.copy() == before
"""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-W", "error", "-c", code, f"{folder}/a.svg"], check=True)


def test_a_users_own_style_does_not_make_pictures_unreadable(result):
    with matplotlib.rc_context({"text.color": "white", "axes.facecolor": "black", "figure.facecolor": "black"}):
        figure = result.plot_history()
    assert figure.get_facecolor()[:3] == figure.axes[0].get_facecolor()[:3] == (1.0, 1.0, 1.0)
    assert all(to_rgb(text.get_color()) < (0.2, 0.2, 0.2) for text in figure.axes[0].texts)


@pytest.mark.parametrize("dark", [False, True])
def test_a_users_own_paper_for_files_does_not_hide_the_ink(result, dark, tmp_path):
    with matplotlib.rc_context({"savefig.facecolor": "white" if dark else "black"}):
        result.plot(dark=dark).savefig(tmp_path / "a.png")
        result.plot(dark=dark).savefig(tmp_path / "b.png", facecolor="red")
    assert (np.mean(matplotlib.image.imread(tmp_path / "a.png")[0, 0, :3]) < 0.5) == dark
    assert matplotlib.image.imread(tmp_path / "b.png")[0, 0, :3].tolist() == [1.0, 0.0, 0.0]


def test_a_users_own_sizes_do_not_make_texts_overlap(result):
    large = {"axes.labelsize": 25, "axes.titlesize": 25, "xtick.labelsize": 25, "ytick.labelsize": 25}
    with matplotlib.rc_context({**large, "legend.fontsize": 25, "lines.marker": "o", "figure.autolayout": True}):
        figure, diagram = result.plot_history(), result.plot()
    for ax in figure.axes:
        assert {ax.yaxis.label.get_size(), *(t.get_size() for t in ax.get_yticklabels())} == {9.0}
        assert {line.get_marker() for line in ax.lines} == {"None"}
    assert diagram.get_layout_engine() is None


# The block diagram


@pytest.mark.slow
def test_edges_of_the_diagram_are_the_weights(noisy):
    model = noisy.decoupling
    edges = {gid: line for gid, line in lines(noisy.plot().axes[0]).items() if gid.startswith("W")}
    wanted = {f"W{l}-{i}-{j}" for l, W in enumerate(model.W) for i, j in np.ndindex(W.shape)}
    assert wanted - set(edges) <= {"W1-0-1", "W1-1-0"} and set(edges) <= wanted
    for gid, line in edges.items():
        l, i, j = (int(part) for part in gid[1:].split("-"))
        negative = model.W[l][i, j] < 0
        assert line.is_dashed() == negative
        assert line.get_color() == COLOURS[int(negative)]
    width = [edges[f"W0-{i}-{j}"].get_linewidth() for i in range(2) for j in range(2)]
    strength = np.abs(model.W[0]) * noisy.samples.X.std(axis=0)
    strength /= np.linalg.norm(strength, axis=1, keepdims=True)
    assert list(np.argsort(width)) == list(np.argsort(strength.ravel()))


def test_curves_of_the_diagram_are_the_functions(noisy):
    drawn = lines(noisy.plot().axes[0])
    for l, (g, u) in enumerate(zip(noisy.decoupling.g, noisy.decoupling.inner_inputs(noisy.samples.X), strict=True)):
        for j in range(g.rank):
            x, y = (np.asarray(data) for data in drawn[f"g{l + 1}_{j + 1}"].get_data())
            grid = np.linspace(u[:, j].min(), u[:, j].max(), len(x))
            assert np.allclose(np.corrcoef(x, grid)[0, 1], 1.0)
            # y runs down the page
            assert np.isclose(np.corrcoef(y, g(np.repeat(grid[:, None], g.rank, axis=1))[:, j])[0, 1], -1.0)


def test_bands_are_drawn_where_they_are_known_and_wanted(noisy):
    assert len(noisy.plot().axes[0].collections) == 5  # four functions and the key
    assert "95 % band" in texts(noisy.plot())
    assert not noisy.plot(bands=False).axes[0].collections
    assert "95 % band" not in texts(noisy.plot(bands=False))
    assert all(len(ax.collections) == 1 for ax in noisy.plot_functions().axes)
    assert not any(ax.collections for ax in noisy.plot_functions(bands=False).axes)


def test_a_band_wider_than_its_curve_is_cut_off_and_leaves_the_curve_to_see(noisy):
    model, X = noisy.decoupling, noisy.samples.X

    def errors(grids):
        return tuple(np.full_like(grid, 1e6) for grid in grids)

    for ax, j in zip(plot_functions(model, X, bands=errors).axes[:2], (0, 1), strict=True):
        assert np.ptp(ax.get_ylim()) < 3.5 * np.ptp(ax.lines[0].get_ydata()), j
    layout = Layout.of(model, X, bands=errors)
    ax = draw_diagram(layout).axes[0]
    for node in (node for node in layout.nodes if node.curve is not None):
        assert np.ptp(lines(ax)[node.label].get_ydata()) > node.height / 4
    for band in ax.collections[:-1]:  # the last one is the key's
        assert np.ptp(band.get_paths()[0].vertices[:, 1]) < layout.nodes[2].height


def test_the_rounding_of_a_constant_is_not_blown_up(noisy):
    model = dc.Decoupling([[[1.0]], [[1.0]]], [dc.Functions(dc.Monomial(1), [[5.0, 1e-15]])])
    X = points(1)
    assert np.ptp(lines(model.plot(X).axes[0])["g1"].get_ydata()) < 1e-6
    assert np.ptp(model.plot_functions(X).axes[0].get_ylim()) > 1.0


def test_names_are_written_as_they_are(noisy):
    figure = noisy.plot(inputs=["$p_1", "50 % & <b>"], outputs=["\\frac{", "höhe"])
    assert {"$p_1", "50 % & <b>", "\\frac{", "höhe"} <= set(texts(figure))
    stream = io.StringIO()
    figure.savefig(stream, format="svg")  # none of them is taken for mathematics
    assert "50 % &amp; &lt;b&gt;" in stream.getvalue()
    with pytest.raises(dc.InputError, match="`inputs` must be 2 names"):
        noisy.plot(inputs=["a"])
    with pytest.raises(dc.InputError, match="`outputs` must be 2 names"):
        noisy.plot_fit(outputs=["a", "b", "c"])


def test_large_models_are_cut_to_what_fits_a_page():
    model = dc.systems.random_system((512, 12, 10), (3,), rng=0)
    figure = model.plot(points(512, 30))
    assert "… and 500 more" in texts(figure)
    assert len([gid for gid in lines(figure.axes[0]) if gid.startswith("W0")]) <= 144
    assert max(figure.get_size_inches()) < 15
    wide = dc.systems.random_system((4, 50, 2), (2,), rng=0).plot_functions(points(4))
    assert sum(ax.axison for ax in wide.axes) == 36 and wide.axes[-1].get_title() == "$g_{36}$ of 50"
    assert max(wide.get_size_inches()) < 15


@pytest.mark.slow
def test_all_text_of_the_diagram_is_on_the_page(noisy):
    long = "a rather long name that never seems to end"
    three = dc.systems.random_system((4, 3, 4, 2, 3), (3, 2, 3), rng=3)
    for figure in (
        noisy.plot(inputs=[long, "WWWWWWWWWWWWWWWWWW"], outputs=["b", long]),
        three.plot(points(4)),
        dc.systems.random_system((512, 15, 80), (3,), rng=0).plot(points(512)),
        dc.systems.random_system((1, 1, 1), (3,), rng=0).plot(points(1)),
    ):
        figure.draw_without_rendering()
        page = figure.bbox
        for text in figure.axes[0].texts:
            box = text.get_window_extent()
            assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1, text


def test_the_linear_part_is_drawn_and_named():
    result = MAKERS["linear_part"]()
    figure = result.plot()
    drawn = lines(figure.axes[0])
    assert {"A-in-0", "A-in-1", "A-in-2", "A-out-2"} <= set(drawn)
    assert {"$A\\,x + b$", "linear part", "flow", "<i>temp</i>", "c"} <= set(texts(figure))
    assert not any(text in ("linear part", "outside the domain") for text in texts(dc.systems.f1().plot(points(2))))
    assert [ax.get_title()[0] for ax in result.plot_fit().axes[:3]] == ["a", "b", "c"]
    assert result.plot_fit(outputs=["p", "q", "r"]).axes[0].get_title().startswith("p: ")


def test_what_lies_outside_the_domain_is_dashed_with_ticks_at_its_ends():
    result = MAKERS["straight_tails"]()
    model, X = result.decoupling, result.samples.X
    figure = result.plot(bands=False)
    assert "outside the domain" in texts(figure)
    gids = [line.get_gid() for line in figure.axes[0].lines]
    assert [gids.count(gid) for gid in ("g1", "g1-beyond", "g1-end")] == [1, 2, 2]
    for j, ax in enumerate(result.plot_functions(bands=False).axes[:2]):
        solid, *dashed = ax.lines[:3]
        assert [line.get_linestyle() for line in (solid, *dashed)] == ["-", "--", "--"]
        assert np.allclose(solid.get_xdata()[[0, -1]], model.g[0].domain[j])
        u = np.concatenate([line.get_xdata() for line in (dashed[0], solid, dashed[1])])
        assert np.allclose(u[[0, -1]], (model.inner_inputs(X)[0][:, j].min(), model.inner_inputs(X)[0][:, j].max()))
        values = np.concatenate([line.get_ydata() for line in (dashed[0], solid, dashed[1])])
        assert np.allclose(values, model.g[0](np.stack([u, u], axis=1))[:, j], atol=0.01 * np.ptp(values))
        ends = [line.get_xdata()[0] for line in ax.lines if line.get_gid() == "end"]
        assert np.allclose(ends, model.g[0].domain[j])


def test_one_point_can_be_drawn_and_none_cannot():
    model = dc.systems.f1()
    for draw in (model.plot, model.plot_functions):
        assert isinstance(draw([[0.5, 0.5]]), Figure)
        with pytest.raises(dc.InputError, match="`X` must hold at least one point"):
            draw(np.zeros((0, 2)))
        with pytest.raises(dc.InputError, match="`X` must have 2 columns"):
            draw(np.zeros((5, 3)))


# The other pictures


def test_every_function_has_a_panel():
    system = dc.systems.f3()
    figure = system.plot_functions(points(4))
    shown = [ax for ax in figure.axes if ax.axison]
    expected = [f"$g_{{{l},{j}}}$" for l, r in ((1, 3), (2, 2)) for j in range(1, r + 1)]
    assert [ax.get_title() for ax in shown] == expected
    u = system.inner_inputs(points(4))[1]
    x, y = shown[3].lines[0].get_data()
    assert np.allclose((x[0], x[-1]), (u[:, 0].min(), u[:, 0].max()))
    assert np.allclose(y, system.g[1](np.stack([x, x], axis=1))[:, 0])
    assert np.array_equal(shown[3].lines[1].get_xdata(), u[:, 0])


def test_the_history_shows_objective_and_errors_for_every_lam(result):
    top, bottom = result.plot_history().axes
    history, n = result.history, len(result.path)
    for ax, rows in ((top, [history.objective]), (bottom, [history.error_jacobian, history.error_values])):
        drawn = [line for line in ax.lines if len(line.get_xdata()) > 2]
        assert len(drawn) == n * len(rows)
        assert np.allclose(np.concatenate([line.get_ydata() for line in drawn]), np.concatenate(rows))
    assert [text.get_text() for text in bottom.get_legend().get_texts()] == ["Error(J)", "Error(F)"]
    labels = {text.get_text() for text in top.texts}
    chosen = next(row.lam for row in result.path if row.chosen)
    assert len(labels) == n and "λ = 1e-6" in {label.removesuffix(" chosen") for label in labels}
    assert [float(label.split()[2]) for label in labels if "chosen" in label] == [pytest.approx(chosen)]


def test_the_history_of_varpro_is_its_objective(noisy):
    (ax,) = noisy.plot_history().axes
    assert np.allclose(ax.lines[0].get_ydata(), noisy.history.objective)
    assert "in the end: Error(J)" in ax.get_xlabel() and "Error(F)" in ax.get_xlabel()


def test_an_objective_that_hardly_moves_has_an_axis_with_numbers(noisy):
    flat = 1.5e-4 * (1 + 1e-15 * np.arange(30) % 3)
    unknown = np.full(30, np.nan)
    figure = dataclasses.replace(noisy, history=History(np.ones(30), flat, unknown, unknown)).plot_history()
    figure.draw_without_rendering()
    low, high = figure.axes[0].get_ylim()
    assert low < 1e-4 < 2e-4 < high
    shown = figure.axes[0].get_position()
    assert shown.height > 0.5 and shown.width > 0.7


def test_values_of_zero_and_single_iterations_are_drawn(noisy):
    lam = np.array([1e-6, 1e-4, 1e-4])
    zero = History(lam, np.array([1.0, 1e-3, 0.0]), np.full(3, np.nan), np.array([1.0, 0.1, 0.0]))
    path = tuple(LamRow(value, 1.0, 1.0, 1.0, 1.0, 1, value > 1e-5) for value in (1e-6, 1e-4))
    figure = dataclasses.replace(noisy, history=zero, path=path).plot_history()
    figure.draw_without_rendering()
    assert figure.axes[0].lines[0].get_marker() == "o"
    assert [text.get_text() for text in figure.axes[1].get_legend().get_texts()] == ["Error(F)"]


def test_stages_too_short_to_be_named_leave_the_name_of_the_chosen_one(noisy):
    lengths = [100, 1, 1, 1, 100]
    lam = np.concatenate([np.full(n, 10.0**i) for i, n in enumerate(lengths)])
    history = History(lam, np.ones(203), np.ones(203), np.ones(203))
    path = tuple(LamRow(10.0**i, 1.0, 1.0, 1.0, 1.0, n, i == 2) for i, n in enumerate(lengths))
    figure = dataclasses.replace(noisy, history=history, path=path).plot_history()
    assert sorted(texts(figure)) == ["λ = 1", "λ = 100 chosen", "λ = 1e4"]


def test_the_starts_are_counted(result, noisy):
    ax = result.plot_starts().axes[0]
    assert len(ax.lines) == len(result.path)
    rows = [row.objective for row in result.starts if row.lam == result.path[0].lam]
    x, y = ax.lines[0].get_data()
    assert np.allclose(x, sorted(rows)) and list(y) == list(range(1, len(rows) + 1))
    assert f"of {len(rows)}" in ax.get_ylabel()
    (text,) = noisy.plot_starts().axes[0].get_legend().get_texts()
    n_left = sum(not np.isfinite(row.objective) for row in noisy.starts)
    assert n_left > 0 and f"({n_left} given up early)" in text.get_text()


def test_the_fit_shows_measured_against_predicted_values(noisy):
    figure = noisy.plot_fit(outputs=["a", "$b"])
    e = noisy.relative_rmse()
    tops, bottoms = figure.axes[:2], figure.axes[2:]
    for i, (top, bottom) in enumerate(zip(tops, bottoms, strict=True)):
        truth, fitted = noisy.samples.F[:, i], noisy.decoupling(noisy.samples.X)[:, i]
        assert np.array_equal(top.lines[1].get_data(), (fitted, truth))
        assert np.array_equal(bottom.lines[1].get_data(), (fitted, truth - fitted))
        r_squared = f"{1.0 - np.sum((truth - fitted) ** 2) / np.sum((truth - truth.mean()) ** 2):.4g}"
        assert top.get_title() == f"{['a', '$b'][i]}: error {e[i]:.3g} %, R² {r_squared}"
    new = sampled(dc.systems.f1(), seed=5)
    assert f"{noisy.relative_rmse(new)[0]:.3g} %" in noisy.plot_fit(new).axes[0].get_title()


def test_long_names_do_not_run_into_the_next_panel(noisy):
    figure = noisy.plot_fit(outputs=["the temperature of the water in the inlet", "the pressure in the outlet, in bar"])
    figure.draw_without_rendering()
    boxes = [ax.title.get_window_extent() for ax in figure.axes if ax.get_title()]
    assert boxes[0].x1 < boxes[1].x0 and boxes[1].x1 < figure.bbox.x1


def test_the_fit_of_odd_samples(noisy):
    one = noisy.samples.take([0])
    assert "does not vary" in noisy.plot_fit(one).axes[0].get_title()
    constant = dc.Samples(noisy.samples.X, F=np.column_stack([np.ones(40), noisy.samples.F[:, 1]]))
    titles = [ax.get_title() for ax in noisy.plot_fit(constant).axes[:2]]
    assert "does not vary" in titles[0] and "%" in titles[1]
    noisy.plot_fit(constant).draw_without_rendering()
    with pytest.raises(dc.InputError, match="must hold values F"):
        noisy.plot_fit(dc.Samples(noisy.samples.X, J=noisy.samples.J))


@pytest.mark.slow
def test_the_fit_of_many_outputs_and_samples_shows_the_worst_and_some():
    model = dc.systems.random_system((3, 2, 14), (2,), rng=0)
    samples = sampled(model, 30)
    F = samples.F.copy()
    F[:, 13] += np.random.default_rng(0).normal(size=30) * F[:, 13].std()
    result = dc.decouple(samples, 2, 2, progress=False)
    figure = result.plot_fit(dc.Samples(samples.X, F=F))
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert len(titles) == 12 and titles[-1].startswith("y14: ")
    assert figure.get_suptitle() == "the worst 12 of 14 outputs"
    many = sampled(model, 7000)
    assert len(result.plot_fit(many).axes[0].lines[1].get_xdata()) <= 3000


def test_modes_are_poles_with_frequency_and_damping():
    pole = np.exp(-0.2 + 0.5j)  # of a mode that turns by 0.5 rad and loses a fifth of its logarithm per sample
    turning, slow, over = _modes(np.array([pole, np.conj(pole), 0.5, 0.0], dtype=complex))
    assert_allclose([turning["real"], turning["imag"]], [pole.real, pole.imag])
    assert_allclose(turning["frequency"], np.hypot(0.2, 0.5) / (2.0 * np.pi))
    assert_allclose([turning["damping"], turning["constant"]], [0.2 / np.hypot(0.2, 0.5), 5.0])
    assert_allclose([slow["damping"], slow["constant"], over["constant"]], [1.0, 1.0 / np.log(2.0), 0.0])
    in_seconds = _modes(np.array([pole]), 0.01)[0]
    assert_allclose(in_seconds["frequency"], 100.0 * turning["frequency"])
    assert_allclose([in_seconds["damping"], in_seconds["constant"]], [turning["damping"], 0.05])
