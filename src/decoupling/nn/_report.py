"""Before and after: what a compression did, in numbers and in plain words."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ._layer import DecoupledLayer

_REPEATS = 20


@dataclass(frozen=True)
class CompressionReport:
    """What changed.

    Attributes
    ----------
    parameters, multiply_adds
        Of the part, before and after; multiply-adds per sample, None where a module is not known to us.
    latency
        Seconds of one pass of the part over a batch of `latency_batch` inputs, before and after, best of several.
    metric
        Of the whole network, before and after; higher is better.
    metric_name
        What it is.
    lam
        Weight of the values that the solver chose.
    outside
        Share of the inner inputs on the given data that lie outside the range the functions were fitted on.
    """

    parameters: tuple[int, int]
    network_parameters: tuple[int, int]
    multiply_adds: tuple[int | None, int]
    latency: tuple[float, float]
    latency_batch: int
    metric: tuple[float, float]
    metric_name: str
    lam: float
    outside: float
    max_drop: float | None

    @property
    def savings(self) -> float:
        """Percentage of the part's parameters that are saved."""
        return 100.0 * (1.0 - self.parameters[1] / self.parameters[0])

    @property
    def drop(self) -> float:
        """How much the metric fell."""
        return self.metric[0] - self.metric[1]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know before shipping the result."""
        told = []
        if self.parameters[1] >= self.parameters[0]:
            told.append("The result is not smaller than the part it replaces: lower the ranks.")
        if self.max_drop is not None and self.drop > self.max_drop:
            told.append(
                f"The {self.metric_name} fell by {self.drop:.4g}, more than the {self.max_drop:.4g} you accept."
            )
        if self.outside > 0.01:
            told.append(
                f"{100 * self.outside:.1f} % of the inner inputs lie outside the range the functions were fitted on: "
                "give more or more varied data."
            )
        return tuple(told)

    def __str__(self) -> str:
        macs = "?" if self.multiply_adds[0] is None else f"{self.multiply_adds[0]:,}"
        lines = [
            f"parameters of the part   {self.parameters[0]:,} -> {self.parameters[1]:,} ({self.savings:.1f} % saved)",
            f"parameters of the network {self.network_parameters[0]:,} -> {self.network_parameters[1]:,}",
            f"multiply-adds per sample {macs} -> {self.multiply_adds[1]:,}",
            f"time of the part         {1e3 * self.latency[0]:.3f} -> {1e3 * self.latency[1]:.3f} ms for a batch of "
            f"{self.latency_batch}",
            f"{self.metric_name}   {self.metric[0]:.4f} -> {self.metric[1]:.4f} (drop {self.drop:.4f})",
            f"lam {self.lam:.0e}",
        ]
        if self.latency[1] > self.latency[0]:
            ratio = self.latency[1] / self.latency[0]
            lines.append(f"Slower: the result takes {ratio:.1f} times as long; its gain is in memory, not in time.")
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])


def count_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def multiply_adds(module: nn.Module, x: Tensor) -> int | None:
    """Multiplications of one sample through linear and convolution layers; None where other layers have weights."""
    if isinstance(module, DecoupledLayer):
        return sum(W.numel() for W in module.W) + sum(C.shape[0] * (C.shape[1] - 1) for C in module.C)
    total = 0
    known = True

    def count(layer: nn.Module, _: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total, known
        if isinstance(layer, nn.Linear):
            total += layer.in_features * layer.out_features * (output.numel() // output.shape[-1])
        elif isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            total += layer.weight[0].numel() * output.numel()
        elif any(True for _ in layer.parameters(recurse=False)):
            known = False

    handles = [layer.register_forward_hook(count) for layer in module.modules() if not list(layer.children())]
    try:
        with torch.no_grad():
            module(x[:1])
    finally:
        for handle in handles:
            handle.remove()
    return total if known else None


def latency(modules: tuple[nn.Module, nn.Module], x: Tensor) -> tuple[float, float]:
    """Best time of one pass of each, measured in turn."""
    best = [float("inf"), float("inf")]
    with torch.no_grad():
        for _ in range(_REPEATS):
            for i, module in enumerate(modules):
                began = time.perf_counter()
                module(x)
                best[i] = min(best[i], time.perf_counter() - began)
    return best[0], best[1]
