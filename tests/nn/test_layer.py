"""Decouplings as modules: the same numbers, trainable, exportable, tame outside their range."""

import io

import numpy as np
import pytest
import torch

import decoupling as dc

X = np.random.default_rng(0).uniform(-1, 1, (40, 4))
MODELS = {
    "one layer": dc.systems.random_system((4, 3, 2), (4,), rng=1),
    "two layers": dc.systems.random_system((4, 3, 5, 2), (3, 2), rng=2),
    "chebyshev": dc.Decoupling(
        [np.ones((2, 4)) / 4, np.eye(2)], [dc.Functions(dc.Chebyshev(3), np.arange(8.0).reshape(2, 4) - 3)]
    ),
    "mixed": dc.Decoupling(
        [np.eye(2, 4), np.eye(2)],
        [dc.Functions((dc.Trigonometric(4), dc.Bernstein(3)), [[1, 2, 3, -1, 0.5], [0, 1, -2, 3, 0]])],
    ),
}


@pytest.mark.parametrize("evaluation", ["horner", "matmul"])
@pytest.mark.parametrize("outside", ["polynomial", "linear", "clamp"])
@pytest.mark.parametrize("name", MODELS)
def test_a_layer_computes_what_the_decoupling_does_and_goes_back(name, outside, evaluation):
    model = MODELS[name]
    layer = dc.nn.DecoupledLayer(model, X, outside=outside, evaluation=evaluation, dtype=torch.float64)
    x = torch.tensor(X)
    size = np.abs(model(X)).max()
    assert np.allclose(layer(x).detach().numpy(), model(X), atol=1e-12 * size)
    assert np.allclose(layer.jacobian(x).detach().numpy(), model.jacobian(X), atol=1e-11 * size)
    back = layer.to_decoupling()
    assert np.allclose(back(X), model(X), atol=1e-12 * size) and back.degrees == model.degrees
    samples = dc.nn.sample(layer, X, progress=False)
    assert np.allclose(samples.J, model.jacobian(X), atol=1e-11 * size)


def test_tails_are_what_they_say():
    model = MODELS["one layer"]
    far = torch.tensor(50.0 * X)
    layers = {
        o: dc.nn.DecoupledLayer(model, X, outside=o, dtype=torch.float64) for o in ("polynomial", "linear", "clamp")
    }
    sizes = {o: float(layer(far).detach().abs().max()) for o, layer in layers.items()}
    assert sizes["clamp"] < sizes["linear"] < sizes["polynomial"] / 1000
    assert np.allclose(layers["polynomial"](far).detach().numpy(), model(50.0 * X), rtol=1e-10)
    assert sum(p.numel() for p in layers["linear"].parameters()) == model.n_parameters
    for layer in layers.values():  # slopes of the tails are those of the function that is computed
        exact = torch.func.vmap(torch.func.jacrev(layer))(far)
        assert torch.allclose(layer.jacobian(far), exact, rtol=1e-8, atol=1e-8)


def test_single_precision_training_state_and_export():
    model = MODELS["two layers"]
    layer = dc.nn.DecoupledLayer(model, X)
    x = torch.tensor(X, dtype=torch.float32)
    assert np.allclose(layer(x).detach().numpy(), model(X), rtol=1e-4, atol=1e-4 * np.abs(model(X)).max())
    stream = io.BytesIO()
    torch.save(layer.state_dict(), stream)
    stream.seek(0)
    other = dc.nn.DecoupledLayer(dc.systems.random_system((4, 3, 5, 2), (3, 2), rng=9), 2 * X)
    other.load_state_dict(torch.load(stream))
    assert torch.equal(other(x), layer(x))
    layer(x).pow(2).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters())
    exported = torch.export.export(layer, (x,))
    assert torch.allclose(exported.module()(x), layer(x))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_our_onnx_file_agrees_with_the_layer_and_with_the_exporter_of_torch(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = MODELS["one layer"]
    layer = dc.nn.DecoupledLayer(model, outside="polynomial").eval()
    x = torch.tensor(X, dtype=torch.float32)
    model.save_onnx(tmp_path / "ours.onnx")
    torch.onnx.export(layer, (x,), tmp_path / "torch.onnx", dynamo=True, verbose=False)
    runs = []
    for name in ("ours", "torch"):
        session = onnxruntime.InferenceSession(tmp_path / f"{name}.onnx")
        runs.append(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])
    scale = np.abs(runs[1]).max()
    assert np.abs(runs[0] - runs[1]).max() <= 1e-5 * scale
    assert np.abs(runs[0] - layer(x).detach().numpy()).max() <= 1e-5 * scale


@pytest.mark.parametrize("outside", ["polynomial", "linear", "clamp"])
@pytest.mark.parametrize("name", MODELS)
def test_the_onnx_file_of_a_layer_computes_what_the_layer_does_everywhere(name, outside, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    layer = dc.nn.DecoupledLayer(MODELS[name], X, outside=outside, dtype=torch.float64)
    layer.save_onnx(tmp_path / "m.onnx", dtype="float64")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    far = np.concatenate([X, 5.0 * X])
    wanted = layer(torch.tensor(far)).detach().numpy()
    assert np.allclose(session.run(None, {"x": far})[0], wanted, atol=1e-10 * np.abs(wanted).max())


def test_ranges_are_taken_from_tensors_too():
    model = MODELS["one layer"]
    wanted = dc.nn.DecoupledLayer(model, X).state_dict()
    got = dc.nn.DecoupledLayer(model, torch.tensor(X, requires_grad=True)).state_dict()
    assert all(torch.equal(got[k], v) for k, v in wanted.items())


def test_bad_layers_are_refused():
    model = MODELS["one layer"]
    huge = dc.Decoupling([np.eye(1), np.eye(1)], [dc.Functions(dc.Monomial(2), [[0.0, 1.0, 1.0]])])

    class Odd(dc.AbstractBasis):
        size = property(lambda self: 1)
        scale_invariant = property(lambda self: False)

        def evaluate(self, u):
            return np.tanh(u)[..., None]

        derivative = second_derivative = evaluate

    odd = dc.Decoupling([np.eye(2), np.eye(2)], [dc.Functions(Odd(), [[0, 1], [0, 1]])])
    for act, message in [
        (lambda: dc.nn.DecoupledLayer(odd), "polynomial or trigonometric"),
        (lambda: dc.nn.DecoupledLayer(model, outside="linear"), "`X` must be given"),
        (lambda: dc.nn.DecoupledLayer(model, dtype=torch.float16), "float32 or torch.float64"),
        (lambda: dc.nn.DecoupledLayer(model, X[:0]), "`X` must hold at least one point"),
        (lambda: dc.nn.DecoupledLayer(huge, [[1e30]]), r"within what torch.float32 can hold. Got 1e\+60: use dtype"),
    ]:
        with pytest.raises(dc.InputError, match=message):
            act()
