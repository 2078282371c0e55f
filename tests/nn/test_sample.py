"""Values and Jacobians of sub-networks."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import decouply as dc
from decouply.nn.carving import _jacobian_sampling

from .networks import blobs, sequential, train

DATA, LABELS = blobs()


def sample(module, X, **options):
    return dc.nn.sample(module, X, progress=False, **options)


@pytest.fixture(scope="module")
def net():
    return train(sequential(), DATA, LABELS)


def test_sampling_leaves_the_network_alone_and_is_exact(net, tmp_path):
    part = copy.deepcopy(net[2:]).train()
    part[0].weight.grad = torch.ones_like(part[0].weight)
    state = copy.deepcopy(part.state_dict())
    points = np.random.default_rng(0).normal(size=(20, 12))
    samples = sample(part, points, chunk_size=7)
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
    whole = sample(part, points)
    assert np.allclose(whole.J, samples.J, atol=1e-14)
    kept = sample(part, points, chunk_size=6, store=tmp_path / "samples.zarr")
    assert not kept.in_memory and np.allclose(kept.take(np.arange(20)).J, samples.J, atol=1e-14)


def test_more_outputs_than_inputs_and_points_of_several_axes():
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Flatten(), nn.Linear(4, 9), nn.Tanh())
    samples = sample(wide, np.random.default_rng(0).normal(size=(5, 2, 2)))
    assert samples.J.shape == (5, 9, 4)
    slopes = (1 - samples.F**2)[:, :, None] * wide[1].weight.detach().double().numpy()
    assert np.allclose(samples.J, slopes)


def test_points_come_in_any_form(net):
    wanted = sample(net, DATA[:6]).J
    locked = DATA[:6].copy()
    locked.flags.writeable = False
    backwards = np.ascontiguousarray(DATA[:6][::-1])[::-1]
    tensors = [torch.tensor(DATA[:6], requires_grad=True), torch.tensor(DATA[:6]).to_sparse()]
    for given in (locked, backwards, DATA[:6].astype(">f4"), DATA[:6].tolist(), *tensors):
        assert np.array_equal(sample(net, given).J, wanted)


def test_modules_that_work_in_place_leave_the_points_alone():
    torch.manual_seed(0)
    layers = nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 2)
    X = torch.tensor(DATA[:6], dtype=torch.float64)
    kept = X.clone()
    got = sample(nn.Sequential(nn.ReLU(inplace=True), *layers), X)
    wanted = sample(nn.Sequential(nn.ReLU(), *layers), X)
    assert torch.equal(X, kept) and np.array_equal(got.X, kept.numpy())
    assert np.array_equal(got.J, wanted.J) and np.array_equal(got.F, wanted.F)


def test_progress_goes_to_the_callable_of_the_user(net):
    seen = []
    dc.nn.sample(net, DATA[:6], chunk_size=4, progress=lambda **values: seen.append(values))
    assert seen == [{"done": 4, "total": 6}, {"done": 6, "total": 6}]


def test_wide_modules_inside_make_the_chunks_smaller(monkeypatch):
    sizes = []

    class Narrow(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(3, 1000), nn.Linear(1000, 2)

        def forward(self, x):
            sizes.append(len(x))
            return self.down(torch.tanh(self.up(x)))

    monkeypatch.setattr(_jacobian_sampling, "_MAX_ENTRIES", 20_000)
    sample(Narrow(), DATA[:30, :3])
    assert max(sizes) == 20_000 // (2 * 1000)  # two rows of each Jacobian pass through a thousand units


def test_devices_without_double_precision_are_left_for_the_cpu(monkeypatch, net):
    monkeypatch.setattr(_jacobian_sampling, "_DEVICES_WITHOUT_FLOAT64", ("cpu",))  # a Mac's graphics card
    assert sample(net, DATA[:3]).J.shape == (3, 3, 8)


class Two(nn.Module):
    def forward(self, a, b):
        return a + b


class Blows(nn.Module):
    def forward(self, x):
        return torch.log(x[:, :2] - 100.0)


class Centred(nn.Module):
    def forward(self, x):
        return x - x.mean(dim=0)


class Noisy(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x)


class Nothing(nn.Module):
    def forward(self, x):
        return x[:, :0]


class Steps(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def weighted_by_hooks():
    with pytest.warns(FutureWarning, match="weight_norm"):
        module = torch.nn.utils.weight_norm(nn.Linear(8, 2))
    module(torch.zeros(1, 8))
    return module


def test_bad_samples_are_refused(net):
    X = np.zeros((4, 8))
    batch = nn.Sequential(nn.Linear(8, 2), nn.BatchNorm1d(2, track_running_stats=False))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(4, 8)))
    for act, message in [
        (lambda: sample(net, X.astype(int)), "int64: Jacobians need real inputs"),
        (lambda: sample(net, X[:0]), "at least one point"),
        (lambda: sample(net, X * np.nan), "finite numbers only"),
        (lambda: sample(net, X[:, :3]), r"`module` must fit its inputs.*shape \(1, 3\) in float64 it says: mat1"),
        (lambda: sample(net, loader), r"Got DataLoader: .*torch.cat\(\[x for x, \*_ in loader\]\)"),
        (lambda: sample(net, [torch.zeros(8, requires_grad=True)]), r"cannot be read as one: .*detach\(\)"),
        (lambda: sample(Two(), X), "`module` must be a function of one tensor"),
        (lambda: sample(Blows(), X), "4 of 4 samples give NaN"),
        (lambda: sample(Centred(), DATA[:4]), "`module` must treat every sample by itself"),
        (lambda: sample(Noisy(), DATA[:4]), "`module` must treat every sample by itself"),
        (lambda: sample(batch, DATA[:4]), "`module` must fit its inputs, called with one sample or many"),
        (lambda: sample(Steps(), DATA[:4]), "differentiable by torch.func.jacrev under vmap"),
        (lambda: sample(Nothing(), X), "at least one number per sample"),
        (lambda: sample(nn.Linear(8, 2, device="meta"), X), 'on the device "meta"'),
        (lambda: sample(nn.LazyLinear(2), X), "lazy modules that never ran"),
        (lambda: sample(weighted_by_hooks(), X), "weight_norm can be copied once it has run within torch.no_grad"),
        (lambda: sample(net, X, device="cuda"), "`device` must be a device of this machine"),
        (lambda: sample(net, X, device="meta"), "`device` must be a device of this machine"),
        (lambda: sample(net, X, chunk_size=0), "`chunk_size`"),
    ]:
        with pytest.raises(dc.InputError, match=message):
            act()
