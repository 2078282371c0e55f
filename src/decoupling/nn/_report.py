"""Before and after: what a compression did, in numbers and in plain words."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ._layer import DecoupledLayer
from ._task import Decision

_REPEATS = 20
_POOR = 0.5  # relative error of a regression
_FAR_OUTSIDE = 0.05  # share of inner inputs; of S samples, a share of 2 / S outside is nothing unusual


@dataclass(frozen=True)
class CompressionReport:
    """What changed.

    Attributes
    ----------
    parameters, multiply_adds
        Of the part, before and after; multiply-adds per sample, None where a module is not known to us. One
        multiplication per function that goes on along its tangents is counted.
    network_parameters
        Of the whole network, before and after.
    latency
        Seconds of one pass of the part over a batch of `latency_batch` inputs, before and after, best of several.
    score
        Of the whole network, before and after; higher is better.
    score_name
        What it is.
    task
        Whether the network was taken for a classification or a regression, and why.
    relative_error
        Of the part's values, root mean square in units of the spread of each.
    n_held_out
        Inputs that were not fitted, on which score, errors and ranges were measured; 0 where they are those fitted.
    lam
        Weight of the values that the solver chose.
    outside
        Share of the inner inputs that lie outside the range the functions were fitted on.
    max_drop
        The drop of the score that was accepted, if one was named.
    """

    parameters: tuple[int, int]
    network_parameters: tuple[int, int]
    multiply_adds: tuple[int | None, int]
    latency: tuple[float, float]
    latency_batch: int
    score: tuple[float, float]
    score_name: str
    task: Decision
    relative_error: float
    n_held_out: int
    lam: float
    outside: float
    max_drop: float | None

    @property
    def savings(self) -> float:
        """Percentage of the part's parameters that are saved."""
        return 100.0 * (1.0 - self.parameters[1] / self.parameters[0])

    @property
    def drop(self) -> float:
        """How much the score fell."""
        return self.score[0] - self.score[1]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know before shipping the result."""
        told = []
        if self.parameters[1] >= self.parameters[0]:
            told.append("The result is not smaller than the part it replaces: lower the ranks.")
        if self.max_drop is not None and not self.drop <= self.max_drop:  # NaN is not accepted either
            told.append(f"The {self.score_name} fell by {self.drop:.4g}, more than the {self.max_drop:.4g} you accept.")
        if not self.task.in_classes and not self.relative_error <= _POOR:
            told.append(
                f"The values of the part are off by {100 * self.relative_error:.3g} % of their spread: raise the ranks."
            )
        if self.outside > _FAR_OUTSIDE:
            told.append(
                f"{100 * self.outside:.1f} % of the inner inputs lie outside the range the functions were fitted on: "
                "raise `n_samples`, or give more varied data."
            )
        return tuple(told)

    def __str__(self) -> str:
        macs = "?" if self.multiply_adds[0] is None else f"{self.multiply_adds[0]:,}"
        rows = [
            (
                "parameters of the part",
                f"{self.parameters[0]:,} -> {self.parameters[1]:,} ({self.savings:.1f} % saved)",
            ),
            ("parameters of the network", f"{self.network_parameters[0]:,} -> {self.network_parameters[1]:,}"),
            ("multiply-adds per sample", f"{macs} -> {self.multiply_adds[1]:,}"),
            (
                "time of the part",
                f"{1e3 * self.latency[0]:.3f} -> {1e3 * self.latency[1]:.3f} ms for a batch of {self.latency_batch}",
            ),
            (self.score_name, f"{self.score[0]:.4f} -> {self.score[1]:.4f} (drop {self.drop:.4f})"),
            ("relative error of the part", f"{100 * self.relative_error:.3g} %"),
            ("inner inputs out of range", f"{100 * self.outside:.2g} %"),
            ("measured on", f"{self.n_held_out:,} inputs held out" if self.n_held_out else "the inputs fitted to"),
            ("taken for", f"a {self.task.task}: {self.task.reason}"),
            ("lam", f"{self.lam:.0e}"),
        ]
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {text}" for name, text in rows]
        if self.latency[1] > self.latency[0]:
            gain = "; its gain is in memory, not in time" if self.parameters[1] < self.parameters[0] else ""
            lines.append(f"Slower: the result takes {self.latency[1] / self.latency[0]:.1f} times as long{gain}.")
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])


def count_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def multiply_adds(module: nn.Module, x: Tensor) -> int | None:
    """Multiplications of one sample through linear and convolution layers; None where other layers have weights."""
    if isinstance(module, DecoupledLayer):
        tails = sum(r for r, outside in zip(module.ranks, module.outside, strict=True) if outside == "linear")
        functions = sum(r * d for r, d in zip(module.ranks, module.degrees, strict=True))
        weights = sum(W.numel() for W in module.W) + (0 if module.linear is None else module.linear.numel())
        return weights + functions + tails
    counted = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    own = [layer for layer in module.modules() if next(layer.parameters(recurse=False), None) is not None]
    if not all(isinstance(layer, counted) for layer in own):
        return None
    total = 0

    def count(layer: nn.Module, _: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        weight: Tensor = layer.weight  # type: ignore[assignment]
        total += weight[0].numel() * output.numel()

    handles = [layer.register_forward_hook(count) for layer in own]
    try:
        with torch.no_grad():
            module(x[:1])
    finally:
        for handle in handles:
            handle.remove()
    return total


def latency(modules: tuple[nn.Module, nn.Module], x: Tensor) -> tuple[float, float]:
    """Best time of one pass of each, measured in turn."""
    wait = getattr(torch, x.device.type).synchronize  # graphics cards return before they are done
    best = [float("inf"), float("inf")]
    with torch.no_grad():
        for _ in range(_REPEATS):
            for i, module in enumerate(modules):
                wait()
                began = time.perf_counter()
                module(x)
                wait()
                best[i] = min(best[i], time.perf_counter() - began)
    return best[0], best[1]
