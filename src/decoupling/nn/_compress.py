"""Replace a part of a trained network by a decoupling of it."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from .._support._checks import as_count, as_counts, as_generator, as_number
from .._support._errors import DecouplingWarning, InputError
from .._support._progress import progress_callback
from ..fit._decouple import decouple
from ..fit._result import Result
from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from ..solvers import AbstractSolver, Proj, TwoStage
from ._carve import Carved, Filter, carve, outputs_of
from ._layer import OUTSIDE, DecoupledLayer, Outside
from ._refine import refine as refine_layer
from ._report import CompressionReport, count_parameters, latency, multiply_adds
from ._sample import as_inputs, check_finite, chunks, sampled, values_of

_PER_CLASS = 20
_BATCH = 2048
_LATENCY_BATCH = 256
_VALIDATED = 10_000  # inputs on which candidates are compared when the user gives no metric
_AUTO_DROP = 0.01

Metric = Callable[[nn.Module], float]
Loss = Literal["kl", "squared"]
_LOSSES = ("kl", "squared")


@dataclass(frozen=True, eq=False)
class FineTune:
    """Training of the new layer with labels, by the cross-entropy, after everything else.

    Parameters
    ----------
    inputs, labels
        Inputs of the network and their classes, (N, ...) and (N,).
    epochs, batch_size, rate
        Passes over them, inputs per step, and Adam's largest rate, which falls to 0.
    whole
        Whether the rest of the network is trained as well, as far as its parameters ask for gradients.
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
        inputs, labels = (len(x) if hasattr(x, "__len__") else 0 for x in (self.inputs, self.labels))
        if inputs != labels or labels == 0:
            raise InputError(f"`inputs` and `labels` must have the same length, above 0. Got {inputs} and {labels}.")


