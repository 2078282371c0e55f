"""Layers that are trained like a plain network, and what `compress` takes among them."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import nn

import decouply as dc
from decouply.nn.carving._onnx_network import OnnxNetwork
from decouply.nn.carving._part import activations_of
from decouply.nn.compression import _pipeline
from decouply.nn.training import _candidates
from decouply.nn.training._candidates import Lesson, Plan, lesson_of, plan_within, train_best
from decouply.nn.training._distillation import TrainingInputs
from decouply.nn.training._eigenbasis_adam import EigenbasisAdam
from tests.samples.readers import test_onnx_graph as onnx_graphs

pytestmark = pytest.mark.filterwarnings("ignore:The error of the part is")  # trained for a moment only
GELU, PLAIN = dc.Activation("gelu"), dc.Activation("gelu", hinges=0)
SHORT = dc.nn.Distil(max_steps=60, batch_size=64, mixup=0.0)


@pytest.fixture
def part():
    torch.manual_seed(0)
    own = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 3)).requires_grad_(
        False
    )
    own[0].weight.mul_(3.0)
    own[4].weight[0] *= 100.0  # an output in units of its own
    return own


@pytest.fixture
def lesson(part):
    torch.manual_seed(1)
    X = torch.randn(400, 4) * torch.tensor([1.0, 10.0, 0.1, 1.0]) + 5.0
    own = nn.Sequential(nn.BatchNorm1d(4, affine=False), *part)
    own(X)
    F = own.eval()(X)
    return lesson_of(X, F, own, SHORT, torch.Generator().manual_seed(0), in_classes=False)


def generator():
    return torch.Generator().manual_seed(3)


def test_a_plan_spends_what_it_may_and_no_more():
    assert plan_within(512, 10, 6324, 2, PLAIN) == Plan((512, 11, 28, 10), PLAIN)
    for basis in (GELU, PLAIN):
        for L in (1, 2, 3):
            plan = plan_within(25, 198, 13_302, L, basis)
            assert 13_302 - 300 < plan.n_parameters <= 13_302
            wider = Plan((*plan.sizes[:-2], plan.sizes[-2] + 1, 198), basis)
            assert wider.n_parameters > 13_302
    assert plan_within(25, 198, 200, 1, PLAIN) is None


def test_a_layer_computes_what_its_copy_did_and_counts_the_same_numbers(lesson):
    plan = Plan((4, 5, 6, 3), GELU)
    units = _candidates._Units.of(lesson)
    copies = _candidates._Copies.begin(plan, 2, lesson.inputs.inputs, generator())
    with torch.no_grad():
        copies.flat.add_(0.1 * torch.randn(copies.flat.shape, generator=generator()))
        X = lesson.inputs.inputs[:50]
        layer = copies.layer(1, units)
        expected = copies.values(units.scaled(X))[1] * units.values_spread + units.values_middle
        assert torch.allclose(layer(X), expected, atol=1e-3)
    n_numbers = sum(p.numel() for p in layer.parameters())
    assert n_numbers == plan.n_parameters == layer.to_decoupling().n_parameters == copies.flat.numel() // 2


def test_copies_side_by_side_are_trained_as_if_alone(lesson):
    plan = Plan((4, 5, 3), GELU)
    units = _candidates._Units.of(lesson)

    def trained(rates):
        inputs = TrainingInputs(lesson.inputs.inputs, lesson.inputs.values, lesson.inputs.n_given, 64, 0, generator())
        same = Lesson(inputs, lesson.held_out, in_classes=False)
        return _candidates._train_copies(plan, rates, same, units, SHORT, generator(), lambda **_: None, "")[0]

    for one, other in zip(trained((0.01, 0.03)), (*trained((0.01,)), *trained((0.03,))), strict=True):
        assert one.distance == pytest.approx(other.distance, rel=1e-3) and one.rate == other.rate


def test_steps_along_eigenvectors_are_those_of_adam_in_their_basis():
    draw = generator()
    U, V = (torch.linalg.qr(torch.randn(3, 3, generator=draw, dtype=torch.float64))[0] for _ in range(2))
    matrix = U @ torch.diag(torch.tensor([4.0, 1.0, 0.25], dtype=torch.float64)) @ V.T
    shifts = torch.tensor([3.0, -0.01], dtype=torch.float64)
    flat = torch.zeros(2 * 9 + 2 * 2, dtype=torch.float64)
    rates = (1.0, 0.5)
    optimiser = EigenbasisAdam(flat, [(2, 3, 3), (2, 2)], [True, False], rates)
    gradient = torch.cat([matrix.reshape(-1)] * 2 + [shifts] * 2)
    for _ in range(200):
        before = flat.clone()
        optimiser.step(gradient, 0.1)
    step = flat - before
    for k, rate in enumerate(
        rates
    ):  # every direction of a constant gradient has the same size, as numbers have in Adam
        assert torch.allclose(step[:18].view(2, 3, 3)[k], -0.1 * rate * U @ V.T, atol=1e-3)
        assert torch.allclose(step[18:].view(2, 2)[k], -0.1 * rate * shifts.sign(), atol=1e-3)


def test_a_copy_that_goes_astray_leaves_the_others_as_they_are(lesson):
    plan, units = Plan((4, 5, 3), dc.Activation("relu")), _candidates._Units.of(lesson)
    found, _ = _candidates._train_copies(plan, (1e30, 0.01), lesson, units, SHORT, generator(), lambda **_: None, "")
    assert [one.rate for one in found] == [0.01]
    astray = dc.nn.Distil(max_steps=20, batch_size=64, mixup=0.0, rate=1e30)
    for plans in ([plan], [plan, plan]):
        with pytest.raises(dc.InputError, match="`rate` of `Distil` must be smaller"):
            train_best(plans, lesson, astray, generator(), lambda **_: None)


def test_a_plain_network_is_always_trained_to_the_end_and_the_nearest_comes_first(lesson):
    plans = [Plan((4, 6, 3), GELU), Plan((4, 5, 3), GELU), Plan((4, 1, 3), PLAIN)]
    found = train_best(plans, lesson, SHORT, generator(), lambda **_: None)
    assert {one.plan for one in found} >= {plans[2]} and len(found) == 4
    assert [one.distance for one in found] == sorted(one.distance for one in found)
    X, F = lesson.held_out
    with torch.no_grad():
        assert float(lesson.of_values(found[0].layer(X), F)) == pytest.approx(found[0].distance, rel=1e-3)


def test_ctrl_c_ends_all_trainings_and_the_best_so_far_is_kept(lesson):
    stages = []

    def report(stage, done, **_):
        stages.append(stage)
        if stage == "trying 2 of 3" and done == 2:
            raise KeyboardInterrupt

    plans = [Plan((4, 5, 3), GELU), Plan((4, 5, 3), PLAIN), Plan((4, 6, 3), PLAIN)]
    with pytest.warns(dc.DecouplingWarning, match="Ctrl-C"):
        found = train_best(plans, lesson, SHORT, generator(), report)
    assert set(stages) == {"trying 1 of 3", "trying 2 of 3"} and {one.plan for one in found} == set(plans[:2])


def test_weights_say_which_output_counts(part, lesson):
    def errors(weights):
        lesson.inputs.generator.manual_seed(0)
        own = Lesson(lesson.inputs, lesson.held_out, False, torch.tensor(weights))
        found = train_best([Plan((4, 1, 3), GELU)], own, SHORT, generator(), lambda **_: None)
        X, F = lesson.held_out
        with torch.no_grad():
            return (found[0].layer(X) - F).pow(2).mean(0)

    assert errors([0.0, 1e4, 0.0])[1] < 0.9 * errors([1.0, 0.0, 0.0])[1]
    with pytest.raises(dc.InputError, match="`weights` must be 3 numbers, one per output"):
        dc.nn.compress(part, ("0", "4"), np.zeros((50, 4)), 2, training=training(weights=(1.0, 2.0)), progress=False)
    with pytest.raises(dc.InputError, match="`weights` must be numbers of at least 0"):
        dc.nn.Distil(weights=(1.0, -1.0))


def test_activations_are_those_of_the_part():
    class Called(nn.Module):
        def forward(self, x):
            return nn.functional.silu(x)

    traced = torch.fx.symbolic_trace(Called())
    kinds = [
        (nn.Sequential(nn.ReLU(), nn.Tanh(), nn.ReLU()), "relu"),
        (nn.LeakyReLU(), "relu"),
        (traced, "silu"),
        (nn.Linear(2, 2), "gelu"),
    ]
    for module, name in kinds:
        found = activations_of(module)
        assert found[:2] == [dc.Activation(name, 0), dc.Activation(name, 1)]
        assert dc.Activation("gelu", 0) in found


def training(**options):
    return dc.nn.Training(refine=dc.nn.Distil(**{"max_steps": 40, "batch_size": 64, "mixup": 0.0} | options))


def test_compress_takes_what_is_nearest_and_says_what_else_it_tried(part):
    X = torch.randn(2600, 4, generator=generator())
    out = dc.nn.compress(part, ("0", "4"), X, budget=dc.nn.Budget(parameters=120), training=training(), progress=False)
    tried = out.report.parts[0].tried
    assert out.result is None and tried[0].distance == min(one.distance for one in tried)
    assert any("a plain network" in one.functions for one in tried)
    assert f"{tried[0].functions}, " in str(out.report) and "not taken: " in str(out.report)
    assert out.report.parameters[1] <= 120 and out.report.outside == 0.0
    assert all(basis.is_activation for g in out.decoupling.g for basis in g.layer.bases)
    again = dc.nn.compress(
        part, ("0", "4"), X, budget=dc.nn.Budget(parameters=120), training=training(), progress=False
    )
    assert torch.equal(out.model(X[:5]), again.model(X[:5]))


def test_with_few_inputs_a_decoupling_competes(part, monkeypatch):
    quick = dc.Proj(stopping=dc.solvers.Stopping(max_steps=1))
    monkeypatch.setattr(_pipeline, "TwoStage", lambda _: quick)
    X = torch.randn(60, 4, generator=generator())
    fitting = dc.nn.Fitting(n_samples=30)
    out = dc.nn.compress(part, ("0", "4"), X, 2, fitting=fitting, training=training(), progress=False)
    assert any("from a decoupling" in one.functions for one in out.report.parts[0].tried)
    asked = dc.nn.Fitting(basis=dc.Activation("tanh", hinges=2))
    one = dc.nn.compress(part, ("0", "4"), X, (3, 2), fitting=asked, training=training(), progress=False)
    assert one.layer.ranks == (3, 2) and one.decoupling.g[0].basis == dc.Activation("tanh", hinges=2)
    assert [row.functions for row in one.report.parts[0].tried] == ["3 and 2 tanh functions with 2 hinges"]


def test_ranks_are_found_with_activations_and_numbers_are_rounded(part):
    X = torch.randn(2400, 4, generator=generator())
    told = dc.nn.Training(refine=training().refine, quantize=8)
    accepted = dc.nn.Evaluation(max_drop=100.0)
    out = dc.nn.compress(part, ("0", "4"), X, training=told, evaluation=accepted, progress=False)
    packed = dc.nn.pack(out.layer, 8)
    other = dc.nn.DecoupledLayer(out.decoupling)
    dc.nn.unpack(other, packed)
    assert torch.allclose(other(X[:20]), out.layer(X[:20]), atol=1e-4)


def test_inputs_may_be_a_distribution(part, monkeypatch):
    monkeypatch.setattr("decouply.nn.carving._data_split._MAX_DRAWN", 2500)
    normal = multivariate_normal(np.ones(4), np.eye(4))
    options = {"ranks": 2, "training": training(), "progress": False}
    for data in (normal, lambda count, rng: rng.normal(1.0, 1.0, (count, 4)).astype(np.float32)):
        assert dc.nn.compress(part, ("0", "4"), data, **options).report.n_held_out == 500
    with pytest.raises(dc.InputError, match="`data` must draw 2500 inputs here, one per row"):
        dc.nn.compress(part, ("0", "4"), lambda count, rng: np.zeros((3, 4)), **options)


@pytest.mark.parametrize("basis", [GELU, PLAIN, dc.Activation("relu"), dc.Activation("sigmoid", hinges=0)], ids=repr)
def test_a_frozen_layer_and_its_onnx_file_compute_the_same(basis, lesson, tmp_path):
    copies = _candidates._Copies.begin(Plan((4, 5, 4, 3), basis), 1, lesson.inputs.inputs, generator())
    layer = copies.layer(0, _candidates._Units.of(lesson))
    X = lesson.inputs.inputs[:100]
    with torch.no_grad():
        layer.C[0].add_(0.1)
        expected = layer(X)
        fast = dc.nn.freeze(layer)
        assert not any(isinstance(one, dc.nn.DecoupledLayer) for one in fast.modules())
        scale = expected.abs().max()
        assert torch.allclose(fast(X) / scale, expected / scale, atol=1e-5)
        model = layer.to_decoupling()
        assert np.allclose(model(X.numpy()) / float(scale), expected.numpy() / float(scale), atol=1e-5)
        J = layer.jacobian(X[:3]).numpy()
    assert np.allclose(J, model.jacobian(X[:3].double().numpy()), rtol=1e-3, atol=1e-4 * np.abs(J).max())
    layer.save_onnx(tmp_path / "layer.onnx")
    (found,) = onnxruntime.InferenceSession(tmp_path / "layer.onnx").run(None, {"x": X.numpy()})
    assert np.allclose(found / float(scale), expected.numpy() / float(scale), atol=1e-5)


@pytest.fixture
def onnx_file(part, tmp_path):
    """A network whose values are moved, turned and clipped, in the operators that exporters write."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    numbers = {
        "mean": np.array([[1.0, 2.0, 0.0, 1.0]]),
        **{f"W{k}": part[k].weight.numpy() for k in (0, 2, 4)},
        **{f"b{k}": part[k].bias.numpy() for k in (0, 2, 4)},
        "low": np.array(-30.0),
    }
    held = [numpy_helper.from_array(np.asarray(a, dtype=np.float32), name) for name, a in numbers.items()]
    held.append(numpy_helper.from_array(np.array([2, 0]), "rows"))
    steps = [("Sub", ["x", "mean"], "u0", {})]
    for k in (0, 2, 4):
        steps.append(("Gemm", [f"u{k}", f"W{k}", f"b{k}"], f"v{k}", {"transB": 1}))
        steps.append(("Tanh", [f"v{k}"], f"u{k + 2}", {}))
    steps += [("Clip", ["v4", "low"], "clipped", {}), ("Gather", ["clipped", "rows"], "y", {"axis": 1})]
    nodes = [helper.make_node(kind, given, [made], **more) for kind, given, made, more in steps]
    ends = [
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["S", size])]
        for name, size in (("x", 4), ("y", 2))
    ]
    opset = [helper.make_opsetid("", 17)]
    onnx.save(
        onnx.helper.make_model(helper.make_graph(nodes, "net", *ends, held), opset_imports=opset, ir_version=8),
        tmp_path / "in.onnx",
    )
    return tmp_path / "in.onnx"


