"""Parts are cut out of networks of all kinds, and nothing else changes."""

import copy
import io
import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import decouply as dc

from .networks import Own, compress

RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(120, 8)).astype(np.float32)
IMAGES = RNG.normal(size=(120, 1, 6, 6)).astype(np.float32)


def cut(network, part, data=VECTORS, **options):
    """Replace a part quickly; the network must compute the same with its part cut out as before."""
    seen = []

    def score(given):
        seen.append(given)
        return 1.0

    settings = {
        "ranks": 2,
        "degrees": 2,
        "solver": dc.Proj(stopping=dc.solvers.Stopping(max_steps=2)),
        "refine": False,
        **options,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dc.DecouplingWarning)  # fitted badly on purpose
        out = compress(network, part, data, score=score, progress=False, **settings)
    x = torch.tensor(data[:10])
    with torch.no_grad():
        assert torch.allclose(seen[0](x), copy.deepcopy(network).eval()(x), atol=1e-5)
        assert out.model(x).shape == network(x).shape
    assert any(module is out.layer for module in out.model.modules()) and not out.model.training
    return out


def linear(*dims):
    torch.manual_seed(0)
    return [nn.Linear(a, b) for a, b in pairwise(dims)]


class Network(nn.Module):
    """Modules by name, and a forward method that is given."""

    def __init__(self, forward, **modules):
        super().__init__()
        self._forward = forward
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x):
        return self._forward(self, x)

    def predict(self, x):
        return self(x).argmax(1)


def test_a_module_that_comes_twice_stays_in_both_places():
    relu = nn.ReLU()
    a, b, c = linear(8, 12, 30, 3)
    out = cut(nn.Sequential(a, relu, b, relu, c), ("0", "2"))
    assert [type(m).__name__ for m in out.model] == ["DecoupledLayer", "ReLU", "Linear"]
    samples = cut(nn.Sequential(a, relu, b, relu, c), ("2", "4")).result.samples
    values = nn.Sequential(b, relu, c).double()(torch.tensor(samples.X)).detach().numpy()
    assert np.allclose(samples.F, values)


def test_modules_that_work_in_place_change_nothing():
    a, b, c = linear(8, 12, 30, 3)
    data = torch.tensor(VECTORS, dtype=torch.float64)
    kept = data.clone()
    outs = []
    for inplace in (False, True):
        relus = [nn.ReLU(inplace=inplace) for _ in range(3)]
        network = nn.Sequential(relus[0], a, relus[1], b, relus[2], c).double()
        settings = {
            "ranks": 2,
            "degrees": 2,
            "refine": False,
            "n_samples": 120,
            "progress": False,
            "task": "classification",
        }
        outs.append(compress(network, ("2", "5"), data, **settings))
        assert torch.equal(data, kept)
    plain, placed = outs
    assert np.array_equal(plain.result.samples.X, placed.result.samples.X) and (plain.result.samples.X < 0.0).any()
    assert plain.report.score == placed.report.score and plain.report.outside == placed.report.outside


def test_a_sequence_stays_what_it_is():
    class Doubled(nn.Sequential):
        note = "kept"

    a, b, c = linear(8, 12, 30, 3)
    network = Doubled(a, nn.ReLU(), b, nn.ReLU(), c)
    network.register_forward_hook(lambda module, args, output: 2 * output)
    out = cut(network, ("2", "4"))
    assert isinstance(out.model, Doubled) and out.model.note == "kept"


def test_a_sequence_with_a_forward_method_of_its_own():
    class Bent(nn.Sequential):
        def forward(self, x):
            return self[1](torch.relu(self[0](x))) + 1.0

    assert cut(Bent(*linear(8, 12, 3)), ("0", "1")).report.parameters[0] == 8 * 12 + 12 + 12 * 3 + 3


def test_a_sequence_whose_members_are_called_one_by_one():
    inner = nn.Sequential(*linear(8, 12, 20, 3))
    network = Network(lambda self, x: self.l[2](torch.relu(self.l[1](torch.relu(self.l[0](x))))), l=inner)
    assert cut(network, ("l.1", "l.2")).report.parameters[0] == 12 * 20 + 20 + 20 * 3 + 3


