"""What alternating solvers have in common as options: where they start and when they stop."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...model._decoupling import Decoupling
from ..problem._solver import AbstractSolver
from ._loop import Stopping, WhichIterate

_STARTS = 8


class AbstractStartedSolver(AbstractSolver):
    """A dataclass with the fields `start`, a distribution or a model, and those of `Stopping`."""

    start: Any
    min_steps: int
    max_steps: int
    patience: int
    iterate: WhichIterate = "best"
    max_seconds: float | None

    @property
    def default_n_starts(self) -> int:
        return _STARTS

    @property
    def given_start(self) -> Decoupling | None:
        return self.start if isinstance(self.start, Decoupling) else None

    def with_start(self, model: Decoupling, *, max_steps: int | None = None) -> AbstractStartedSolver:
        steps = self.max_steps if max_steps is None else min(max_steps, self.max_steps)
        return dataclasses.replace(self, start=model, max_steps=steps)  # type: ignore[type-var]

    @property
    def stopping(self) -> Stopping:
        """When a start ends."""
        return Stopping(self.min_steps, self.max_steps, self.patience, self.iterate, self.max_seconds)

    def with_time_limit(self, seconds: float) -> AbstractStartedSolver:
        least = seconds if self.max_seconds is None else min(seconds, self.max_seconds)
        return dataclasses.replace(self, max_seconds=least)  # type: ignore[type-var]
