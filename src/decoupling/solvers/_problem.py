r"""The coupled problem: minimise ||J - PT_L||^2 + lam ||F - R W_L^T||^2 over a model, sample s weighted by M_s.

A problem is the samples in the form solvers want them, together with the shape of the model to be found. Its inputs
are compressed without loss: the rows of all Jacobians span a subspace of dimension m' <= min(m, n S), often far
below m. With an orthonormal basis U of it, J U and X U take the place of J and X, and W_0 = W_0' U^T afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._errors import InputError
from ..bases import LayerBasis
from ..model._decoupling import Decoupling
from ..model._functions import Functions
from ..samples._jacobians import Jacobians, StoredJacobians, portions
from ..samples._samples import Samples
from ._weighting import root_of, sample_factors, seen_outputs, some, weighted_squares

_COMPRESS_FROM = 8  # below this many inputs there is nothing to gain
_FIRST_SKETCH = 32
_SAME_SPACE = 1e-13  # what of J may lie outside its row space, relative to its size: rounding ...
_ROUNDINGS = 10.0  # ... or so many roundings, where J is stored in single precision


@dataclass(frozen=True)
class Problem:
    """Arrays in the notation of the package; `U` maps compressed inputs back to the given ones."""

    samples: Samples
    validation: Samples | None
    layers: tuple[LayerBasis, ...]
    X: Float[ndarray, "S k"]
    J: Float[ndarray, "S n k"] | StoredJacobians | None
    F: Float[ndarray, "S n"] | None
    weights: Float[ndarray, "S *outputs"] | None
    U: Float[ndarray, "m k"] | None

    @classmethod
    def build(cls, samples: Samples, layers: tuple[LayerBasis, ...], validation: Samples | None = None) -> Problem:
        """Compress the inputs where that pays."""
        X, J, U = samples.X, samples.J, None
        if J is not None and samples.n_inputs >= _COMPRESS_FROM:
            U = small_row_space(J)
        if J is not None and U is not None:
            X, J = X @ U, J.times(U) if isinstance(J, StoredJacobians) else J @ U
        return cls(samples, validation, layers, X, J, samples.F, samples.weights, U)

    def uncompressed(self) -> Problem:
        """The same problem in the coordinates of the user."""
        samples = self.samples
        return Problem(samples, self.validation, self.layers, samples.X, samples.J, samples.F, samples.weights, U=None)

    @cached_property
    def size_J(self) -> float:
        """Weighted ||J||^2."""
        if self.J is None:
            return 0.0
        return float(sum(weighted_squares(J[None], some(self.weights, rows))[0] for rows, J in portions(self.J)))

    @cached_property
    def size_F(self) -> float:
        """Weighted ||F||^2."""
        return 0.0 if self.F is None else float(weighted_squares(self.F[None], self.weights)[0])

    @cached_property
    def sample_weights(self) -> Float[ndarray, " S"] | None:
        """One factor per sample in place of its weights."""
        return sample_factors(self.weights)

    @cached_property
    def root(self) -> Float[ndarray, "S *outputs"] | None:
        """Square roots of the weights."""
        return root_of(self.weights)

    @cached_property
    def seen(self) -> Float[ndarray, "n n"] | None:
        """Projector onto the combinations of outputs that the weights see, where these are not all."""
        return seen_outputs(self.weights)

    @property
    def dims(self) -> tuple[int, ...]:
        """Widths from the (compressed) input to the output."""
        return (self.X.shape[1], *(len(layer.bases) for layer in self.layers), self.samples.n_outputs)

    def needs_arrays(self, name: str) -> None:
        """Raise for a solver that needs all Jacobians at hand."""
        if isinstance(self.samples.J, StoredJacobians):
            raise InputError(
                f"`samples` must hold J in memory for the solver {name}. Got {len(self.samples)} stored Jacobians: "
                "take fewer, `samples.take(...)`, or use dc.Proj() or dc.Constr()."
            )

    def model(self, W: list[ndarray], C: list[ndarray]) -> Decoupling:
        """The model in the coordinates of the user."""
        W0 = W[0] if self.U is None else W[0] @ self.U.T
        functions = tuple(Functions(layer.bases, c) for layer, c in zip(self.layers, C, strict=True))
        return Decoupling((W0, *W[1:]), functions)


def small_row_space(J: Jacobians) -> Float[ndarray, "m k"] | None:
    """Orthonormal basis of the space that all rows of all Jacobians span, if its dimension is at most m / 2.

    Random combinations of the rows span the same space once there are enough of them, and show that they were not
    enough by being independent. So few combinations find a small space, and a large one is given up cheaply.
    """
    S, n, m = J.shape
    tolerance = max(_SAME_SPACE, _ROUNDINGS * float(np.finfo(J.dtype).eps))
    rng = np.random.default_rng(0)
    count = _FIRST_SKETCH
    while True:
        count = min(count, m // 2 + 1)
        few = S * n <= count
        sketch = _rows(J) if few else _sketch(J, count, rng)
        if few or not _independent(sketch):
            break
        if count == m // 2 + 1:
            return None
        count *= 4
    _, sizes, Vt = np.linalg.svd(sketch, full_matrices=False)
    rank = max(1, int(np.count_nonzero(sizes > sizes[0] * tolerance)))
    U = Vt[:rank].T
    if 2 * rank > m:
        return None
    missed = size = 0.0
    for _, part in portions(J):
        rows = part.reshape(-1, m)
        missed += float(np.sum((rows - (rows @ U) @ U.T) ** 2))
        size += float(np.sum(rows**2))
    return U if missed <= tolerance**2 * size else None


def _rows(J: Jacobians) -> Float[ndarray, "R m"]:
    return np.concatenate([part.reshape(-1, J.shape[2]) for _, part in portions(J)])


def _sketch(J: Jacobians, count: int, rng: np.random.Generator) -> Float[ndarray, "k m"]:
    """`count` random combinations of all rows, the same ones in whatever portions the rows come."""
    total = np.zeros((count, J.shape[2]))
    for _, part in portions(J):
        rows = part.reshape(-1, J.shape[2])
        total += rng.normal(size=(len(rows), count)).T @ rows
    return total


def _independent(rows: Float[ndarray, "k m"]) -> bool:
    """Whether the rows are independent beyond doubt: their Gram matrix stays positive definite after a shift."""
    gram = rows @ rows.T
    try:
        np.linalg.cholesky(gram - 1e-8 * np.trace(gram) / len(gram) * np.eye(len(gram)))
    except np.linalg.LinAlgError:
        return False
    return True
