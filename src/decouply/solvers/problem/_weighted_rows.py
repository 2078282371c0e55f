"""What a model is fitted to, as the rows of a least-squares problem: data with their weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._problem import Problem
from ._sample_weights import by_output, weigh_values, weighted_mean

_UNSEEN = 1e-7  # of the largest singular value of a square root: the weights themselves have its square
MAX_DERIVATIVES = 4_000_000  # derivatives computed at a time, unless memory is short
_DENSE_UP_TO = 1000  # unknowns; beyond this the normal matrix is applied instead of formed ...
_DENSE_PRODUCTS = 2e10  # ... and also where forming it takes more multiplications than this, about a second


@dataclass(frozen=True)
class Rows:
    """The weighted right-hand side: values first (if known), then Jacobians (if known), for every sample.

    `weights` are the factors of rows; `mixing` holds the roots of M_s, (S, n) or (S, n, n), where outputs differ.
    `max_derivatives` bounds the number of derivatives that are computed at a time.
    """

    X: Float[ndarray, "S m"]
    Y: Float[ndarray, "S q n"]
    weights: Float[ndarray, "S q"]
    values: bool
    jacobians: bool
    mixing: Float[ndarray, "S *outputs"] | None = None
    max_derivatives: int = MAX_DERIVATIVES

    @classmethod
    def of(cls, problem: Problem, lam: float, max_derivatives: int = MAX_DERIVATIVES) -> Rows:
        S, n = problem.X.shape[0], problem.samples.n_outputs
        assert isinstance(problem.J, ndarray | None)
        mixing = problem.root if by_output(problem.weights) else None
        root = np.ones(S) if problem.root is None or mixing is not None else problem.root
        parts, weights = [], []
        if problem.F is not None:
            spread = weigh_values(problem.F - weighted_mean(problem.F, problem.weights), problem.root)
            size = float(np.linalg.norm(spread)) or float(np.sqrt(problem.size_F)) or 1.0
            factor = np.sqrt(lam if problem.J is not None else 1.0) / size
            parts.append(problem.F[:, None, :])
            weights.append(factor * root[:, None])
        if problem.J is not None:
            size = float(np.sqrt(problem.size_J)) or 1.0
            parts.append(problem.J.mT)
            weights.append(np.broadcast_to(root[:, None] / size, (S, problem.J.shape[2])))
        stacked = np.concatenate(weights, axis=1)
        given = np.concatenate(parts, axis=1)
        assert given.shape == (S, stacked.shape[1], n)
        blank = cls(problem.X, given, stacked, problem.F is not None, problem.J is not None, mixing, max_derivatives)
        return blank.weighted()

    def weighted(self) -> Rows:
        """The same rows with Y, which is used up, times their weights."""
        return dataclasses.replace(self, Y=self.weigh_rows(self.Y[None])[0])

    def balanced(self, factor: float) -> Rows:
        """The same rows with another weight of the values: `factor` times that of before, in squares."""
        weights, Y = self.weights.copy(), self.Y.copy()
        weights[:, 0] *= np.sqrt(factor)
        Y[:, 0] *= np.sqrt(factor)
        return dataclasses.replace(self, weights=weights, Y=Y)

    def weigh(self, table: Float[ndarray, "B N n q s"], part: slice = slice(None)) -> Float[ndarray, "B N n q s"]:
        """Rows of some samples times their weights. The table is used up to save memory: use what is returned."""
        table *= self.weights[part].T
        if self.mixing is None:
            return table
        if self.mixing.ndim == 2:
            table *= self.mixing[part].T[:, None]
            return table
        return np.einsum("sij,bNjqs->bNiqs", self.mixing[part], table)

    def weigh_rows(self, table: Float[ndarray, "B S q n"]) -> Float[ndarray, "B S q n"]:
        """The same for one number per row and output."""
        table *= self.weights[:, :, None]
        if self.mixing is None:
            return table
        return table * self.mixing[:, None] if self.mixing.ndim == 2 else table @ self.mixing

    @cached_property
    def n_numbers(self) -> int:
        """Numbers to fit: those that the weights see."""
        S, q, n = self.Y.shape
        if self.mixing is None:
            return S * q * n
        if self.mixing.ndim == 2:
            return q * int(np.count_nonzero(self.mixing))
        return q * int(np.sum(np.linalg.matrix_rank(self.mixing, rtol=_UNSEEN, hermitian=True)))

    def forms_normal_matrix(self, n_unknowns: int) -> bool:
        """Whether the normal matrix of a start is cheap enough to be formed."""
        return n_unknowns <= _DENSE_UP_TO and self.Y.size * float(n_unknowns) ** 2 <= _DENSE_PRODUCTS

    def chunks(self, n_starts: int, n_unknowns: int) -> Iterator[slice]:
        """Samples in portions whose derivatives fit into a bounded amount of memory."""
        S, q, n = self.Y.shape
        step = max(1, self.max_derivatives // max(1, n_starts * q * n * n_unknowns))
        for first in range(0, S, step):
            yield slice(first, first + step)
