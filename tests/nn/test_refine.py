import copy
import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

import decouply as dc
from decouply._support._interrupts import INTERRUPTED
from decouply.nn.layer._decoupled_layer import layer_on
from decouply.nn.training import _distillation

torch.manual_seed(0)
PART = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 3)).requires_grad_(False)
PART[2].weight.mul_(8.0)  # classes that are far apart
X = torch.randn(300, 6)


@pytest.fixture(scope="module")
def start():
    return dc.decouple(dc.nn.sample(PART, X, progress=False), 4, 3, solver=dc.Proj(), n_starts=2, progress=False)


def refined(model, part=PART, points=X, **options):
    names = [field.name for field in dataclasses.fields(dc.nn.Distil)]
    how = dc.nn.Distil(**{"max_steps": 200} | {name: options.pop(name) for name in names if name in options})
    return dc.nn.refine(model, part, points, how, **{"progress": False} | options)


def distance(layer):
    with torch.no_grad():
        return float(_distillation.divergence(layer(X), PART(X).log_softmax(1)))


def test_it_comes_closer_to_the_classes_and_leaves_everything_else_alone(start):
    begun = layer_on(start.decoupling, start.samples.X, "linear")
    state, random = {k: v.clone() for k, v in begun.state_dict().items()}, torch.get_rng_state()
    with torch.no_grad():  # as in an evaluation script
        layer = refined(begun)
    assert distance(layer) < 0.8 * distance(begun)
    assert all(p.grad is None for p in layer.parameters())
    assert all(torch.equal(v, state[k]) for k, v in begun.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    again = refined(begun)
    assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), again.parameters(), strict=True))


def test_the_network_is_asked_at_more_inputs_once(start, monkeypatch):
    asked = []
    monkeypatch.setattr(_distillation, "_MAX_MIXED", 1000)
    PART[0].register_forward_hook(lambda module, inputs, output: asked.append(len(inputs[0])))
    refined(start.decoupling)
    assert sum(asked) == 300 + 1000
    asked.clear()
    refined(start.decoupling, mixup=0.0)
    assert sum(asked) == 300
    PART[0]._forward_hooks.clear()


def test_mixed_inputs_are_made_of_two_and_scaled():
    given = torch.tensor([[1.0] * 40, [-1.0] * 40])
    made = _distillation.mixup_inputs(given, 2000, torch.Generator().manual_seed(0))
    assert made.shape == (2000, 40)
    sizes = made.abs()
    assert torch.allclose(sizes, sizes[:, :1].expand_as(sizes))
    assert 0.7 <= float(sizes.min()) < 0.72 and 1.28 < float(sizes.max()) <= 1.3
    minority = torch.minimum((made > 0).sum(1), (made < 0).sum(1)) / 40
    assert 0.08 < float(minority.double().mean()) < 0.16  # half of the pairs are one input twice
    assert not torch.equal(made[0], made[1])


def test_parts_may_take_arrays(start):
    folded = nn.Sequential(nn.Flatten(), PART)
    layer = refined(start.decoupling, folded, X.reshape(300, 2, 3))
    assert torch.allclose(layer(X), refined(start.decoupling)(X))


def test_what_went_astray_is_not_returned(start):
    begun = layer_on(start.decoupling, start.samples.X, "linear")
    with pytest.warns(dc.DecouplingWarning, match="made the model worse.*smaller `rate`"):
        layer = refined(begun, rate=1e4)
    assert torch.equal(layer(X), begun(X))


def test_training_that_went_astray_begins_again_with_smaller_steps(start, monkeypatch):
    """A layer of random directions, whose first training is made worse on purpose by a rate that is far too high."""
    begun = layer_on(start.decoupling, start.samples.X, "linear")
    with torch.no_grad():
        begun.maps[-1].weight.mul_(3.0)  # so that there is something to learn
    monkeypatch.setattr(_distillation, "_SECOND_RATE", 1e-5)
    layer = refined(begun, rate=1e3)
    assert distance(layer) < 0.9 * distance(begun)


