"""What a model is fitted to, as the rows of a least-squares problem: data with their weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...samples._portions import Portion
from ._sample_weights import by_output

MAX_DERIVATIVES = 4_000_000  # derivatives computed at a time, unless memory is short
_MAX_DENSE_UNKNOWNS = 1000  # unknowns; beyond this the normal matrix is applied instead of formed ...
_MAX_DENSE_PRODUCTS = 2e10  # ... and also where forming it takes more multiplications than this, about a second


@dataclass(frozen=True)
class Rows:
    """The weighted right-hand side: values first (if known), then Jacobians (if known), for every sample.

    `weights` are the factors of rows; `mixing` holds the roots of the weights, (S, n), where outputs differ.
    `max_derivatives` bounds the number of derivatives that are computed at a time.
    """

    X: Float[ndarray, "S m"]
    Y: Float[ndarray, "S q n"]
    weights: Float[ndarray, "S q"]
    values: bool
    jacobians: bool
    mixing: Float[ndarray, "S n"] | None = None
    max_derivatives: int = MAX_DERIVATIVES

    def balanced(self, factor: float) -> Rows:
        """The same rows with another weight of the values: `factor` times that of before, in squares."""
        weights, Y = self.weights.copy(), self.Y.copy()
        weights[:, 0] *= np.sqrt(factor)
        Y[:, 0] *= np.sqrt(factor)
        return dataclasses.replace(self, weights=weights, Y=Y)

    def weigh(self, table: Float[ndarray, "B N n q s"], part: slice = slice(None)) -> Float[ndarray, "B N n q s"]:
        """Rows of some samples times their weights. The table is used up to save memory: use what is returned."""
        table *= self.weights[part].T
        if self.mixing is not None:
            table *= self.mixing[part].T[:, None]
        return table

    def weigh_rows(self, table: Float[ndarray, "B S q n"]) -> Float[ndarray, "B S q n"]:
        """The same for one number per row and output."""
        table *= self.weights[:, :, None]
        return table if self.mixing is None else table * self.mixing[:, None]

    @cached_property
    def n_numbers(self) -> int:
        """Numbers to fit: those that the weights see."""
        S, q, n = self.Y.shape
        return S * q * n if self.mixing is None else q * int(np.count_nonzero(self.mixing))

    def forms_normal_matrix(self, n_unknowns: int) -> bool:
        """Whether the normal matrix of a start is cheap enough to be formed."""
        return n_unknowns <= _MAX_DENSE_UNKNOWNS and self.Y.size * float(n_unknowns) ** 2 <= _MAX_DENSE_PRODUCTS

    def chunks(self, n_starts: int, n_unknowns: int) -> Iterator[slice]:
        """Samples in portions whose derivatives fit into a bounded amount of memory."""
        S, q, n = self.Y.shape
        step = max(1, self.max_derivatives // max(1, n_starts * q * n * n_unknowns))
        for first in range(0, S, step):
            yield slice(first, first + step)


@dataclass(frozen=True)
class RowScaling:
    """The factors of values and of Jacobians in the rows of a least-squares problem."""

    factor_F: float
    factor_J: float

    def rows(self, portion: Portion, max_derivatives: int = MAX_DERIVATIVES) -> Rows:
        """The rows of samples in the units of the solver."""
        S, root = len(portion), None if portion.weights is None else np.sqrt(portion.weights)
        mixing = root if by_output(portion.weights) else None
        per_sample = np.ones(S) if root is None or mixing is not None else root
        parts, weights = [], []
        if portion.F is not None:
            parts.append(portion.F[:, None, :])
            weights.append(self.factor_F * per_sample[:, None])
        if portion.J is not None:
            parts.append(portion.J.mT)
            weights.append(np.broadcast_to(self.factor_J * per_sample[:, None], (S, portion.J.shape[2])))
        rows = Rows(
            portion.X,
            np.concatenate(parts, axis=1),
            np.concatenate(weights, axis=1),
            portion.F is not None,
            portion.J is not None,
            mixing,
            max_derivatives,
        )
        return dataclasses.replace(rows, Y=rows.weigh_rows(rows.Y[None])[0])
