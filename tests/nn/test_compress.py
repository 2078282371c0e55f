"""Compression end to end on small trained networks."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import decoupling as dc
from decoupling.nn import _refine

from .networks import Own, blobs, sequential, train

DATA, LABELS = blobs()
TEST, TEST_LABELS = blobs(seed=5)


def accuracy(network):
    with torch.no_grad():
        return float((network(torch.tensor(TEST)).argmax(1).numpy() == TEST_LABELS).mean())


@pytest.fixture(scope="module")
def net():
    return train(sequential(), DATA, LABELS)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Fewer steps of training than a user would take."""
    monkeypatch.setattr(_refine, "_STEPS", 150)


# Sampling


def test_sampling_leaves_the_network_alone_and_is_exact(net):
    part = copy.deepcopy(net[2:]).train()
    part[0].weight.grad = torch.ones_like(part[0].weight)
    state = copy.deepcopy(part.state_dict())
    points = np.random.default_rng(0).normal(size=(20, 12))
    samples = dc.nn.sample(part, points, chunk_size=7, progress=False)
    assert part.training and part[0].weight.dtype == torch.float32
    assert torch.equal(part[0].weight.grad, torch.ones_like(part[0].weight))
    assert all(torch.equal(v, state[k]) for k, v in part.state_dict().items())
    step = 1e-6
    twin = copy.deepcopy(part).double()
    for j in range(12):
        h = torch.tensor(step * np.eye(12)[j])
        with torch.no_grad():
            slope = (twin(torch.tensor(points) + h) - twin(torch.tensor(points) - h)) / (2 * step)
        assert np.allclose(samples.J[:, :, j], slope.numpy(), atol=1e-6)
    whole = dc.nn.sample(part, points, progress=False)
    assert np.allclose(whole.J, samples.J, atol=1e-14)
    kept = dc.nn.sample(part, points, chunk_size=6, store=True, progress=False)
    assert isinstance(kept.J, dc.StoredJacobians) and np.allclose(kept.take(np.arange(20)).J, samples.J, atol=1e-14)
    solver = dc.Proj(max_iterations=5)
    one, two = (dc.decouple(s, 2, 3, solver=solver, n_starts=2, progress=False) for s in (kept, samples))
    assert np.allclose(one.decoupling(points), two.decoupling(points), atol=1e-6)


def test_more_outputs_than_inputs_and_points_of_several_axes():
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Flatten(), nn.Linear(4, 9), nn.Tanh())
    samples = dc.nn.sample(wide, np.random.default_rng(0).normal(size=(5, 2, 2)), progress=False)
    assert samples.J.shape == (5, 9, 4)
    slopes = (1 - samples.F**2)[:, :, None] * wide[1].weight.detach().double().numpy()
    assert np.allclose(samples.J, slopes)


def test_bad_samples_are_refused(net):
    class Two(nn.Module):
        def forward(self, a, b):
            return a + b

    class Blows(nn.Module):
        def forward(self, x):
            return torch.log(x[:, :2] - 100.0)

    X = np.zeros((4, 8))
    for act, message in [
        (lambda: dc.nn.sample(net, X.astype(int)), "int64: Jacobians need real inputs"),
        (lambda: dc.nn.sample(net, X[:0]), "at least one point"),
        (lambda: dc.nn.sample(net, X * np.nan), "finite numbers only"),
        (lambda: dc.nn.sample(net, X[:, :3]), "must have the shape that the module takes"),
        (lambda: dc.nn.sample(Two(), X), "function of one tensor"),
        (lambda: dc.nn.sample(Blows(), X), "4 of 4 samples give NaN"),
        (lambda: dc.nn.sample(net, X, device="cuda"), "`device` must be a device of this machine"),
        (lambda: dc.nn.sample(net, X, chunk_size=0), "`chunk_size`"),
    ]:
        with pytest.raises(dc.InputError, match=message):
            act()


# Compression


def run(network, part, **options):
    settings = {"ranks": 4, "degree": 3, "metric": accuracy, "progress": False, "rng": 0}
    return dc.nn.compress(network, part, DATA, **{**settings, **options})


def test_a_sequential_network_is_compressed_and_stays_as_it_was(net):
    before = copy.deepcopy(net.state_dict())
    out = run(net, ("2", "6"))
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items()) and len(net) == 7
    report = out.report
    assert report.parameters == (12 * 30 + 30 + 30 * 20 + 20 + 20 * 3 + 3, 4 * 12 + 4 * 3 + 4 * 3 + 4)
    assert report.savings == pytest.approx(100 * (1 - 76 / 1073))
    assert report.multiply_adds == (12 * 30 + 30 * 20 + 20 * 3, 4 * 12 + 4 * 3 + 4 * 3)
    assert report.metric == (accuracy(net), accuracy(out.model)) and report.drop < 0.05
    assert isinstance(out.model[2], dc.nn.DecoupledLayer) and len(out.model) == 3
    assert "parameters of the part" in str(report) and report.latency[0] > 0
    points = net[:2](torch.tensor(DATA)).detach().numpy()
    assert np.allclose(out.decoupling(points), out.layer(torch.tensor(points)).detach().numpy(), atol=1e-3)


