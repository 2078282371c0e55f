"""Before and after: what a compression did, in numbers and in plain words."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..layer._decoupled_layer import DecoupledLayer
from ._score import Decision

_LATENCY_REPEATS = 20
_MAX_SLOWDOWN = 1.05  # times, below which nobody would call it so
_MAX_RELATIVE_ERROR = 0.5  # relative error of a regression
_MAX_SHARE_OUTSIDE = 0.05  # share of inner inputs; of S samples, a share of 2 / S outside is nothing unusual


@dataclass(frozen=True)
class PartReport:
    """What changed in one part.

    Attributes
    ----------
    name
        Of the part.
    receptive_field
        What one of its outputs depends on: the whole sample, each token, some pixels.
    ranks
        Internal functions per layer.
    parameters, multiply_adds, stored_bytes, latency
        Before and after. Multiply-adds and seconds are those of one input of the network and of a batch, after
        `dc.nn.freeze`; multiply-adds are None where a module is not known to us.
    relative_error
        Of the part's values, root mean square in units of the spread of each.
    outside
        Share of the inner inputs that lie outside the range the functions were fitted on.
    lam
        Weight of the values that the solver chose; NaN where the start was random.
    """

    name: str
    receptive_field: str
    ranks: tuple[int, ...]
    parameters: tuple[int, int]
    multiply_adds: tuple[int | None, int]
    stored_bytes: tuple[int, int]
    latency: tuple[float, float]
    relative_error: float
    outside: float
    lam: float


@dataclass(frozen=True)
class CompressionReport:
    """What a compression changed: parameters, time, memory and score.

    Attributes
    ----------
    parts
        One row per part.
    network_parameters
        Of the whole network, before and after.
    latency_batch
        Inputs of the batch that times were taken with.
    score
        Of the whole network, before and after; higher is better.
    score_name
        What it is.
    task
        Whether the network was taken for a classification or a regression, and why.
    n_held_out
        Inputs that were not fitted, on which score, errors and ranges were measured; 0 where they are those fitted.
    max_drop
        The drop of the score that was accepted, if one was named.
    """

    parts: tuple[PartReport, ...]
    network_parameters: tuple[int, int]
    latency_batch: int
    score: tuple[float, float]
    score_name: str
    task: Decision
    n_held_out: int
    max_drop: float | None

    @property
    def parameters(self) -> tuple[int, int]:
        """Of all parts, before and after."""
        return sum(p.parameters[0] for p in self.parts), sum(p.parameters[1] for p in self.parts)

    @property
    def multiply_adds(self) -> tuple[int | None, int]:
        """Of all parts per input of the network; None where a module is not known to us.

        One multiplication per function that goes on along its tangents is counted.
        """
        before = [p.multiply_adds[0] for p in self.parts]
        known = [count for count in before if count is not None]
        return sum(known) if len(known) == len(before) else None, sum(p.multiply_adds[1] for p in self.parts)

    @property
    def stored_bytes(self) -> tuple[int, int]:
        """Of all parts, before and after."""
        return sum(p.stored_bytes[0] for p in self.parts), sum(p.stored_bytes[1] for p in self.parts)

    @property
    def latency(self) -> tuple[float, float]:
        """Seconds of one pass of all parts over a batch of `latency_batch` inputs, before and after."""
        return sum(p.latency[0] for p in self.parts), sum(p.latency[1] for p in self.parts)

    @property
    def relative_error(self) -> float:
        """Of the values of the worst part."""
        return max(p.relative_error for p in self.parts)

    @property
    def outside(self) -> float:
        """Share of the inner inputs out of range, of the worst part."""
        return max(p.outside for p in self.parts)

    @property
    def lam(self) -> float:
        """Weight of the values that the solver chose for the first part."""
        return self.parts[0].lam

    @property
    def savings(self) -> float:
        """Percentage of the parameters of the parts that are saved."""
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
        for part in self.parts:
            its = "the part" if len(self.parts) == 1 else part.name
            if not self.task.in_classes and not part.relative_error <= _MAX_RELATIVE_ERROR:
                off = f"{100 * part.relative_error:.3g} % of their spread"
                told.append(f"The values of {its} are off by {off}: raise the ranks.")
            if part.outside > _MAX_SHARE_OUTSIDE:
                of = "" if len(self.parts) == 1 else f" of {part.name}"
                told.append(
                    f"{100 * part.outside:.1f} % of the inner inputs{of} lie outside the range the functions were "
                    "fitted on: raise `n_samples`, or give more varied data."
                )
        return tuple(told)

    def __str__(self) -> str:
        several = len(self.parts) > 1
        macs = "?" if self.multiply_adds[0] is None else f"{self.multiply_adds[0]:,}"
        of, worst = ("the parts", ", worst") if several else ("the part", "")
        rows = [
            (
                f"parameters of {of}",
                f"{self.parameters[0]:,} -> {self.parameters[1]:,} ({self.savings:.1f} % saved)",
            ),
            ("parameters of the network", f"{self.network_parameters[0]:,} -> {self.network_parameters[1]:,}"),
            ("multiply-adds per input", f"{macs} -> {self.multiply_adds[1]:,}"),
            ("stored bytes", f"{self.stored_bytes[0]:,} -> {self.stored_bytes[1]:,}"),
            (
                f"time of {of}",
                f"{1e3 * self.latency[0]:.3f} -> {1e3 * self.latency[1]:.3f} ms for a batch of {self.latency_batch}",
            ),
            (self.score_name, f"{self.score[0]:.4f} -> {self.score[1]:.4f} (drop {self.drop:.4f})"),
            (f"relative error of {of}{worst}", f"{100 * self.relative_error:.3g} %"),
            (f"inner inputs out of range{worst}", f"{100 * self.outside:.2g} %"),
            ("measured on", f"{self.n_held_out:,} inputs held out" if self.n_held_out else "the inputs fitted to"),
            ("taken for", f"a {self.task.task}: {self.task.reason}"),
        ]
        if not math.isnan(self.lam):
            rows.append(("lam", f"{self.lam:.0e}"))
        lines = _aligned(rows)
        if several:
            table = [("part", "of", "functions", "parameters", "error")]
            for p in self.parts:
                ranks = ", ".join(str(r) for r in p.ranks)
                table.append(
                    (
                        p.name,
                        p.receptive_field,
                        ranks,
                        f"{p.parameters[0]:,} -> {p.parameters[1]:,}",
                        f"{100 * p.relative_error:.3g} %",
                    )
                )
            lines += ["", *_aligned(table)]
        if self.latency[1] > _MAX_SLOWDOWN * self.latency[0]:
            gain = "; its gain is in memory, not in time" if self.parameters[1] < self.parameters[0] else ""
            lines.append(f"Slower: the result takes {self.latency[1] / self.latency[0]:.1f} times as long{gain}.")
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]) - 1)]
    return ["  ".join([*(f"{text:<{w}}" for text, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]


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
        for _ in range(_LATENCY_REPEATS):
            for i, module in enumerate(modules):
                wait()
                began = time.perf_counter()
                module(x)
                wait()
                best[i] = min(best[i], time.perf_counter() - began)
    return best[0], best[1]
