"""Decouplings as modules: the same numbers, trainable, exportable, tame beyond their domains."""

import copy
import io
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import decouply as dc
from decouply.nn.layer._decoupled_layer import layer_on

X = np.random.default_rng(0).uniform(-1, 1, (40, 4))
FAR = np.concatenate([X, 5.0 * X])
RNG = np.random.default_rng(1)
OUTSIDE = ("extend", "linear", "constant")


def one_layer(basis, size, domain=(-0.7, 0.4), **parts):
    C = np.random.default_rng(size).normal(size=(3, 1 + size))
    W = np.random.default_rng(9).normal(size=(3, 4)), np.random.default_rng(8).normal(size=(2, 3))
    return dc.Decoupling(W, [dc.Functions(basis, C, domain)], **parts)


MODELS = {
    "one layer": dc.systems.random_system((4, 3, 2), (4,), rng=1),
    "two layers": dc.Decoupling(
        [RNG.normal(size=(3, 4)), RNG.normal(size=(5, 3)), RNG.normal(size=(2, 5))],
        [
            dc.Functions(dc.Monomial(3), RNG.normal(size=(3, 4)), [[-1, 2], [0, 1], [-3, -1]]),
            dc.Functions(dc.Monomial(2), RNG.normal(size=(5, 3)), (1.0, 2.0)),
        ],
        inputs=["a", "b", "c", "d"],
    ),
    "chebyshev": one_layer(dc.Chebyshev(3), 3),
    "chebyshev of high degree": one_layer(dc.Chebyshev(12), 12, (-3.0, 3.0)),
    "bernstein of high degree": one_layer(dc.bases.Bernstein(9), 9, (-3.0, 3.0)),
    "monomials of high degree": one_layer(dc.Monomial(9), 9, (-3.0, 3.0)),
    "tanh": one_layer(dc.bases.Tanh(), 1),
    "linear part and offset": one_layer(
        dc.bases.ScaledMonomial(3), 3, linear=RNG.normal(size=(2, 4)), offset=RNG.normal(size=2)
    ),
    "mixed": dc.Decoupling(
        [np.eye(3, 4), np.eye(2, 3)],
        [
            dc.Functions(
                (dc.bases.Trigonometric(4), dc.bases.Bernstein(3), dc.bases.Trigonometric(4)),
                [[1, 2, 3, -1, 0.5], [0, 1, -2, 3, 0], [0, 1, 0, 0, 2]],
                [[-1, 1], [-0.5, 0.2], [0, 1]],
            )
        ],
    ),
}


@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("name", MODELS)
def test_a_layer_computes_what_the_decoupling_does_everywhere_and_goes_back(name, outside):
    model = MODELS[name].with_outside(outside)
    layer = dc.nn.DecoupledLayer(model, dtype=torch.float64)
    x, size, steep = torch.tensor(FAR), np.abs(model(FAR)).max(), np.abs(model.jacobian(FAR)).max()
    assert np.allclose(layer(x).detach().numpy(), model(FAR), atol=1e-11 * size)
    assert np.allclose(layer.jacobian(x).detach().numpy(), model.jacobian(FAR), atol=1e-11 * steep)
    exact = torch.func.vmap(torch.func.jacrev(layer))(x)  # the slopes are those of what is computed
    assert torch.allclose(layer.jacobian(x), exact, rtol=0, atol=1e-10 * steep)
    back = layer.to_decoupling()
    assert back.degrees == model.degrees and back.inputs == model.inputs
    for mine, g in zip(back.g, model.without_inner_constants().g, strict=True):
        assert mine.outside == outside and mine.layer == g.layer
        assert np.allclose(mine.domain, g.domain, atol=1e-12)
    assert np.allclose(back(FAR), model(FAR), atol=1e-11 * size)
    assert (back.linear is None) == (model.linear is None) and (back.offset is None) == (model.offset is None)
    if not any(g.layer.free_domain.any() for g in model.g):
        assert sum(p.numel() for p in layer.parameters()) == model.n_parameters


@pytest.mark.parametrize("name", MODELS)
def test_all_parameters_get_the_gradients_of_the_decoupling(name):
    layer = dc.nn.DecoupledLayer(MODELS[name].with_outside("linear"), dtype=torch.float64)
    x = torch.tensor(FAR)
    layer(x).pow(2).sum().backward()
    rng = torch.Generator().manual_seed(0)
    for p in layer.parameters():
        step = 1e-6 * torch.randn(p.shape, generator=rng, dtype=p.dtype)
        values = []
        with torch.no_grad():
            for _ in range(2):  # p + step, then p - step
                p += step
                values.append(float(layer(x).pow(2).sum()))
                p -= step
                step = -step
        slope = float((p.grad * step).sum())
        assert slope == pytest.approx((values[0] - values[1]) / 2, rel=1e-4, abs=1e-6 * abs(values[0]) * 1e-3)


