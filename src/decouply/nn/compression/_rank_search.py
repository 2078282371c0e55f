"""From ranks to networks: decouple, refine, train with labels, rate; and the fewest functions that will do."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
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
from ...solvers import AbstractSolver, Proj, TwoStage
from ...solvers.problem._solver import with_loss
from ..carving._jacobian_sampling import values_of
from ..carving._part import Part
from ..carving._place import Place
from ..layer._decoupled_layer import DecoupledLayer
from ..layer._random_layer import in_basis, random_layer
from ..training._distillation import Distil
from ..training._distillation import refine as refine_layer
from ..training._fine_tune import FineTune, train_with_labels
from ..training._training_inputs import FEW, recombine
from ._report import count_parameters
from ._score import InPlace, Score, rated

_START = 20_000  # inputs from which a random start takes its ranges and its outputs
_SEARCH_SECONDS = 300.0  # after which no more ranks are tried, where nothing else is asked for


@dataclass(frozen=True)
class Candidate:
    """A network, what is new in it, how that was found, and the score of the network."""

    network: nn.Module
    layer: DecoupledLayer
    result: Result | None
    score: float

    @property
    def order(self) -> float:
        """The score, with numbers in the place of what is none."""
        return -np.inf if np.isnan(self.score) else self.score


class Watch:
    """Progress of the stages, one after the other, that remembers whether Ctrl-C was pressed in one of them."""

    def __init__(self, report: Callable[..., None], silent: bool, max_seconds: float | None = None) -> None:
        self._report = report
        self._silent = silent
        self._until = None if max_seconds is None else time.monotonic() + max_seconds
        self._search_until = time.monotonic() + (_SEARCH_SECONDS if max_seconds is None else max_seconds)
        self._stages_left = 1
        self.so_far = ""  # what a search has found, shown with every stage
        self.stopped = False

    def expect(self, n_stages: int) -> None:
        """So many stages of training share the time that is left."""
        self._stages_left = max(1, n_stages)

    @property
    def seconds(self) -> float | None:
        """What the next training may take, if there is a limit."""
        return None if self._until is None else max(1e-3, (self._until - time.monotonic()) / self._stages_left)

    @property
    def search_is_over(self) -> bool:
        """Whether a search should be content with what it has."""
        return self.stopped or time.monotonic() > self._search_until

    def report_reading(self, done: int, total: int) -> None:
        self._report(stage="reading", done=done, total=total)

    def report(self, stage: str, done: int, total: int) -> None:
        """Something that is no stage of its own."""
        self._report(stage=stage, done=done, total=total)

    def stage(self, name: str) -> bool | Callable[..., None]:
        """What a stage takes as `progress`."""

        def report(stage: str = "", **values: Any) -> None:
            try:
                self._report(stage=", ".join(word for word in (name, stage, self.so_far) if word), **values)
            except KeyboardInterrupt:
                self.stopped = True
                raise

        return False if self._silent else report


@dataclass(frozen=True)
class RankSearch:
    """Everything that stays the same while ranks are tried.

    Attributes
    ----------
    place
        Where decouplings go.
    part
        The part, with its inputs and outputs.
    samples
        Values and Jacobians of the part at some of the inputs; None where the start is random.
    degrees, basis
        Of the functions; a basis, where one is given, is taken instead of powers.
    solver
        By default the paper's two stages around PROJ, with the score of the network.
    refine
        How the layer is trained, and what it matches; None where it is not.
    n_bits
        Bits in which it is trained, where nothing else trains it afterwards.
    """

    place: Place
    part: Part
    samples: Samples | None
    degrees: tuple[int, ...]
    basis: AbstractBasis | None
    solver: AbstractSolver | None
    score: Score
    refine: Distil | None
    fine_tune: FineTune | None
    watch: Watch
    n_bits: int | None = None

    def run(self, ranks: tuple[int, ...], rng: np.random.Generator) -> Candidate:
        """One decoupling, trained as far as that is wanted, in its place."""
        watch, part, place = self.watch, self.part, self.place
        layer, result = self._begun(ranks, rng)
        layer = layer.to(place.device)
        if self.refine is not None and not watch.stopped:
            layer = refine_layer(
                layer,
                part.function,
                part.points,
                loss=self.refine.loss or "squared",
                max_steps=self.refine.max_steps,
                batch_size=self.refine.batch_size,
                rate=self.refine.rate,
                recombined=None if part.reach.exact else 0.0,
                values=part.values,
                n_bits=self.n_bits,
                max_seconds=watch.seconds,
                rng=rng,
                progress=watch.stage(f"refining {part.name}"),
            )
        network = place.network(layer)
        if self.fine_tune is not None and not watch.stopped:
            shown = watch.stage("fine-tuning")
            train_with_labels(network, [layer], self.fine_tune, rng, place.dtype, place.device, shown)
        network.zero_grad()
        return Candidate(network, layer, result, rated(self.score, network))

    def _begun(self, ranks: tuple[int, ...], rng: np.random.Generator) -> tuple[DecoupledLayer, Result | None]:
        """A layer to train: from a decoupling of the samples, or from nothing but the ranges of the inputs."""
        if self.samples is None:
            bases = self.bases(ranks)
            sizes = (self.part.points.shape[1], *ranks, self.part.values.shape[1])
            X, F = self._to_begin_with(rng)
            return random_layer(sizes, bases, X, F, self.place.outside, rng, self.place.dtype), None
        result = decouple(
            self.samples,
            ranks,
            self._all_degrees(ranks),
            solver=with_loss(self.solver or self._default_solver(), InPlace(self.score, self.place)),
            as_given=True,
            rng=rng,
            progress=self.watch.stage("decoupling"),
        )
        if self.watch.stopped:
            warnings.warn(INTERRUPTED, DecouplingWarning, stacklevel=4)
        layer = self.place.layer(result.decoupling)
        return layer if self.basis is None else in_basis(layer, self.basis, self.place.dtype), result

    def _to_begin_with(self, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Some inputs and values; with few inputs others made of them, since least squares on few mean little."""
        part = self.part
        some = torch.as_tensor(rng.permutation(len(part.points))[:_START])
        X, F = part.points[some], part.values[some]
        if len(X) >= FEW or not part.reach.exact:
            return X, F
        made = recombine(X, FEW, torch.Generator().manual_seed(int(rng.integers(2**31))))
        asked = made.to(next(part.function.parameters()))
        return torch.cat([X, made]), torch.cat([F, values_of(part.function, asked).to(F)])

    def bases(self, ranks: tuple[int, ...]) -> list[AbstractBasis]:
        """One basis per layer."""
        return [Monomial(d) if self.basis is None else self.basis for d in self._all_degrees(ranks)]

    def _all_degrees(self, ranks: tuple[int, ...]) -> tuple[int, ...]:
        return self.degrees * len(ranks) if len(self.degrees) == 1 else self.degrees

    def smallest(self, before: float, max_drop: float, rng: np.random.Generator) -> Candidate:
        """The fewest functions whose drop is acceptable, or the best that is smaller than the part."""
        m, n = self.part.points.shape[1], self.part.values.shape[1]
        d = self.degrees[0] if self.basis is None else self.basis.size
        allowed = count_parameters(self.part.function)
        most = (allowed - 1) // (m + n + d + 1) if self.samples is not None else (allowed - 1 - n) // (m + n + d)
        if most < 1:
            raise InputError(
                f"`part` has {allowed} parameters, fewer than any decoupling with {m} inputs and {n} outputs: there is "
                "nothing to save. Name a larger part."
            )
        failed, rank = 0, min(max(1, n // 2), most)
        best = found = self._tried(rank, rng)
        while not before - found.score <= max_drop:
            best = max(best, found, key=lambda one: one.order)
            if rank == most or self.watch.search_is_over:
                if rank < most and not self.watch.stopped:
                    self._warn_of_time(rank, most)
                return best
            failed, rank = rank, min(most, max(rank + 1, round(1.5 * rank)))
            found = self._tried(rank, rng)
        while rank - failed > 1 and not self.watch.search_is_over:
            middle = (failed + rank) // 2
            fewer = self._tried(middle, rng)
            if before - fewer.score <= max_drop:
                rank, found = middle, fewer
            else:
                failed = middle
        return found

    def _tried(self, rank: int, rng: np.random.Generator) -> Candidate:
        found = self.run((rank,), rng)
        self.watch.so_far = f"{rank} functions score {found.score:.4g}"
        return found

    def _warn_of_time(self, rank: int, most: int) -> None:
        warnings.warn(
            f"`max_seconds` was reached before a rank within `max_drop` was found: ranks up to {rank} of {most} were "
            "tried, and the best of them is returned. Raise `max_seconds` or `max_drop`, or give `ranks`.",
            DecouplingWarning,
            stacklevel=4,
        )

    def _default_solver(self) -> AbstractSolver:
        inner = Proj(min_steps=15, max_steps=50, patience=20)
        return TwoStage(inner)
