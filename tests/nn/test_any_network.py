"""Networks of all kinds: tokens, sequences, outputs of many axes, loaders, and what is wrong with some of them."""

import copy
import io
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import decouply as dc
from decouply.nn.carving import _data_split
from decouply.nn.carving._data_split import network_inputs
from decouply.nn.layer._decoupled_layer import OnPatches

from .networks import compress

QUICK = {"start": "random", "refine": dc.nn.Distil(max_steps=30), "progress": False}
SHORT = dc.nn.Distil(max_steps=10, rate=3e-3, batch_size=16)


@pytest.fixture(autouse=True)
def quiet(recwarn):
    """Short trainings are far off, and say so."""
    return recwarn


class Words(nn.Module):
    """A transformer block on tokens, with a class per sentence or per token."""

    def __init__(self, per_token=False):
        super().__init__()
        torch.manual_seed(0)
        self.per_token = per_token
        self.names, self.norm = nn.Embedding(12, 8), nn.LayerNorm(8)
        self.look = nn.MultiheadAttention(8, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.5), nn.Linear(32, 8))
        self.other = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
        self.head = nn.Linear(8, 5)

    def forward(self, words):
        x = self.names(words)
        x = x + self.look(x, x, x, need_weights=False)[0]
        x = x + self.mlp(self.norm(x))
        x = x + self.other(x)
        return self.head(x) if self.per_token else self.head(x.mean(1))


WORDS = torch.randint(0, 12, (120, 6), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("form", ["tensor", "array", "loader"])
def test_tokens_are_inputs_of_a_network(form):
    data = {
        "tensor": WORDS,
        "array": WORDS.numpy(),
        "loader": DataLoader(TensorDataset(WORDS, torch.zeros(120)), batch_size=32),
    }[form]
    net = Words().train()
    out = compress(net, parts=["mlp", "other"], data=data, ranks=4, joint=SHORT, **QUICK)
    assert net.training and not out.model.training
    assert out.model(WORDS[:3]).shape == (3, 5) and [p.receptive_field for p in out.report.parts] == ["each token"] * 2
    assert out.report.n_held_out == 24 and out.report.task.task == "regression"


def test_whole_numbers_that_the_network_does_not_take_are_told_of():
    net = nn.Sequential(nn.Linear(4, 20), nn.ReLU(), nn.Linear(20, 2))
    with pytest.raises(dc.InputError, match=r"`data` must be inputs of the network.*in int64, it says"):
        compress(net, parts=("0", "2"), data=torch.ones(50, 4, dtype=torch.int64), ranks=2, **QUICK)


def test_outputs_of_every_token_are_distilled_and_judged_token_by_token():
    net = Words(per_token=True)
    options = {"parts": ["mlp", "other"], "data": WORDS, "ranks": 8, "joint": SHORT, **QUICK}
    as_classes = compress(net, task="classification", validation=WORDS, **options)
    with torch.no_grad():
        same = net.eval()(WORDS).argmax(-1) == as_classes.model(WORDS).argmax(-1)
    assert as_classes.report.score[1] == pytest.approx(float(same.float().mean()), abs=2e-3)  # of 720 decisions
    assert compress(net, **options).report.task.task == "regression"


def test_pixels_have_their_classes_on_the_second_axis():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 20, 1), nn.ReLU(), nn.Conv2d(20, 3, 1))
    X = torch.randn(40, 2, 5, 5)
    out = compress(net, parts=("0", "2"), data=X, ranks=4, task="classification", validation=X, **QUICK)
    same = net(X).argmax(1) == out.model(X).argmax(1)
    assert out.report.score[1] == pytest.approx(float(same.float().mean()))


def test_networks_with_outputs_of_other_kinds_have_no_joint_training():
    class Both(Words):
        def forward(self, words):
            return super().forward(words), words

    options = {"parts": ["mlp", "other"], "data": WORDS, "ranks": 3, "score": lambda network: 1.0, **QUICK}
    out = compress(Both(), **options)
    assert len(out.layers) == 2
    with pytest.raises(dc.InputError, match="`joint` must be left out"):
        compress(Both(), joint=True, **options)


