"""Samples as solvers want them, prepared once: ranges, units, sizes, rounding, and the data in these units.

`PreparedSamples.of(samples)` is shared: as long as one is alive, whoever asks for the same samples gets the same one.
So the fits of a scan share what they need of their samples, and nothing stays in memory after the last of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...model._units import Units
from ...samples._portions import HeldData, Join, Portion, Task
from ...samples._samples import Samples
from ._sample_weights import sample_factors
from ._standard_units import WHITEN_UP_TO, Ranges, Sizes, compressed_units, in_units, sizes_task, units_and_sizes
from ._weighted_rows import MAX_DERIVATIVES, Rows, RowScaling

_shared: WeakKeyDictionary[Samples, dict[tuple[bool, bool], ref[PreparedSamples]]] = WeakKeyDictionary()


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
        """The samples in units of their own, shared by all who ask while anybody holds them.

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
        data, ranges = self.samples.data, self.ranges
        if self._known_units is not None:
            _, *squares = data.reduce(sizes_task, self._known_units, ranges.fitted_mean_F)
            return self._known_units, Sizes(*(float(square[0]) for square in squares))
        return units_and_sizes(data, ranges, standard=self.standard, every_direction=not self._compress)

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
