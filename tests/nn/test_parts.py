"""Any part of any network: tokens, pixels, several parts, budgets, loaders and rounding."""

import copy
import itertools
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import decouply as dc
from decouply.nn.carving import _data_split
from decouply.nn.carving._part import part_names
from decouply.nn.carving._receptive_field import EachPixel, EachToken, WholeSample, check_axis, receptive_field_of
from decouply.nn.compression import _pipeline, _rank_search
from decouply.nn.compression._rank_search import Price, allocate_ranks
from decouply.nn.layer import _quantisation
from decouply.nn.layer._decoupled_layer import OnPatches
from decouply.nn.layer._quantisation import check_bits
from decouply.nn.training import _distillation

from .networks import compress

QUICK = dc.nn.Distil(max_steps=40, batch_size=64)


class Mlp(nn.Module):
    """A block with a forward of its own, and dropout in it."""

    def __init__(self, d=6, hidden=24):
        super().__init__()
        self.fc1, self.fc2, self.drop = nn.Linear(d, hidden), nn.Linear(hidden, d), nn.Dropout(0.1)

    def forward(self, x):
        return self.fc2(self.drop(nn.functional.gelu(self.fc1(x))))


class Block(nn.Module):
    def __init__(self, d=6):
        super().__init__()
        self.norm, self.mlp, self.mix = nn.LayerNorm(d), Mlp(d), nn.Linear(4, 4)

    def forward(self, x):
        x = x + self.mix(x.transpose(1, 2)).transpose(1, 2)
        return x + self.mlp(self.norm(x))