def test_members_of_a_list():
    def forward(self, x):
        for layer in self.l:
            x = torch.relu(layer(x))
        return x

    network = Network(forward, l=nn.ModuleList(linear(8, 12, 20, 3)))
    assert cut(network, ("l.1", "l.2")).report.parameters[0] == 12 * 20 + 20 + 20 * 3 + 3


def test_modules_that_are_made_of_modules():
    a, b, c, d = linear(8, 12, 30, 20, 3)
    blocks = {"one": nn.Sequential(a, nn.ReLU()), "two": Network(lambda self, x: torch.relu(self.fc(x)), fc=b)}
    network = Network(lambda self, x: self.out(torch.relu(self.fc(self.two(self.one(x))))), **blocks, fc=c, out=d)
    wanted = 8 * 12 + 12 + 12 * 30 + 30
    assert cut(network, ("one", "two")).report.parameters[0] == wanted
    chosen = cut(network, lambda name, module: name.startswith("two"))
    assert chosen.report.parameters[0] == 12 * 30 + 30


def test_what_hangs_on_the_same_tensor_comes_along():
    a, b, c, d = linear(8, 12, 20, 12, 3)

    def skip(self, x):
        h = torch.relu(self.a(x))
        return self.d(h + self.c(torch.relu(self.b(h))))

    network = Network(skip, a=a, b=b, c=c, d=d)
    assert cut(network, ("b", "d")).report.parameters[0] == 12 * 20 + 20 + 20 * 12 + 12 + 12 * 3 + 3
    assert cut(network, ("b", "c")).report.parameters[0] == 12 * 20 + 20 + 20 * 12 + 12

    def shaped(self, x):
        count = x.size(0)
        h = torch.relu(self.conv(x)).view(count, -1)
        return self.b(torch.relu(self.a(h)))

    images = Network(shaped, conv=nn.Conv2d(1, 3, 3), a=linear(48, 20)[0], b=linear(20, 3)[0])
    whole = cut(images, ("conv", "b"), IMAGES)
    assert whole.report.parameters[0] == sum(p.numel() for p in images.parameters())


def test_branches_beside_the_part_are_left_alone():
    a, b, c = linear(8, 12, 30, 3)

    def forward(self, x):
        h = self.b(torch.relu(self.a(x)))
        beside = self.side(x)  # between the modules in the text, but not in the part
        return self.c(torch.relu(h)) + beside

    network = Network(forward, a=a, b=b, c=c, side=linear(8, 3)[0])
    out = cut(network, ("b", "c"))
    assert out.report.parameters[0] == 12 * 30 + 30 + 30 * 3 + 3 and hasattr(out.model, "side")


def test_bare_parameters_go_with_the_part_and_unused_modules_stay():
    a, b = linear(8, 12, 12)
    network = Network(
        lambda self, x: self.c(torch.relu(nn.functional.linear(torch.relu(self.b(torch.relu(self.a(x)))), self.w))),
        a=a, b=b, c=linear(30, 3)[0], unused=nn.Linear(50, 50),
    )  # fmt: skip
    network.w = nn.Parameter(torch.randn(30, 12))
    out = cut(network, ("b", "c"))
    assert out.report.parameters[0] == 12 * 12 + 12 + 30 * 12 + 30 * 3 + 3
    assert out.report.network_parameters[0] == sum(p.numel() for p in network.parameters())
    saved = out.report.parameters[0] - out.report.parameters[1]
    assert out.report.network_parameters[1] == out.report.network_parameters[0] - saved
    assert out.report.multiply_adds[0] is None  # what is done with a bare parameter is not known


def test_classes_around_the_part_keep_their_methods():
    outer = Network(lambda self, x: self.last(self.inner(x)), inner=Own(), last=nn.Linear(3, 3))
    out = cut(outer, ("inner.fc2", "inner.fc4"))
    assert type(out.model) is Network and out.model.predict(torch.tensor(VECTORS)).shape == (120,)