@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("name", ["one layer", "two layers", "linear part and offset", "chebyshev of high degree"])
def test_the_range_moves_domains_and_leaves_the_functions_alone(name, outside):
    model = MODELS[name]
    layer = dc.nn.DecoupledLayer(model.with_outside(outside), dtype=torch.float64)
    layer.set_range(torch.tensor(X))
    found, u = layer.to_decoupling(), model.with_outside("extend").inner_inputs(X)
    mine = layer.to_decoupling().inner_inputs(X)
    for l, g in enumerate(found.g):
        ends = np.stack([mine[l].min(axis=0), mine[l].max(axis=0)], axis=1)
        assert np.allclose(g.domain, ends, atol=1e-5) and np.all((g.domain - ends) * [-1, 1] > 0.0)
        assert np.allclose(np.ptp(mine[l], axis=0), np.ptp(u[l], axis=0))
    formulas = model.with_outside("extend")  # go on into the new domains
    assert np.allclose(layer(torch.tensor(X)).detach().numpy(), formulas(X), atol=1e-9 * np.abs(formulas(X)).max())


def test_domains_that_a_basis_cannot_do_without_stay_and_so_do_those_of_silent_functions():
    mixed = dc.nn.DecoupledLayer(MODELS["mixed"].with_outside("linear"), dtype=torch.float64)
    before = mixed.domain(0).clone()
    mixed.set_range(torch.tensor(X))
    moved = (mixed.domain(0) != before).any(dim=1)
    assert moved.tolist() == [False, True, False]
    silent = dc.Decoupling([[[0.0, 0.0], [1.0, 1.0]], np.eye(2)], [dc.Functions(dc.Monomial(2), np.ones((2, 3)))])
    layer = dc.nn.DecoupledLayer(silent)
    for points in (torch.randn(9, 2), torch.full((9, 2), np.nan), torch.full((9, 2), np.inf)):
        layer.set_range(points)
        assert layer.domain(0)[0].tolist() == [-1.0, 1.0] and bool(torch.isfinite(layer.C[0]).all())


def test_tails_are_what_they_say():
    model = MODELS["one layer"]
    far = torch.tensor(50.0 * X)
    layers = {o: layer_on(model, X, o, torch.float64) for o in OUTSIDE}
    sizes = {o: float(layer(far).detach().abs().max()) for o, layer in layers.items()}
    assert sizes["constant"] < sizes["linear"] < sizes["extend"] / 1000
    assert np.allclose(layers["extend"](far).detach().numpy(), model(50.0 * X), rtol=1e-9)


def test_single_precision_training_state_and_export():
    model = MODELS["two layers"]
    layer = layer_on(model, X, "linear")
    x = torch.tensor(X, dtype=torch.float32)
    assert np.allclose(layer(x).detach().numpy(), model(X), rtol=1e-4, atol=1e-4 * np.abs(model(X)).max())
    stream = io.BytesIO()
    torch.save(layer.state_dict(), stream)
    stream.seek(0)
    other = layer_on(dc.systems.random_system((4, 3, 5, 2), (3, 2), rng=9), 2 * X, "linear")
    other.load_state_dict(torch.load(stream, weights_only=True))
    assert torch.equal(other(x), layer(x)) and torch.equal(other.domain(1), layer.domain(1))
    layer(x).pow(2).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters())
    exported = torch.export.export(layer, (x,))
    assert torch.allclose(exported.module()(x), layer(x))