class Tokens(nn.Module):
    """Four tokens of six numbers each, two blocks with residual branches, three classes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks, self.head = nn.ModuleList([Block(), Block()]), nn.Linear(6, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(
            nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 1, stride=2)
        )
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


TOKENS = torch.randn(60, 4, 6, generator=torch.Generator().manual_seed(1))
PIXELS = torch.randn(40, 2, 9, 9, generator=torch.Generator().manual_seed(1))


def run(model, data, parts, **options):
    usual = {"ranks": 4, "start": "random", "refine": QUICK, "task": "classification", "progress": False, "rng": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dc.DecouplingWarning)  # so few steps leave large errors
        return compress(model, parts, data, **{**usual, **options})


def test_all_blocks_of_a_transformer_are_replaced_and_trained_together():
    net = Tokens().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    joint = dc.nn.Distil(max_steps=30, rate=3e-3, batch_size=32)
    apart = run(net, TOKENS, ["blocks.*.mlp"], joint=False)
    out = run(net, TOKENS, ["blocks.*.mlp"], joint=joint)
    assert list(out.layers) == [row.name for row in out.report.parts] == ["blocks.0.mlp", "blocks.1.mlp"]
    assert {row.receptive_field for row in out.report.parts} == {"each token"}
    assert out.report.parameters == (2 * (6 * 24 + 24 + 24 * 6 + 6), 2 * (4 * 6 + 6 * 4 + 4 * 4 + 6))
    assert out.model.blocks[1].mlp is out.layers["blocks.1.mlp"]
    assert out.model(torch.randn(2, 4, 6)).shape == (2, 3)
    with torch.no_grad():
        wanted = net.eval()(TOKENS).log_softmax(1)
        off = [
            nn.functional.kl_div(m(TOKENS).log_softmax(1), wanted, log_target=True, reduction="batchmean")
            for m in (apart.model, out.model)
        ]
    assert off[1] < 0.8 * off[0]
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    text = str(out.report)
    assert "blocks.0.mlp  each token  4" in text and "of the parts, worst" in text
    with pytest.raises(dc.InputError, match="`layer` needs a single"):
        out.layer  # noqa: B018


def test_a_function_chooses_the_outermost_modules():
    net = Tokens()
    assert part_names(net, lambda name, _: ".mlp" in name) == part_names(net, "blocks.*.mlp")


def test_every_part_is_fitted_to_what_the_parts_before_it_give(monkeypatch):
    seen = []
    carve = _pipeline.CompressionRun.carve

    def keep(self, network, spec):
        part = carve(self, network, spec)
        seen.append((network, part))
        return part

    monkeypatch.setattr(_pipeline.CompressionRun, "carve", keep)
    net = Tokens()
    run(net, TOKENS, ["blocks.1.mlp", "blocks.0.mlp"], validation=0, joint=False)
    (_, first), (second_network, second) = seen
    assert (first.name, second.name) == ("blocks.0.mlp", "blocks.1.mlp")  # as the network comes to them
    with torch.no_grad():
        x = TOKENS + net.blocks[0].mix(TOKENS.transpose(1, 2)).transpose(1, 2)
        assert torch.allclose(first.inputs.float(), net.blocks[0].norm(x).flatten(0, 1), atol=1e-5)
        x = second_network.blocks[0](TOKENS)
        x = net.blocks[1].norm(x + net.blocks[1].mix(x.transpose(1, 2)).transpose(1, 2)).flatten(0, 1)
        assert torch.allclose(second.inputs.float(), x, atol=1e-5)
        assert torch.allclose(second.values.float(), net.blocks[1].mlp.eval()(x), atol=1e-5)


def test_a_convolution_is_a_function_of_patches_and_stays_a_convolution():
    net = Images().eval()
    out = run(net, PIXELS, "body", start="random")
    new = out.model.body
    assert isinstance(new, OnPatches) and out.report.parts[0].receptive_field == "3 x 3 pixels"
    assert new(PIXELS).shape == net.body(PIXELS).shape == (40, 4, 5, 5)
    assert new(torch.randn(1, 2, 15, 9)).shape == (1, 4, 8, 5)
    patches = nn.functional.unfold(PIXELS, 3, padding=1, stride=2)
    by_hand = out.layer(patches.transpose(1, 2)).transpose(1, 2).reshape(40, 4, 5, 5)
    assert torch.allclose(new(PIXELS), by_hand, atol=1e-5)
    assert out.report.multiply_adds[1] == 25 * (4 * 18 + 4 * 4 + 4 * 4 + 4)
    exported = torch.export.export(out.model, (PIXELS,)).module()
    assert torch.allclose(exported(PIXELS), out.model(PIXELS), atol=1e-6)


def test_jacobians_are_taken_at_tokens_and_patches_too():
    quick = {
        "start": "decoupling",
        "solver": dc.Proj(stopping=dc.solvers.Stopping(max_steps=1)),
        "ranks": 2,
        "n_samples": 20,
        "refine": False,
    }
    for model, data, part, m in ((Tokens(), TOKENS, "blocks.0.mlp", 6), (Images().eval(), PIXELS, "body", 18)):
        out = run(model, data, part, **quick)
        assert out.result.samples.n_inputs == m and out.result.samples.n_samples == 20


LINEAR = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5))
TWICE = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 3, 3, padding=1, stride=2))


@pytest.mark.parametrize(
    ("part", "shape", "reach"),
    [
        (LINEAR, (5, 6), WholeSample((6,))),
        (LINEAR, (5, 3, 6), EachToken(3)),
        (LINEAR, (5, 2, 3, 6), EachToken(4)),
        (nn.Sequential(nn.Flatten(), nn.Linear(18, 2)), (5, 3, 6), WholeSample((3, 6))),
        (nn.Conv2d(2, 3, 1), (5, 2, 7, 8), EachPixel(2, (1, 1), (1, 1), (0, 0))),
        (TWICE, (5, 2, 12, 12), EachPixel(2, (5, 5), (2, 2), (2, 2))),
        (nn.Sequential(nn.Conv2d(2, 3, 3), nn.MaxPool2d(2)), (5, 2, 12, 12), EachPixel(2, (4, 4), (2, 2), (0, 0))),
    ],
)
def test_what_an_output_depends_on_is_seen_by_moving_tokens_and_pixels(part, shape, reach):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    assert receptive_field_of(part, x, "part", "auto") == reach
    with torch.no_grad():
        wanted, vectors = reach.values(part(x)), reach.vectors(x)
        got = reach.function(part)(vectors.flatten(0, 1)).reshape(wanted.shape)
        if not reach.exact:  # the borders are padded inside the part as well
            wanted, got = (y.reshape(5, 6, 6, -1)[:, 1:-1, 1:-1] for y in (wanted, got))
    assert torch.allclose(got, wanted, atol=1e-5)


def test_a_budget_goes_where_the_network_minds(monkeypatch):
    net = Tokens()
    monkeypatch.setattr(_rank_search, "_TRIAL_STEPS", 5)
    with torch.no_grad():
        for p in net.blocks[1].mlp.parameters():
            p.mul_(1e-3)  # hardly there
    out = run(net, TOKENS, "blocks.*.mlp", ranks="auto", budget=dc.nn.Budget(parameters=0.5), joint=False)
    first, second = (row.ranks[0] for row in out.report.parts)
    assert first > 2 * second and 0.4 < out.report.parameters[1] / out.report.parameters[0] <= 0.5
    small = run(net, TOKENS, "blocks.0.mlp", ranks="auto", budget=dc.nn.Budget(bytes=400), quantize=8)
    assert 300 < small.report.stored_bytes[1] <= 400
    macs = run(net, TOKENS, "blocks.0.mlp", ranks="auto", budget=dc.nn.Budget(macs=0.3))
    assert 0.2 < macs.report.multiply_adds[1] / macs.report.multiply_adds[0] <= 0.3


def test_the_spread_is_the_best_there_is():
    prices = [Price("a", 5, 10, 99), Price("b", 5, 30, 99), Price("c", 5, 10, 3)]
    minds = [4.0, 1.0, 9.0]

    def error(ranks):
        return sum(s / r for s, r in zip(minds, ranks, strict=True))

    found = allocate_ranks(prices, 200, minds)
    everything = [(a, b, c) for a in range(1, 20) for b in range(1, 7) for c in range(1, 4)]
    allowed = [r for r in everything if sum(p.of(k) for p, k in zip(prices, r, strict=True)) <= 200]
    assert tuple(found) in allowed and error(found) <= 1.1 * min(error(r) for r in allowed)


def test_loaders_are_read_once_and_never_kept_whole(monkeypatch):
    reads = []

    class Loader:
        def __iter__(self):
            reads.append(1)
            for rows in torch.split(TOKENS, 7):
                yield rows, torch.zeros(len(rows))

    net = Tokens()
    whole = run(net, TOKENS, "blocks.0.mlp")
    out = run(net, Loader(), "blocks.0.mlp")
    assert len(reads) == 1 and all(
        torch.allclose(a, b, atol=1e-5) for a, b in zip(whole.layer.parameters(), out.layer.parameters(), strict=True)
    )
    monkeypatch.setattr(_data_split, "_MAX_NUMBERS", 20 * 24)
    assert run(net, Loader(), "blocks.0.mlp", refine=False).report.n_held_out == 4  # a fifth of 20
    kept = _data_split.network_inputs(
        "data", iter(torch.arange(4000.0).reshape(-1, 40, 1, 1)), np.random.default_rng(0)
    )
    assert len(kept) == 480 and 1700 < float(kept.mean()) < 2300  # of all, not of the first or the last


def test_a_layer_that_is_trained_last_is_trained_in_its_bits(monkeypatch):
    seen = []

    class Watched(_quantisation.RoundedLayer):
        def __call__(self, x):
            seen.append(self.n_bits if self.begun else None)
            return super().__call__(x)

    monkeypatch.setattr(_distillation, "RoundedLayer", Watched)
    run(Tokens(), TOKENS, "blocks.0.mlp", quantize=3)
    once = [None] * 16 + [3] * 24
    assert seen in (once, 2 * once)  # a second time where the first has led astray
    seen.clear()
    run(Tokens(), TOKENS, "blocks.0.mlp", quantize=3, joint=dc.nn.Distil(3))
    assert not seen


def test_a_layer_in_its_bits_learns_from_the_numbers_that_are_stored():
    layer = dc.nn.DecoupledLayer.of_sizes((6, 4, 6), offset=True, rng=0)
    student = _quantisation.RoundedLayer(layer, 3)
    student.begin()
    kept = copy.deepcopy(layer)
    dc.nn.unpack(kept, dc.nn.pack(layer, 3))
    assert not torch.equal(kept.W[0], layer.W[0])
    for one in (student, kept):
        one(TOKENS[:3]).pow(2).sum().backward()
    torch.testing.assert_close(student(TOKENS[:3]), kept(TOKENS[:3]))
    for p, stored in zip(layer.parameters(), kept.parameters(), strict=True):
        torch.testing.assert_close(p.grad, stored.grad)


def test_bits_are_begun_by_the_clock_and_compared_as_they_are_stored(monkeypatch):
    begun = []
    begin = _distillation.RoundedLayer.begin
    monkeypatch.setattr(_distillation.RoundedLayer, "begin", lambda self: begun.append(self.n_bits) or begin(self))
    clock = SimpleNamespace(monotonic=partial(next, itertools.count(step=10.0)))  # ten seconds pass between two looks
    monkeypatch.setattr(_distillation, "time", clock)
    how = dc.nn.Distil(max_steps=100_000, batch_size=64)
    out = run(Tokens(), TOKENS, "blocks.0.mlp", quantize=4, refine=how, max_seconds=1000.0)
    assert begun == [4]
    packed = dc.nn.pack(out.layer, 4)
    again = dc.nn.DecoupledLayer.of_sizes((6, 4, 6), offset=True)
    dc.nn.unpack(again, packed)
    assert torch.equal(again(TOKENS[:3]), out.layer(TOKENS[:3]))


def test_rounded_layers_are_stored_in_as_many_bytes_as_told(tmp_path):
    net = Tokens()
    plain, out = (run(net, TOKENS, "blocks.0.mlp", quantize=n_bits, refine=False) for n_bits in (None, 8))
    packed = dc.nn.pack(out.layer)
    torch.save(packed, tmp_path / "layer.pt")
    layer = dc.nn.DecoupledLayer.of_sizes((6, 4, 6), offset=True, rng=5)
    dc.nn.unpack(layer, torch.load(tmp_path / "layer.pt", weights_only=True))
    x = TOKENS[:3]
    assert torch.equal(layer(x), out.layer(x))
    with torch.no_grad():
        off = (out.layer(x) - plain.layer(x)).pow(2).mean().sqrt() / plain.layer(x).std()
    assert 0 < float(off) < 0.02
    size = sum(t.numel() * t.element_size() for name, t in packed.items() if name != "n_bits")
    assert size == out.report.stored_bytes[1] < 0.5 * plain.report.stored_bytes[1]
    assert plain.report.stored_bytes[0] == 4 * plain.report.parameters[0]
    fewer = dc.nn.pack(out.layer, 3)
    assert fewer["maps.0.weight.codes"].numel() == 4 * 6 * 3 / 8
    with pytest.raises(dc.InputError, match="layer of the same sizes"):
        dc.nn.unpack(dc.nn.DecoupledLayer.of_sizes((6, 5, 6), offset=True), packed)


def test_splines_are_functions_of_a_layer_from_both_starts():
    net = Tokens()
    for start in ("random", "decoupling"):
        quick = {"solver": dc.Proj(stopping=dc.solvers.Stopping(max_steps=1))} if start == "decoupling" else {}
        out = run(net, TOKENS, "blocks.0.mlp", start=start, basis=dc.Spline(4), **quick)
        assert {basis for g in out.decoupling.g for basis in g.layer.bases} == {dc.Spline(4)}
        values = out.layer(TOKENS).detach().numpy().reshape(-1, 6)
        assert np.allclose(out.decoupling(TOKENS.numpy().reshape(-1, 6)), values, atol=1e-4)


def test_two_layers_of_functions_from_a_random_start():
    out = run(Tokens(), TOKENS, "blocks.0.mlp", ranks=(4, 5))
    assert out.layer.ranks == (4, 5) and out.report.relative_error < 1.5


def test_time_that_is_over_ends_training_with_a_low_rate():
    net = Tokens()
    long = dc.nn.Distil(max_steps=10**7, batch_size=16)
    out = run(net, TOKENS, "blocks.*.mlp", refine=long, joint=long, max_seconds=0.3)
    assert len(out.layers) == 2


def test_ctrl_c_leaves_parts_that_were_not_reached_as_they_are():
    def progress(stage="", done=0, **_):
        if stage == "refining blocks.0.mlp" and done == 5:
            raise KeyboardInterrupt

    net = Tokens()
    with pytest.warns(dc.DecouplingWarning, match=r"Stopped by Ctrl-C"):
        out = compress(net, "blocks.*.mlp", TOKENS, 4, start="random", task="classification", progress=progress)
    assert list(out.layers) == ["blocks.0.mlp"] and isinstance(out.model.blocks[1].mlp, Mlp)


def test_labels_train_all_parts_at_the_end():
    net = Tokens()
    labels = net(TOKENS).argmax(1)
    out = run(net, TOKENS, "blocks.*.mlp", joint=False, fine_tune=dc.nn.FineTune(TOKENS, labels, max_steps=5))
    plain = run(net, TOKENS, "blocks.*.mlp", joint=False)
    for name, layer in out.layers.items():
        assert not torch.equal(layer.W[0], plain.layers[name].W[0])


class Attention(nn.Module):
    """A module that is called with three tensors."""

    def __init__(self):
        super().__init__()
        self.attend, self.head = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.attend(x, x, x)[0].mean(1))


def test_bad_parts_are_refused_in_words():
    net, images = Tokens(), Images().eval()
    broken = Tokens()
    with torch.no_grad():
        broken.head.weight[0, 0] = float("nan")
    ragged = [torch.zeros(3, 4, 6), torch.zeros(3, 5, 6)]
    cases = [
        (lambda: run(net, TOKENS, "blocks.*.ffn"), r"Nothing matches 'blocks.\*.ffn'"),
        (lambda: run(net, TOKENS, lambda name, module: False), "The function chose none"),
        (lambda: run(net, TOKENS, []), "at least one"),
        (lambda: part_names(net, [3]), "must be names or patterns"),
        (lambda: run(net, TOKENS, ["blocks.0", "blocks.0.mlp"]), "must not overlap. blocks.0 and blocks.0.mlp"),
        (lambda: run(net, iter(ragged), "blocks.0.mlp"), r"one shape. After \(4, 6\) came \(5, 6\)"),
        (lambda: run(net, iter([]), "blocks.0.mlp"), "yields nothing"),
        (lambda: run(net, iter([{"x": TOKENS}]), "blocks.0.mlp"), "Got dictionaries with x"),
        (lambda: run(broken, TOKENS, "blocks.0.mlp"), "head.weight has 1 that are NaN"),
        (lambda: run(Attention(), TOKENS, "attend"), r"called with \(Tensor, Tensor, Tensor\)"),
        (lambda: run(net, TOKENS, "blocks.0"), "neither one token nor a window of pixels"),
        (lambda: run(net, TOKENS, "blocks.0", axis=-1), "axis=-1 every vector on the last axis"),
        (lambda: run(net, TOKENS, "blocks.0.mlp", axis=1), "does not move a window over an image"),
        (lambda: check_axis(2), '`axis` must be "auto"'),
        (lambda: run(net, TOKENS, "blocks.*.mlp", ranks="auto"), "`ranks` must be numbers for several parts"),
        (lambda: run(net, TOKENS, "blocks.*.mlp", budget=dc.nn.Budget(parameters=0.2)), "must be left out with"),
        (
            lambda: run(net, TOKENS, "blocks.*.mlp", ranks="auto", budget=dc.nn.Budget(parameters=30)),
            "must allow one function per part: 44 for blocks.0.mlp, blocks.1.mlp. Got 30",
        ),
        (lambda: run(images, PIXELS, "body", ranks="auto", budget=dc.nn.Budget(macs=0.5)), "macs are not known"),
        (lambda: dc.nn.Budget(), "one of parameters, macs and bytes. Got none"),
        (lambda: dc.nn.Budget(parameters=0.2, bytes=3), "Got parameters, bytes"),
        (lambda: dc.nn.Budget(parameters=-1), "above 0"),
        (lambda: run(net, TOKENS, "blocks.0.mlp", quantize=1), "bits from 2 to 8"),
        (lambda: check_bits(4.0), "bits from 2 to 8"),
        (lambda: run(net, TOKENS, "blocks.0.mlp", solver=dc.Proj()), "`solver` must be left out"),
        (lambda: run(net, None, "head"), "`data` must be an array"),
    ]
    for act, message in cases:
        with pytest.raises(dc.InputError, match=message):
            act()