@dataclass(frozen=True)
class Compression:
    """What `compress` returns.

    Attributes
    ----------
    model
        A copy of the network with the decoupling in the place of the part, in evaluation mode.
    report
        Before and after; print it.
    layer
        The new module inside `model`.
    result
        How the decoupling was found, before it was refined.
    """

    model: nn.Module = field(repr=False)
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
    refine: bool | Loss = True,
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
        What to replace: the name of a submodule; the names of the first and the last module, both replaced with all
        between; or a function of name and module, whose first and last choice are taken. The part must be a function
        of one tensor. A module with a forward method of its own that is cut between two names becomes a
        `torch.fx.GraphModule`, without other methods of its class.
    data
        Inputs of the *network*, without labels; the more the better.
    ranks
        Internal functions per layer, or "auto": the fewest, in one layer, whose drop is at most `max_drop`, found by
        growing and halving. The metric of the network decides here, not the errors that `dc.select` goes by.
    degree
        Degree of the internal functions.
    solver
        By default the paper's two stages around PROJ, 15 to 50 iterations.
    metric
        Called with a network in evaluation mode, higher is better, such as its accuracy. By default the share of
        inputs in `data` whose class stays the same (for one output: one minus the relative error).
    max_drop
        What drop of the metric you accept; 0.01 for ranks="auto" unless given.
    refine
        Whether the decoupling is trained on, on all of `data`, without labels: to match the classes of the part ("kl")
        or its values ("squared"). True takes the classes where the network gets its classes from the part, and the
        values otherwise: for parts inside a network, and for one output. Name "squared" for a regression with several.
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
        What the functions do outside the range of what they were fitted on.
    rng
        Seed or generator: the same seed gives the same result.

    Examples
    --------
    >>> import decoupling as dc, torch  # doctest: +SKIP
    >>> net = torch.nn.Sequential(*(torch.nn.Linear(9, 9) for _ in range(5)))  # doctest: +SKIP
    >>> out = dc.nn.compress(net, part=("2", "4"), data=torch.randn(500, 9), ranks=4)  # doctest: +SKIP
    >>> out.model, print(out.report)  # doctest: +SKIP
    """
    generator = as_generator(rng)
    _check_network(model)
    as_count("degree", degree)
    if isinstance(ranks, str):
        if ranks != "auto":
            raise InputError(f'`ranks` must be numbers or "auto". Got {ranks!r}.')
        max_drop = _AUTO_DROP if max_drop is None else max_drop
        chosen_ranks = None
    else:
        chosen_ranks = as_counts("ranks", ranks)
    if max_drop is not None:
        as_number("max_drop", max_drop)
    _check_options(solver, metric, refine, fine_tune, outside)
    with torch.inference_mode(False), torch.enable_grad():  # wherever we are called: parts of this are training
        inputs = as_inputs("data", data)
        dtype, where = next((p.dtype, p.device) for p in model.parameters())
        inputs = inputs.to(where, dtype)
        carved = carve(model, part, inputs, logits=logits)
        points, outputs = carved.run(inputs, _BATCH)
        flat = _flattened(carved.part, points)
        points = points.flatten(1).double()
        portions = (values_of(flat, points[rows].to(where, dtype)).cpu() for rows in chunks(len(points), _BATCH))
        values = torch.cat(list(portions))
        check_finite("part", values.numpy())
        chosen = _balanced(values if outputs is None else outputs, labels, n_samples, generator)
        samples = sampled("part", flat, points[chosen], None, None, None, progress)
        judged = _agreement(carved, inputs, generator) if metric is None else metric
        before = _rated(judged, carved.network)
        if not np.isfinite(before):
            raise InputError(f"`metric` must be a finite number for the network that is given. Got {before}.")
        if fine_tune is not None:
            _labelled(fine_tune, carved.network, dtype, where)  # complain before the work is done
        loss = _loss(refine, values, outputs)
        search = _Search(
            carved, flat, points, samples, degree, solver, judged, loss, outside, fine_tune, dtype, where, progress
        )
        if chosen_ranks is None:
            assert max_drop is not None
            network, layer, result, after = search.smallest(before, max_drop, generator)
        else:
            network, layer, result, after = search.run(chosen_ranks, generator)
        some = points[:_LATENCY_BATCH].to(where, dtype, copy=True)
        summary = CompressionReport(
            parameters=(count_parameters(flat), count_parameters(layer)),
            network_parameters=(count_parameters(model), count_parameters(network)),
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


Found = tuple[nn.Module, DecoupledLayer, Result, float]  # a network, what is new in it, how it was found, its metric


@dataclass(frozen=True)
class _Search:
    """Everything that stays the same while ranks are tried."""

    carved: Carved
    flat: nn.Module
    points: Tensor
    samples: Samples
    degree: int
    solver: AbstractSolver | None
    metric: Metric
    loss: Loss | None
    outside: Outside
    fine_tune: FineTune | None
    dtype: torch.dtype
    where: torch.device
    progress: bool | Callable[..., None]

    def run(self, ranks: tuple[int, ...], rng: np.random.Generator) -> Found:
        """One decoupling, trained as far as that is wanted, in its place."""
        inner = Proj(min_iterations=15, max_iterations=50, patience=20)
        method = TwoStage(inner) if self.solver is None else self.solver
        judging = method
        if isinstance(method, TwoStage) and method.metric is None:
            judging = dataclasses.replace(method, metric=self._worse)
        result = decouple(
            self.samples, ranks, (self.degree,) * len(ranks), solver=judging, rng=rng, progress=self.progress
        )
        result = dataclasses.replace(result, solver=method)  # without our metric, which holds all data
        layer = self._layer(result.decoupling)
        if self.loss is not None:
            layer = refine_layer(layer, self.flat, self.points, loss=self.loss, rng=rng, progress=self.progress)
        network = self._network(layer)
        if self.fine_tune is not None:
            train_with_labels(network, layer, self.fine_tune, rng, self.dtype, self.where, self.progress)
        network.zero_grad()
        return network, layer, result, _rated(self.metric, network)

    def smallest(self, before: float, max_drop: float, rng: np.random.Generator) -> Found:
        """The fewest functions whose drop is acceptable, or the best that is smaller than the part."""
        n, m = self.samples.n_outputs, self.samples.n_inputs
        allowed = count_parameters(self.flat)
        most = (allowed - 1) // (m + n + self.degree + 1)
        if most < 1:
            raise InputError(
                f"`part` has {allowed} parameters, fewer than any decoupling with {m} inputs and {n} outputs: there is "
                "nothing to save. Name a larger part."
            )
        failed, rank = 0, min(max(1, n // 2), most)
        best = found = self.run((rank,), rng)
        while not before - found[3] <= max_drop:
            best = max(best, found, key=lambda one: -np.inf if np.isnan(one[3]) else one[3])
            if rank == most:
                return best
            failed, rank = rank, min(most, max(rank + 1, round(1.5 * rank)))
            found = self.run((rank,), rng)
        while rank - failed > 1:
            middle = (failed + rank) // 2
            fewer = self.run((middle,), rng)
            if before - fewer[3] <= max_drop:
                rank, found = middle, fewer
            else:
                failed = middle
        return found

    def _layer(self, decoupling: Decoupling) -> DecoupledLayer:
        X = self.samples.X
        kept = torch.float64 if self.dtype == torch.float64 else torch.float32
        return DecoupledLayer(decoupling.canonical(X), X, outside=self.outside, dtype=kept)

    def _network(self, layer: DecoupledLayer) -> nn.Module:
        layer = layer.to(self.where, self.dtype)
        flattens = next(iter(self.flat.children()), None)
        return self.carved.with_part(
            nn.Sequential(nn.Flatten(), layer) if isinstance(flattens, nn.Unflatten) else layer
        )

    def _worse(self, decoupling: Decoupling) -> float:
        return -_rated(self.metric, self._network(self._layer(decoupling)))


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


def _check_options(solver: Any, metric: Any, refine: Any, fine_tune: Any, outside: Any) -> None:
    if solver is not None and not isinstance(solver, AbstractSolver):
        raise InputError(f"`solver` must be a solver such as dc.Constr() or dc.TwoStage(dc.Proj()). Got {solver!r}.")
    if metric is not None and not callable(metric):
        raise InputError(f"`metric` must be a function of a network, such as its accuracy. Got {metric!r}.")
    if not isinstance(refine, bool) and refine not in _LOSSES:
        raise InputError(f'`refine` must be True, False, "kl" or "squared". Got {refine!r}.')
    if fine_tune is not None and not isinstance(fine_tune, FineTune):
        raise InputError(f"`fine_tune` must be dc.nn.FineTune(inputs, labels). Got {type(fine_tune).__name__}.")
    if outside not in OUTSIDE:
        raise InputError(f"`outside` must be one of {', '.join(OUTSIDE)}. Got {outside!r}.")


def _flattened(part: nn.Module, points: Tensor) -> nn.Module:
    """The part as a function of vectors, whatever the shape of what it is given."""
    if count_parameters(part) == 0:
        raise InputError("`part` must have parameters: there is nothing to save in one without.")
    shape = tuple(points.shape[1:])
    own = copy.deepcopy(part).eval()
    return own if len(shape) == 1 else nn.Sequential(nn.Unflatten(1, shape), own).eval()


def _loss(refine: bool | Loss, values: Tensor, outputs: Tensor | None) -> Loss | None:
    """What refining matches: the classes, where the largest output of the part is the largest one of the network."""
    if not isinstance(refine, bool):
        return refine
    if not refine:
        return None
    if values.shape[1] == 1 or outputs is None or outputs.shape != values.shape:
        return "squared"
    return "kl" if bool((outputs.argmax(1) == values.argmax(1)).all()) else "squared"


def _balanced(outputs: Tensor, labels: Any, n_samples: int | None, rng: np.random.Generator) -> np.ndarray:
    """Indices of inputs, each class equally often as far as there are enough of it."""
    n = outputs.shape[1]
    if labels is None:
        classes = outputs.argmax(dim=1).numpy() if n > 1 else np.zeros(len(outputs), dtype=int)
    else:
        classes = _as_labels(labels, len(outputs))
    groups = [np.flatnonzero(classes == c) for c in np.unique(classes)]
    wanted = (
        (_PER_CLASS * len(groups) if n > 1 else 10 * _PER_CLASS)
        if n_samples is None
        else as_count("n_samples", n_samples)
    )
    least = max(2, n, len(groups))
    if min(len(outputs), wanted) < least:
        raise InputError(
            f"`data` must hold at least one input per class, {least} here, and `n_samples` as many. Got "
            f"{len(outputs)} inputs and {min(wanted, len(outputs))} samples."
        )
    rank = np.concatenate([rng.permutation(len(group)) for group in groups])  # the first of every class come first
    order = np.argsort(rank, kind="stable")[: min(wanted, len(outputs))]
    return np.sort(np.concatenate(groups)[order])


def _as_labels(labels: Any, count: int) -> np.ndarray:
    classes = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    if classes.shape != (count,) or classes.dtype.kind not in "iu":
        raise InputError(
            f"`labels` must be {count} whole numbers, one per input. Got {classes.dtype} and shape {classes.shape}."
        )
    return classes.astype(np.int64)


def _agreement(carved: Carved, inputs: Tensor, rng: np.random.Generator) -> Metric:
    """How many inputs keep their class; for one output, one minus the relative error."""
    some = inputs[torch.as_tensor(rng.permutation(len(inputs))[:_VALIDATED])]

    def outputs(network: nn.Module) -> Tensor:
        parts = [outputs_of(network, some[rows]) for rows in chunks(len(some), _BATCH)]
        if not isinstance(parts[0], Tensor):
            raise InputError(
                f"`metric` must be given: the network returns {type(parts[0]).__name__} instead of one tensor, so that "
                "its classes are not known."
            )
        return torch.cat(parts)

    truth = outputs(carved.network)
    spread = float((truth - truth.mean()).norm()) or 1.0

    def metric(network: nn.Module) -> float:
        got = outputs(network)
        if truth.ndim == 2 and truth.shape[1] > 1:
            return int((got.argmax(1) == truth.argmax(1)).sum()) / len(truth)
        return 1.0 - float((got - truth).norm()) / spread

    return metric


def _rated(metric: Metric, network: nn.Module) -> float:
    value: Any = metric(network.eval())
    network.eval()
    try:
        return float(value.detach() if isinstance(value, Tensor) else value)
    except (TypeError, ValueError, RuntimeError) as error:
        got = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise InputError(f"`metric` must return a number. Got {got}.") from error


def _outside(layer: DecoupledLayer, points: Tensor) -> float:
    """Share of inner inputs outside the range that the functions were fitted on."""
    total, count = 0, 0
    z = points.to(layer.W[0].device, layer.W[0].dtype)
    with torch.no_grad():
        for l in range(layer.n_layers):
            u = z @ layer.W[l].T
            low, high = layer.bounds(l)
            total += int(((u < low) | (u > high)).sum())
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
    X, y = _labelled(options, network, dtype, where)
    asked = {p: p.requires_grad for p in network.parameters()}
    new = set(layer.parameters())
    trained = [p for p, wanted in asked.items() if p in new or (options.whole and wanted)]
    for p in asked:
        p.requires_grad_(False)
    for p in trained:
        p.requires_grad_(True)
    steps = options.epochs * -(-len(X) // options.batch_size)
    optimiser = torch.optim.Adam(trained, lr=options.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, options.rate, total_steps=steps, pct_start=0.1)
    with progress_callback(progress, "Fine-tuning") as report:
        done = 0
        for _ in range(options.epochs):
            order = torch.as_tensor(rng.permutation(len(X)))
            for rows in chunks(len(X), options.batch_size):
                index = order[rows]
                optimiser.zero_grad()
                loss = nn.functional.nll_loss(_log_probabilities(network(X[index].to(where))), y[index].to(where))
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                schedule.step()
                done += 1
                report(done=done, total=steps, objective=float(loss.detach()))
    optimiser.zero_grad()
    for p, wanted in asked.items():
        p.requires_grad_(wanted)


def _labelled(options: FineTune, network: nn.Module, dtype: torch.dtype, where: torch.device) -> tuple[Tensor, Tensor]:
    """Inputs and labels to train with, if they are what the network takes and tells apart."""
    X = as_inputs("inputs", options.inputs).to(dtype)
    y = torch.as_tensor(_as_labels(options.labels, len(X)))
    output = outputs_of(network, X[:2].to(where), "inputs")
    if not isinstance(output, Tensor) or output.ndim != 2 or output.shape[1] < 2:
        got = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise InputError(
            f"`fine_tune` must be given with a network that returns scores (S, n) of n > 1 classes. It returns {got}."
        )
    low, high, most = int(y.min()), int(y.max()), output.shape[1] - 1
    if low < 0 or high > most:
        raise InputError(f"`labels` must be classes 0, ..., {most} of the network. Got {low} to {high}.")
    return X, y


def _log_probabilities(output: Tensor) -> Tensor:
    """Logarithms of what a network gives the classes, whether it returns scores or, after a softmax, probabilities."""
    with torch.no_grad():
        done = bool((output >= 0.0).all()) and bool(((output.sum(1) - 1.0).abs() < 1e-3).all())
    return output.clamp_min(torch.finfo(output.dtype).tiny).log() if done else output.log_softmax(1)
