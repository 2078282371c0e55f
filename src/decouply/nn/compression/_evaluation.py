"""How a compressed network is judged: its task, its score, and what changed, in numbers and in plain words.

The task is asked for, or seen from labels and from what the network does with its outputs; it is never guessed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor, nn

from ..._support._errors import InputError, short_repr
from ...model._decoupling import Decoupling
from ...model._functions import Outside
from ..carving._carve import ACTIVATIONS, Carved, outputs_of
from ..carving._jacobian_sampling import batch_for, chunks
from ..carving._receptive_field import AbstractReceptiveField
from ..layer._decoupled_layer import DecoupledLayer, layer_on
from ..training._network_training import in_rows

Task = Literal["classification", "regression"]
Score = Callable[[nn.Module], float]
_SUM_TOLERANCE = 1e-4  # of probabilities in single precision, which sum to 1
_MAX_COMPARED = 10_000  # inputs on which two networks are compared
_LATENCY_REPEATS = 20
_MAX_SLOWDOWN = 1.05  # times, below which nobody would call it so
_MAX_RELATIVE_ERROR = 0.5  # relative error of a regression
_MAX_SHARE_OUTSIDE = 0.05  # share of inner inputs; of S samples, a share of 2 / S outside is nothing unusual


@dataclass(frozen=True)
class Decision:
    """The task, and the reason for it."""

    task: Task
    reason: str

    @property
    def in_classes(self) -> bool:
        return self.task == "classification"


def infer_task(task: Task | None, network: nn.Module, outputs: Tensor | None, *, labelled: bool) -> Decision:
    """What the user says, or what labels and the end of the network say; otherwise outputs are numbers."""
    if task is not None and task not in ("classification", "regression"):
        raise InputError(f'`task` must be "classification", "regression" or None. Got {short_repr(task)}.')
    if task == "classification" and outputs is not None and in_rows(outputs).shape[1] == 1:
        raise InputError('`task` must be "regression" for one output: it is always the largest. Got "classification".')
    if task is not None:
        return Decision(task, "as asked")
    if outputs is None or outputs.ndim != 2:
        return Decision("regression", "the network does not return one vector per input")
    if outputs.shape[1] == 1:
        return Decision("regression", "the network has one output")
    if labelled:
        return Decision("classification", "labels are given")
    if _sum_to_one(outputs) or _sum_to_one(outputs.exp()):
        return Decision("classification", "the outputs are probabilities")
    *_, last = network.modules()
    if isinstance(last, ACTIVATIONS):
        return Decision("classification", f"the network ends in {type(last).__name__}")
    return Decision("regression", 'nothing says that the outputs are classes; task="classification" does')


def _sum_to_one(outputs: Tensor) -> bool:
    total = outputs.double().sum(dim=1)
    return bool((outputs >= 0).all()) and bool(torch.all((total - 1.0).abs() < _SUM_TOLERANCE))


@dataclass(frozen=True, eq=False)
class Agreement:
    """The share of inputs that keep their class; for numbers, one minus the relative error.

    `outputs` are those of the network that is given.
    """

    inputs: Tensor
    outputs: Tensor
    in_classes: bool

    @classmethod
    def with_outputs_of(cls, network: nn.Module, inputs: Tensor, *, in_classes: bool) -> Agreement:
        """Agreement with a network on some of the inputs."""
        order = np.random.default_rng(0).permutation(len(inputs))[:_MAX_COMPARED]
        some = inputs[torch.as_tensor(order)]
        return cls(some, outputs_on(network, some), in_classes)

    @property
    def name(self) -> str:
        return "inputs that keep their class" if self.in_classes else "1 - relative error of the outputs"

    def __call__(self, network: nn.Module) -> float:
        return self.compare(outputs_on(network, self.inputs))

    def compare(self, outputs: Tensor) -> float:
        if self.in_classes:
            same = in_rows(outputs).argmax(1) == in_rows(self.outputs).argmax(1)
            return int(same.sum()) / len(same)
        return 1.0 - relative_error(outputs, self.outputs)


@dataclass(frozen=True, eq=False, repr=False)
class NetworkLoss:
    """A score of networks as a loss of decouplings, lower is better: what `TwoStage` chooses lam by.

    X are inputs of the part: the domains of the functions are what these visit.
    """

    score: Score
    carved: Carved
    field: AbstractReceptiveField
    X: Float[ndarray, "S m"]
    outside: Outside

    def layer(self, decoupling: Decoupling) -> DecoupledLayer:
        """A decoupling as a module in canonical form, in the type of the network."""
        return layer_on(decoupling, self.X, self.outside, next(self.carved.network.parameters()).dtype)

    def __call__(self, decoupling: Decoupling) -> float:
        return -score_of(self.score, self.carved.with_layer(self.field, self.layer(decoupling)))


def relative_error(got: Tensor, truth: Tensor) -> float:
    """Root mean square of the errors, each output in units of its standard deviation; 0 if it is met, in its own units
    if it does not vary.
    """
    got, truth = (values.double().reshape(len(values), -1) for values in (got, truth))
    spread = (truth - truth.mean(dim=0)).pow(2).mean(dim=0).sqrt()
    return float(((got - truth) / torch.where(spread > 0, spread, 1.0)).pow(2).mean().sqrt())


def score_of(score: Score, network: nn.Module) -> float:
    """The score as a number; the network is in evaluation mode before and after."""
    value: Any = score(network.eval())
    network.eval()
    try:
        return float(value.detach() if isinstance(value, Tensor) else value)
    except (TypeError, ValueError, RuntimeError) as error:
        got = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else short_repr(value)
        raise InputError(f"`score` must return a number. Got {got}.") from error


def outputs_on(network: nn.Module, inputs: Tensor) -> Tensor:
    parts = [outputs_of(network, inputs[rows]) for rows in chunks(len(inputs), batch_for(inputs))]
    if not isinstance(parts[0], Tensor):
        raise InputError(
            f"`score` must be given: the network returns {type(parts[0]).__name__} instead of one tensor, so that "
            "its classes are not known."
        )
    return torch.cat(parts)


# The report


@dataclass(frozen=True)
class Tried:
    """Functions that were trained in the place of a part, and how far they are from it at inputs held out for this."""

    functions: str
    distance: float


@dataclass(frozen=True)
class PartReport:
    """What changed in one part.

    Attributes
    ----------
    name : str
        Of the part.
    receptive_field : str
        What one of its outputs depends on: the whole sample, each token, some pixels.
    ranks : tuple of int
        Internal functions per layer.
    parameters, multiply_adds, stored_bytes, latency : tuple (before, after)
        Before and after. Multiply-adds and seconds are those of one input of the network and of a batch, after
        `dc.nn.freeze`; multiply-adds are None if a module is not known to us.
    relative_error : float
        Of the part's values, root mean square in units of the standard deviation of each.
    outside : float
        Share of the inner inputs that lie outside the range the functions were fitted on.
    lam : float
        Weight of the values that the solver chose; NaN if the start was random.
    tried : tuple
        Functions that were trained to the end, those that were taken first; none if only one kind was asked for.

    Examples
    --------
    >>> import decouply as dc, torch
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> _ = torch.nn.init.ones_(net[0].weight)  # one direction
    >>> X = torch.randn(80, 8)
    >>> how = dict(training=dc.nn.Training(refine=False), evaluation=dc.nn.Evaluation(validation=X))
    >>> out = dc.nn.compress(net, "0", X, ranks=1, degrees=1, **how)
    >>> part = out.report.parts[0]
    >>> part.name, part.ranks
    ('0', (1,))
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
    tried: tuple[Tried, ...] = ()


