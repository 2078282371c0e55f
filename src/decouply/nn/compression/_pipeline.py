"""One run of `compress`: carve, sample, fit, train and place, part after part; then finish and measure.

Each part is replaced in the network in which those before it are replaced already.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..._support._errors import DecouplingWarning
from ..._support._interrupts import INTERRUPTED
from ...bases import AbstractBasis, Monomial
from ...fit._decouple import decouple
from ...fit._result import Result
from ...samples._samples import Samples
from ...solvers import Proj, Stopping, TwoStage
from ...solvers.problem._solver import with_loss
from ..carving._carve import Carved, PartName
from ..carving._data_split import DataSplit, class_balanced_indices
from ..carving._jacobian_sampling import chunks, sample_module, values_of
from ..carving._part import Part, collect_vectors, cut_part
from ..layer._decoupled_layer import DecoupledLayer
from ..layer._frozen import freeze
from ..layer._quantisation import count_parameters, n_bytes, pack, stored_bytes, unpack
from ..layer._random_layer import fit_basis, random_layer
from ..training._distillation import FEW_INPUTS, Distil, Loss, mixup_inputs, refine
from ..training._network_training import distil_jointly, train_with_labels
from ._evaluation import (
    Decision,
    NetworkLoss,
    PartReport,
    Score,
    latency,
    multiply_adds,
    relative_error,
    score_of,
)
from ._options import Fitting, Training

LATENCY_BATCH = 256  # vectors
MAX_START_INPUTS = 20_000  # vectors from which a random layer takes its ranges and its outputs
_SEARCH_SECONDS = 300.0  # after which no more ranks are tried, where nothing else is asked for
_VALUES_BATCH = 2048  # vectors


class StageClock:
    """Progress and time of the stages, one after the other; it remembers whether Ctrl-C was pressed in one of them."""

    def __init__(self, report: Callable[..., None], silent: bool, max_seconds: float | None = None) -> None:
        self.report = report
        self._silent = silent
        self._until = None if max_seconds is None else time.monotonic() + max_seconds
        self._search_until = time.monotonic() + (_SEARCH_SECONDS if max_seconds is None else max_seconds)
        self._stages_left = 1
        self.best_summary = ""  # what a search has found, shown with every stage
        self.stopped = False

    def reserve_stages(self, n_stages: int) -> None:
        """Share the time that is left among so many stages of training."""
        self._stages_left = max(1, n_stages)

    def limit(self, how: Distil) -> Distil:
        """A training that takes no longer than the next one may."""
        if self._until is None:
            return how
        seconds = max(1e-3, (self._until - time.monotonic()) / self._stages_left)
        return dataclasses.replace(how, max_seconds=min(seconds, how.max_seconds or np.inf))

    @property
    def search_is_over(self) -> bool:
        """Whether a search must return what it has."""
        return self.stopped or time.monotonic() > self._search_until

    def stage(self, name: str) -> bool | Callable[..., None]:
        """What a stage takes as `progress`."""

        def report(stage: str = "", **values: Any) -> None:
            try:
                self.report(stage=", ".join(word for word in (name, stage, self.best_summary) if word), **values)
            except KeyboardInterrupt:
                self.stopped = True
                raise

        return False if self._silent else report


@dataclass(frozen=True, eq=False)
class ReplacedPart:
    """A part, and how the decoupling in its place was found; None if the start was random."""

    part: Part
    result: Result | None

    def layer(self, network: nn.Module) -> DecoupledLayer:
        """The new layer inside a network."""
        there = network.get_submodule(self.part.carved.path)
        return next(module for module in there.modules() if isinstance(module, DecoupledLayer))


@dataclass(frozen=True, eq=False)
class Candidate:
    """A network with new layers in it, and its score."""

    network: nn.Module
    replaced: list[ReplacedPart]
    score: float

    @property
    def order(self) -> float:
        """The score, with NaN as minus infinity, for sorting."""
        return -np.inf if np.isnan(self.score) else self.score


@dataclass(frozen=True, eq=False)
class CompressionRun:
    """Everything that stays the same while parts are replaced.

    Attributes
    ----------
    network
        A copy of the network that is given, in evaluation mode and in float32 or float64.
    names
        The parts, in the order in which the network calls them.
    first
        The first of them, cut out of `network`.
    split
        Inputs to fit and to judge by.
    short_types
        Half precision and the like, if the network that is given has them.
    """

    network: nn.Module
    names: list[PartName]
    first: Part
    split: DataSplit
    task: Decision
    score: Score
    degrees: tuple[int, ...]
    fitting: Fitting
    training: Training
    short_types: frozenset[torch.dtype]
    rng: np.random.Generator
    clock: StageClock

    @property
    def dtype(self) -> torch.dtype:
        return next(self.network.parameters()).dtype

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    @property
    def outputs(self) -> Tensor | None:
        """What the network that is given returns at the inputs to fit."""
        return self.first.network_outputs

    @cached_property
    def joint(self) -> Distil | None:
        return self.training.of_all_layers(len(self.names), outputs_known=self.outputs is not None)

    # One part

    def carve(self, network: nn.Module, name: PartName) -> Part:
        """Cut a part out of a network, with its inputs and outputs."""
        if network is self.network and name == self.names[0]:
            return self.first
        fitting = self.fitting
        return cut_part(network, name, self.split.fitted, logits=fitting.logits, axis=fitting.axis, rng=self.rng)

    def sample(self, part: Part) -> Samples | None:
        """Values and Jacobians at some inputs of a part, each class equally often; None if the start is random."""
        if self.fitting.start == "random":
            return None
        shown, labels, in_classes = part.values, None, False
        if part.n_positions == 1:
            labels, in_classes = self.split.labels, self.task.in_classes
            if self.outputs is not None and self.outputs.ndim == 2:
                shown = self.outputs
        rows = class_balanced_indices(shown, labels, self.fitting.n_samples, self.rng, in_classes=in_classes)
        progress = self.clock.stage("sampling")
        return sample_module("parts", part.function, part.inputs[rows], None, None, None, progress)

    def fit(self, part: Part, samples: Samples | None, ranks: tuple[int, ...]) -> tuple[DecoupledLayer, Result | None]:
        """A layer to train: from a decoupling of the samples, or from nothing but the ranges of the inputs."""
        if samples is None:
            some = torch.as_tensor(self.rng.permutation(len(part.inputs))[:MAX_START_INPUTS])
            X, F = part.inputs[some], part.values[some]
            if len(X) < FEW_INPUTS and part.field.exact:  # others made of them: least squares on few mean little
                mixed = mixup_inputs(X, FEW_INPUTS, torch.Generator().manual_seed(int(self.rng.integers(2**31))))
                values = values_of(part.function, mixed.to(next(part.function.parameters())))
                X, F = torch.cat([X, mixed]), torch.cat([F, values.to(F)])
            return self.random_layer(part, ranks, X, F, self.rng), None
        loss = NetworkLoss(self.score, part.carved, part.field, samples.X, self.fitting.outside)
        solver = self.fitting.solver or TwoStage(Proj(stopping=Stopping(min_steps=15, max_steps=50, patience=20)))
        result = decouple(
            samples,
            ranks,
            self._degrees_of(ranks),
            solver=with_loss(solver, loss),
            as_given=True,
            rng=self.rng,
            progress=self.clock.stage("decoupling"),
        )
        if self.clock.stopped:
            warnings.warn(INTERRUPTED, DecouplingWarning, stacklevel=4)
        layer = loss.layer(result.decoupling)
        basis = self.fitting.basis
        return (layer if basis is None else fit_basis(layer, basis, self.dtype)).to(self.device), result

    def random_layer(
        self, part: Part, ranks: tuple[int, ...], X: Tensor, F: Tensor, rng: np.random.Generator
    ) -> DecoupledLayer:
        """Random directions with outputs fitted to values F of a part at X."""
        own = self.fitting.basis
        bases: list[AbstractBasis] = [Monomial(d) if own is None else own for d in self._degrees_of(ranks)]
        sizes = (part.inputs.shape[1], *ranks, part.values.shape[1])
        return random_layer(sizes, bases, X, F, self.fitting.outside, rng, self.dtype).to(self.device)

    def _degrees_of(self, ranks: tuple[int, ...]) -> tuple[int, ...]:
        return self.degrees * len(ranks) if len(self.degrees) == 1 else self.degrees

    def train(self, part: Part, layer: DecoupledLayer) -> DecoupledLayer:
        """Train a layer to do what its part does, without labels."""
        options = self.training.of_one_layer
        if options is None or self.clock.stopped:
            return layer
        trained_last = self.joint is None and self.training.fine_tune is None
        mixup = options.mixup if part.field.exact else 0.0
        return refine(
            layer,
            part.function,
            part.inputs,
            self.clock.limit(dataclasses.replace(options, loss=self.loss(part), mixup=mixup)),
            values=part.values,
            n_bits=self.training.quantize if trained_last else None,
            rng=self.rng,
            progress=self.clock.stage(f"refining {part.name}"),
        )

    def loss(self, part: Part) -> Loss:
        """What training matches: the classes, where the largest output of the part is the largest of the network."""
        options = self.training.of_one_layer
        if options is not None and options.loss is not None:
            return options.loss
        outputs, values = self.outputs, part.values
        if not self.task.in_classes or outputs is None or outputs.shape != values.shape:
            return "squared"
        return "kl" if bool((outputs.argmax(1) == values.argmax(1)).all()) else "squared"

    # All parts

    def replace_parts(self, ranks: Sequence[tuple[int, ...]]) -> Candidate:
        """Replace every part in its turn; after Ctrl-C those that were not reached stay as they are."""
        network, replaced = self.network, []
        for k, (name, own) in enumerate(zip(self.names, ranks, strict=True)):
            self.clock.reserve_stages(len(self.names) - k + (self.joint is not None))
            part = self.carve(network, name)
            samples = self.sample(part)
            layer, result = self.fit(part, samples, own)
            network = part.place(self.train(part, layer))
            replaced.append(ReplacedPart(part, result))
            if self.clock.stopped:
                break
        return self.finish(network, replaced)

    def finish(self, network: nn.Module, replaced: list[ReplacedPart]) -> Candidate:
        """Train the new layers together, with labels if there are any, and round them; the network is changed."""
        layers = [one.layer(network) for one in replaced]
        if self.joint is not None and not self.clock.stopped:
            assert self.outputs is not None
            self.clock.reserve_stages(1)
            how = dataclasses.replace(self.joint, loss=self.joint.loss or ("kl" if self.task.in_classes else "squared"))
            how, progress = self.clock.limit(how), self.clock.stage("distilling together")
            distil_jointly(network, layers, self.split.fitted, self.outputs, how, self.rng, progress)
        fine_tune = self.training.fine_tune
        if fine_tune is not None and not self.clock.stopped:
            progress = self.clock.stage("fine-tuning")
            train_with_labels(network, layers, fine_tune, self.rng, self.dtype, self.device, progress)
        if self.training.quantize is not None:
            for layer in layers:
                unpack(layer, pack(layer, self.training.quantize))
        network.zero_grad()
        return Candidate(network, replaced, score_of(self.score, network))

    # What came of it

    def measure(self, network: nn.Module, replaced: ReplacedPart) -> PartReport:
        """A part before and after, on inputs that were held out, as the new network gives them."""
        part, layer, n_bits = replaced.part, replaced.layer(network), self.training.quantize
        there = Carved(network, part.carved.path)
        fresh, got, *_ = collect_vectors(there, part.field, self.split.judged, self.rng)
        batches = (fresh[rows].to(self.device, self.dtype) for rows in chunks(len(fresh), _VALUES_BATCH))
        wanted = torch.cat([values_of(part.function, batch, "parts").cpu() for batch in batches])
        count = max(1, LATENCY_BATCH // part.n_positions)
        arrays = part.arrays.to(self.device, self.dtype)
        batch = arrays.repeat(-(-count // len(arrays)), *[1] * (arrays.ndim - 1))[:count]
        per_vector = multiply_adds(layer, part.inputs[:1].to(self.device, self.dtype)) or 0
        return PartReport(
            name=part.name,
            receptive_field=part.field.in_words,
            ranks=layer.ranks,
            parameters=(count_parameters(part.carved.part), count_parameters(layer)),
            multiply_adds=(multiply_adds(part.carved.part, arrays), part.n_positions * per_vector),
            stored_bytes=(
                stored_bytes(part.carved.part, self.short_types),
                stored_bytes(layer) if n_bits is None else n_bytes(pack(layer, n_bits)),
            ),
            latency=latency((part.carved.part, freeze(there.part)), batch),
            relative_error=relative_error(got, wanted),
            outside=_share_outside(layer, fresh),
            lam=float("nan") if replaced.result is None else replaced.result.lam,
        )


def _share_outside(layer: DecoupledLayer, vectors: Tensor) -> float:
    """Share of arguments of functions beyond their domains."""
    total, count = 0, 0
    z = vectors.to(layer.W[0].device, layer.W[0].dtype)
    with torch.no_grad():
        for l in range(layer.n_layers):
            u = z @ layer.W[l].T
            low, high = layer.domain(l).unbind(1)
            total += int(((u < low) | (u > high)).sum())
            count += u.numel()
            z = layer.functions(l, u)
    return total / count
