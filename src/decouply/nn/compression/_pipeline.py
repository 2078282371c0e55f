"""One run of `compress`: carve, sample, fit, train and place, part after part. Then finish and measure.

Each part is replaced in the network in which those before it are replaced already.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..._support._errors import DecouplingWarning, InputError
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
from ..carving._part import Part, activations_of, collect_vectors, cut_part
from ..layer._decoupled_layer import DecoupledLayer
from ..layer._frozen import freeze
from ..layer._quantisation import count_parameters, n_bytes, pack, stored_bytes, unpack
from ..layer._random_layer import fit_basis, random_layer
from ..training._candidates import Lesson, Plan, Trained, lesson_of, plan_within, train_best
from ..training._distillation import FEW_INPUTS, Distil, Loss, mixup_inputs, refine
from ..training._network_training import distil_jointly, train_with_labels
from ._evaluation import (
    Decision,
    NetworkLoss,
    PartReport,
    Score,
    Tried,
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
_DEGREE = 4  # of polynomials, where nothing else is asked for
_MANY_INPUTS = 64  # behind more of them, a third layer is not tried
_NUMBERS_OF_A_HINGE = 4  # three coefficients and a middle: a function with one hinge
_ROUNDING_RATE = 0.25  # times the usual rate: the layer is trained already

Size = tuple[int, ...] | int  # functions per layer, or parameters that layers of any number may have together


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
        """Share the time that is left among this many stages of training."""
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
    tried: tuple[Tried, ...] = ()

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
    degrees: tuple[int, ...] | None
    fitting: Fitting
    training: Training
    short_types: frozenset[torch.dtype]
    rng: np.random.Generator
    clock: StageClock
    families: dict[str, Trained] = field(default_factory=dict)  # what won, where other sizes of a part are tried later

    @property
    def like_networks(self) -> bool:
        """Whether layers are trained like networks: functions begin as activations, and no decoupling is asked for."""
        fitting = self.fitting
        chosen = fitting.basis.is_activation if fitting.basis is not None else self.degrees is None
        return (
            chosen
            and fitting.start != "decoupling"
            and fitting.solver is None
            and self.training.of_one_layer is not None
        )

    @property
    def n_coefficients(self) -> int:
        """Numbers of one function of the first layer, without its constant."""
        if self.like_networks:
            return _NUMBERS_OF_A_HINGE
        return self._degrees_of((1,))[0] if self.fitting.basis is None else self.fitting.basis.size

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
        degrees = (_DEGREE,) if self.degrees is None else self.degrees
        return degrees * len(ranks) if len(degrees) == 1 else degrees

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

    # A layer that is trained like a network

    def train_like_network(self, part: Part, size: Size) -> tuple[DecoupledLayer, Result | None, tuple[Tried, ...]]:
        """The layer of this size that is nearest to the part at inputs that were held out, and what else was tried."""
        options = self.training.of_one_layer
        assert options is not None
        loss = self.loss(part)
        how = dataclasses.replace(options, loss=loss, mixup=options.mixup if part.field.exact else 0.0)
        generator = torch.Generator().manual_seed(int(self.rng.integers(2**63 - 1)))
        like = next(part.function.parameters())

        def ask(inputs: Tensor) -> Tensor:
            return values_of(part.function, inputs.to(like)).to(self.device, self.dtype)

        inputs, values = (some.to(self.device, self.dtype) for some in (part.inputs, part.values))
        how = dataclasses.replace(how, weights=self._output_weights(part, how))
        lesson = lesson_of(inputs, values, ask, how, generator, in_classes=loss == "kl")
        few = len(part.inputs) < FEW_INPUTS and self.fitting.basis is None and self.fitting.start == "auto"
        limited = self.clock.limit(how)
        progress = self.clock.stage(f"training {part.name}")
        report = progress if callable(progress) else lambda **_: None
        won = self.families.get(part.name)
        plans = self._plans(part, size, won)
        if won is not None:
            limited = dataclasses.replace(limited, rate=won.rate)
        found = train_best(plans, lesson, limited, generator, report)
        self.families.setdefault(part.name, found[0])
        tried = [(Tried(one.plan.in_words, one.distance), one.layer, None) for one in found]
        if few and not self.clock.stopped:
            tried.append(self._from_decoupling(part, size, lesson, how))
        best = min(tried, key=lambda one: one[0].distance)
        rows = {row.functions: row for row, *_ in sorted(tried, key=lambda one: -one[0].distance)}
        layer, result = best[1], best[2]
        if self.training.quantize is not None and self.joint is None and self.training.fine_tune is None:
            layer = self._round(part, layer, how)
        return layer, result, (best[0], *(row for row in reversed(rows.values()) if row is not best[0]))

    def _plans(self, part: Part, size: Size, won: Trained | None) -> list[Plan]:
        """Plans of a size: the widths that are asked for, or as many functions as the parameters allow."""
        m, n = part.inputs.shape[1], part.values.shape[1]
        bases: list[Any] = [self.fitting.basis] if self.fitting.basis is not None else activations_of(part.function)
        if won is not None:
            plan = (
                plan_within(m, n, int(size), len(won.plan.sizes) - 2, won.plan.basis) if isinstance(size, int) else None
            )
            return [plan or Plan((m, *won.plan.sizes[1:-1], n), won.plan.basis)]
        if not isinstance(size, int):
            return [Plan((m, *size, n), basis) for basis in bases]
        depths = (1, 2) if m > _MANY_INPUTS else (1, 2, 3)
        plans = [plan_within(m, n, size, L, basis) for L in depths for basis in bases]
        return [plan for plan in plans if plan is not None and min(plan.sizes[1:-1]) > 1] or [
            Plan((m, 1, n), basis) for basis in bases[:1]
        ]

    def _from_decoupling(self, part: Part, size: Size, lesson: Lesson, how: Distil) -> Any:
        """A decoupling of values and Jacobians, trained on the inputs that the others were trained on."""
        m, n = part.inputs.shape[1], part.values.shape[1]
        ranks = size if not isinstance(size, int) else (max(1, (size - n) // (m + n + self.n_coefficients)),)
        layer, result = self.fit(part, self.sample(part), ranks)
        given = lesson.inputs.inputs[: lesson.inputs.n_given]
        with warnings.catch_warnings():  # that it went astray, which its distance tells as well
            warnings.simplefilter("ignore", DecouplingWarning)
            progress = self.clock.stage(f"refining {part.name}")
            layer = refine(layer, part.function, given, self.clock.limit(how), rng=self.rng, progress=progress)
        X, F = lesson.held_out
        with torch.no_grad():
            far = float(lesson.of_values(layer(X), F))
        words = f"{' and '.join(map(str, ranks))} polynomials of degree {self._degrees_of((1,))[0]} from a decoupling"
        return Tried(words, far if np.isfinite(far) else np.inf), layer, result

    def _round(self, part: Part, layer: DecoupledLayer, how: Distil) -> DecoupledLayer:
        """Train on, with numbers as they will be stored."""
        options = self.clock.limit(dataclasses.replace(how, rate=_ROUNDING_RATE * how.rate))
        return refine(
            layer,
            part.function,
            part.inputs,
            options,
            values=part.values,
            n_bits=self.training.quantize,
            rng=self.rng,
            progress=self.clock.stage(f"rounding {part.name}"),
        )

    def _output_weights(self, part: Part, how: Distil) -> tuple[float, ...] | None:
        """Weights of outputs: as asked, and in units of the spread of each where these are what the network returns."""
        if how.loss == "kl":
            return None
        squares = part.values.var(dim=0).clamp_min(1e-12 * float(part.values.var(dim=0).max()) + 1e-30)
        alike = self.outputs is not None and self.outputs.shape == part.values.shape
        own = (squares.mean() / squares) if alike else torch.ones_like(squares)
        if how.weights is not None:
            if len(how.weights) != len(own):
                raise InputError(f"`weights` must be {len(own)} numbers, one per output. Got {len(how.weights)}.")
            own = own * torch.tensor(how.weights)
        return tuple(own.tolist())

    def loss(self, part: Part) -> Loss:
        """What training matches: the classes, if the largest output of the part is the largest of the network."""
        options = self.training.of_one_layer
        if options is not None and options.loss is not None:
            return options.loss
        outputs, values = self.outputs, part.values
        if not self.task.in_classes or outputs is None or outputs.shape != values.shape:
            return "squared"
        return "kl" if bool((outputs.argmax(1) == values.argmax(1)).all()) else "squared"

    # All parts

    def replace_part(self, part: Part, size: Size, samples: Samples | None = None) -> tuple[nn.Module, ReplacedPart]:
        """The network with a layer in the place of one part, trained by itself."""
        if self.like_networks:
            layer, result, tried = self.train_like_network(part, size)
            return part.place(layer), ReplacedPart(part, result, tried)
        assert not isinstance(size, int)
        layer, result = self.fit(part, self.sample(part) if samples is None else samples, size)
        return part.place(self.train(part, layer)), ReplacedPart(part, result)

    def replace_parts(self, ranks: Sequence[Size]) -> Candidate:
        """Replace every part in its turn; after Ctrl-C those that were not reached stay as they are."""
        network, replaced = self.network, []
        for k, (name, own) in enumerate(zip(self.names, ranks, strict=True)):
            self.clock.reserve_stages(len(self.names) - k + (self.joint is not None))
            part = self.carve(network, name)
            network, new = self.replace_part(part, own)
            replaced.append(new)
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
            tried=replaced.tried,
        )


def _share_outside(layer: DecoupledLayer, vectors: Tensor) -> float:
    """Share of arguments of functions beyond their domains."""
    total, count = 0, 0
    z = vectors.to(layer.W[0].device, layer.W[0].dtype)
    with torch.no_grad():
        for l in range(layer.n_layers):
            u = z @ layer.W[l].T
            low, high = layer.domain(l).unbind(1)
            total += int(((u < low) | (u > high)).sum()) if layer.domain_follows(l) else 0
            count += u.numel()
            z = layer.functions(l, u)
    return total / count