@pytest.mark.parametrize("n_bits", [2, 8])
def test_a_layer_that_is_trained_in_few_bits_has_them(start, n_bits):
    begun = layer_on(start.decoupling, start.samples.X, "linear")
    layer, plain = refined(begun, n_bits=n_bits), refined(begun)
    again, after = copy.deepcopy(layer), copy.deepcopy(plain)
    dc.nn.unpack(again, dc.nn.pack(layer, n_bits))
    dc.nn.unpack(after, dc.nn.pack(plain, n_bits))
    assert torch.allclose(again(X), layer(X), atol=1e-5)  # rounding it changes nothing
    assert distance(layer) < (0.8 if n_bits == 2 else 1.5) * distance(after)


@pytest.mark.parametrize(("pressed_at", "rate"), [(120, 0.02), (3, 50.0)])
def test_ctrl_c_returns_the_better_of_what_was_there_and_what_was_reached(start, pressed_at, rate):
    seen = []

    def progress(done, **_):
        seen.append(done)
        if done == pressed_at:
            raise KeyboardInterrupt

    begun = layer_on(start.decoupling, start.samples.X, "linear")
    with pytest.warns(dc.DecouplingWarning) as told:
        layer = refined(begun, progress=progress, rate=rate)
    assert INTERRUPTED in [str(w.message) for w in told] and seen[-1] == pressed_at
    if rate < 1.0:
        assert distance(layer) < distance(begun)
    else:
        assert torch.equal(layer(X), begun(X))


def test_domains_follow_the_data_and_tails_are_kept(start):
    for outside, wanted in (("extend", "linear"), ("linear", "linear"), ("constant", "constant")):
        layer = refined(start.decoupling.with_outside(outside), max_steps=60)
        assert layer.outside == (wanted,)
        u = X.double().numpy() @ layer.to_decoupling().W[0].T
        ends = np.stack([u.min(axis=0), u.max(axis=0)], axis=1)
        assert np.allclose(layer.domain(0).numpy(), ends, atol=1e-4)
    kept = dc.nn.DecoupledLayer(start.decoupling)
    assert refined(kept, max_steps=60).outside == ("extend",)


def test_linear_part_offset_and_free_domains_are_trained_too():
    g = dc.Functions(dc.bases.Tanh(), np.tile([0.1, 1.0], (4, 1)))
    rng = np.random.default_rng(0)
    W = rng.normal(size=(4, 6)), rng.normal(size=(3, 4))
    begun = dc.nn.DecoupledLayer(dc.Decoupling(W, [g], linear=rng.normal(size=(3, 6)), offset=rng.normal(size=3)))
    layer = refined(begun)
    assert distance(layer) < 0.8 * distance(begun)
    for name in ("maps.0.weight", "maps.1.weight", "maps.1.bias", "C.0", "bypass.weight", "middle_1"):
        assert not torch.equal(layer.get_parameter(name), begun.get_parameter(name)), name
    assert torch.equal(layer.half_width_1, begun.half_width_1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": X[:, :5]}, "`X` must have 6 coordinates"),
        ({"part": nn.Linear(6, 2)}, "`model` must have 2 outputs"),
        ({"mixup": 1.5}, "share between 0 and 1"),
        ({"points": np.full((3, 6), np.nan)}, "finite"),
        ({"max_steps": 0}, "max_steps"),
    ],
)
def test_bad_input_is_named(start, change, message):
    with pytest.raises(dc.InputError, match=message):
        refined(start.decoupling, **change)


def test_one_output_has_no_classes():
    one = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1))
    model = dc.decouple(dc.nn.sample(one, X, progress=False), 2, 3, n_starts=2, progress=False).decoupling
    with pytest.raises(dc.InputError, match='must be "squared" for one output'):
        refined(model, one)
    assert isinstance(refined(model, one, loss="squared"), dc.nn.DecoupledLayer)
