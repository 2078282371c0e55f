"""Replace a part of a trained network by a decoupling of it."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from .._checks import as_count, as_counts, as_generator, as_number
from .._decouple import decouple
from .._decoupling import Decoupling
from .._errors import DecouplingWarning, InputError
from .._progress import progress_callback
from .._result import Result
from ..solvers import AbstractSolver, Proj, TwoStage
from ._carve import Carved, Filter, carve
from ._layer import DecoupledLayer, Outside
from ._refine import refine as refine_layer
from ._report import CompressionReport, count_parameters, latency, multiply_adds
from ._sample import as_inputs, check_finite, chunks, sample, values_of

_PER_CLASS = 20
_BATCH = 2048
_LATENCY_BATCH = 256
_VALIDATED = 10_000  # inputs on which candidates are compared when the user gives no metric
_AUTO_DROP = 0.01

Metric = Callable[[nn.Module], float]


@dataclass(frozen=True)
class FineTune:
    """Training of the new layer with labels, after everything else.

    Parameters
    ----------
    inputs, labels
        Inputs of the network and their classes, (N, ...) and (N,).
    epochs, batch_size, rate
        Passes over them, inputs per step, and Adam's largest rate, which falls to 0.
    whole
        Whether the rest of the network is trained as well.
    """

    inputs: Any
    labels: Any
    epochs: int = 5
    batch_size: int = 256
    rate: float = 3e-3
    whole: bool = False

    def __post_init__(self) -> None:
        as_count("epochs", self.epochs)
        as_count("batch_size", self.batch_size)
        as_number("rate", self.rate, above=True)
        if len(self.inputs) != len(self.labels) or len(self.labels) == 0:
            raise InputError(
                f"`inputs` and `labels` must have the same length, above 0. Got {len(self.inputs)} and "
                f"{len(self.labels)}."
            )


@dataclass(frozen=True)
class Compression:
    """What `compress` returns.

    Attributes
    ----------
    model
        A copy of the network with the decoupling in the place of the part.
    report
        Before and after; print it.
    layer
        The new module inside `model`.
    result
        How the decoupling was found, before it was refined.
    """

    model: nn.Module
    report: CompressionReport
    layer: DecoupledLayer
    result: Result

    @property
    def decoupling(self) -> Decoupling:
        """The new module as functions that can be plotted and read."""
        return self.layer.to_decoupling()


def compress(
    model: nn.Module,
    part: str | tuple[str, str] | Filter,
    data: object,
    ranks: int | Sequence[int] | Literal["auto"] = "auto",
    degree: int = 4,
    *,
    solver: AbstractSolver | None = None,
    metric: Metric | None = None,
    max_drop: float | None = None,
    refine: bool = True,
    fine_tune: FineTune | None = None,
    labels: object = None,
    n_samples: int | None = None,
    logits: bool = True,
    outside: Outside = "linear",
    rng: int | np.random.Generator = 0,
    progress: bool | Callable[..., None] = True,
) -> Compression:
    """Replace a part of a trained network by a decoupling, without changing the network that is given.

    Parameters
    ----------
    model
        A network in float32 or float64, a function of one tensor.
    part
        What to replace: the name of a submodule; the names of the first and the last module, both replaced; or a
        function of name and module that chooses. The part must be a function of one tensor.
    data
        Inputs of the *network*, without labels; the more the better.
    ranks
        Internal functions per layer, or "auto": the fewest, in one layer, whose drop is at most `max_drop`. The metric
        of the network decides here, not the errors that `dc.select` goes by.
    degree
        Degree of the internal functions.
    solver
        By default the paper's two stages around PROJ, 15 to 50 iterations.
    metric
        Called with a network, higher is better, such as its accuracy. By default the share of inputs in `data` whose
        class stays the same (for one output: one minus the relative error).
    max_drop
        What drop of the metric you accept; 0.01 for ranks="auto" unless given.
    refine
        Whether the decoupling is trained on to match the classes of the part, on all of `data`, without labels.
    fine_tune
        Training with labels at the end.
    labels
        Classes of `data`, to sample each equally often; by default the classes that the network itself gives.
    n_samples
        Inputs at which Jacobians are taken; by default 20 per class, or 200 for a single output.
    logits
        Whether a sigmoid or softmax at the end of the part is left outside, where it belongs: through a saturated one
        the Jacobian loses its information.
    outside
        What the functions do outside the range of `data`.
    """
    generator = as_generator(rng)
    _check_network(model)
    inputs = as_inputs("data", data)
    as_count("degree", degree)
    if max_drop is not None:
        as_number("max_drop", max_drop)
    dtype = next(model.parameters()).dtype
    where = next(model.parameters()).device
    carved = carve(model, part, logits=logits)
    points = carved.inputs_of_part(inputs.to(where, dtype), _BATCH)
    points = points.reshape(len(points), -1).double()
    flat = _flattened(carved, points)
    values = torch.cat([values_of(flat, points[rows].to(where, dtype)) for rows in chunks(len(points), _BATCH)])
    check_finite("part", values.cpu().double().numpy())
    chosen = _balanced(values.cpu(), labels, n_samples, generator)
    samples = sample(flat, points[chosen], progress=bool(progress))
    judged = metric or _agreement(carved, inputs.to(where, dtype), generator)
    before = _rated(judged, carved.network)
    search = _Search(carved, flat, points, samples, degree, solver, judged, refine, outside, dtype, where, progress)
    if isinstance(ranks, str):
        if ranks != "auto":
            raise InputError(f'`ranks` must be numbers or "auto". Got {ranks!r}.')
        max_drop = _AUTO_DROP if max_drop is None else max_drop
        found = search.smallest(before, max_drop, generator)
    else:
        found = search.run(as_counts("ranks", ranks), generator)
    network, layer, result, after = found
    if fine_tune is not None:
        train_with_labels(network, layer, fine_tune, generator, dtype, where, progress)
        after = _rated(judged, network)
    some = points[:_LATENCY_BATCH].to(where, dtype)
    summary = CompressionReport(
        parameters=(count_parameters(flat), count_parameters(layer)),
        network_parameters=(count_parameters(carved.network), count_parameters(network)),
        multiply_adds=(multiply_adds(flat, some), multiply_adds(layer, some) or 0),
        latency=latency((flat, layer), some),
        latency_batch=len(some),
        metric=(before, after),
        metric_name="metric" if metric is not None else "agreement with the original",
        lam=result.lam,
        outside=_outside(layer, points),
        max_drop=max_drop,
    )
    for text in summary.warnings:
        warnings.warn(text, DecouplingWarning, stacklevel=2)
    return Compression(network, summary, layer, result)


@dataclass(frozen=True)
class _Search:
    """Everything that stays the same while ranks are tried."""

    carved: Carved
    flat: nn.Module
    points: Tensor
    samples: Any
    degree: int
    solver: AbstractSolver | None
    metric: Metric
    refine: bool
    outside: Outside
    dtype: torch.dtype
    where: torch.device
    progress: bool | Callable[..., None]

    def run(self, ranks: tuple[int, ...], rng: np.random.Generator) -> tuple[nn.Module, DecoupledLayer, Result, float]:
        """One decoupling, refined, in its place."""
        inner = Proj(min_iterations=15, max_iterations=50, patience=20)
        method = TwoStage(inner, metric=self._worse) if self.solver is None else self.solver
        if isinstance(method, TwoStage) and method.metric is None:
            method = dataclasses.replace(method, metric=self._worse)
        result = decouple(
            self.samples, ranks, (self.degree,) * len(ranks), solver=method, rng=rng, progress=self.progress
        )
        layer = self._layer(result.decoupling)
        if self.refine:
            loss = "kl" if self.samples.n_outputs > 1 else "squared"
            trained = refine_layer(layer, self.flat, self.points, loss=loss, rng=rng, progress=self.progress)
            layer = trained.to(self.where, self.dtype)
        network = self.carved.with_part(layer)
        return network, layer, result, _rated(self.metric, network)

    def smallest(
        self, before: float, max_drop: float, rng: np.random.Generator
    ) -> tuple[nn.Module, DecoupledLayer, Result, float]:
        """The fewest functions whose drop is acceptable, or the best that is smaller than the part."""
        n, m = self.samples.n_outputs, self.samples.n_inputs
        allowed = count_parameters(self.flat)
        best = None
        rank = max(1, n // 2)
        while rank * (m + n + self.degree + 1) < allowed:
            found = self.run((rank,), rng)
            if best is None or found[3] > best[3]:
                best = found
            if before - found[3] <= max_drop:
                return found
            rank = max(rank + 1, round(1.5 * rank))
        if best is None:
            raise InputError(
                f"`part` has {allowed} parameters, fewer than any decoupling with {m} inputs and {n} outputs: there is "
                "nothing to save. Name a larger part."
            )
        return best

    def _layer(self, decoupling: Decoupling) -> DecoupledLayer:
        X = self.points.numpy()
        kept = torch.float64 if self.dtype == torch.float64 else torch.float32
        layer = DecoupledLayer(decoupling.canonical(X), X, outside=self.outside, dtype=kept)
        return layer.to(self.where)

    def _worse(self, decoupling: Decoupling) -> float:
        return -_rated(self.metric, self.carved.with_part(self._layer(decoupling)))


def _check_network(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"`model` must be a torch.nn.Module. Got {type(model).__name__}.")
    types = {p.dtype for p in model.parameters()}
    if not types:
        raise InputError("`model` must have parameters. It has none.")
    if not types <= {torch.float32, torch.float64}:
        names = ", ".join(sorted(str(t) for t in types))
        raise InputError(
            f"`model` must be in float32 or float64. Got {names}: polynomials of degree 4 need the digits. Convert it "
            "with model.float(), compress, and convert the rest back if you must."
        )


def _flattened(carved: Carved, points: Tensor) -> nn.Module:
    """The part, which takes vectors here; other shapes are refused plainly."""
    first = next((m for m in carved.part.modules() if isinstance(m, nn.Linear)), None)
    if first is not None and first.in_features != points.shape[1]:
        raise InputError(
            f"`part` must take one vector per sample. Its inputs flatten to {points.shape[1]} numbers, but its first "
            f"linear layer takes {first.in_features}: name a part that begins after the flattening."
        )
    return copy.deepcopy(carved.part).eval()


def _balanced(values: Tensor, labels: Any, n_samples: int | None, rng: np.random.Generator) -> np.ndarray:
    """Indices of inputs, each class equally often as far as there are enough of it."""
    n = values.shape[1]
    if labels is None:
        classes = values.argmax(dim=1).numpy() if n > 1 else np.zeros(len(values), dtype=int)
    else:
        classes = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
        if classes.shape != (len(values),) or classes.dtype.kind not in "iu":
            raise InputError(f"`labels` must be {len(values)} whole numbers, one per input. Got shape {classes.shape}.")
    groups = [np.flatnonzero(classes == c) for c in np.unique(classes)]
    wanted = (
        (_PER_CLASS * len(groups) if n > 1 else 10 * _PER_CLASS)
        if n_samples is None
        else as_count("n_samples", n_samples)
    )
    least = max(2, n, len(groups))
    if min(len(values), wanted) < least:
        raise InputError(
            f"`data` must hold at least one input per class, {least} here, and `n_samples` as many. Got "
            f"{len(values)} inputs and {min(wanted, len(values))} samples."
        )
    rank = np.concatenate([rng.permutation(len(group)) for group in groups])  # the first of every class come first
    order = np.argsort(rank, kind="stable")[: min(wanted, len(values))]
    return np.sort(np.concatenate(groups)[order])


def _agreement(carved: Carved, inputs: Tensor, rng: np.random.Generator) -> Metric:
    """How many inputs keep their class; for one output, one minus the relative error."""
    some = inputs[torch.as_tensor(rng.permutation(len(inputs))[:_VALIDATED])]

    def outputs(network: nn.Module) -> Tensor:
        with torch.no_grad():
            return torch.cat([network(some[rows]) for rows in chunks(len(some), _BATCH)])

    truth = outputs(carved.network)

    def metric(network: nn.Module) -> float:
        got = outputs(network)
        if truth.ndim == 2 and truth.shape[1] > 1:
            return float((got.argmax(1) == truth.argmax(1)).double().mean())
        return 1.0 - float((got - truth).norm() / (truth - truth.mean()).norm())

    return metric


def _rated(metric: Metric, network: nn.Module) -> float:
    value = metric(network)
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"`metric` must return a number. Got {value!r}.") from error


def _outside(layer: DecoupledLayer, points: Tensor) -> float:
    """Share of inner inputs outside the range that the functions were fitted on."""
    total, count = 0.0, 0
    z = points.to(layer.W[0].device, layer.W[0].dtype)
    with torch.no_grad():
        for l in range(layer.n_layers):
            u = z @ layer.W[l].T
            low, high = layer.bounds(l)
            total += float(((u < low) | (u > high)).double().sum())
            count += u.numel()
            z = layer.functions(l, u)
    return total / count


def train_with_labels(
    network: nn.Module,
    layer: DecoupledLayer,
    options: FineTune,
    rng: np.random.Generator,
    dtype: torch.dtype,
    where: torch.device,
    progress: bool | Callable[..., None],
) -> None:
    """Cross-entropy on labelled inputs; the network is changed in place."""
    X = as_inputs("inputs", options.inputs).to(dtype)
    y = torch.as_tensor(
        np.asarray(options.labels.cpu() if isinstance(options.labels, Tensor) else options.labels)
    ).long()
    trained = network if options.whole else layer
    for p in network.parameters():
        p.requires_grad_(False)
    for p in trained.parameters():
        p.requires_grad_(True)
    steps = options.epochs * -(-len(X) // options.batch_size)
    optimiser = torch.optim.Adam(trained.parameters(), lr=options.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, options.rate, total_steps=steps, pct_start=0.1)
    with progress_callback(progress, "Fine-tuning") as report:
        done = 0
        for _ in range(options.epochs):
            order = torch.as_tensor(rng.permutation(len(X)))
            for rows in chunks(len(X), options.batch_size):
                index = order[rows]
                optimiser.zero_grad()
                loss = nn.functional.cross_entropy(network(X[index].to(where)), y[index].to(where))
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                schedule.step()
                done += 1
                report(done=done, total=steps, objective=float(loss.detach()))
    for p in network.parameters():
        p.requires_grad_(True)
