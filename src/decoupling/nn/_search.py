"""From ranks to networks: decouple, refine, train with labels, rate; and the fewest functions that will do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from .._support._errors import DecouplingWarning, InputError
from .._support._interrupts import INTERRUPTED
from ..fit._decouple import decouple
from ..fit._result import Result
from ..samples._samples import Samples
from ..solvers import AbstractSolver, Proj, TwoStage
from ._fine_tune import FineTune, train_with_labels
from ._layer import DecoupledLayer
from ._place import Place
from ._refine import refine as refine_layer
from ._report import count_parameters
from ._score import InPlace, Score, rated

Loss = Literal["kl", "squared"]


@dataclass(frozen=True)
class Candidate:
    """A network, what is new in it, how that was found, and the score of the network."""

    network: nn.Module
    layer: DecoupledLayer
    result: Result
    score: float

    @property
    def order(self) -> float:
        """The score, with numbers in the place of what is none."""
        return -np.inf if np.isnan(self.score) else self.score


class Watch:
    """Progress of the stages, one after the other, that remembers whether Ctrl-C was pressed in one of them."""

    def __init__(self, report: Callable[..., None], silent: bool) -> None:
        self._report = report
        self._silent = silent
        self.stopped = False

    def stage(self, name: str) -> bool | Callable[..., None]:
        """What a stage takes as `progress`."""

        def report(stage: str = "", **values: Any) -> None:
            try:
                self._report(stage=f"{name}, {stage}" if stage else name, **values)
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
        The part, as a function of vectors, and all of its inputs, `points`.
    samples
        Values and Jacobians of the part at some of them.
    solver
        By default the paper's two stages around PROJ, with the score of the network.
    loss
        What refining matches, or None for none.
    """

    place: Place
    part: nn.Module
    points: Tensor
    samples: Samples
    degrees: tuple[int, ...]
    solver: AbstractSolver | None
    score: Score
    loss: Loss | None
    fine_tune: FineTune | None
    watch: Watch

    def run(self, ranks: tuple[int, ...], rng: np.random.Generator) -> Candidate:
        """One decoupling, trained as far as that is wanted, in its place."""
        L, watch = len(ranks), self.watch
        result = decouple(
            self.samples,
            ranks,
            self.degrees * L if len(self.degrees) == 1 else self.degrees,
            solver=(self.solver or self._default_solver()).judged_by(InPlace(self.score, self.place)),
            as_given=True,
            rng=rng,
            progress=watch.stage("decoupling"),
        )
        if watch.stopped:
            warnings.warn(INTERRUPTED, DecouplingWarning, stacklevel=3)
        layer = self.place.layer(result.decoupling).to(self.place.device)
        if self.loss is not None and not watch.stopped:
            layer = refine_layer(
                layer, self.part, self.points, loss=self.loss, rng=rng, progress=watch.stage("refining")
            )
        network = self.place.network(layer)
        if self.fine_tune is not None and not watch.stopped:
            place, shown = self.place, watch.stage("fine-tuning")
            train_with_labels(network, layer, self.fine_tune, rng, place.dtype, place.device, shown)
        network.zero_grad()
        return Candidate(network, layer, result, rated(self.score, network))

    def smallest(self, before: float, max_drop: float, rng: np.random.Generator) -> Candidate:
        """The fewest functions whose drop is acceptable, or the best that is smaller than the part."""
        n, m = self.samples.n_outputs, self.samples.n_inputs
        allowed = count_parameters(self.part)
        most = (allowed - 1) // (m + n + self.degrees[0] + 1)
        if most < 1:
            raise InputError(
                f"`part` has {allowed} parameters, fewer than any decoupling with {m} inputs and {n} outputs: there is "
                "nothing to save. Name a larger part."
            )
        failed, rank = 0, min(max(1, n // 2), most)
        best = found = self.run((rank,), rng)
        while not before - found.score <= max_drop:
            best = max(best, found, key=lambda one: one.order)
            if rank == most or self.watch.stopped:
                return best
            failed, rank = rank, min(most, max(rank + 1, round(1.5 * rank)))
            found = self.run((rank,), rng)
        while rank - failed > 1 and not self.watch.stopped:
            middle = (failed + rank) // 2
            fewer = self.run((middle,), rng)
            if before - fewer.score <= max_drop:
                rank, found = middle, fewer
            else:
                failed = middle
        return found

    def _default_solver(self) -> AbstractSolver:
        inner = Proj(min_steps=15, max_steps=50, patience=20)
        return TwoStage(inner)
