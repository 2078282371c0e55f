"""Decouplings as ONNX graphs: the same values in another runtime, few operators, no PyTorch."""

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import decoupling as dc
from tests.strategies import points, random_model
from tests.write.test_model_file import Saturation


def of_basis(bases, seed, dims=(3, 2, 2)):
    """One layer of random functions in the given basis, or bases."""
    rng = np.random.default_rng(seed)
    m, r, n = dims
    given = bases if isinstance(bases, tuple) else (bases,) * r
    C = np.zeros((r, 1 + max(b.size for b in given)))
    for j, basis in enumerate(given):
        C[j, : 1 + basis.size] = rng.normal(size=1 + basis.size)
    return dc.Decoupling([rng.normal(size=(r, m)), rng.normal(size=(n, r))], [dc.Functions(bases, C)])


def chained(first, second):
    """Two layers: the functions of `second` after those of `first`."""
    return dc.Decoupling([first.W[0], second.W[0] @ first.W[-1], second.W[-1]], [*first.g, *second.g])


MODELS = {
    "f1": dc.systems.f1(),
    "f2": dc.systems.f2(),
    "f3": dc.systems.f3(),
    "one layer": random_model([3, 4, 2], 0),
    "degree 1": random_model([2, 3, 1], 1, degree=1),
    "two layers, inner constants": random_model([3, 2, 3, 2], 2, inner_constants=True),
    "three layers": random_model([2, 3, 2, 2, 1], 3, degree=2),
    "one of everything": random_model([1, 1, 1], 4),
    "Chebyshev": of_basis(dc.Chebyshev(6, radius=2.0), 5),
    "Bernstein": of_basis(dc.Bernstein(4, radius=3.0), 6),
    "scaled monomials": of_basis(dc.ScaledMonomial(3, 0.5), 7),
    "cos": of_basis(dc.Trigonometric(1), 8),
    "waves": of_basis(dc.Trigonometric(5), 9),
    "polynomials of several kinds": of_basis((dc.Monomial(1), dc.Chebyshev(4), dc.Bernstein(2)), 10, (2, 3, 2)),
    "polynomials and waves": of_basis((dc.Trigonometric(4), dc.Monomial(2), dc.Trigonometric(1)), 11, (2, 3, 2)),
    "waves of polynomials": chained(of_basis(dc.Chebyshev(3), 12, (2, 3, 3)), of_basis(dc.Trigonometric(3), 13)),
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
def test_the_runtime_computes_the_model(name, dtype, tmp_path):
    model, path = MODELS[name], tmp_path / "m.onnx"
    model.save_onnx(path, dtype=dtype)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    X = points(model.n_inputs).astype(dtype).astype(float)
    assert relative_error(run(path, X, dtype), model(X)) < TOLERANCES[dtype]
    waves = any(isinstance(b, dc.Trigonometric) for g in model.g for b in g.layer.bases)
    assert operators(path) <= {"MatMul", "Mul", "Add"} | ({"Cos", "Sin"} if waves else set())
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_any_number_of_points_goes_in_and_the_file_tells_where_it_is_from(tmp_path):
    model, path = MODELS["two layers, inner constants"], tmp_path / "m.onnx"
    model.save_onnx(path, dtype="float64", input_name="features:0", output_name="values", opset=13)
    for S in (1, 7):
        X = points(3, S)
        assert relative_error(run(path, X, "float64", "values"), model(X)) < 1e-12
    content = onnx.load(path)
    assert (content.producer_name, content.producer_version) == ("decoupling", dc.__version__)
    assert content.opset_import[0].version == 13 and content.doc_string == repr(model)
    (given,), (taken,) = content.graph.input, content.graph.output
    assert given.name == "features:0" and taken.name == "values"
    axes = given.type.tensor_type.shape.dim
    assert axes[0].dim_param == "S" and axes[1].dim_value == 3


def clipped_by_definition(model, X, ranges):
    z = X
    for W, g, (low, high) in zip(model.W[:-1], model.g, ranges, strict=True):
        z = g(np.minimum(np.maximum(z @ W.T, low), high))
    return z @ model.W[-1].T


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", ["f1", "three layers", "polynomials and waves"])
@pytest.mark.parametrize("kind", ["of the data", "one pair", "a point among them"])
def test_arguments_stay_within_the_ranges(name, kind, dtype, tmp_path):
    model, path = MODELS[name], tmp_path / "m.onnx"
    inside = points(model.n_inputs, 30, seed=1)
    ranges = [(u.min(axis=0), u.max(axis=0)) for u in model.inner_inputs(inside)]
    if kind == "one pair":
        ranges = [(np.full_like(low, -0.3), np.full_like(high, 0.4)) for low, high in ranges]
    elif kind == "a point among them":
        ranges = [(np.r_[high[0], low[1:]], high) for low, high in ranges]
    model.save_onnx(path, dtype=dtype, ranges=ranges)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    X = np.concatenate([inside, 100.0 * points(model.n_inputs, 10, seed=2)]).astype(dtype).astype(float)
    expected = clipped_by_definition(model, X, ranges)
    assert relative_error(run(path, X, dtype), expected) < TOLERANCES[dtype]
    assert "Clip" in operators(path) and operators(path) <= {"MatMul", "Mul", "Add", "Clip", "Cos", "Sin"}
    if kind == "of the data":
        assert relative_error(expected[:30], model(X[:30])) < TOLERANCES[dtype]


def tangents_by_definition(model, X, ranges):
    z = X
    for W, g, (low, high) in zip(model.W[:-1], model.g, ranges, strict=True):
        u = z @ W.T
        c = np.minimum(np.maximum(u, low), high)
        z = g(c) + g.derivative(c) * (u - c)
    return z @ model.W[-1].T


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("f")])
def test_functions_go_on_along_their_tangents_beyond_the_ranges(name, dtype, tmp_path):
    model, path = MODELS[name], tmp_path / "m.onnx"
    inside = points(model.n_inputs, 30, seed=1)
    ranges = [(u.min(axis=0), u.max(axis=0)) for u in model.inner_inputs(inside)]
    model.save_onnx(path, dtype=dtype, ranges=ranges, outside="linear")
    onnx.checker.check_model(onnx.load(path), full_check=True)
    X = np.concatenate([inside, 10.0 * points(model.n_inputs, 10, seed=2)]).astype(dtype).astype(float)
    expected = tangents_by_definition(model, X, ranges)
    assert relative_error(run(path, X, dtype), expected) < TOLERANCES[dtype]
    assert operators(path) <= {"MatMul", "Mul", "Add", "Sub", "Clip", "Cos", "Sin"}