@pytest.mark.parametrize(("options", "reach"), [({"padding": 1}, "3 steps"), ({"stride": 2}, "3 steps")])
def test_convolutions_over_sequences_are_functions_of_a_few_steps(options, reach):
    torch.manual_seed(0)
    part = nn.Sequential(nn.Conv1d(3, 20, 3, **options), nn.Tanh(), nn.Conv1d(20, 4, 1))
    net = nn.Sequential(part, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 2))
    X = torch.randn(100, 3, 11)
    out = compress(net, parts="0", data=X, ranks=12, **{**QUICK, "refine": dc.nn.Distil(max_steps=400)})
    assert out.report.parts[0].receptive_field == reach and out.report.relative_error < 0.3
    assert out.model[0](X).shape == part(X).shape
    assert any(isinstance(module, OnPatches) for module in out.model.modules())
    assert torch.allclose(dc.nn.freeze(out.model)(X), out.model(X), atol=1e-4)


def test_a_training_that_leaves_the_domains_is_not_spoilt_by_moving_them():
    torch.manual_seed(0)
    net, X = nn.Sequential(nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 4)), torch.rand(100, 512)
    options = {**QUICK, "refine": False, "validation": 0.0}
    errors = [
        compress(net, parts=("0", "2"), data=X, ranks=6, joint=joint, **options).report.relative_error
        for joint in (None, dc.nn.Distil(max_steps=20))
    ]
    assert errors[1] <= errors[0]


# Loaders


def test_loaders_grow_without_copying_everything_with_every_batch(monkeypatch):
    copied = []
    old = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda self, *a, **k: copied.append(a[0][0]) or old(self, *a, **k))
    batches = [torch.full((2, 3), float(k)) for k in range(500)]
    shown = []
    kept = network_inputs("data", iter(batches), np.random.default_rng(0), lambda **values: shown.append(values))
    assert torch.equal(kept, torch.cat(batches)) and sum(copied) < 3 * len(kept)
    assert shown[-1] == {"done": 500, "total": 500}


def test_what_is_kept_of_a_long_loader_is_a_fair_draw(monkeypatch):
    monkeypatch.setattr(_data_split, "_MAX_NUMBERS", 100)
    counts = np.zeros(400)
    for seed in range(200):
        batches = (torch.arange(k, k + 40.0)[:, None] for k in range(0, 400, 40))
        kept = network_inputs("data", batches, np.random.default_rng(seed))
        assert len(kept) == 100 == len(kept.unique())
        counts[kept[:, 0].int().numpy()] += 1
    parts = counts.reshape(4, 100).sum(axis=1) / 20_000
    assert np.all(np.abs(parts - 0.25) < 0.02)


# What is wrong


def nan_in_a_buffer():
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    net[1].running_var[0] = float("nan")
    return net


