"""Decouplings as ONNX graphs: the same values in another runtime, few operators, no PyTorch."""

import json
import subprocess
import sys
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest

import decouply as dc
from decouply.bases import OWN_BASES
from decouply.bases._activation import ACTIVATION_NAMES
from tests.strategies import points, random_model
from tests.write import models
from tests.write.test_model_file import Bend

MODELS = {
    "f1": dc.systems.f1(),
    "f2": dc.systems.f2(),
    "f3": dc.systems.f3(),
    "one layer": random_model([3, 4, 2], 0),
    "degree 1": random_model([2, 3, 1], 1, degree=1),
    "two layers, inner constants": random_model([3, 2, 3, 2], 2, inner_constants=True),
    "three layers": random_model([2, 3, 2, 2, 1], 3, degree=2),
    "one of everything": random_model([1, 1, 1], 4),
}
TOLERANCES = {"float64": 1e-12, "float32": 1e-5}


def run(path, X, dtype, output="y"):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    (values,) = session.run([output], {given.name: X.astype(dtype)})
    assert values.dtype == np.dtype(dtype)
    return values


def relative_error(values, expected):
    return np.max(np.abs(values - expected)) / np.max(np.abs(expected))


def operators(path):
    return {node.op_type for node in onnx.load(path).graph.node}


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", MODELS)
def test_the_runtime_computes_polynomials_by_few_operators(name, dtype, tmp_path):
    model, path = MODELS[name], tmp_path / "m.onnx"
    model.save_onnx(path, dtype=dtype)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    X = points(model.n_inputs).astype(dtype).astype(float)
    assert relative_error(run(path, X, dtype), model(X)) < TOLERANCES[dtype]
    assert operators(path) <= {"MatMul", "Gemm", "Mul", "Concat"}
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("cls", OWN_BASES, ids=lambda cls: cls.__name__)
def test_jacobians_are_a_second_output_on_request(cls, dtype, tmp_path):
    path, X = tmp_path / "m.onnx", models.points().astype(dtype).astype(float)
    few = list(models.every_kind(cls))[:: 3 if cls is not dc.Spline else 5]
    for model in [*few, *([next(iter(models.mixed_models()))] if cls is dc.Monomial else [])]:
        model.save_onnx(path, dtype=dtype, jacobian_name="J")
        onnx.checker.check_model(onnx.load(path), full_check=True)
        J = run(path, X, dtype, "J")
        assert J.shape == (len(X), 2, 3)
        assert relative_error(J, model.jacobian(X)) < 30 * TOLERANCES[dtype]
        assert relative_error(run(path, X, dtype), model(X)) < 30 * TOLERANCES[dtype]


def test_names_of_outputs_differ(tmp_path):
    with pytest.raises(dc.InputError, match="`output_name` and `jacobian_name` must differ"):
        MODELS["f1"].save_onnx(tmp_path / "m.onnx", jacobian_name="y")