def test_a_network_with_a_forward_of_its_own_is_traced():
    own = train(Own(), DATA, LABELS).eval()
    out = run(own, ("fc2", "fc4"))
    assert out.report.drop < 0.05 and out.report.parameters[0] == 1073
    with torch.no_grad():
        assert torch.allclose(out.model(torch.tensor(TEST)).exp().sum(1), torch.ones(len(TEST)), atol=1e-5)
    same = run(own, lambda name, module: name in ("fc2", "fc3", "fc4"))
    assert same.report.parameters == out.report.parameters


def test_a_named_submodule_and_a_final_softmax():
    inner = sequential(final=(nn.LogSoftmax(dim=1),))
    network = nn.Sequential()
    network.add_module("head", inner)
    train(network, DATA, LABELS)
    out = run(network, ("head.2", "head.7"))
    with torch.no_grad():
        total = out.model(torch.tensor(TEST)).exp().sum(1)
    assert torch.allclose(total, torch.ones(len(TEST)), atol=1e-5)  # the softmax was left outside
    inside = run(network, ("head.2", "head.7"), logits=False, refine=False)
    assert isinstance(inside.model.head[-1], dc.nn.DecoupledLayer)
    whole = run(network, "head", ranks=5)
    assert whole.report.parameters[0] == sum(p.numel() for p in network.parameters())


def test_refining_without_labels_and_training_with_them(net):
    plain = run(net, ("2", "6"), ranks=2, refine=False, metric=None)
    refined = run(net, ("2", "6"), ranks=2, metric=None)
    assert refined.report.metric_name == "agreement with the original" and refined.report.metric[0] == 1.0
    assert refined.report.metric[1] >= plain.report.metric[1]
    tuned = run(net, ("2", "6"), ranks=2, fine_tune=dc.nn.FineTune(DATA, LABELS, epochs=2))
    assert tuned.report.drop < 0.05
    assert all(p.requires_grad for p in tuned.model.parameters())


def test_ranks_are_found_for_an_accepted_drop(net):
    out = run(net, ("2", "6"), ranks="auto", max_drop=0.02)
    assert out.report.drop <= 0.02 and len(out.decoupling.ranks) == 1
    with pytest.warns(dc.DecouplingWarning, match="more than the 0 you accept"):
        run(net, ("2", "6"), ranks=1, max_drop=0.0, degree=1, refine=False)
    with pytest.warns(dc.DecouplingWarning, match="not smaller"):
        run(net, "6", ranks=5, refine=False)


def test_the_same_seed_gives_the_same_network(net):
    one, two = (run(net, ("2", "6"), rng=3) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.model.parameters(), two.model.parameters(), strict=True))


def test_one_output_is_a_regression():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 1))
    out = run(net, ("2", "4"), ranks=3, metric=None)
    assert out.report.metric[1] > 0.9


def test_bad_compressions_are_refused(net):
    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x):
            h = self.a(x)
            return self.c(self.b(h) + x)

    class Choosy(Branch):
        def forward(self, x):
            return self.c(self.b(self.a(x))) if x.sum() > 0 else self.c(x)

    cases = [
        (lambda: run(net, ("2", "9")), "must name submodules"),
        (lambda: run(net, ("6", "2")), "first module before the last"),
        (lambda: run(net, lambda name, module: False), "The filter chose none"),
        (lambda: run(Branch(), ("b", "c")), "function of one tensor. Between b and c enter: a, x"),
        (lambda: run(Branch(), ("a", "b")), None),
        (lambda: run(Choosy(), ("a", "c")), "torch.fx cannot trace"),
        (lambda: run(copy.deepcopy(net).half(), ("2", "6")), "float32 or float64. Got torch.float16"),
        (lambda: dc.nn.compress(net, ("2", "6"), DATA.astype(int), 4), "int64"),
        (lambda: dc.nn.compress(net, ("2", "6"), DATA[:2], 4), "at least one input per class"),
        (lambda: run(net, ("2", "6"), n_samples=2), "at least one input per class"),
        (lambda: run(net, ("2", "6"), labels=np.zeros(3, dtype=int)), "`labels` must be 600"),
        (lambda: run(net, ("2", "6"), metric=lambda network: None), "`metric` must return a number"),
        (lambda: run(nn.ReLU(), "x"), "must have parameters"),
        (lambda: run(nn.Sequential(nn.Linear(8, 3), nn.Linear(3, 2)), "1", ranks="auto"), "nothing to save"),
        (lambda: dc.nn.FineTune(DATA, LABELS[:3]), "same length"),
    ]
    for act, message in cases:
        if message is None:
            act()
            continue
        with pytest.raises(dc.InputError, match=message):
            act()
    broken = copy.deepcopy(net)
    with torch.no_grad():
        broken[6].bias[0] = float("inf")
    with pytest.raises(dc.InputError, match="600 of 600 samples give NaN or infinity"):
        run(broken, ("2", "6"))
