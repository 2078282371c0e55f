"""Networks in ONNX files: values are those of the reference implementation, Jacobians those of the values."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.samples.readers._onnx_graph import _OPERATORS
from tests.write.models import points, random_model

onnx = pytest.importorskip("onnx")
pytest.importorskip("jax")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
X = np.random.default_rng(0).uniform(0.1, 0.9, (4, 6))
W = np.random.default_rng(1).normal(size=(6, 3))


def write(path, nodes, tensors=None, shape=("S", 6), n=None, version=18, dtype=np.float64):
    """A graph of nodes (operator, inputs, attributes) from x to the output of the last, y."""
    made = []
    for i, (operator, inputs, attributes) in enumerate(nodes):
        output = "y" if i == len(nodes) - 1 else f"n{i}"
        outputs = [output, f"rest{i}"] if operator == "Split" else [output]
        made.append(helper.make_node(operator, inputs, outputs, **attributes))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    initial = [numpy_helper.from_array(np.asarray(value), name) for name, value in (tensors or {}).items()]
    given = helper.make_tensor_value_info("x", kind, list(shape))
    taken = helper.make_tensor_value_info("y", kind, [])
    graph = helper.make_graph(made, "network", [given], [taken], initial)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=9), path)
    return path


def reference(path, X, shape=(-1, 6)):
    from onnx.reference import ReferenceEvaluator

    run = ReferenceEvaluator(str(path))
    return np.concatenate([run.run(None, {"x": x.reshape((1, *shape[1:]))})[0].reshape(1, -1) for x in X])


ints = np.int64
ONE_OPERATOR = {  # attributes, and further inputs
    **{name: ({}, {}) for name in ("Abs", "Exp", "Log", "Sqrt", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh", "Neg")},
    **{name: ({}, {}) for name in ("Reciprocal", "Asin", "Acos", "Atan", "Asinh", "Erf", "Sigmoid", "Relu", "Elu")},
    **{name: ({}, {}) for name in ("Selu", "Softplus", "Softsign", "HardSigmoid", "Softmax", "LogSoftmax", "Identity")},
    **{name: ({}, {}) for name in ("Celu", "Mish", "HardSwish", "Sign")},
    **{name: ({}, {"a": W[:, 0]}) for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean")},
    "LeakyRelu": ({"alpha": 0.2}, {}),
    "PRelu": ({}, {"a": np.full(6, 0.3)}),
    "Mod": ({"fmod": 1}, {"a": np.array(0.4)}),
    "Pow": ({}, {"a": np.array(2.5)}),
    "MatMul": ({}, {"a": W}),
    "Gemm": ({"alpha": 0.5, "beta": 2.0, "transB": 1}, {"a": W.T, "b": W[0]}),
    "Clip": ({}, {"a": np.array(0.3), "b": np.array(0.7)}),
    "ReduceSum": ({"keepdims": 0}, {"a": np.array([1], ints)}),
    "ReduceMean": ({}, {"a": np.array([-1], ints)}),
    "ReduceMax": ({}, {"a": np.array([1], ints)}),
    "ReduceMin": ({}, {"a": np.array([1], ints)}),
    "Slice": (
        {},
        {"a": np.array([4], ints), "b": np.array([-99], ints), "c": np.array([1], ints), "d": np.array([-2])},
    ),
    "Gather": ({"axis": 1}, {"a": np.array([3, 0], ints)}),
    "Reshape": ({}, {"a": np.array([0, 2, -1], ints)}),
    "Flatten": ({}, {}),
    "Transpose": ({"perm": [1, 0]}, {}),
    "Unsqueeze": ({}, {"a": np.array([0, -1], ints)}),
    "Expand": ({}, {"a": np.array([2, 6], ints)}),
    "Concat": ({"axis": 1}, {"a": np.ones((1, 2))}),
    "Split": ({"axis": 1}, {"a": np.array([4, 2], ints)}),
    "Cast": ({"to": 11}, {}),
    "Dropout": ({}, {}),
    "BatchNormalization": ({}, {"a": W[:, 0], "b": W[:, 1], "c": W[:, 2], "d": W[:, 0] ** 2 + 1}),
    "LayerNormalization": ({}, {"a": W[:, 0], "b": W[:, 1]}),
}


@pytest.mark.parametrize("name", ONE_OPERATOR)
def test_every_operator_is_that_of_the_standard(name, tmp_path):
    attributes, tensors = ONE_OPERATOR[name]
    path = write(tmp_path / "m.onnx", [(name, ["x", *tensors], attributes)], tensors)
    below_zero = [] if name in ("Log", "Sqrt", "Pow") else [-X]
    for x in np.concatenate([X, *below_zero])[:, None]:  # one point, by NumPy: JAX would compile for half a second
        found = _OPERATORS[name](np, [x, *tensors.values()], attributes | {"version": 18, "n_outputs": 2})
        first = found[0] if isinstance(found, tuple) else found
        # Some of the reference implementations are in single precision.
        assert_allclose(first.reshape(1, -1), reference(path, x), rtol=1e-7)


def test_whole_numbers_are_divided_towards_zero_and_tails_have_logarithms():
    quotient = _OPERATORS["Div"](np, [np.array([7, -7]), np.array([2, 2])], {})
    assert quotient.tolist() == [3, -3] and quotient.dtype == int
    found = _OPERATORS["LogSoftmax"](np, [np.array([[0.0, -900.0]])], {"version": 18})
    assert_allclose(found, [[0.0, -900.0]])


def test_jacobians_are_those_of_the_values(tmp_path):
    chain = ("Erf", "LayerNormalization", "Softmax", "Clip")
    nodes, tensors = [], {"Clip_a": np.array(0.1), "Clip_b": np.array(0.6), "l": W[:, 0], "m": W[:, 1]}
    further = {"LayerNormalization": ["l", "m"], "Clip": ["Clip_a", "Clip_b"]}
    for i, name in enumerate(chain):
        nodes.append((name, [f"n{i - 1}" if i else "x", *further.get(name, [])], {}))
    path = write(tmp_path / "m.onnx", nodes, tensors)
    moved = [X + sign * 1e-5 * e for sign in (1.0, -1.0) for e in np.eye(6)]
    samples = dc.Samples.from_onnx(path, np.concatenate([X, *moved]))
    values = samples.F[4:].reshape(2, 6, 4, 6)
    assert_allclose(samples.F[:4], reference(path, X), rtol=1e-6)
    assert_allclose(samples.J[:4], np.moveaxis(values[0] - values[1], 0, -1) / 2e-5, rtol=1e-6, atol=1e-8)


def test_a_network_is_sampled_in_float64_whatever_it_was_trained_in(tmp_path):
    rng = np.random.default_rng(2)
    W0, b0, W1 = (rng.normal(size=s).astype(np.float32) for s in ((6, 8), (8,), (8, 2)))
    nodes = [("Gemm", ["x", "W0", "b0"], {}), ("Tanh", ["n0"], {}), ("MatMul", ["n1", "W1"], {})]
    path = write(tmp_path / "m.onnx", nodes, {"W0": W0, "b0": b0, "W1": W1}, dtype=np.float32)
    samples = dc.Samples.from_onnx(path, X)
    z = np.tanh(X @ W0.astype(float) + b0)
    assert_allclose(samples.F, z @ W1, rtol=1e-13, atol=1e-14)
    J = np.einsum("ko,sk,ik->soi", W1.astype(float), 1 - z**2, W0.astype(float))
    assert_allclose(samples.J, J, rtol=1e-13, atol=1e-13)
    # Weights as NumPy arrays take no file.
    again = dc.Samples.from_function(lambda X: np.tanh(X @ W0.astype(float) + b0) @ W1.astype(float), X)
    assert_allclose(again.J, samples.J, rtol=1e-12, atol=1e-13)


def test_shapes_are_computed_by_numpy_and_constants_have_nodes(tmp_path):
    nodes = [
        ("Constant", [], {"value_floats": [2.0]}),
        ("Shape", ["x"], {}),
        ("ConstantOfShape", ["n1"], {}),
        ("Mul", ["x", "n0"], {}),
        ("Equal", ["n2", "n3"], {}),
        ("Where", ["n4", "n2", "n3"], {}),
        ("Squeeze", ["n5"], {}),
    ]
    samples = dc.Samples.from_onnx(write(tmp_path / "m.onnx", nodes, shape=("S", 2, 3), dtype=np.float32), X)
    assert_allclose(samples.F, 2 * X)
    assert_allclose(samples.J, np.broadcast_to(2 * np.eye(6), (4, 6, 6)))


def test_models_of_ours_come_back_with_all_their_outputs(tmp_path):
    model = random_model([(dc.Chebyshev(3),)], "linear", linear=True)
    model.save_onnx(tmp_path / "m.onnx", dtype="float64", jacobian_name="J")
    samples = dc.Samples.from_onnx(tmp_path / "m.onnx", points(10))
    assert_allclose(samples.F[:, :2], model(points(10)), rtol=1e-9, atol=1e-9)
    assert_allclose(samples.F[:, 2:].reshape(10, 2, 3), model.jacobian(points(10)), rtol=1e-8, atol=1e-8)
    assert_allclose(samples.J[:, :2], model.jacobian(points(10)), rtol=1e-8, atol=1e-8)


def test_what_cannot_be_sampled_is_said(tmp_path):
    with pytest.raises(dc.SampleFileError, match="File not found"):
        dc.Samples.from_onnx(tmp_path / "none.onnx", X)
    (tmp_path / "text.onnx").write_text("no graph")
    with pytest.raises(dc.SampleFileError, match="must be a valid ONNX file"):
        dc.Samples.from_onnx(tmp_path / "text.onnx", X)
    path = write(tmp_path / "m.onnx", [("CumSum", ["x", "a"], {})], {"a": np.array(1)})
    with pytest.raises(dc.InputError, match=r"It has CumSum: sample the network in the framework that trained it"):
        dc.Samples.from_onnx(path, X)
    path = write(tmp_path / "m.onnx", [("Tanh", ["x"], {})])
    with pytest.raises(dc.InputError, match="a point of 6 coordinates is needed"):
        dc.Samples.from_onnx(path, X[:, :4])
    path = write(tmp_path / "m.onnx", [("Tanh", ["x"], {})], shape=("S", "m"))
    with pytest.raises(dc.InputError, match="whose shape is fixed but for the points"):
        dc.Samples.from_onnx(path, X)
