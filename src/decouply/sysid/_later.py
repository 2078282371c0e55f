"""Normal equations that are made when the first step from them is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..solvers._levenberg import AbstractLinearisation, Dense


@dataclass(frozen=True, eq=False)
class LinearisedLater(AbstractLinearisation):
    """The normal equations of one trial: trials that are rejected cost nothing but their run."""

    make: Callable[[], Dense]

    @cached_property
    def equations(self) -> Dense:
        return self.make()

    def step(self, damping: Float[ndarray, " B"]) -> tuple[Float[ndarray, "B N"], Float[ndarray, " B"]]:
        return self.equations.step(damping)

    def merged(self, better: ndarray, other: AbstractLinearisation) -> AbstractLinearisation:
        return other if better[0] else self

    def take(self, keep: ndarray) -> AbstractLinearisation:  # noqa: ARG002 (one start is never dropped)
        return self


def rejected() -> tuple[Float[ndarray, " 1"], LinearisedLater]:
    """Cost and equations of a trial that cannot be run: infinite, and never asked for."""

    def make() -> Dense:
        raise AssertionError("no step is made from a trial that was rejected")

    return np.array([np.inf]), LinearisedLater(make)
