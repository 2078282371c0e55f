import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.report._layout import Layout, mixture
from decouply.solvers.inference._linearisation import is_quick
from tests.strategies import points, random_model, sampled


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    samples = sampled(dc.systems.f1())
    F, J = (a + 0.01 * a.std(axis=0) * rng.normal(size=a.shape) for a in (samples.F, samples.J))
    noisy = dc.Samples(samples.X, F=F, J=J)
    return dc.decouple(noisy, (2, 2), (5, 2), solver=dc.VarPro(start=dc.systems.f1()), n_starts=1, progress=False)


def test_the_columns_are_inputs_functions_and_outputs(result):
    layout = Layout.of_result(result)
    kinds = [(node.kind, node.layer, node.index, node.label) for node in layout.nodes]
    assert kinds == [
        ("input", 0, 0, "x1"),
        ("input", 0, 1, "x2"),
        ("function", 1, 0, "g1_1"),
        ("function", 1, 1, "g1_2"),
        ("function", 2, 0, "g2_1"),
        ("function", 2, 1, "g2_2"),
        ("output", 3, 0, "y1"),
        ("output", 3, 1, "y2"),
    ]
    for a, b in zip(layout.nodes, layout.nodes[1:], strict=False):
        assert (a.layer, a.y) < (b.layer, b.y) and (a.x < b.x) == (a.layer < b.layer)


def test_one_layer_needs_no_number_and_names_are_kept_and_shortened():
    model = random_model([2, 3, 1], 0)
    layout = Layout.of(model, points(2), inputs=["pressure", "t" * 30], outputs=["flow"])
    labels = [node.label for node in layout.nodes]
    assert labels == ["pressure", "t" * 23 + "…", "g1", "g2", "g3", "flow"]
    assert layout.nodes[1].name == "t" * 30


def test_edges_hold_the_weights_and_their_shares(result):
    layout, model = Layout.of_result(result), result.decoupling
    for edge in layout.edges:
        source, target = layout.nodes[edge.source], layout.nodes[edge.target]
        assert (source.layer, target.layer) == (edge.layer, edge.layer + 1)
        assert edge.weight == model.W[edge.layer][target.index, source.index]
    z = [result.samples.X, *(g(u) for g, u in zip(model.g, model.inner_inputs(result.samples.X), strict=True))]
    for l, W in enumerate(model.W):
        strength = np.zeros(W.shape)
        for i in range(W.shape[0]):
            for j in range(W.shape[1]):
                strength[i, j] = abs(W[i, j]) * z[l][:, j].std()
            strength[i] /= np.sqrt(np.sum(strength[i] ** 2))
        expected = strength / strength.max()
        for edge in (e for e in layout.edges if e.layer == l):
            i, j = layout.nodes[edge.target].index, layout.nodes[edge.source].index
            assert_allclose(edge.share, expected[i, j])


def test_shares_do_not_depend_on_units_or_on_how_functions_are_scaled():
    model, X = random_model([3, 2, 2, 2], 1), points(3)
    scaled = model.scaled(1, [100.0, -0.01], [5.0, 2.0])
    kilo = dc.Decoupling([model.W[0] / 1000.0, *model.W[1:]], model.g)
    units = dc.Decoupling([*model.W[:-1], model.W[-1] * np.array([[1e6], [1.0]])], model.g)
    shares = [edge.share for edge in Layout.of(model, X).edges]
    for other, at_points in ((scaled, X), (kilo, 1000.0 * X), (units, X)):
        assert_allclose([edge.share for edge in Layout.of(other, at_points).edges], shares)


def test_curves_are_the_functions_over_the_range_that_the_samples_visit(result):
    layout, model = Layout.of_result(result), result.decoupling
    u = model.inner_inputs(result.samples.X)
    for node in (n for n in layout.nodes if n.kind == "function"):
        l, j, curve = node.layer - 1, node.index, node.curve
        assert_allclose([curve.u[0], curve.u[-1]], [u[l][:, j].min(), u[l][:, j].max()])
        every = np.repeat(curve.u[:, None], 2, axis=1)
        assert_allclose(curve.values, model.g[l](every)[:, j])
        assert_allclose(curve.band, result.uncertainty(curve.u, level=0.95)[l][:, j])
        assert curve.lowest <= curve.values.min() and curve.highest >= curve.values.max()
    assert all(n.curve is None or n.curve.band is None for n in Layout.of_result(result, bands=False).nodes)


