r"""Samples as solvers want them, prepared once: ranges, units, sizes, rounding, and the data in standard units.

`PreparedSamples.of(samples)` is shared: as long as one is alive, whoever asks for the same samples gets the same one.
So the fits of a scan share what they need of their samples, and nothing stays in memory after the last of them.

Standard units are the coordinates in which solvers work, so that answers do not depend on units, origin and axes.
Inputs are centred, and whitened if they are few and their correlations allow it, so that the objective measures J times
the standard deviation of the inputs. Otherwise each input is divided by its standard deviation. Outputs are centred and
divided by their standard deviations. The axes of whitened inputs are the directions along which the function varies
most, in decreasing order. For x -> A x + b the standard inputs, and with them the start values, are the same.

Everything is a reduction over portions of the samples, of which data in memory have one or a few. Singular values come
from triangles: a QR of tall tables, portion by portion, keeps them to the same digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ...model._units import Units
from ...samples._portions import AbstractData, HeldData, Join, Portion, Task
from ...samples._samples import Samples
from ._weighted_rows import (
    MAX_DERIVATIVES,
    Rows,
    RowScaling,
    mean_of_sums,
    sample_factors,
    weighted_squares,
    weighted_sums,
)

_shared: WeakKeyDictionary[Samples, dict[tuple[bool, bool], ref[PreparedSamples]]] = WeakKeyDictionary()
WHITEN_UP_TO = 64  # inputs
_LEAST_FLOOR = 1e-20  # a relative squared error: ten digits, for data that fill their range
ROUNDING = 1e-8  # of the spread: residuals that are smaller are none
ROUNDINGS = 30.0  # errors of this many roundings of one number are expected
_CORRELATED = 1e-3  # if the ratio of smallest to largest singular value is below, inputs are scaled one by one
_NO_SPREAD = 1e-13  # of the largest entry of a column: it is constant
_NO_SLOPE = 1e-13  # of the largest slope: the function does not depend on this direction
_COMPRESS_FROM = 8  # inputs; fewer are not worth a search for their row space
_FIRST_SKETCH = 32  # random combinations of the rows of all Jacobians
_INDEPENDENT = 1e-8  # of the mean eigenvalue of a Gram matrix: all of them are above


class PreparedSamples:
    """Samples, the units that solvers work in, and what solvers ask of the data; each computed when first needed.

    Attributes
    ----------
    samples
        The data as given, in memory or in a store.
    standard
        Whether units are standard ones; otherwise the given ones.
    """

    def __init__(self, samples: Samples, *, standard: bool, compress: bool, units: Units | None = None) -> None:
        self.samples, self.standard, self._compress, self._known_units = samples, standard, compress, units

    @classmethod
    def of(cls, samples: Samples, *, standard: bool = True, compress: bool = True) -> PreparedSamples:
        """The samples in their units, shared by all who ask while anybody holds them.

        With `compress`, inputs are compressed if that loses nothing, and directions without any slope are left out.
        """
        made = _shared.setdefault(samples, {})
        found = made[standard, compress]() if (standard, compress) in made else None
        if found is None:
            found = cls(samples, standard=standard, compress=compress)
            made[standard, compress] = ref(found)
        return found

    @classmethod
    def in_units(cls, samples: Samples, units: Units, *, standard: bool) -> PreparedSamples:
        """The samples in units that are known: those of more samples than these, or the given ones."""
        return cls(samples, standard=standard, compress=False, units=units)

    def with_sample_weights(self) -> PreparedSamples:
        """The same data in the same units, with one weight per sample in place of weights that differ by output."""
        samples = self.samples
        data = HeldData(samples.X, samples.F, samples.J, sample_factors(samples.weights))
        other = self.in_units(Samples.stored(data), self.units, standard=self.standard)
        vars(other).update(X=self.X, F=self.F, J=self.J)  # the arrays are shared, not computed again
        return other

    def without_arrays(self) -> PreparedSamples:
        """The same samples in the same units, for whoever should not keep the arrays in these units alive."""
        return self.in_units(self.samples, self.units, standard=self.standard)

    # Small things

    @cached_property
    def ranges(self) -> Ranges:
        return Ranges.of(self.samples.data)

    @property
    def rounding_floor(self) -> float:
        """Relative squared errors up to this are rounding of the data."""
        return self.ranges.rounding_floor

    @cached_property
    def _units_and_sizes(self) -> tuple[Units, Sizes]:
        """The units without compression of the inputs, and the sizes of the data in them."""
        data, ranges, (_, n, m) = self.samples.data, self.ranges, self.samples.data.shape
        units = self._known_units
        if units is None and self.standard:
            units = standard_units(data, ranges, every_direction=not self._compress)
        units = units or Units.given(m, n)
        skew, *squares = data.reduce(sizes_task, units, ranges.fitted_mean_F)
        if self._known_units is None and self.standard and m <= WHITEN_UP_TO:
            # An axis and its negative are told apart by the third moment.
            units = units.rotated(np.diag(np.where(skew < 0.0, -1.0, 1.0)))
        return units, Sizes(*(float(square[0]) for square in squares))

    @property
    def sizes(self) -> Sizes:
        """Weighted squares of the data in these units."""
        return self._units_and_sizes[1]

    @property
    def full_units(self) -> Units:
        """The units without compression of the inputs."""
        return self._units_and_sizes[0] if self._known_units is None else self._known_units

    @cached_property
    def units(self) -> Units:
        """What turns models of the data in these units into models of the given data."""
        has_leading_axes = self.standard and self.samples.n_inputs <= WHITEN_UP_TO
        if has_leading_axes or not self._compress:
            return self.full_units
        return compressed_units(self.samples.data, self.full_units)

    def row_scaling(self, lam: float) -> RowScaling:
        """Factors with which squared residuals of all rows add up to the scale-free objective.

        ||J - J_hat||^2 / ||J||^2 + lam ||F - F_hat||^2 / ||F - mean F||^2; with one kind of data its factor is 1.
        """
        size_F = np.sqrt(self.sizes.spread_F) or np.sqrt(self.sizes.F) or 1.0
        factor_F = np.sqrt(lam if self.samples.has_jacobians else 1.0) / size_F
        return RowScaling(float(factor_F), float(1.0 / (np.sqrt(self.sizes.J) or 1.0)))

    def zero_cost(self, scaling: RowScaling) -> float:
        """The objective of the model 0."""
        return scaling.factor_F**2 * self.sizes.F + scaling.factor_J**2 * self.sizes.J

    # Data in these units

    @cached_property
    def X(self) -> Float[ndarray, "S k"]:
        return self.units.points(self.samples.X)

    @cached_property
    def F(self) -> Float[ndarray, "S n"] | None:
        F = self.samples.F
        return F if F is None or self.units.are_given else self.units.values(F)

    @cached_property
    def J(self) -> Float[ndarray, "S n k"] | None:
        J = self.samples.J
        return J if J is None or self.units.are_given else self.units.jacobians(J)

    def rows(self, scaling: RowScaling, max_derivatives: int = MAX_DERIVATIVES) -> Rows:
        """All samples, which are in memory, as the rows of a least-squares problem."""
        return scaling.rows(Portion(0, self.X, self.F, self.J, self.samples.weights), max_derivatives)

    def reduce(
        self,
        task: Task,
        *small: Any,
        join: Join | tuple[Join, ...] = "sum",
        progress: Callable[[], None] | None = None,
    ) -> tuple[ndarray, ...]:
        """Join what `task` returns for every portion of the samples, in these units; see `AbstractData.reduce`."""
        return self.samples.data.reduce(task_in_units, self.units, task, small, join=join, progress=progress)


def task_in_units(portion: Portion, units: Units, task: Task, small: tuple[Any, ...]) -> tuple[ndarray, ...]:
    """What a task returns for a portion in other units."""
    return task(in_units(portion, units), *small)


@dataclass(frozen=True)
class Ranges:
    """Ranges, largest entries and weighted sums over all samples: one pass."""

    low_X: Float[ndarray, " m"]
    high_X: Float[ndarray, " m"]
    low_F: Float[ndarray, " n"]
    largest: dict[str, float]  # absolute entry of X, F, J and weights, as far as they are known
    total_weight: float
    mean_X: Float[ndarray, " m"]
    mean_F: Float[ndarray, " n"]
    fitted_mean_F: Float[ndarray, " n"]  # the constant that fits F best, also if weights are matrices

    constant_X: Bool[ndarray, " m"]  # inputs that do not vary
    constant_F: Bool[ndarray, " n"]
    rounding_floor: float  # relative squared errors up to this are rounding of the data ...
    slope_floor: float  # ... and of Jacobians, which know nothing of how far from 0 the values are

    @classmethod
    def of(cls, data: AbstractData) -> Ranges:
        joins = ("min", "max", "min", "max", "max", "sum", "sum", "sum", "sum", "sum")
        with np.errstate(over="ignore", invalid="ignore"):  # numbers too large to add up are refused by their size
            low_X, high_X, low_F, high_F, sizes, w, sum_X, sum_F, total, rhs = data.reduce(ranges_task, join=joins)
            means = sum_X / w[0], sum_F / w[0], mean_of_sums(total, rhs)
        names = ("X", "F", "J", "weights")
        known = (True, data.has_values, data.has_jacobians, data.weights_shape is not None)
        largest = {name: float(size) for name, size, there in zip(names, sizes, known, strict=True) if there}
        # Numbers far from 0 have few digits left for what varies: 1e6 +- 1 is known to 1e-10 of its spread.
        constant, stretch, floors = list[ndarray](), 1.0, list[float]()
        for low, high in ((low_X, high_X), (low_F, high_F)):
            size, width = np.maximum(np.abs(low), np.abs(high)), high - low
            constant.append(width <= _NO_SPREAD * size)
            stretch = max(stretch, float(np.max(np.divide(size, width, out=np.ones_like(width), where=width > 0.0))))
            floors.append(max(_LEAST_FLOOR, (ROUNDINGS * stretch * float(np.finfo(float).eps)) ** 2))
        of_slopes, floor = floors
        constant_X, constant_F = constant
        total_weight = float(w[0])
        return cls(low_X, high_X, low_F, largest, total_weight, *means, constant_X, constant_F, floor, of_slopes)


@dataclass(frozen=True)
class Sizes:
    """Weighted squares of all data, in the units of the solver."""

    spread_F: float  # ||F - mean F||^2
    F: float  # ||F||^2
    J: float  # ||J||^2


def standard_units(data: AbstractData, ranges: Ranges, *, every_direction: bool) -> Units:
    """Standard units, without directions that the function does not depend on unless every one is asked for."""
    _, n, m = data.shape
    total, whitens = ranges.total_weight, m <= WHITEN_UP_TO

    # Inputs: T maps centred inputs to standard ones, and `back` maps these back.
    centre = np.where(ranges.constant_X, ranges.low_X, ranges.mean_X)
    y_centre = np.where(ranges.constant_F, ranges.low_F, ranges.mean_F)
    table, power = data.reduce(spread_task, centre, y_centre, whitens, join=("qr" if whitens else "sum", "sum"))
    table = table / np.sqrt(total) if whitens else np.diag(np.sqrt(table / total))
    spread = np.sqrt(np.sum(table**2, axis=0))
    varies = ~ranges.constant_X & (spread > 0.0)
    spread = np.where(varies, spread, 1.0)
    T, back = np.diag(1.0 / spread), np.diag(spread)
    if whitens and np.count_nonzero(varies) > 1:
        _, sizes, Vt = np.linalg.svd((table / spread)[:, varies], full_matrices=False)
        if len(sizes) == len(Vt) and sizes[-1] > _CORRELATED * sizes[0]:
            T[np.ix_(varies, varies)] = Vt.T / sizes / spread[varies][:, None]
            back[np.ix_(varies, varies)] = sizes[:, None] * Vt * spread[varies]

    # Outputs. If weights differ between them, they keep their place and share one scale: means over different samples
    # would ask for constants that the last layer may not reach.
    if data.has_values:
        power = np.where(ranges.constant_F, 0.0, power / total)
    else:
        y_centre, power = np.zeros(n), data.reduce(slope_power_task, back)[0] / total
    if data.weights_shape:
        y_centre, power = np.zeros(n), np.full(n, power.mean())
    units = Units(centre, T, back, y_centre, np.where(power > 0.0, np.sqrt(power), 1.0))
    if not whitens:
        return units

    # Axes: by the slopes along them, or by the values at points far out on them.
    if not data.has_jacobians:
        (gram,) = data.reduce(weighted_gram_task, units)
        return units.rotated(np.linalg.eigh(gram)[1][:, ::-1])
    (triangle,) = data.reduce(slopes_task, units, join="qr")
    _, sizes, Vt = np.linalg.svd(triangle, full_matrices=True)
    sizes = np.concatenate([sizes, np.zeros(m - len(sizes))])
    matters = sizes > _no_slope(data) * sizes[0]
    return units.rotated(Vt[: m if every_direction else max(1, np.count_nonzero(matters))].T)


def compressed_units(data: AbstractData, units: Units) -> Units:
    """Inputs in coordinates of the space that all rows of all Jacobians span, if its dimension is at most half of m.

    With an orthonormal basis U of it, J U and X U take the place of J and X, and W_0 = W_0' U^T afterwards. Random
    combinations of the rows span the same space once there are enough of them, and show that they were not enough by
    being independent. So few combinations find a small space, and a large one is given up cheaply.
    """
    k, count = units.T.shape[1], _FIRST_SKETCH
    if not data.has_jacobians or k < _COMPRESS_FROM:
        return units
    while True:
        count = min(count, k // 2 + 1)
        (sketch,) = data.reduce(sketch_task, units, count)
        gram = sketch @ sketch.T
        try:
            np.linalg.cholesky(gram - _INDEPENDENT * np.trace(gram) / len(gram) * np.eye(len(gram)))
        except np.linalg.LinAlgError:
            break
        if count == k // 2 + 1:
            return units
        count *= 4
    tolerance = _no_slope(data)
    _, sizes, Vt = np.linalg.svd(sketch, full_matrices=False)
    U = Vt[: max(1, int(np.count_nonzero(sizes > sizes[0] * tolerance)))].T
    if 2 * U.shape[1] > k:
        return units
    missed, size = data.reduce(missed_task, units, U)
    return units.rotated(U) if missed[0] <= tolerance**2 * size[0] else units


def _no_slope(data: AbstractData) -> float:
    """The relative size of slopes that are rounding, of the precision in which Jacobians are stored."""
    return max(_NO_SLOPE, 10.0 * float(np.finfo(data.dtype).eps) if data.dtype.kind == "f" else 0.0)


def in_units(portion: Portion, units: Units) -> Portion:
    """The same samples in other units."""
    if units.are_given:
        return portion
    F = None if portion.F is None else units.values(portion.F)
    J = None if portion.J is None else units.jacobians(portion.J)
    return Portion(portion.first, units.points(portion.X), F, J, portion.weights)


# Tasks


def _factors(portion: Portion) -> Float[ndarray, " S"]:
    factors = sample_factors(portion.weights)
    return np.ones(len(portion)) if factors is None else factors


def ranges_task(portion: Portion) -> tuple[ndarray, ...]:
    """Ranges, largest entries and weighted sums."""
    w, X = _factors(portion), portion.X
    F = np.zeros((len(portion), 1)) if portion.F is None else portion.F
    arrays = (X, portion.F, portion.J, portion.weights)
    sizes = np.array([0.0 if array is None else np.max(np.abs(array)) for array in arrays])
    total, rhs = weighted_sums(F, w if portion.F is None else portion.weights)
    ranges = X.min(axis=0), X.max(axis=0), F.min(axis=0), F.max(axis=0)
    return *ranges, sizes, np.array([w.sum()]), w @ X, w @ F, total, rhs


def spread_task(portion: Portion, centre: ndarray, y_centre: ndarray, whitens: bool) -> tuple[ndarray, ...]:
    """Centred points as a tall table, or their squares; squares of centred values."""
    w, X = _factors(portion), portion.X - centre
    F = np.zeros((len(portion), 1)) if portion.F is None else portion.F - y_centre
    return (np.sqrt(w)[:, None] * X if whitens else w @ X**2), w @ F**2


def slope_power_task(portion: Portion, back: ndarray) -> tuple[ndarray]:
    """Squares of the Jacobians of each output, times the standard deviation of the inputs."""
    assert portion.J is not None
    return (np.einsum("s,snk->n", _factors(portion), (portion.J @ back.T) ** 2),)


def slopes_task(portion: Portion, units: Units) -> tuple[ndarray]:
    """All rows of all standard Jacobians as a tall table."""
    assert portion.J is not None
    J = np.sqrt(_factors(portion))[:, None, None] * units.jacobians(portion.J)
    return (J.reshape(-1, J.shape[2]),)


def weighted_gram_task(portion: Portion, units: Units) -> tuple[ndarray]:
    """Sum of x x^T, each point by the squares of its values."""
    assert portion.F is not None
    X = units.points(portion.X)
    power = _factors(portion) * np.sum(units.values(portion.F) ** 2, axis=1)
    return ((X * power[:, None]).T @ X,)


def sizes_task(portion: Portion, units: Units, mean_F: ndarray) -> tuple[ndarray, ...]:
    """Weighted cubes of points; squares of centred values, of values and of Jacobians."""
    some = in_units(portion, units)
    spread_F = size_F = size_J = np.zeros(1)
    if portion.F is not None and some.F is not None:
        shifted = (portion.F - mean_F) / units.y_scale
        spread_F, size_F = (weighted_squares(table[None], portion.weights) for table in (shifted, some.F))
    if some.J is not None:
        size_J = weighted_squares(some.J[None], portion.weights)
    return _factors(portion) @ some.X**3, spread_F, size_F, size_J


def sketch_task(portion: Portion, units: Units, count: int) -> tuple[ndarray]:
    """Random combinations of all rows of all Jacobians."""
    J = in_units(portion, units).J
    assert J is not None
    rows = J.reshape(-1, J.shape[2])
    return (np.random.default_rng(portion.first).normal(size=(len(rows), count)).T @ rows,)


def missed_task(portion: Portion, units: Units, U: Float[ndarray, "k q"]) -> tuple[ndarray, ndarray]:
    """Squares of what of the Jacobians lies outside the space of U, and of the Jacobians."""
    J = in_units(portion, units).J
    assert J is not None
    return np.array([np.sum((J - (J @ U) @ U.T) ** 2)]), np.array([np.sum(J**2)])
