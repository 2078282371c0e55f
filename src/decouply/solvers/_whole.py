"""All samples of a problem that are too many to be held, or to be searched, at once.

A search looks at a pilot: some of the samples, drawn at random, in the units of all of them. What it finds is then
compared with all samples, and refined on them, by passes over portions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from ..bases import LayerBasis
from ..model._decoupling import Decoupling
from ..samples._data import Portion
from ..samples._samples import Samples
from ._exact import exact_above
from ._overview import Extent, Frame, Overview
from ._problem import Problem
from ._weighting import weighted_squares


@dataclass(frozen=True)
class Whole:
    """All samples, their units and sizes, and the shape of the model to be found."""

    samples: Samples
    validation: Samples | None
    layers: tuple[LayerBasis, ...]
    linear: bool
    overview: Overview

    @classmethod
    def of(
        cls,
        samples: Samples,
        layers: tuple[LayerBasis, ...],
        validation: Samples | None,
        extent: Extent,
        *,
        linear: bool,
        standard: bool,
    ) -> Whole:
        return cls(samples, validation, layers, linear, Overview.of(samples.data, extent, standard=standard))

    def problem_of(self, pilot: Samples) -> Problem:
        """The problem of a pilot, in the units of all samples."""
        over = self.overview
        return Problem.in_units(over.units, pilot, self.layers, self.validation, self.linear, over.standard)

    @property
    def exact(self) -> float:
        """Relative squared errors up to this are rounding."""
        return exact_above(self.overview.extent.stretch())

    def misfit(self, model: Decoupling, lam: float, samples: Samples, progress: Callable[[], None]) -> float:
        """The mean square of what a model leaves of some samples, in the units and weights of the objective."""
        frame = self.overview.frame(lam)
        cost, weight = samples.data.reduce(misfit_task, model, frame, progress=progress)
        return float(cost[0] / weight[0])


def misfit_task(portion: Portion, model: Decoupling, frame: Frame) -> tuple[ndarray, ndarray]:
    """Weighted squares of residuals, and the sum of the weights."""
    total, units = np.zeros(1), frame.units
    if portion.F is not None:
        left = (portion.F - model.values(portion.X)) / units.y_scale
        total = total + frame.factor_F**2 * weighted_squares(left[None], portion.weights)
    if portion.J is not None:
        left = portion.J - model.jacobians(portion.X)
        left = units.jacobians(left) if frame.standard else left
        total = total + frame.factor_J**2 * weighted_squares(left[None], portion.weights)
    weight = len(portion) if portion.weights is None else np.mean(portion.weights) * len(portion)
    return total, np.array([float(weight)])
