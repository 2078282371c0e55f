"""Layers for use compute what they were made from, with fewer operations."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import decouply as dc
from decouply.nn.layer._decoupled_layer import OnPatches
from decouply.nn.layer._frozen import FrozenLayer

FAR = torch.randn(40, 5, generator=torch.Generator().manual_seed(0)) * 6.0  # most inner inputs leave the domains
LAYERS = {
    "powers": {"degrees": 4},
    "two layers": {"sizes": (5, 3, 4, 2), "degrees": (3, 2)},
    "linear part": {"degrees": 3, "linear": True, "offset": True},
    "constant tails": {"degrees": 3, "outside": "constant"},
    "no tails": {"degrees": 2, "outside": "extend"},
    "splines": {"basis": dc.Spline(8)},
    "broken lines": {"basis": dc.Spline(3, degree=1), "offset": True},
    "straight lines": {"degrees": 1},
    "two layers of splines": {"sizes": (5, 3, 4, 2), "basis": dc.Spline(4), "degrees": (1, 1)},
    "many pieces": {"basis": dc.Spline(40)},
    "many outputs": {"sizes": (5, 4, 50), "basis": dc.Spline(6)},
    "parabolas": {"basis": dc.Spline(16, tails="parabola"), "outside": "extend"},
}


@pytest.mark.parametrize("options", LAYERS.values(), ids=LAYERS)
def test_a_frozen_layer_is_the_same_function(options):
    layer = dc.nn.DecoupledLayer.of_sizes(**{"sizes": (5, 4, 2), "dtype": torch.float64, **options})
    if layer.linear is not None:
        nn.init.normal_(layer.bypass.weight)
    fast = dc.nn.freeze(layer)
    assert isinstance(fast, FrozenLayer) and not any(p.requires_grad for p in fast.parameters())
    x = FAR.double()
    many = x.repeat(20, 1)  # splines are looked up then
    assert torch.allclose(fast(many), layer(many), rtol=1e-9, atol=1e-9)
    assert fast(x[:0]).shape == layer(x[:0]).shape and fast(x[0]).shape == layer(x[0]).shape
    x.requires_grad_(True)
    slopes = [torch.autograd.grad(one(x).pow(2).sum(), x)[0] for one in (fast, layer)]
    assert torch.allclose(*slopes, rtol=1e-8, atol=1e-8)
    assert torch.allclose(fast(x), layer(x), rtol=1e-9, atol=1e-9)
    assert torch.allclose(fast(x.reshape(4, 10, 5)), layer(x).reshape(4, 10, -1), rtol=1e-9, atol=1e-9)


def test_other_bases_stay_as_they_are_and_the_network_too():
    wave = dc.nn.DecoupledLayer.of_sizes((5, 4, 2), basis=dc.bases.Trigonometric(2))
    net = nn.Sequential(nn.Linear(5, 5), dc.nn.DecoupledLayer.of_sizes((5, 4, 5)), wave)
    before = copy.deepcopy(net.state_dict())
    fast = dc.nn.freeze(net)
    assert [type(m).__name__ for m in fast] == ["Linear", "FrozenLayer", "DecoupledLayer"]
    assert isinstance(net[1], dc.nn.DecoupledLayer) and all(
        torch.equal(v, before[k]) for k, v in net.state_dict().items()
    )
    assert torch.allclose(fast(FAR), net(FAR), atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"linear": True, "degrees": 3}, {"sizes": (18, 3, 4, 5), "degrees": (3, 2)}])
def test_convolutions_are_made_for_use_too(options):
    layer = dc.nn.DecoupledLayer.of_sizes(**{"sizes": (18, 4, 5), "dtype": torch.float64, **options})
    if layer.linear is not None:
        nn.init.normal_(layer.bypass.weight)
    x = torch.randn(3, 2, 9, 8, dtype=torch.float64)
    moved = OnPatches(layer, 2, (3, 3), (2, 1), (1, 0))
    fast = dc.nn.freeze(nn.Sequential(moved))
    assert type(fast[0]).__name__ == "FrozenPatches"
    assert torch.allclose(fast(x), moved(x), rtol=1e-9, atol=1e-9)


def test_leading_coefficients_that_vanish_change_nothing():
    layer = dc.nn.DecoupledLayer.of_sizes((5, 4, 2))
    with torch.no_grad():
        layer.C[0][:2, -1] = 0.0
        layer.C[0][2:] = 0.0
    assert torch.allclose(dc.nn.freeze(layer)(FAR), layer(FAR), atol=1e-4)


def test_it_is_exported_and_moved_like_any_module():
    fast = dc.nn.freeze(dc.nn.DecoupledLayer.of_sizes((5, 4, 2), basis=dc.Spline(4)))
    exported = torch.export.export(fast, (FAR,)).module()
    assert torch.allclose(exported(FAR), fast(FAR))
    again = copy.deepcopy(fast).double()
    assert np.allclose(again(FAR.double()).numpy(), fast(FAR).numpy(), atol=1e-4)


def test_only_modules_can_be_frozen():
    with pytest.raises(dc.InputError, match=r"must be a torch.nn.Module. Got int"):
        dc.nn.freeze(3)
