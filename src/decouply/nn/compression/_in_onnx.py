"""How fast a part and the layer in its place are in ONNX Runtime, where that is installed."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..layer._decoupled_layer import DecoupledLayer
from ._baselines import chain_of

_REPEATS = 30
_OPSET = 17


def onnx_latency(function: nn.Module, layer: DecoupledLayer, points: Tensor) -> tuple[float, float] | None:
    """Best seconds of one pass of each over these vectors on one thread; None where they cannot be written or run.

    The part is written by us, as far as it is linear layers and activations: the exporter of PyTorch takes seconds.
    """
    if find_spec("onnxruntime") is None or find_spec("onnx") is None:
        return None
    chain = chain_of(function)
    before = None if chain is None else _written(chain)
    if before is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.onnx"
        layer.save_onnx(path)
        after = path.read_bytes()
    x = points.detach().cpu().float().numpy()
    runs = [_session(content) for content in (before, after)]
    best = [math.inf, math.inf]
    for _ in range(_REPEATS):
        for i, run in enumerate(runs):
            began = time.perf_counter()
            run(x)
            best[i] = min(best[i], time.perf_counter() - began)
    return best[0], best[1]


def _session(content: bytes) -> Callable[[np.ndarray], Any]:
    onnxruntime: Any = import_module("onnxruntime")  # has no types
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})


def _written(chain: Sequence[nn.Module]) -> bytes | None:
    """Linear layers and activations as a graph; None where one of them is not known here."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants: list[Any] = []

    def node(operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"n{len(nodes)}"
        nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def number(value: Any) -> str:
        name = f"c{len(constants)}"
        constants.append(numpy_helper.from_array(np.asarray(value, dtype=np.float32), name))
        return name

    z = "x"
    for module in chain:
        match module:
            case nn.Linear():
                bias = torch.zeros(module.out_features) if module.bias is None else module.bias
                W, b = (p.detach().cpu().float().numpy() for p in (module.weight, bias))
                z = node("Gemm", z, number(W.T.copy()), number(b))
            case nn.ReLU():
                z = node("Relu", z)
            case nn.Tanh():
                z = node("Tanh", z)
            case nn.Sigmoid():
                z = node("Sigmoid", z)
            case nn.SiLU():
                z = node("Mul", z, node("Sigmoid", z))
            case nn.LeakyReLU():
                z = node("LeakyRelu", z, alpha=float(module.negative_slope))
            case nn.GELU() if module.approximate == "none":
                bend = node("Add", node("Erf", node("Div", z, number(math.sqrt(2.0)))), number(1.0))
                z = node("Mul", node("Mul", z, bend), number(0.5))
            case _:
                return None
    first, last = (module for module in (chain[0], chain[-1]))
    assert isinstance(first, nn.Linear) and isinstance(last, nn.Linear)
    given, taken = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["S", size])
        for name, size in (("x", first.in_features), (z, last.out_features))
    )
    graph = helper.make_graph(nodes, "part", [given], [taken], initializer=constants)
    imports = [helper.make_opsetid("", _OPSET)]
    content: bytes = helper.make_model(
        graph, opset_imports=imports, ir_version=helper.find_min_ir_version_for(imports)
    ).SerializeToString()
    return content
