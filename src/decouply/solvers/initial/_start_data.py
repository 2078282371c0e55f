"""What a structured start is read from, and how long it may take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._time_limit import now
from ..problem._weighted_rows import Rows

_SMALLEST_SAMPLE = 1e-6  # of the mean, for a sample that is nearly 0


@dataclass(frozen=True)
class StartData:
    """Points with values or Jacobians or both."""

    X: Float[ndarray, "S m"]
    F: Float[ndarray, "S n"] | None
    J: Float[ndarray, "S n m"] | None

    @classmethod
    def of(cls, rows: Rows) -> StartData:
        """What the rows were before they were weighted."""
        o = int(rows.values)
        Y = rows.Y / np.where(rows.weights > 0.0, rows.weights, 1.0)[..., None]
        return cls(rows.X, Y[:, 0] if rows.values else None, Y[:, o:].mT if rows.jacobians else None)

    def rows(self) -> Rows:
        """Rows in which every sample counts: polynomials of high degree are large in few corners only."""
        parts = [] if self.F is None else [(self.F - self.F.mean(axis=0))[:, None]]
        parts += [] if self.J is None else [self.J.mT]
        powers = [np.sum(part**2, axis=(1, 2)) for part in parts]
        size = sum(power / (power.sum() or 1.0) for power in powers)
        factor = (size / (np.mean(size) or 1.0) + _SMALLEST_SAMPLE) ** -0.25
        weights = [
            np.repeat(factor[:, None] / (np.sqrt(factor**2 @ power) or 1.0), part.shape[1], axis=1)
            for part, power in zip(parts, powers, strict=True)
        ]
        if self.F is not None:
            parts[0] = self.F[:, None]
        table = np.concatenate(weights, axis=1)
        Y = np.concatenate(parts, axis=1) * table[..., None]
        return Rows(self.X, Y, table, self.F is not None, self.J is not None)


@dataclass(frozen=True)
class Budget:
    """When to give up, and whom to tell."""

    deadline: float
    progress: Callable[[float], None]

    def is_over(self) -> bool:
        return now() > self.deadline
