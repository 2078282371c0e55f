"""Compression of a small network. Its numbers have seven digits, and the same ones where arithmetic is the same."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

import decouply as dc

from .given import fixed, sampled, solver, system
from .golden import Made, case
from .solvers import decoupled

_TORCH = ("torch",)


def _blobs(n: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three classes in five dimensions."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    centres = np.random.default_rng(1).normal(size=(3, 5)) * 1.5
    return (centres[labels] + rng.normal(size=(n, 5))).astype(np.float32), labels


def _network() -> Any:
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(3)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 3))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(0.5 * torch.randn(p.shape, generator=generator))
    return net.eval()


def _output(model: Any, X: np.ndarray) -> np.ndarray:
    import torch

    with torch.no_grad():
        return model(torch.tensor(X)).numpy()


def _told(out: Any) -> Made:
    X, _ = _blobs(6, seed=9)
    report = out.report
    return {
        "outputs": _output(out.model, X),
        "frozen": _output(dc.nn.freeze(out.model), X),
        "parameters": report.parameters,
        "multiply_adds": report.multiply_adds,
        "stored_bytes": report.stored_bytes,
        "score": report.score,
        "relative_error": report.relative_error,
        "outside": report.outside,
        "lam": report.lam,
        "ranks": [part.ranks for part in report.parts],
        "n_warnings": len(report.warnings),
    }


@case(
    *("plain", "kl", "squared", "random", "regression", "auto", "spline", "quantized", "tuned", "two-layers"),
    *("parts", "budget", "varpro"),
    needs=_TORCH,
)
def compress(folder: Path, word: str) -> Made:
    X, labels = _blobs()
    short = dc.nn.Distil(max_steps=20)
    settings: dict[str, Any] = {
        "ranks": 3,
        "degrees": 3,
        "task": "classification",
        "refine": False,
        "n_samples": 40,
        "solver": dc.Proj(stopping=dc.solvers.Stopping(max_steps=6)),
        "progress": False,
    }
    settings |= {
        "plain": {"solver": None},
        "kl": {"refine": dc.nn.Distil(max_steps=20, loss="kl", batch_size=64)},
        "squared": {"refine": dc.nn.Distil(max_steps=20, loss="squared", batch_size=64)},
        "random": {"start": "random", "solver": None, "refine": short},
        "regression": {"task": "regression"},
        "auto": {"ranks": "auto", "max_drop": 0.2},
        "spline": {"basis": dc.Spline(4)},
        "quantized": {"quantize": 8, "refine": short},
        "tuned": {"fine_tune": dc.nn.FineTune(X, labels, max_steps=10, batch_size=64), "labels": labels},
        "two-layers": {"ranks": (3, 2), "degrees": (2, 2)},
        "parts": {"parts": ["0", ("2", "4")], "joint": short},
        "budget": {"parts": ["0", ("2", "4")], "budget": dc.nn.Budget(parameters=0.6), "ranks": "auto", "joint": False},
        "varpro": {"solver": solver(max_steps=2, polish_steps=2, ridge=1e-6), "ranks": 2},
    }[word]
    return _told(dc.nn.compress(_network(), data=X, rng=0, **{"parts": ("2", "4"), **_grouped(settings)}))


def _grouped(settings: dict[str, Any]) -> dict[str, Any]:
    """Options by name, each put into the object that has it."""
    rest, grouped = dict(settings), {}
    for name, kind in (("fitting", dc.nn.Fitting), ("training", dc.nn.Training), ("evaluation", dc.nn.Evaluation)):
        own = [field.name for field in dataclasses.fields(kind)]
        grouped[name] = kind(**{key: rest.pop(key) for key in own if key in rest})
    return rest | grouped


def _layer(dtype: Any, **options: Any) -> Any:
    model = decoupled(sampled(system(1), noise=0.02), 2, 3, by=solver(max_steps=10, polish_steps=10), **options)
    return dc.nn.DecoupledLayer(model.decoupling.with_outside("linear"), dtype=dtype)


@case("float32", "float64", "linear", "spline", needs=_TORCH)
def layers(folder: Path, word: str) -> Made:
    import torch

    dtype = torch.float32 if word == "float32" else torch.float64
    options: dict[str, Any] = {"linear": True} if word == "linear" else {}
    layer = _layer(dtype, **options)
    if word == "spline":
        g = dc.Functions(
            dc.Spline(3), np.random.default_rng(0).normal(size=(2, 1 + dc.Spline(3).size)), outside="linear"
        )
        layer = dc.nn.DecoupledLayer(dc.Decoupling([np.eye(3)[:2], np.ones((1, 2))], [g]), dtype=dtype)
    x = torch.tensor(fixed(3), dtype=dtype, requires_grad=True)
    y = layer(x)
    y.square().sum().backward()
    back = layer.to_decoupling()
    packed = dc.nn.pack(layer, 6)
    dc.nn.unpack(layer, packed)
    return {
        "values": y.detach().numpy(),
        "gradient": x.grad.numpy(),
        "jacobian": layer.jacobian(x.detach()).detach().numpy(),
        "back": back(fixed(3)),
        "packed": _output(layer.to(torch.float64), fixed(3)),
        "frozen": _output(dc.nn.freeze(layer), fixed(3)),
    }


@case(needs=_TORCH)
def layers_of_sizes(folder: Path) -> Made:
    layer = dc.nn.DecoupledLayer.of_sizes((3, 4, 2), 3, rng=2, linear=True, offset=True)
    deep = dc.nn.DecoupledLayer.of_sizes((3, 4, 3, 2), (2, 2), basis=None, rng=2)
    X = fixed(3).astype(np.float32)
    return {"one": _output(layer, X), "two": _output(deep, X)}


@case(needs=_TORCH)
def sampled_network(folder: Path) -> Made:
    X, _ = _blobs(20)
    samples = dc.nn.sample(_network(), X, progress=False)
    small = dc.nn.sample(
        _network()[2:], np.abs(np.random.default_rng(0).normal(size=(10, 8))), chunk_size=4, progress=False
    )
    return {"F": samples.F[:3], "J": samples.J[:2], "part": [small.F[:3], np.linalg.norm(small.J)]}


@case(needs=_TORCH)
def refined_network(folder: Path) -> Made:
    X, _ = _blobs()
    quick = _grouped(
        {
            "refine": False,
            "solver": dc.Proj(stopping=dc.solvers.Stopping(max_steps=4)),
            "n_samples": 40,
            "progress": False,
        }
    )
    out = dc.nn.compress(_network(), ("2", "4"), X, 3, 3, **quick)
    part = _network()[2:]
    P = np.abs(np.random.default_rng(0).normal(size=(60, 8))).astype(np.float32)
    squared = dc.nn.Distil(max_steps=10, loss="squared", batch_size=32)
    kl = dc.nn.Distil(max_steps=10, loss="kl", batch_size=32)
    return {
        "squared": _output(dc.nn.refine(out.layer, part, P, squared, progress=False), P[:4]),
        "kl": _output(dc.nn.refine(out.decoupling, part, P, kl, progress=False), P[:4]),
        "few_bits": _output(dc.nn.refine(out.layer, part, P, squared, n_bits=5, progress=False), P[:4]),
    }