def test_places_and_models_that_cannot_be_written_are_refused(tmp_path):
    model = dc.systems.f1()
    path = tmp_path / "m.onnx"
    model.save_onnx(path)
    old = path.read_bytes()
    low, high = -np.ones(2), np.ones(2)
    own = dc.Decoupling([np.eye(1), np.eye(1)], [dc.Functions(Saturation(2.0), [[0.0, 1.0]])])
    large = dc.Decoupling([np.eye(1), np.eye(1)], [dc.Functions(dc.Monomial(1), [[0.0, 1e39]])])
    small = dc.Decoupling([np.eye(1), np.eye(1)], [dc.Functions(dc.ScaledMonomial(2, 1e-300), [[0.0, 0.0, 1e300]])])
    for given, arguments, message in [
        (own, {}, "polynomial or trigonometric bases .* Got Saturation in layer 1"),
        (large, {}, 'what float32 can hold. Got 1e.39 for 1/a1: use dtype="float64"'),
        (model, {"opset": 12}, "`opset` must be one of 13, "),
        (model, {"opset": 999}, "`opset` must be one of 13, "),
        (model, {"input_name": ""}, "`input_name` must be a name"),
        (model, {"output_name": "a/b"}, "`output_name` must be a name without a slash"),
        (model, {"input_name": "y"}, "must differ. Got 'y' for both"),
        (model, {"ranges": []}, "`ranges` must hold 2 pairs .* Got 0"),
        (model, {"outside": "linear"}, "`ranges` must be given for outside="),
    ]:
        with pytest.raises(dc.InputError, match=message):
            given.save_onnx(path, **arguments)
    one = random_model([2, 2, 1], 0)
    for pair, message in [
        ((low,), r"`ranges\[0\]` must be a pair"),
        ((low, high[:1]), r"`ranges\[0\]` must be 2 lower limits"),
        ((high, low), r"none below its partner"),
        ((low, np.inf * high), "finite"),
    ]:
        with pytest.raises(dc.InputError, match=message):
            one.save_onnx(path, ranges=[pair])
    with np.errstate(over="ignore"), pytest.raises(dc.InputError, match=r"what float64 can hold.*1/a2: rescale"):
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
        "ranges=3": "`ranges` must hold 1 pairs (low, high), one per layer. Got int",
        "ranges=[3]": "`ranges[0]` must be a pair (low, high). Got 3",
    }
    code = f"""
import json, decoupling as dc
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
    done = python(f"import sys, decoupling as dc; dc.systems.f1().save_onnx({path!r}); print('torch' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr
    done = python(
        "import sys, decoupling as dc\n"
        "assert 'onnx' not in sys.modules\n"
        "sys.modules['onnx'] = None\n"
        "try:\n"
        f"    dc.systems.f1().save_onnx({path!r})\n"
        "except dc.InputError as error:\n"
        "    print(error)\n"
    )
    assert "pip install decoupling[onnx]" in done.stdout, done.stderr
