r"""All samples at a glance, wherever they are: ranges, standard units and sizes, in four passes over portions.

The units are those of `_standard`, from triangles instead of long tables: a QR of what portions leave of [X] or [J] has
the same singular values, to the same digits.

All samples of a problem that are too many to be held, or to be searched, at once.

A search looks at a pilot: some of the samples, drawn at random, in the units of all of them. What it finds is then
compared with all samples, and refined on them, by passes over portions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...model._units import Units
from ...samples._portions import AbstractData, Portion
from ...samples._samples import Samples
from ._problem import Problem
from ._rounding import exact_above
from ._sample_weights import by_output, mean_of_sums, root_of, sample_factors, weighted_squares, weighted_sums
from ._standard_units import NO_SPREAD, ROUNDINGS, WHITEN_UP_TO, leading_axes, whitened
from ._weighted_rows import Rows


@dataclass(frozen=True)
class Extent:
    """Ranges and weighted sums over all samples."""

    count: int
    low_X: Float[ndarray, " m"]
    high_X: Float[ndarray, " m"]
    low_F: Float[ndarray, " n"]
    high_F: Float[ndarray, " n"]
    largest_J: float
    weight: float
    sum_X: Float[ndarray, " m"]
    sum_F: Float[ndarray, " n"]
    mean_F: Float[ndarray, " n"]  # weighted by matrices, where weights are such

    @classmethod
    def of(cls, data: AbstractData) -> Extent:
        joins = ("min", "max", "min", "max", "max", "sum", "sum", "sum", "sum", "sum", "sum")
        low_X, high_X, low_F, high_F, J, count, w, sum_X, sum_F, total, rhs = data.reduce(extent_task, join=joins)
        return cls(
            int(count[0]),
            low_X,
            high_X,
            low_F,
            high_F,
            float(J[0]),
            float(w[0]),
            sum_X,
            sum_F,
            mean_of_sums(total, rhs),
        )

    def largest(self, name: str) -> float:
        """The largest absolute entry of X, F or J."""
        if name == "J":
            return self.largest_J
        low, high = (self.low_X, self.high_X) if name == "X" else (self.low_F, self.high_F)
        return float(np.max(np.maximum(np.abs(low), np.abs(high))))

    def stretch(self) -> float:
        """How far numbers are from 0 compared with how much they vary: the worst column of X and F."""
        worst = 1.0
        for low, high in ((self.low_X, self.high_X), (self.low_F, self.high_F)):
            largest, width = np.maximum(np.abs(low), np.abs(high)), high - low
            worst = max(worst, float(np.max(np.divide(largest, width, out=np.ones_like(width), where=width > 0.0))))
        return worst


@dataclass(frozen=True)
class Frame:
    """How samples become rows of the least-squares problem: units, and the factors of values and Jacobians."""

    units: Units
    standard: bool
    factor_F: float
    factor_J: float

    def rows(self, portion: Portion) -> Rows:
        """The rows of some samples, with weights that make squared residuals of all samples add up to the cost."""
        units, mixing = self.units, root_of(portion.weights) if by_output(portion.weights) else None
        S = len(portion)
        root = np.ones(S) if portion.weights is None or mixing is not None else np.sqrt(portion.weights)
        parts, weights = [], []
        if portion.F is not None:
            parts.append((units.values(portion.F) if self.standard else portion.F)[:, None, :])
            weights.append(self.factor_F * root[:, None])
        if portion.J is not None:
            J = units.jacobians(portion.J) if self.standard else portion.J
            parts.append(J.mT)
            weights.append(np.broadcast_to(self.factor_J * root[:, None], (S, J.shape[2])))
        blank = Rows(
            units.points(portion.X),
            np.concatenate(parts, axis=1),
            np.concatenate(weights, axis=1),
            portion.F is not None,
            portion.J is not None,
            mixing,
        )
        return blank.weighted()


@dataclass(frozen=True)
class Overview:
    """What is known of all samples before a search begins."""

    extent: Extent
    units: Units
    standard: bool
    spread_F: float  # weighted ||F - mean F||^2, in these units
    size_F: float  # weighted ||F||^2
    size_J: float  # weighted ||J||^2

    @classmethod
    def of(cls, data: AbstractData, extent: Extent, *, standard: bool) -> Overview:
        _, n, m = data.shape
        units = _standard_units(data, extent) if standard else Units.given(m, n)
        skew, spread_F, size_F, size_J = data.reduce(sizes_task, units, extent.mean_F, standard)
        if standard and m <= WHITEN_UP_TO:
            units = units.rotated(np.diag(np.where(skew < 0.0, -1.0, 1.0)))
        return cls(extent, units, standard, float(spread_F[0]), float(size_F[0]), float(size_J[0]))

    def frame(self, lam: float) -> Frame:
        """Rows whose squares add up to the objective of VarPro; see `Rows.of`."""
        size_F = np.sqrt(self.spread_F) or np.sqrt(self.size_F) or 1.0
        factor_F = np.sqrt(lam if self.size_J > 0.0 else 1.0) / size_F
        return Frame(self.units, self.standard, float(factor_F), 1.0 / (np.sqrt(self.size_J) or 1.0))


def _standard_units(data: AbstractData, extent: Extent) -> Units:
    """As `standard_units`, from passes over portions."""
    _, n, m = data.shape
    total = extent.weight
    low, high = extent.low_X, extent.high_X
    constant = high - low <= NO_SPREAD * np.maximum(np.abs(low), np.abs(high))
    centre = np.where(constant, low, extent.sum_X / total)
    whitens = m <= WHITEN_UP_TO
    F_centre = np.where(extent.high_F > extent.low_F, extent.sum_F / total, extent.low_F)
    table, power = data.reduce(spread_task, centre, F_centre, whitens, join=("qr" if whitens else "sum", "sum"))
    table = table / np.sqrt(total) if whitens else np.diag(np.sqrt(table / total))
    spread = np.sqrt(np.sum(table**2, axis=0))
    spread = np.where(constant | (spread == 0.0), 1.0, spread)
    T, back = whitened(table / spread, spread, ~constant) if whitens else (np.diag(1.0 / spread), np.diag(spread))
    y_centre, power = (F_centre, power / total) if data.has_values else (np.zeros(n), np.zeros(n))
    power = np.where(extent.high_F > extent.low_F, power, 0.0)
    if not data.has_values:
        power = data.reduce(power_task, back)[0] / total
    if data.weights_shape is not None and len(data.weights_shape) > 0:  # see `_standard`: outputs keep their place
        y_centre, power = np.zeros(n), np.full(n, power.mean())
    units = Units(centre, T, back, y_centre, np.where(power > 0.0, np.sqrt(power), 1.0))
    if data.has_jacobians:
        (triangle,) = data.reduce(slopes_task, units, join="qr")
        rounding = ROUNDINGS * float(np.finfo(data.dtype).eps) if data.dtype.kind == "f" else 0.0
        return units.rotated(leading_axes(triangle, rounding))
    if not whitens:
        return units
    (gram,) = data.reduce(power_of_points_task, units)
    return units.rotated(np.linalg.eigh(gram)[1][:, ::-1])


# Tasks


def _factors(portion: Portion) -> Float[ndarray, " S"]:
    factors = sample_factors(portion.weights)
    return np.ones(len(portion)) if factors is None else factors


def extent_task(portion: Portion) -> tuple[ndarray, ...]:
    """Ranges, counts and weighted sums."""
    w, X = _factors(portion), portion.X
    F = np.zeros((len(portion), 1)) if portion.F is None else portion.F
    largest = 0.0 if portion.J is None else np.max(np.abs(portion.J))
    if portion.F is None:
        total, rhs = np.array([w.sum()]), w @ F
    else:
        total, rhs = weighted_sums(F, portion.weights)
    sums = (np.array([len(portion)]), np.array([w.sum()]), w @ X, w @ F, total, rhs)
    return (X.min(axis=0), X.max(axis=0), F.min(axis=0), F.max(axis=0), np.array([largest]), *sums)


def spread_task(portion: Portion, centre: ndarray, F_centre: ndarray, whitens: bool) -> tuple[ndarray, ...]:
    """Centred points as a tall table, or their squares; squares of centred values."""
    w, X = _factors(portion), portion.X - centre
    F = np.zeros((len(portion), 1)) if portion.F is None else portion.F - F_centre
    return (np.sqrt(w)[:, None] * X if whitens else w @ X**2), w @ F**2


def power_task(portion: Portion, back: ndarray) -> tuple[ndarray]:
    """Squares of the Jacobians of each output, times the spread of the inputs."""
    assert portion.J is not None
    return (np.einsum("s,snk->n", _factors(portion), (portion.J @ back.T) ** 2),)


def slopes_task(portion: Portion, units: Units) -> tuple[ndarray]:
    """All rows of all standard Jacobians as a tall table."""
    assert portion.J is not None
    J = np.sqrt(_factors(portion))[:, None, None] * units.jacobians(portion.J)
    return (J.reshape(-1, J.shape[2]),)


def power_of_points_task(portion: Portion, units: Units) -> tuple[ndarray]:
    """Sum of x x^T, each point by the squares of its values."""
    assert portion.F is not None
    X = units.points(portion.X)
    power = _factors(portion) * np.sum(units.values(portion.F) ** 2, axis=1)
    return ((X * power[:, None]).T @ X,)


def sizes_task(portion: Portion, units: Units, mean_F: ndarray, standard: bool) -> tuple[ndarray, ...]:
    """Weighted cubes of standard points; squares of centred values, of values and of Jacobians."""
    skew = _factors(portion) @ units.points(portion.X) ** 3
    spread = size_F = size_J = np.zeros(1)
    if portion.F is not None:
        scale = units.y_scale if standard else 1.0
        shifted = (portion.F - mean_F) / scale
        F = units.values(portion.F) if standard else portion.F
        spread, size_F = (weighted_squares(table[None], portion.weights) for table in (shifted, F))
    if portion.J is not None:
        J = units.jacobians(portion.J) if standard else portion.J
        size_J = weighted_squares(J[None], portion.weights)
    return skew, spread, size_F, size_J


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
