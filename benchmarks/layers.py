"""Decoupled layers in use, against the part they replace and a ReLU network of their size: PyTorch and ONNX Runtime."""

from __future__ import annotations

import io
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import decouply as dc

from .problems import table, verdict

BATCHES = (64, 1024)
REPEATS, CALLS = 150, 10
MOST_OF_A_STUDENT = 1.5
PARTS: dict[str, tuple[Callable[[], nn.Module], int, int]] = {  # the part, its inputs, functions in its place
    "80-60-40-10, ReLU": (lambda: mlp(80, 60, 40, 10), 80, 10),
    "64-256-64, GELU": (lambda: mlp(64, 256, 64, activation=nn.GELU), 64, 58),
}
BASES = {"degree 4": None, "`Spline(8)`": dc.Spline(8)}


def section(_: Path) -> str:
    torch.set_num_threads(1)
    rows = []
    for name, (build, m, rank) in PARTS.items():
        torch.manual_seed(0)
        part, X = build().eval(), torch.randn(2000, m)
        for basis_name, basis in BASES.items():
            layer = fit_layer(part, X, rank, basis)
            size = n_parameters(layer)
            student = mlp(m, width(size, m, layer.n_outputs), layer.n_outputs).eval()
            with tempfile.TemporaryDirectory() as folder:
                path = str(Path(folder) / "layer.onnx")
                layer.save_onnx(path)
                engines: dict[str, list[Callable[[Tensor], Any]]] = {
                    "PyTorch": [part, dc.nn.freeze(layer), student],
                    "ONNX Runtime": [
                        onnx_session(export_onnx(part, X)),
                        onnx_session(path),
                        onnx_session(export_onnx(student, X)),
                    ],
                }
            share = size / n_parameters(part)
            for engine, functions in engines.items():
                for batch in BATCHES:
                    before, ours, relu = times(functions, torch.randn(batch, m))
                    rows.append(
                        [
                            f"{name} by {rank} of {basis_name} ({100 * share:.0f} %)",
                            engine,
                            str(batch),
                            *(f"{1e6 * t:.0f}" for t in (before, ours, relu)),
                            f"{ours / before:.2f}",
                            verdict(ours / before, 1.0),
                            f"{ours / relu:.2f}",
                            verdict(ours / relu, MOST_OF_A_STUDENT),
                        ]
                    )
    head = ["part", "in", "batch", "part, µs", "ours, µs", "ReLU, µs", "ours / part", "", "ours / ReLU", ""]
    return (
        "## Decoupled layers in use\n\n"
        "The layer after `dc.nn.freeze`, and its own ONNX file, against the part it replaces and a ReLU network with "
        "one hidden layer and at most as many parameters; in brackets the share of the part's parameters. The layers "
        f"are trained briefly. Processor time of one thread, the best of {REPEATS} times {CALLS} passes, in turn.\n\n"
        + table(head, rows)
    )


def mlp(*sizes: int, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), activation()]
    return nn.Sequential(*layers[:-1])


def fit_layer(part: nn.Module, X: Tensor, rank: int, basis: dc.bases.AbstractBasis | None) -> dc.nn.DecoupledLayer:
    last = str(len(list(part.children())) - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dc.DecouplingWarning)
        return dc.nn.compress(
            part,
            parts=("0", last),
            data=X,
            ranks=rank,
            fitting=dc.nn.Fitting(start="random", basis=basis),
            training=dc.nn.Training(refine=dc.nn.Distil(max_steps=300)),
            progress=False,
        ).layer


def width(size: int, m: int, n: int) -> int:
    """Hidden units of a network with at most so many parameters."""
    return max(1, (size - n) // (m + n + 1))


def n_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def export_onnx(module: nn.Module, X: Tensor) -> bytes:
    batch = torch.export.Dim("batch", min=1, max=100_000)
    program = torch.onnx.export(module, (X[:8],), dynamo=True, dynamic_shapes=({0: batch},), verbose=False)
    assert program is not None
    stream = io.BytesIO()
    program.save(stream)
    return stream.getvalue()


def onnx_session(model: bytes | str) -> Callable[[Tensor], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda x: session.run(None, {name: x.numpy()})


def times(functions: list[Callable[[Tensor], Any]], x: Tensor) -> list[float]:
    """Best processor time of one pass of each, measured in turn."""
    best = [float("inf")] * len(functions)
    with torch.no_grad():
        for _ in range(REPEATS):
            for i, function in enumerate(functions):
                began = time.thread_time()
                for _ in range(CALLS):
                    function(x)
                best[i] = min(best[i], (time.thread_time() - began) / CALLS)
    return best