def test_high_degrees_keep_their_digits_in_single_precision():
    ends = np.abs(one_layer(dc.Chebyshev(20), 20).inner_inputs(X)[0]).max(axis=0)
    model = one_layer(dc.Chebyshev(20), 20, np.stack([-ends, ends], axis=1))
    got = dc.nn.DecoupledLayer(model)(torch.tensor(X, dtype=torch.float32)).detach().numpy()
    assert np.abs(got - model(X)).max() <= 1e-4 * np.abs(model(X)).max()  # 3e-2 by sums of powers


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_our_onnx_file_agrees_with_the_layer_and_with_the_exporter_of_torch(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = MODELS["one layer"]
    layer = dc.nn.DecoupledLayer(model).eval()
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


@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("name", MODELS)
def test_the_onnx_file_of_a_layer_computes_what_the_layer_does_everywhere(name, outside, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    layer = dc.nn.DecoupledLayer(MODELS[name].with_outside(outside), dtype=torch.float64)
    layer.save_onnx(tmp_path / "m.onnx", dtype="float64")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    wanted = layer(torch.tensor(FAR)).detach().numpy()
    assert np.allclose(session.run(None, {"x": FAR})[0], wanted, atol=1e-10 * np.abs(wanted).max())


def test_a_basis_of_your_own_becomes_a_layer_if_it_can_write_itself():
    class Bump(dc.bases.AbstractBasis):
        """exp(-|t|) clipped, with a table of numbers, to use all operations."""

        size = property(lambda self: 2)

        def evaluate(self, t):
            return np.stack([np.exp(-np.abs(t)), np.clip(t, -0.5, 0.5)], axis=-1)

        def derivative(self, t):
            return np.stack([-np.sign(t) * np.exp(-np.abs(t)), 1.0 * (np.abs(t) <= 0.5)], axis=-1)

        def second_derivative(self, t):
            return np.stack([np.exp(-np.abs(t)), 0.0 * t], axis=-1)

        def expression(self, algebra, t, c):
            bump = algebra.apply("exp", algebra.product([algebra.number(np.array(-1.0)), algebra.apply("abs", t)]))
            terms = [algebra.product([algebra.number(c[..., 1]), bump])]
            terms.append(algebra.product([algebra.number(c[..., 2]), algebra.clip(t, -0.5, 0.5)]))
            return algebra.sum([algebra.number(c[..., 0]), *terms])

    for outside in OUTSIDE:
        model = one_layer(Bump(), 2).with_outside(outside)
        layer = dc.nn.DecoupledLayer(model, dtype=torch.float64)
        assert np.allclose(layer(torch.tensor(FAR)).detach().numpy(), model(FAR))
        assert np.allclose(layer.jacobian(torch.tensor(FAR)).detach().numpy(), model.jacobian(FAR))


def test_bad_layers_are_refused():
    model = MODELS["one layer"]

    class Odd(dc.bases.AbstractBasis):
        size = property(lambda self: 1)

        def evaluate(self, t):
            return np.tanh(t)[..., None]

        derivative = second_derivative = evaluate

    odd = dc.Decoupling([np.eye(2), np.eye(2)], [dc.Functions(Odd(), [[0, 1], [0, 1]])])
    huge = dc.Decoupling([np.eye(1), np.eye(1)], [dc.Functions(dc.Monomial(2), [[0.0, 1.0, 1e60]])])
    for act, message in [
        (lambda: dc.nn.DecoupledLayer(odd), "Odd has no method `expression`"),
        (lambda: dc.nn.DecoupledLayer(model, dtype=torch.float16), "float32 or torch.float64"),
        (lambda: dc.nn.DecoupledLayer(huge), r"within what torch.float32 can hold. Got 1e\+60: use dtype"),
    ]:
        with pytest.raises(dc.InputError, match=message):
            act()


@pytest.mark.parametrize("name", ["two layers", "linear part and offset"])
def test_all_methods_take_whatever_comes_before_the_last_axis(name):
    layer = dc.nn.DecoupledLayer(MODELS[name].with_outside("linear"), dtype=torch.float64)
    x = torch.tensor(np.random.default_rng(1).normal(size=(2, 3, 5, layer.n_inputs)))
    flat = x.reshape(-1, layer.n_inputs)
    assert torch.allclose(layer(x).reshape(30, -1), layer(flat))
    assert torch.allclose(layer.jacobian(x).reshape(30, layer.n_outputs, layer.n_inputs), layer.jacobian(flat))
    other = copy.deepcopy(layer)
    layer.set_range(x)
    other.set_range(flat)
    assert torch.equal(layer.domain(0), other.domain(0)) and torch.allclose(layer(x), other(x))
    assert layer.jacobian(flat[0]).shape == (layer.n_outputs, layer.n_inputs)


@pytest.mark.parametrize("basis", [None, dc.Spline(5), dc.bases.Tanh()], ids=repr)
def test_a_layer_is_built_from_sizes_and_loads_weights(basis, tmp_path):
    options = {"basis": basis, "linear": True, "offset": True}
    trained = dc.nn.DecoupledLayer.of_sizes((6, 4, 5, 2), (3, 2), rng=1, **options)
    torch.save(trained.state_dict(), tmp_path / "layer.pt")
    layer = dc.nn.DecoupledLayer.of_sizes((6, 4, 5, 2), (3, 2), rng=2, **options)
    x = torch.randn(7, 6)
    assert not torch.allclose(layer(x), trained(x))
    layer.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    assert torch.equal(layer(x), trained(x)) and layer.ranks == (4, 5)
    for sizes, degrees, message in (((6, 2), 3, "`sizes`"), ((6, 4, 2), (3, 3), "`degrees`"), ((6, 0, 2), 3, "sizes")):
        with pytest.raises(dc.InputError, match=message):
            dc.nn.DecoupledLayer.of_sizes(sizes, degrees)


def test_quantisation_sees_the_matrices():
    layer = dc.nn.DecoupledLayer(MODELS["linear part and offset"].with_outside("linear"))
    assert sum(isinstance(m, nn.Linear) for m in layer.modules()) == 3
    x = torch.tensor(np.random.default_rng(0).uniform(-1, 1, (50, layer.n_inputs)), dtype=torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch is moving its quantisation elsewhere
        small = torch.ao.quantization.quantize_dynamic(copy.deepcopy(layer), {nn.Linear}, dtype=torch.qint8)
    assert not any(isinstance(m, nn.Linear) and type(m) is nn.Linear for m in small.modules())
    with torch.no_grad():
        off = float((small(x) - layer(x)).norm() / layer(x).norm())
    assert 0 < off < 0.1
