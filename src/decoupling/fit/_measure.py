"""How far a model is from samples, in numbers that shapes can be compared by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..model._decoupling import Decoupling
from ..model._units import Units
from ..samples._samples import Samples
from ..solvers._standard import standard_units
from ..solvers._weighting import weighted_mean, weighted_squares


@dataclass(frozen=True, eq=False)
class Measure:
    """Relative squared errors in standard units, weighted like the samples.

    Those of Jacobians are relative to their size, those of values to their spread.
    """

    units: Units
    sizes: tuple[float, ...]
    counts: tuple[float, ...]

    @classmethod
    def of(cls, samples: Samples, *, standard: bool = True) -> Measure:
        """Of the samples in standard units, or in those that they have."""
        units = standard_units(samples) if standard else Units.given(samples.n_inputs, samples.n_outputs)
        share = _seen(samples.weights)
        sizes, counts = [], []
        if samples.J is not None:
            assert isinstance(samples.J, ndarray)
            sizes.append(_square(units.jacobians(samples.J), samples) or 1.0)
            counts.append(share * samples.J.size)
        if samples.F is not None:
            spread = (samples.F - weighted_mean(samples.F, samples.weights)) / units.y_scale
            sizes.append(_square(spread, samples) or _square(samples.F / units.y_scale, samples) or 1.0)
            counts.append(share * samples.F.size)
        return cls(units, tuple(sizes), tuple(counts))

    def squares(self, model: Decoupling, samples: Samples) -> tuple[float, ...]:
        """One number per term; infinite where the model is not a number."""
        sums = []
        with np.errstate(all="ignore"):
            if samples.J is not None:
                sums.append(_square(self.units.jacobians(samples.J - model.jacobians(samples.X)), samples))
            if samples.F is not None:
                sums.append(_square((samples.F - model.values(samples.X)) / self.units.y_scale, samples))
        return tuple(s / size if np.isfinite(s) else np.inf for s, size in zip(sums, self.sizes, strict=True))


def _square(table: Float[ndarray, "S *shape"], samples: Samples) -> float:
    return float(weighted_squares(table[None], samples.weights)[0])


def _seen(weights: Float[ndarray, "S *outputs"] | None) -> float:
    """Share of the numbers that weights let count."""
    if weights is None or weights.ndim == 1:
        return 1.0
    if weights.ndim == 2:
        return float(np.mean(weights > 0.0))
    return float(np.mean(np.linalg.matrix_rank(weights, hermitian=True))) / weights.shape[1]
