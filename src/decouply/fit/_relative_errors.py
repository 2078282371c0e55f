"""How far a model is from samples, in numbers that shapes can be compared by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..model._decoupling import Decoupling
from ..model._units import Units
from ..samples._samples import Samples
from ..solvers.problem._prepared_samples import PreparedSamples
from ..solvers.problem._weighted_rows import weighted_mean, weighted_squares

_BLOCK_ENTRIES = 250_000  # numbers of Jacobians at a time: 2 MB


@dataclass(frozen=True, eq=False)
class Measure:
    """Relative squared errors in standard units, weighted like the samples.

    Those of Jacobians are relative to their size, those of values to their standard deviation.
    """

    units: Units
    sizes: tuple[float, ...]
    counts: tuple[float, ...]

    @classmethod
    def of(cls, samples: Samples, *, standard: bool = True) -> Measure:
        """Of the samples in standard units, or in those that they have."""
        units = PreparedSamples.of(samples, standard=standard).full_units
        weights = samples.weights
        # The share of the numbers that weights let count.
        share = 1.0 if weights is None or weights.ndim == 1 else float(np.mean(weights > 0.0))
        sizes, counts = [], []
        if samples.J is not None:
            sizes.append(_jacobian_square(units, samples, None) or 1.0)
            counts.append(share * samples.J.size)
        if samples.F is not None:
            spread = (samples.F - weighted_mean(samples.F, samples.weights)) / units.y_scale
            sizes.append(_square(spread, samples) or _square(samples.F / units.y_scale, samples) or 1.0)
            counts.append(share * samples.F.size)
        return cls(units, tuple(sizes), tuple(counts))

    def error(self, model: Decoupling, samples: Samples) -> float:
        """The root of the mean of the relative squared errors."""
        return float(np.sqrt(np.mean(self.squares(model, samples))))

    def squares(self, model: Decoupling, samples: Samples) -> tuple[float, ...]:
        """One number per term; infinite if the model is not a number."""
        sums = []
        with np.errstate(all="ignore"):
            if samples.J is not None:
                sums.append(_jacobian_square(self.units, samples, model))
            if samples.F is not None:
                sums.append(_square((samples.F - model.values(samples.X)) / self.units.y_scale, samples))
        return tuple(s / size if np.isfinite(s) else np.inf for s, size in zip(sums, self.sizes, strict=True))


def _square(table: Float[ndarray, "S *shape"], samples: Samples) -> float:
    return float(weighted_squares(table[None], samples.weights)[0])


def _jacobian_square(units: Units, samples: Samples, model: Decoupling | None) -> float:
    """That of the Jacobians, less those of a model; a block of samples at a time, so that no table as large is made."""
    J = samples.J
    assert isinstance(J, ndarray)
    step, total = max(1, _BLOCK_ENTRIES // (J.shape[1] * J.shape[2])), 0.0
    for rows in (slice(first, first + step) for first in range(0, len(J), step)):
        left = J[rows] if model is None else J[rows] - model.jacobians(samples.X[rows])
        weights = None if samples.weights is None else samples.weights[rows]
        total += float(weighted_squares(units.jacobians(left)[None], weights)[0])
    return total