NEEDED = {
    "Trigonometric": {"Cos", "Sin"},
    "Absolute": {"Abs"},
    "Rational": {"Reciprocal"},
    "Logarithm": {"Clip", "Log"},
    **{name: {"Tanh"} for name in ("Tanh", "Sigmoid", "Friction")},
    **{name: {"Exp"} for name in ("Exponential", "Gaussian")},
    **{name: {"Clip"} for name in ("Spline", "Saturation", "DeadZone", "ReLU", "LeakyReLU", "Activation")},
}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("cls", OWN_BASES, ids=lambda cls: cls.__name__)
def test_every_basis_is_computed_inside_and_outside_its_domain(cls, dtype, tmp_path):
    path, X = tmp_path / "m.onnx", models.points().astype(dtype).astype(float)
    needed = NEEDED.get(cls.__name__, set())
    for model in models.every_kind(cls):
        model.save_onnx(path, dtype=dtype)
        onnx.checker.check_model(onnx.load(path), full_check=True)
        allowed = (10 if cls is dc.Spline else 1) * TOLERANCES[dtype]  # hinges lose a digit
        assert relative_error(run(path, X, dtype), model(X)) < allowed
        clip = set() if model.g[0].outside == "extend" else {"Clip"}
        used, plain = operators(path), {"MatMul", "Gemm", "Mul", "Add", "Concat", "Relu", "Slice"}
        assert needed - {"Clip"} <= used <= plain | needed | clip


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("n_outputs", [3, 40])
def test_few_and_many_outputs_are_written_differently_and_are_the_same_map(n_outputs, dtype, tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "m.onnx"
    X = (3.0 * rng.normal(size=(50, 4))).astype(dtype).astype(float)
    for basis, few, many in [
        (dc.Chebyshev(5), {"Concat", "Gemm"}, {"Add", "Gemm"}),
        (dc.Spline(6), {"Relu", "Gemm", "Slice"}, {"Add", "Clip"}),
        (dc.Spline(5, tails="parabola"), {"Relu", "Slice"}, {"Clip"}),
        (dc.Spline(6, degree=1), {"Relu", "Gemm"}, {"Clip"}),
        (dc.Spline(60), {"Clip"}, {"Clip"}),  # hinges would cancel
    ]:
        beyond = "extend" if basis == dc.Spline(5, tails="parabola") else "linear"
        functions = dc.Functions(basis, rng.normal(size=(5, 1 + basis.size)), (-2.0, 1.5), beyond)
        model = dc.Decoupling([rng.normal(size=(5, 4)), rng.normal(size=(n_outputs, 5))], [functions])
        model.save_onnx(path, dtype=dtype)
        onnx.checker.check_model(onnx.load(path), full_check=True)
        assert (few if n_outputs == 3 else many) <= operators(path)
        assert ("Relu" in operators(path)) == (n_outputs == 3 and "Relu" in few)
        assert relative_error(run(path, X, dtype), model(X)) < 20 * TOLERANCES[dtype]
        assert run(path, X[:0], dtype).shape == (0, n_outputs)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_layers_of_all_bases_are_computed_in_groups(dtype, tmp_path):
    path, X = tmp_path / "m.onnx", models.points().astype(dtype).astype(float)
    for model in models.mixed_models():
        model.save_onnx(path, dtype=dtype)
        onnx.checker.check_model(onnx.load(path), full_check=True)
        assert relative_error(run(path, X, dtype), model(X)) < 10 * TOLERANCES[dtype]
    shared = models.random_model([(dc.Monomial(2), dc.bases.Tanh()) * 3], linear=True)
    shared.save_onnx(path, dtype=dtype)
    assert relative_error(run(path, X, dtype), shared(X)) < TOLERANCES[dtype]
    counted = Counter(node.op_type for node in onnx.load(path).graph.node)
    products = counted["MatMul"] + counted["Gemm"]
    assert counted["Tanh"] == counted["Concat"] == 1 and products == 4  # two groups, outputs, linear part


@pytest.mark.parametrize(("dtype", "opset"), [("float32", None), ("float64", None), ("float64", 13)])
@pytest.mark.parametrize("name", ACTIVATION_NAMES)
def test_activations_are_operators_of_their_own(name, dtype, opset, tmp_path):
    path, X = tmp_path / "m.onnx", models.points().astype(dtype).astype(float)
    own = ["Sigmoid", "Mul"] if name == "silu" else [name.capitalize()]
    written_out = name in ("gelu", "softplus") and dtype == "float64"
    for hinges in (0, 2):
        basis = dc.Activation(name, hinges)
        model = models.random_model([(basis,) * 4, (basis,) * 2], offset=True)
        dead = dc.Functions(basis, model.g[0].C * (np.arange(1 + basis.size) != 1), model.g[0].domain)
        for one in (model, dc.Decoupling(model.W, [dead, model.g[1]])):  # nothing can be divided by 0
            one.save_onnx(path, dtype=dtype, opset=opset)
            content = onnx.load(path)
            onnx.checker.check_model(content, full_check=True)
            assert relative_error(run(path, X, dtype), one(X)) < 10 * TOLERANCES[dtype]
        if hinges == 0 and not written_out:
            model.save_onnx(path, dtype=dtype, opset=opset)
            assert [node.op_type for node in onnx.load(path).graph.node] == ["Gemm", *own, "Gemm", *own, "Gemm"]
    read = {name for node in content.graph.node for name in node.input}
    assert {tensor.name for tensor in content.graph.initializer} <= read
    assert content.opset_import[0].version == (opset or (20 if name == "gelu" and not written_out else 17))


@pytest.mark.parametrize("outside", ["linear", "constant"])
def test_functions_are_right_far_beyond_their_domains(outside, tmp_path):
    model = models.random_model([(dc.Chebyshev(5), dc.bases.Tanh())], outside)
    model.save_onnx(tmp_path / "m.onnx", dtype="float64")
    X = 1e14 * models.points()
    assert relative_error(run(tmp_path / "m.onnx", X, "float64"), model(X)) < 1e-12


@pytest.mark.parametrize(("degree", "dtype", "tolerance"), [(40, "float64", 1e-12), (25, "float32", 1e-4)])
@pytest.mark.parametrize("cls", [dc.Chebyshev, dc.bases.Bernstein])
def test_high_degrees_lose_no_digits(cls, degree, dtype, tolerance, tmp_path):
    g = dc.Functions(cls(degree), np.random.default_rng(0).normal(size=(2, 1 + degree)), domain=(-2.0, 2.0))
    model = dc.Decoupling([np.eye(2), np.eye(2)], [g])
    model.save_onnx(tmp_path / "m.onnx", dtype=dtype)
    X = np.random.default_rng(1).uniform(-2.0, 2.0, (100, 2)).astype(dtype).astype(float)
    assert relative_error(run(tmp_path / "m.onnx", X, dtype), model(X)) < tolerance


def test_any_number_of_points_goes_in_and_the_file_tells_where_it_is_from(tmp_path):
    model, path = MODELS["two layers, inner constants"], tmp_path / "m.onnx"
    model.save_onnx(path, dtype="float64", input_name="features:0", output_name="values", opset=13)
    for S in (1, 7):
        X = points(3, S)
        assert relative_error(run(path, X, "float64", "values"), model(X)) < 1e-12
    content = onnx.load(path)
    assert (content.producer_name, content.producer_version) == ("decouply", dc.__version__)
    assert content.opset_import[0].version == 13 and content.doc_string == repr(model)
    (given,), (taken,) = content.graph.input, content.graph.output
    assert given.name == "features:0" and taken.name == "values"
    axes = given.type.tensor_type.shape.dim
    assert axes[0].dim_param == "S" and axes[1].dim_value == 3


def test_places_and_models_that_cannot_be_written_are_refused(tmp_path):
    model = dc.systems.f1()
    path = tmp_path / "m.onnx"
    model.save_onnx(path)
    old = path.read_bytes()
    own = dc.Decoupling([np.eye(1), np.eye(1)], [dc.Functions(Bend(2.0), [[0.0, 1.0]])])
    large = dc.Decoupling([np.eye(1), np.eye(1)], [dc.Functions(dc.Monomial(1), [[0.0, 1e39]])])
    narrow = dc.Functions(dc.Monomial(1), [[0.0, 1.0]], domain=(1e100, 1e100 * (1 + 1e-15)))
    small = dc.Decoupling([[[1e300]], [[1.0]]], [narrow.stretched(np.array([1e-200]))])
    for given, arguments, message in [
        (own, {}, "`Bend` must have a method `expression` .* ONNX"),
        (large, {}, 'what float32 can hold. Got 1e.39 in layer 2: use dtype="float64"'),
        (model, {"opset": 12}, "`opset` must be one of 13, "),
        (model, {"opset": 999}, "`opset` must be one of 13, "),
        (model, {"input_name": ""}, "`input_name` must be a name"),
        (model, {"output_name": "a/b"}, "`output_name` must be a name without a slash"),
        (model, {"input_name": "y"}, "must differ. Got 'y', 'y'"),
    ]:
        with pytest.raises(dc.InputError, match=message):
            given.save_onnx(path, **arguments)
    with np.errstate(over="ignore"), pytest.raises(dc.InputError, match=r"what float64 can hold.*in layer 1: rescale"):
        small.save_onnx(path, dtype="float64")
    assert path.read_bytes() == old and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(dc.InputError, match="does not exist"):
        model.save_onnx(tmp_path / "no" / "m.onnx")
    with pytest.raises(dc.InputError, match="is a directory"):
        model.save_onnx(tmp_path)
    large.save_onnx(path, dtype="float64")


def test_wrong_types_are_refused_where_nobody_checks_annotations(tmp_path):
    cases = {
        "dtype='float16'": '`dtype` must be "float32" or "float64". Got \'float16\'',
        "opset=17.5": "`opset` must be a whole number",
        "input_name=3": "`input_name` must be a name",
    }
    code = f"""
import json, decouply as dc
model = dc.Decoupling([[[1.0]], [[1.0]]], [dc.Functions(dc.Monomial(1), [[0.0, 1.0]])])
found = {{}}
for case in {list(cases)!r}:
    try:
        eval("model.save_onnx({tmp_path.as_posix()!r} + '/m.onnx', " + case + ")")
    except dc.InputError as error:
        found[case] = str(error)
print(json.dumps(found))
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for case, message in cases.items():
        assert message in found.get(case, "no error"), case


def test_writing_needs_no_torch_and_tells_when_onnx_is_missing(tmp_path):
    path = (tmp_path / "m.onnx").as_posix()
    done = python(f"import sys, decouply as dc; dc.systems.f1().save_onnx({path!r}); print('torch' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr
    done = python(
        "import sys, decouply as dc\n"
        "assert 'onnx' not in sys.modules\n"
        "sys.modules['onnx'] = None\n"
        "try:\n"
        f"    dc.systems.f1().save_onnx({path!r})\n"
        "except dc.MissingExtraError as error:\n"
        "    print(error)\n"
    )
    assert 'pip install "onnx>=' in done.stdout, done.stderr