def test_a_traced_network_can_be_saved_copied_and_exported():
    out = cut(Own(), ("fc2", "fc4"))
    x = torch.tensor(VECTORS)
    stream = io.BytesIO()
    torch.save(out.model, stream)
    stream.seek(0)
    exported = torch.export.export(out.model, (x,), dynamic_shapes=({0: torch.export.Dim("S")},)).module()
    for again in (torch.load(stream, weights_only=False), copy.deepcopy(out.model), exported):
        assert torch.allclose(again(x[:5]), out.model(x[:5]), atol=1e-6)


def test_a_softmax_at_the_end_of_a_traced_part_is_left_outside():
    a, b, c = linear(8, 12, 30, 3)
    network = Network(lambda self, x: self.s(self.c(torch.relu(self.b(torch.relu(self.a(x)))))), a=a, b=b, c=c)
    network.s = nn.Softmax(dim=1)
    with torch.no_grad():
        sums = cut(network, ("b", "s")).model(torch.tensor(VECTORS)).sum(1)
    assert torch.allclose(sums, torch.ones(120), atol=1e-5)
    assert not hasattr(cut(network, ("b", "s"), logits=False).model, "s")


def test_a_network_can_be_compressed_again():
    once = cut(Own(), ("fc2", "fc3"))
    again = cut(once.model, ("decoupled", "fc4"))
    assert [name for name, _ in again.model.named_children()] == ["fc1", "decoupled_2"]


def test_parts_take_arrays_and_return_vectors():
    head = nn.Sequential(nn.Flatten(), nn.Linear(48, 20), nn.ReLU(), nn.Linear(20, 3))
    network = Network(lambda self, x: self.head(torch.relu(self.conv(x))), conv=nn.Conv2d(1, 3, 3), head=head)
    out = cut(network, "head", IMAGES)
    assert out.decoupling.n_inputs == 48
    layers = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 3))
    assert cut(layers, ("2", "4"), IMAGES).report.multiply_adds[0] == 27 * 4 * 2 * 2 + 16 * 3


def test_parts_that_cannot_be_cut_are_refused():
    a, b, c = linear(8, 8, 8, 3)
    named = Network(lambda self, x: self.c(input=self.a(x)), a=a, c=c)
    whole = Network(lambda self, x: self.c(self.a(x).argmax(1)), a=a, c=nn.Embedding(8, 3))
    turned = Network(lambda self, x: self.c(self.a(x)[None].repeat(5, 1, 1))[0], a=a, c=c)
    pair = Network(lambda self, x: self.c(x, self.a(x)), a=a, c=nn.Bilinear(8, 8, 3))
    random = Network(lambda self, x: self.c(nn.functional.dropout(self.a(x))), a=a, c=c)
    leaving = Network(lambda self, x: self.c(self.b(self.a(x)) + self.a(x)), a=a, b=b, c=c)
    batch = Network(lambda self, x: self.head(self.a(x)), a=a, head=nn.Sequential(nn.BatchNorm1d(8), c))
    batch.head[0].track_running_stats = False
    batch.head[0].running_mean = batch.head[0].running_var = None
    for network, part, message in [
        (named, a, 'must be named, not given as modules. Its name is "a"'),
        (named, nn.ReLU(), "It is not one of the network"),
        (named, lambda name: True, "must be a function of name and module. It raises"),
        (Network(lambda self, x: self.head(x), head=nn.Sequential(a, c)), ("head", "head.1"), "lies within the other"),
        (nn.Sequential(a, nn.ReLU(), c), "1", "`parts` must have parameters"),
        (nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)), "1", r"`data` must be inputs of the network.*, 8\)"),
        (named, "c", r"called with it alone. c is called with \(input=Tensor\)"),
        (whole, "c", "`parts` must take real inputs.*torch.int64"),
        (turned, "c", r"one vector or array per sample. c is given the shape \(5, 8, 8\)"),
        (pair, "c", r"c is called with \(Tensor, Tensor\)"),
        (random, "c", "must return the same numbers when it is called again"),
        (leaving, ("a", "b"), "a is called 2 times"),
        (batch, "head", "`parts` must fit its inputs, called with one sample or many"),
    ]:
        with pytest.raises(dc.InputError, match=message):
            compress(network, part, VECTORS, ranks=2, degrees=2, refine=False, progress=False)