class Untraceable(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(4, 20), nn.Linear(20, 20), nn.Linear(20, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.d(self.c(torch.relu(self.b(torch.relu(self.a(x))))))


PLAIN = nn.Sequential(nn.Linear(4, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 2))
X4 = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("net", "options", "message"),
    [
        (nan_in_a_buffer(), {"parts": "0"}, "`model` must have finite weights. 1.running_var has 1"),
        (PLAIN, {"parts": [("0", "4"), "2"]}, "`parts` must not overlap. 2 lies between 0 and 4"),
        (PLAIN, {"parts": [("0", "2"), ("2", "4")]}, "`parts` must not overlap. 2 is in two of them"),
        (Untraceable(), {"parts": [("a", "c"), "b"]}, "`parts` must not overlap. b lies between a and c"),
        (PLAIN, {"parts": lambda name, module: False}, "`parts` must choose at least one submodule of 0, 1"),
        (PLAIN, {"data": {"x": X4, "y": X4}}, r"Got dictionaries with x, y: give \(batch\['x'\] for batch in loader\)"),
        (PLAIN, {"data": [{"x": X4}]}, r"Got dictionaries with x: give"),
        (PLAIN, {"data": X4[:0]}, "with at least one point. Got shape"),
        (PLAIN, {"data": iter(())}, "The loader yields nothing"),
        (
            nn.Sequential(nn.Conv3d(2, 8, 1), nn.ReLU(), nn.Conv3d(8, 2, 1)),
            {"data": torch.randn(9, 2, 3, 3, 3)},
            "three",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_work(net, options, message):
    last = str(len(list(net.children())) - 1)
    with pytest.raises(dc.InputError, match=message):
        compress(net, **{"parts": ("0", last), "data": X4, "ranks": 2, **QUICK, **options})


# Other tools


def test_a_quantised_layer_still_knows_its_numbers():
    layer = dc.nn.DecoupledLayer.of_sizes((6, 4, 3), linear=True, offset=True)
    with pytest.warns(DeprecationWarning):
        coarse = torch.ao.quantization.quantize_dynamic(nn.Sequential(layer), {nn.Linear})[0]
    x = torch.randn(20, 6)
    with torch.no_grad():
        written = torch.as_tensor(coarse.to_decoupling()(x.numpy())).float()
        assert torch.allclose(written, coarse(x), atol=0.05) and torch.allclose(written, layer(x), atol=0.1)


@pytest.mark.parametrize("basis", [None, dc.Spline(5)], ids=["powers", "splines"])
def test_frozen_layers_are_exported_for_any_number_of_samples(basis):
    fast = dc.nn.freeze(dc.nn.DecoupledLayer.of_sizes((5, 4, 2), basis=basis))
    x = torch.randn(8, 5)
    any_number = ({0: torch.export.Dim("samples", min=2, max=10_000)},)
    program = torch.export.export(fast, (x,), dynamic_shapes=any_number)
    stream = io.BytesIO()
    torch.export.save(program, stream)
    stream.seek(0)
    many = torch.randn(1000, 5)
    assert torch.allclose(torch.export.load(stream).module()(many), fast(many), atol=1e-4)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_layers_are_trained_by_two_processes_alike(tmp_path):
    code = """
        import os, sys, torch, torch.distributed as dist, decouply as dc
        rank, store = int(sys.argv[1]), sys.argv[2]
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
        for options in ({}, {"basis": dc.Spline(5)}, {"linear": True, "offset": True}):
            layer = dc.nn.DecoupledLayer.of_sizes((4, 3, 2), rng=rank, **options)
            net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 4), layer))
            optimiser = torch.optim.Adam(net.parameters())
            torch.manual_seed(rank)
            for _ in range(3):
                optimiser.zero_grad()
                net(torch.randn(8, 4)).pow(2).mean().backward()
                optimiser.step()
            own = torch.cat([t.detach().flatten() for t in (*net.parameters(), *net.buffers())])
            both = [torch.empty_like(own) for _ in range(2)]
            dist.all_gather(both, own)
            assert torch.equal(*both)
        dist.destroy_process_group()
    """
    store, script = tmp_path / "store", tmp_path / "train.py"
    script.write_text(textwrap.dedent(code))
    command = [sys.executable, str(script)]
    workers = [
        subprocess.Popen([*command, str(rank), str(store)], stderr=subprocess.PIPE, text=True, env={**os.environ})
        for rank in (0, 1)
    ]
    try:
        said = [worker.communicate(timeout=120)[1] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0, 0], said


def test_parts_are_the_same_after_a_copy_of_the_result():
    out = compress(PLAIN, parts=("0", "4"), data=X4, ranks=3, **QUICK)
    assert torch.equal(copy.deepcopy(out).model(X4), out.model(X4))