@dataclass(frozen=True)
class CompressionReport:
    """What a compression changed: parameters, time, memory and score.

    Attributes
    ----------
    parts : tuple of PartReport
        One row per part.
    network_parameters : tuple (before, after)
        Of the whole network, before and after.
    latency_batch : int
        Inputs of the batch that times were taken with.
    score : tuple (before, after)
        Of the whole network, before and after; higher is better.
    score_name : str
        What it is.
    task : Decision
        Whether the network was taken for a classification or a regression, and why.
    n_held_out : int
        Inputs that were not fitted, on which score, errors and ranges were measured; 0 if they are those fitted.
    max_drop : float or None
        The drop of the score that was accepted, if one was named.

    Examples
    --------
    >>> import decouply as dc, torch
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> _ = torch.nn.init.ones_(net[0].weight)  # one direction
    >>> X = torch.randn(80, 8)
    >>> how = dict(training=dc.nn.Training(refine=False), evaluation=dc.nn.Evaluation(validation=X))
    >>> out = dc.nn.compress(net, "0", X, ranks=1, degrees=1, **how)
    >>> len(out.report.parts), out.report.task.task
    (1, 'regression')
    """

    parts: tuple[PartReport, ...]
    network_parameters: tuple[int, int]
    latency_batch: int
    score: tuple[float, float]
    score_name: str
    task: Decision
    n_held_out: int
    max_drop: float | None

    def _total(self, name: str) -> tuple[Any, Any]:
        """The sum over all parts, before and after; None if it is not known of one."""
        before, after = zip(*(getattr(part, name) for part in self.parts), strict=True)
        return None if None in before else sum(before), sum(after)

    @property
    def parameters(self) -> tuple[int, int]:
        """Of all parts, before and after."""
        return self._total("parameters")

    @property
    def multiply_adds(self) -> tuple[int | None, int]:
        """Of all parts per input of the network; None if a module is not known to us.

        One multiplication per function that continues linearly is counted.
        """
        return self._total("multiply_adds")

    @property
    def stored_bytes(self) -> tuple[int, int]:
        """Of all parts, before and after."""
        return self._total("stored_bytes")

    @property
    def latency(self) -> tuple[float, float]:
        """Seconds of one pass of all parts over a batch of `latency_batch` inputs, before and after."""
        return self._total("latency")

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
                error = f"{100 * part.relative_error:.3g} % of the standard deviation"
                told.append(f"The error of {its} is {error}: raise the ranks.")
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
        saved = f"({self.savings:.1f} % saved)"
        times = f"{1e3 * self.latency[0]:.3f} -> {1e3 * self.latency[1]:.3f} ms"
        rows = [
            (f"parameters of {of}", f"{self.parameters[0]:,} -> {self.parameters[1]:,} {saved}"),
            ("parameters of the network", f"{self.network_parameters[0]:,} -> {self.network_parameters[1]:,}"),
            ("multiply-adds per input", f"{macs} -> {self.multiply_adds[1]:,}"),
            ("stored bytes", f"{self.stored_bytes[0]:,} -> {self.stored_bytes[1]:,}"),
            (f"time of {of}", f"{times} for a batch of {self.latency_batch}"),
            (self.score_name, f"{self.score[0]:.4f} -> {self.score[1]:.4f} (drop {self.drop:.4f})"),
            (f"relative error of {of}{worst}", _percent(self.relative_error)),
            (f"inner inputs out of range{worst}", f"{100 * self.outside:.2g} %"),
            ("measured on", f"{self.n_held_out:,} inputs held out" if self.n_held_out else "the inputs fitted to"),
            ("taken for", f"a {self.task.task}: {self.task.reason}"),
        ]
        if not math.isnan(self.lam):
            rows.append(("lam", f"{self.lam:.0e}"))
        for p in self.parts:
            if p.tried:
                title = f"functions{f' of {p.name}' if several else ''}"
                rows += [(title if k == 0 else "", text) for k, text in enumerate(_in_sentences(p.tried))]
        lines = _align_columns(rows)
        if several:
            table = [("part", "of", "functions", "parameters", "error")]
            for p in self.parts:
                ranks, sizes = ", ".join(map(str, p.ranks)), f"{p.parameters[0]:,} -> {p.parameters[1]:,}"
                table.append((p.name, p.receptive_field, ranks, sizes, _percent(p.relative_error)))
            lines += ["", *_align_columns(table)]
        if self.latency[1] > _MAX_SLOWDOWN * self.latency[0]:
            gain = "; its gain is in memory, not in time" if self.parameters[1] < self.parameters[0] else ""
            lines.append(f"Slower: the result takes {self.latency[1] / self.latency[0]:.1f} times as long{gain}.")
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])


def _percent(share: float) -> str:
    """Three digits, and all of those before the point."""
    return f"{100 * share:,.0f} %" if 10.0 <= share < math.inf else f"{100 * share:.3g} %"


def _in_sentences(tried: Sequence[Tried]) -> list[str]:
    """What was taken, and what else was trained to the end."""
    best, *others = tried
    taken = f"{best.functions}, {best.distance:.3g} from the part at inputs held out"
    return [taken, *(f"not taken: {one.functions}, {one.distance:.3g} from it" for one in others)]


def _align_columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]) - 1)]
    return ["  ".join([*(f"{text:<{w}}" for text, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]


def multiply_adds(module: nn.Module, x: Tensor) -> int | None:
    """Multiplications of one sample through linear and convolution layers; None if other layers have weights."""
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