def test_a_whole_network_goes_from_an_onnx_file_to_an_onnx_file(onnx_file, tmp_path):
    X = np.random.default_rng(0).normal(size=(2500, 4)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(onnx_file).run(None, {"x": X})
    network = OnnxNetwork.read(onnx_file)
    assert np.allclose(network(torch.tensor(X)).numpy(), expected, atol=1e-3)
    assert activations_of(network)[0] == dc.Activation("tanh", 0)
    out = dc.nn.compress(onnx_file, None, X, 3, training=training(), progress=False)
    out.layer.save_onnx(tmp_path / "out.onnx")
    (found,) = onnxruntime.InferenceSession(tmp_path / "out.onnx").run(None, {"x": X[:50]})
    with torch.no_grad():
        assert np.allclose(found, out.model(torch.tensor(X[:50])).numpy(), rtol=1e-4, atol=1e-3)


def test_operators_of_onnx_files_are_those_of_the_standard(tmp_path):
    X, path = onnx_graphs.X, tmp_path / "m.onnx"
    left_out = {"Asinh", "Expand"}
    for name, (attributes, tensors) in onnx_graphs.ONE_OPERATOR.items():
        if name not in left_out:
            network = OnnxNetwork.read(onnx_graphs.write(path, [(name, ["x", *tensors], attributes)], tensors))
            found = network(torch.tensor(X[:1])).numpy().reshape(1, -1)
            assert np.allclose(found, onnx_graphs.reference(path, X[:1]), rtol=1e-6), name
    nodes = [("Constant", [], {"value_float": 2.0}), ("Less", ["x", "n0"], {}), ("Where", ["n1", "x", "n0"], {})]
    network = OnnxNetwork.read(onnx_graphs.write(path, nodes))
    assert torch.equal(network(torch.tensor([[1.0, 3.0]])), torch.tensor([[1.0, 2.0]]))


def test_what_cannot_be_differentiated_in_an_onnx_file_is_named(onnx_file):
    graph = onnx.load(onnx_file)
    graph.graph.node[1].op_type = "TopK"
    onnx.save(graph, onnx_file)
    with pytest.raises(dc.InputError, match=r"operators that can be differentiated here. .*in.onnx has TopK"):
        dc.nn.compress(onnx_file, None, np.zeros((10, 4)), 2)
    onnx_file.write_bytes(b"no graph")
    with pytest.raises(dc.InputError, match="`model` must name an ONNX file"):
        dc.nn.compress(onnx_file, None, np.zeros((10, 4)), 2)
