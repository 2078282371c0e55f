"""The shape of a model: how many parameters it has, and how many samples and bytes a search for them takes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...bases import LayerBasis
from ...samples._samples import Samples
from ._weighted_rows import MAX_DERIVATIVES, Rows

# A pilot begins with this many numbers for every free parameter, and at least this many samples; it grows if they
# turn out to be too few.
_NUMBERS_PER_PARAMETER, _MIN_PILOT = 20, 200
# Tables that live at the same time during a search. Of the size of the eliminated design: itself, with the ridge below
# it, Q, and the copy of LAPACK. Of the size of the data: the model, the residual, and its copy in another order. Of the
# derivatives of some samples: themselves, and what is made of them.
_DESIGN_TABLES, _RESIDUAL_TABLES, _DERIVATIVE_TABLES = 4, 3, 2
_DERIVATIVE_SHARE = 0.25  # of a memory limit that the derivatives may take


@dataclass(frozen=True)
class ModelShape:
    """Widths and bases of a model, and whether it has a linear part A x."""

    n_inputs: int
    layers: tuple[LayerBasis, ...]
    n_outputs: int
    linear: bool

    @classmethod
    def of(cls, samples: Samples, layers: tuple[LayerBasis, ...], *, linear: bool) -> ModelShape:
        """The shape of a model of these samples."""
        return cls(samples.n_inputs, layers, samples.n_outputs, linear)

    @property
    def dims(self) -> tuple[int, ...]:
        """Widths from input to output."""
        return (self.n_inputs, *(len(layer.bases) for layer in self.layers), self.n_outputs)

    def n_free(self, *, values: bool) -> int:
        """Weights, coefficients and, if values are known, constants, minus the scalings that change nothing.

        Each function can be scaled in its argument and in its value. If its domain is a parameter (see
        `AbstractBasis.free_domain`), it cannot be scaled in its argument, and the middle of the domain is one more
        parameter. A linear part can take over the straight lines of a single layer.
        """
        dims = self.dims
        total = sum(a * b for a, b in pairwise(dims)) + sum(sum(layer.sizes) for layer in self.layers)
        for layer in self.layers:
            total -= int(np.sum(np.where(layer.free_domain, 0, 2)))
        total += min(dims[-2], self.n_outputs) if values else 0
        if self.linear:
            total += self.n_inputs * self.n_outputs
            lines = [basis.line() is not None for basis in self.layers[0].bases]
            total -= sum(lines) if len(self.layers) == 1 else 0
        return total

    def pilot_size(self, samples: Samples) -> int:
        """How many of these samples a search begins with if they are too many."""
        per_sample = samples.n_numbers // samples.n_samples
        return max(_MIN_PILOT, -(-_NUMBERS_PER_PARAMETER * self.n_free(values=samples.has_values) // per_sample))

    def search_bytes(self, samples: Samples) -> float:
        """Bytes of a search with one start at a time on all samples: the start, and the data in standard units."""
        S, n, m = samples.data.shape
        q = samples.has_values + m * samples.has_jacobians
        return self._start_bytes(S, m, q, n) + 8.0 * S * (2 * m + 3 * q * n)

    def n_starts_within(self, memory: float, rows: Rows) -> int:
        """How many starts fit into memory side by side on these rows, besides the data; at least one."""
        S, q, n = rows.Y.shape
        left = memory - 8.0 * (_DERIVATIVE_TABLES * rows.max_derivatives + rows.X.size + _RESIDUAL_TABLES * rows.Y.size)
        return int(np.clip(left / self._start_bytes(S, rows.X.shape[1], q, n), 1, 2**31))

    def _start_bytes(self, S: int, m: int, q: int, n: int) -> float:
        """Bytes of one start on S samples with m inputs and q rows of n outputs each."""
        last = self.layers[-1]
        columns = 1 + len(last.bases) * last.size + m * self.linear
        tables = sum(len(layer.bases) * (3 * layer.size + 2 * m * (l > 0) + 4) for l, layer in enumerate(self.layers))
        return 8.0 * S * (_DESIGN_TABLES * q * columns + _RESIDUAL_TABLES * q * n + tables)


def max_derivatives_within(memory: float) -> int:
    """How many derivatives are computed at a time so that they take their share of memory at most."""
    return int(np.clip(_DERIVATIVE_SHARE * memory / (8.0 * _DERIVATIVE_TABLES), 1, MAX_DERIVATIVES))
