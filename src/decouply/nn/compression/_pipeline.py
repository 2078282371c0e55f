"""Part after part: each is replaced in the network in which those before it are replaced already."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ...bases import AbstractBasis
from ...fit._result import Result
from ...model._functions import Outside
from ...solvers import AbstractSolver
from ..carving._carve import Carved
from ..carving._data_split import Division, balanced
from ..carving._jacobian_sampling import chunks, sampled, values_of
from ..carving._part import Part, collected, part_of
from ..carving._part_names import Spec
from ..carving._place import Place
from ..carving._receptive_field import Axis
from ..carving._task_type import Decision
from ..layer._decoupled_layer import DecoupledLayer
from ..layer._frozen import freeze
from ..layer._quantisation import n_bytes, pack, stored_bytes, unpack
from ..layer._random_layer import random_layer
from ..training._distillation import Distil, Loss
from ..training._distillation import refine as refine_layer
from ..training._fine_tune import FineTune, train_with_labels
from ..training._joint import distil_jointly
from ._budget import Budget, equal_ranks, price, spread
from ._rank_search import RankSearch, Watch
from ._report import PartReport, count_parameters, latency, multiply_adds
from ._score import Score, outputs_on, relative_error

LATENCY_BATCH = 256  # vectors
_TRIAL = 300  # steps of a trial that measures how much the network minds
_TRIAL_INPUTS = 2000
_FITTED = 20_000  # vectors from which the layers of a trial start


@dataclass(frozen=True, eq=False)
class Replaced:
    """A part, the layer in its place, and how that was found."""

    part: Part
    result: Result | None


@dataclass(frozen=True, eq=False)
class Work:
    """All that is the same for every part."""

    inputs: Division
    outputs: Tensor | None  # of the network that is given, at the inputs to fit
    decision: Decision
    score: Score
    degrees: tuple[int, ...]
    basis: AbstractBasis | None
    start: Literal["random", "decoupling"]
    solver: AbstractSolver | None
    refine: Distil | None
    joint: Distil | None
    fine_tune: FineTune | None
    n_samples: int | None
    n_bits: int | None
    logits: bool
    axis: Axis
    outside: Outside
    dtype: torch.dtype
    short: frozenset[torch.dtype]  # what the network had before it was copied into float32, if that is shorter
    device: torch.device
    rng: np.random.Generator
    watch: Watch

    def part(self, network: nn.Module, spec: Spec) -> Part:
        return part_of(network, spec, self.inputs.fitted, logits=self.logits, axis=self.axis, rng=self.rng)

    def search(self, part: Part, fine_tune: FineTune | None) -> RankSearch:
        """What finds a layer for a part."""
        place_at = part.points.numpy()
        samples = None
        if self.start == "decoupling":
            chosen = self._chosen(part)
            shown = self.watch.stage("sampling")
            samples = sampled("part", part.function, part.points[chosen], None, None, None, shown)
            place_at = samples.X
        place = Place(part.carved, part.reach, place_at, self.outside, self.dtype, self.device)
        how = None if self.refine is None else dataclasses.replace(self.refine, loss=self.loss(part))
        n_bits = self.n_bits if self.joint is None and self.fine_tune is None else None
        return RankSearch(
            place, part, samples, self.degrees, self.basis, self.solver, self.score, how, fine_tune, self.watch, n_bits
        )

    def loss(self, part: Part) -> Loss:
        """What training matches: the classes, where the largest output of the part is the largest of the network."""
        if self.refine is not None and self.refine.loss is not None:
            return self.refine.loss
        outputs, values = self.outputs, part.values
        if not self.decision.in_classes or outputs is None or outputs.shape != values.shape:
            return "squared"
        return "kl" if bool((outputs.argmax(1) == values.argmax(1)).all()) else "squared"

    def _chosen(self, part: Part) -> np.ndarray:
        if part.n_positions == 1:
            shown = part.values if self.outputs is None or self.outputs.ndim != 2 else self.outputs
            in_classes = self.decision.in_classes
            return balanced(shown, self.inputs.labels, self.n_samples, self.rng, in_classes=in_classes)
        return balanced(part.values, None, self.n_samples, self.rng, in_classes=False)

    # Several parts

    def replace_all(
        self, network: nn.Module, specs: Sequence[Spec], ranks: Sequence[tuple[int, ...]]
    ) -> tuple[nn.Module, list[Replaced]]:
        """Every part in its turn; after Ctrl-C those that were not reached stay as they are."""
        done: list[Replaced] = []
        for k, (spec, own) in enumerate(zip(specs, ranks, strict=True)):
            self.watch.expect(len(specs) - k + (self.joint is not None))
            part = self.part(network, spec)
            found = self.search(part, None).run(own, self.rng)
            network = found.network
            done.append(Replaced(part, found.result))
            if self.watch.stopped:
                break
        return network, done

    def finish(self, network: nn.Module, done: Sequence[Replaced]) -> None:
        """Train the new layers together, with labels if there are any, and round them; the network is changed."""
        layers = [layer_at(network, one.part) for one in done]
        if self.joint is not None and not self.watch.stopped:
            self.watch.expect(1)
            self.train_jointly(network, layers, self.watch.stage("distilling together"), self.watch.seconds)
        if self.fine_tune is not None and not self.watch.stopped:
            shown = self.watch.stage("fine-tuning")
            train_with_labels(network, layers, self.fine_tune, self.rng, self.dtype, self.device, shown)
        self.round(layers)
        network.zero_grad()

    def round(self, layers: Sequence[DecoupledLayer]) -> None:
        if self.n_bits is not None:
            for layer in layers:
                unpack(layer, pack(layer, self.n_bits))

    def train_jointly(
        self, network: nn.Module, layers: Sequence[nn.Module], shown: Any, max_seconds: float | None
    ) -> None:
        assert self.joint is not None and self.outputs is not None
        loss = self.joint.loss or ("kl" if self.decision.in_classes else "squared")
        distil_jointly(
            network, layers, self.outputs, self.inputs.fitted, self.joint, loss, self.rng, shown, max_seconds
        )

    def spread(self, network: nn.Module, specs: Sequence[Spec], budget: Budget) -> list[tuple[int, ...]]:
        """Ranks within a budget, by how much the network minds a short trial of every part."""
        parts = [self.part(network, spec) for spec in specs]
        d = self.degrees[0] if self.basis is None else self.basis.size
        prices, before = [], []
        for part in parts:
            n_parameters = count_parameters(part.function)
            sizes = part.points.shape[1], part.values.shape[1], d
            prices.append(price(part.name, budget.unit, sizes, n_parameters, part.n_positions, self.n_bits))
            macs = multiply_adds(part.carved.part, part.arrays.to(self.device))
            cost = {"parameters": n_parameters, "macs": macs, "bytes": stored_bytes(part.carved.part, self.short)}
            before.append(cost[budget.unit])
        total = budget.allows(before)
        even = equal_ranks(prices, total)
        if len(parts) == 1:
            return [(r,) for r in spread(prices, total, [1.0])]
        spread(prices, total, [1.0] * len(parts))  # complain before the trials
        minded = []
        for k, (part, rank) in enumerate(zip(parts, even, strict=True)):
            self.watch.report(f"trying {part.name}, {k + 1} of {len(parts)}", k, len(parts))
            minded.append(rank * self._trial(network, part, rank))
        return [(r,) for r in spread(prices, total, minded)]

    def _trial(self, network: nn.Module, part: Part, rank: int) -> float:
        """Squared relative error of the network's outputs with a layer of this rank, trained for a moment."""
        rng = np.random.default_rng(0)
        search = dataclasses.replace(self, start="random", solver=None).search(part, None)
        basis = search.bases((rank,))
        X, F = part.points[:_FITTED], part.values[:_FITTED]
        sizes = X.shape[1], rank, F.shape[1]
        layer = random_layer(sizes, basis, X, F, self.outside, rng, self.dtype).to(self.device)
        layer = refine_layer(
            layer,
            part.function,
            part.points,
            loss=self.loss(part),
            max_steps=_TRIAL,
            recombined=0.0,
            values=part.values,
            rng=rng,
            progress=False,
        )
        some = self.inputs.fitted[:_TRIAL_INPUTS]
        wanted, got = (outputs_on(one, some) for one in (network, search.place.network(layer)))
        return max(relative_error(got, wanted) ** 2, 1e-12)

    # What came of it

    def row(self, network: nn.Module, one: Replaced) -> PartReport:
        """A part before and after, on inputs that were held out, as the new network gives them."""
        part, layer = one.part, layer_at(network, one.part)
        there = Carved(network, part.carved.path)
        fresh, _, _ = collected(there, part.reach, self.inputs.judged, self.rng)
        wanted, got = (_values(module, fresh, self.dtype, self.device) for module in (part.function, layer))
        count = max(1, LATENCY_BATCH // part.n_positions)
        some = part.arrays.to(self.device, self.dtype)
        batch = some.repeat(-(-count // len(some)), *[1] * (some.ndim - 1))[:count]
        per_vector = multiply_adds(layer, part.points[:1].to(self.device, self.dtype)) or 0
        before = count_parameters(part.carved.part), count_parameters(layer)
        stored = stored_bytes(layer) if self.n_bits is None else n_bytes(pack(layer, self.n_bits))
        return PartReport(
            name=part.name,
            reach=part.reach.in_words,
            ranks=layer.ranks,
            parameters=before,
            multiply_adds=(multiply_adds(part.carved.part, some), part.n_positions * per_vector),
            stored_bytes=(stored_bytes(part.carved.part, self.short), stored),
            latency=latency((part.carved.part, freeze(there.part)), batch),
            relative_error=relative_error(got, wanted),
            outside=_outside(layer, fresh),
            lam=float("nan") if one.result is None else one.result.lam,
        )


def layer_at(network: nn.Module, part: Part) -> DecoupledLayer:
    """The new layer in the place of a part."""
    there = network.get_submodule(part.carved.path)
    return next(module for module in there.modules() if isinstance(module, DecoupledLayer))


def _values(module: nn.Module, points: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    portions = (values_of(module, points[rows].to(device, dtype)).cpu() for rows in chunks(len(points), 2048))
    return torch.cat(list(portions))


def _outside(layer: DecoupledLayer, points: Tensor) -> float:
    """Share of inner inputs beyond the domains of the functions."""
    total, count = 0, 0
    z = points.to(layer.W[0].device, layer.W[0].dtype)
    with torch.no_grad():
        for l in range(layer.n_layers):
            u = z @ layer.W[l].T
            low, high = layer.domain(l).unbind(1)
            total += int(((u < low) | (u > high)).sum())
            count += u.numel()
            z = layer.functions(l, u)
    return total / count
