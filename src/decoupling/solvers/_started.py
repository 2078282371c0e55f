"""What alternating solvers have in common as options: where they start and for how many steps they go."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..model._decoupling import Decoupling
from ._abstract import AbstractSolver

_STARTS = 8


class AbstractStartedSolver(AbstractSolver):
    """A dataclass with the fields `start`, a distribution or a model, and `max_steps`."""

    start: Any
    max_steps: int

    @property
    def default_n_starts(self) -> int:
        return _STARTS

    @property
    def given_start(self) -> Decoupling | None:
        return self.start if isinstance(self.start, Decoupling) else None

    def started_at(self, model: Decoupling, *, max_steps: int | None = None) -> AbstractStartedSolver:
        steps = self.max_steps if max_steps is None else min(max_steps, self.max_steps)
        return dataclasses.replace(self, start=model, max_steps=steps)  # type: ignore[type-var]