@pytest.mark.parametrize("dims", [(512, 12, 10), (80, 20, 10), (13, 13, 13), (3, 30, 14, 1)])
def test_large_columns_are_cut_to_the_most_important_nodes(dims):
    model = dc.systems.random_system(dims, (3,) * (len(dims) - 2), rng=0)
    X = points(dims[0], 50)
    X[:, dims[0] // 2] *= 100.0
    layout = Layout.of(model, X)
    for l, size in enumerate(dims):
        column = [n for n in layout.nodes if n.layer == l]
        assert len(column) == min(size, 13)
        note = column[-1] if size > 13 else None
        assert note is None or (note.kind, note.label) == ("more", f"… and {size - 12} more")
        assert sum(n.kind != "more" for n in column) + (note.index if note else 0) == size
        shown = [n.index for n in column if n.kind != "more"]
        assert shown == sorted(shown)
        if 0 < l < len(dims) - 1:
            importance = model.importance(X)[l - 1]
            hidden = np.delete(importance, shown)
            assert hidden.size == 0 or hidden.max() <= importance[shown].min()
    assert any(n.layer == 0 and n.index == dims[0] // 2 and n.kind == "input" for n in layout.nodes)
    assert max(layout.width, layout.height) < 1500
    assert all(0 <= n.x <= layout.width and 0 <= n.y <= layout.height for n in layout.nodes)


def test_negligible_edges_are_left_out_but_no_function_hangs_in_the_air():
    square = dc.Functions(dc.Monomial(2), [[0.0, 1.0, 1.0], [0.0, 1e-6, 1e-6]])
    model = dc.Decoupling([[[1.0, 1e-4], [1.0, 1.0]], [[1.0, 1.0]]], [square])
    layout = Layout.of(model, points(2))
    pairs = {(layout.nodes[e.source].label, layout.nodes[e.target].label) for e in layout.edges}
    assert pairs == {("x1", "g1"), ("x1", "g2"), ("x2", "g2"), ("g1", "y1"), ("g2", "y1")}
    assert layout.n_left_out == 1


def test_boxes_do_not_overlap_and_all_is_inside():
    model = dc.systems.random_system((9, 7, 3, 5), (2, 2), rng=0)
    layout = Layout.of(model, points(9), outputs=["a rather long name", *"bcde"])
    boxes = [n for n in layout.nodes if n.kind == "function"]
    for a in boxes:
        assert a.width > 0 and a.height > 0
        assert a.x - a.width / 2 > 0 and a.y - a.height / 2 >= 0 and a.y + a.height / 2 <= layout.height
        assert all(b is a or abs(a.x - b.x) > a.width or abs(a.y - b.y) > a.height for b in boxes)


def test_the_linear_part_is_a_box_below_with_lines_to_inputs_and_outputs():
    model, X = random_model([3, 2, 2, 2], 1), points(3)
    A = np.array([[1.0, 0.0, 10.0], [1e-9, 0.0, 0.0]])
    plain, layout = Layout.of(model, X), Layout.of(model.with_parts(linear=A), X)
    bypass = layout.bypass
    assert plain.bypass is None and bypass.label == "A x"
    assert Layout.of(model.with_parts(linear=A, offset=[1.0, 2.0]), X).bypass.label == "A x + b"
    boxes = [n for n in layout.nodes if n.kind == "function"]
    assert bypass.y - bypass.height / 2 > max(b.y + b.height / 2 for b in boxes)
    assert bypass.y + bypass.height / 2 < layout.height and layout.height > plain.height
    assert_allclose(bypass.x - bypass.width / 2, min(b.x - b.width / 2 for b in boxes))
    assert_allclose(bypass.x + bypass.width / 2, max(b.x + b.width / 2 for b in boxes))
    names = [[layout.nodes[s.node].label for s in strands] for strands in (bypass.sources, bypass.targets)]
    assert names == [["x1", "x3"], ["y1"]]
    assert_allclose([s.share for s in bypass.sources], [X[:, 0].std() / (10 * X[:, 2].std()), 1.0])
    z = model.g[1](model.inner_inputs(X)[1])
    brought = np.column_stack([np.abs(model.W[2]) * z.std(axis=0), (X @ A.T).std(axis=0)])
    strength = brought / np.linalg.norm(brought, axis=1, keepdims=True)
    assert_allclose(bypass.targets[0].share, strength[0, 2] / strength.max())
    for edge in (e for e in layout.edges if e.layer == 2):
        i, j = layout.nodes[edge.target].index, layout.nodes[edge.source].index
        assert_allclose(edge.share, strength[i, j] / strength.max())


def test_inputs_that_matter_to_the_linear_part_alone_are_shown():
    model, A = random_model([40, 2, 1], 0), np.zeros((1, 40))
    A[0, 33] = 1e3
    inert = dc.Decoupling([model.W[0] * (np.arange(40) < 20), model.W[1]], model.g, linear=A)
    assert "x34" in [node.label for node in Layout.of(inert, points(40)).nodes]


def test_names_are_those_of_the_model_unless_others_are_given():
    model = random_model([2, 3, 1], 0).with_names(["a", "b"], ["c"])
    assert [n.label for n in Layout.of(model, points(2)).nodes if n.kind != "function"] == ["a", "b", "c"]
    layout = Layout.of(model, points(2), outputs=["d"])
    assert [n.label for n in layout.nodes if n.kind != "function"] == ["a", "b", "d"]


def test_a_sum_begins_with_its_strongest_term_and_the_sign_of_that():
    g = dc.Functions(dc.Monomial(2), [[0.0, 0.0, 1.0]])
    X = points(2, 30)
    sums = [mixture(dc.Decoupling([W, [[1.0]]], [g]), X, 1, 0) for W in ([[-5.0, 1.0]], [[5.0, -1.0]])]
    assert sums == ["−5 x1 + 1 x2", "5 x1 − 1 x2"]


def test_one_sample_has_curves_and_shares():
    layout = Layout.of(random_model([2, 2, 1], 0), [[0.5, -0.5]])
    assert max(e.share for e in layout.edges if e.layer == 0) == 1.0
    for node in (n for n in layout.nodes if n.kind == "function"):
        assert node.curve.u[-1] - node.curve.u[0] > 0.1


def test_bands_are_left_out_where_they_take_too_long_or_cannot_be_had():
    small, large = random_model([2, 2, 1], 0), random_model([40, 30, 2], 0)
    samples = sampled(small)
    assert is_quick(small, samples) and not is_quick(large, sampled(large, 5))
    assert not is_quick(small, dc.Samples.from_batches([samples], progress=False))


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", " "], "ab"])
def test_wrong_names_are_refused(names):
    with pytest.raises(dc.InputError, match="`inputs` must be 2"):
        Layout.of(random_model([2, 2, 1], 0), points(2), inputs=names)


def test_no_points_are_refused():
    with pytest.raises(dc.InputError, match="`X` must hold at least one point"):
        Layout.of(random_model([2, 2, 1], 0), np.zeros((0, 2)))
