r"""The coupled problem: minimise ||J - A - PT_L||^2 + lam ||F - X A^T - R W_L^T||^2, sample s weighted by M_s.

A problem is the samples in the form solvers want them, together with the shape of the model to be found. Solvers work
in standard units (see `_standard`); the paper's algorithms as printed take the data as given.

Inputs are compressed without loss: the rows of all Jacobians span a subspace of dimension m' <= min(m, n S), often far
below m. With an orthonormal basis U of it, J U and X U take the place of J and X, and W_0 = W_0' U^T afterwards.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._errors import InputError
from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ...model._units import Units
from ...samples._samples import Samples
from ._sample_weights import root_of, sample_factors, seen_outputs, weighted_squares
from ._standard_units import standard_units

_COMPRESS_FROM = 8  # below this many inputs there is nothing to gain
_FIRST_SKETCH = 32
_SAME_SPACE = 1e-13  # what of J may lie outside its row space, relative to its size: rounding


@dataclass(frozen=True)
class Problem:
    """What a solver is given, in the notation of the package.

    Attributes
    ----------
    samples, validation
        The data as given.
    layers
        The bases of every layer.
    linear
        Whether the model has a linear part A x.
    standard
        Whether the data are in standard units: then functions live on the range that the samples visit. As given, they
        are functions around 0, as the paper's are.
    units
        What turns models of these data into models of the given ones.
    X, J, F, weights
        The data.
    """

    samples: Samples
    validation: Samples | None
    layers: tuple[LayerBasis, ...]
    linear: bool
    standard: bool
    units: Units
    X: Float[ndarray, "S k"]
    J: Float[ndarray, "S n k"] | None
    F: Float[ndarray, "S n"] | None
    weights: Float[ndarray, "S *outputs"] | None

    @classmethod
    def build(
        cls,
        samples: Samples,
        layers: tuple[LayerBasis, ...],
        validation: Samples | None = None,
        *,
        linear: bool = False,
        standard: bool = True,
        compress: bool = True,
    ) -> Problem:
        """The problem in standard units, or as given, with its inputs compressed where that pays."""
        units = Units.given(samples.n_inputs, samples.n_outputs)
        if standard:
            units = standard_units(samples, every_direction=not compress)
        problem = cls.in_units(units, samples, layers, validation, linear, standard)
        J, k = problem.J, problem.X.shape[1]
        U = small_row_space(J) if J is not None and k >= _COMPRESS_FROM and compress else None
        if U is None:
            return problem
        assert J is not None
        return dataclasses.replace(problem, units=units.rotated(U), X=problem.X @ U, J=J @ U)

    @classmethod
    def in_units(
        cls,
        units: Units,
        samples: Samples,
        layers: tuple[LayerBasis, ...],
        validation: Samples | None,
        linear: bool,
        standard: bool,
    ) -> Problem:
        """The problem of these samples in given units: their own, or those of more samples than these."""
        J, F = samples.J, samples.F
        if standard:
            J = None if J is None else (J @ units.back.T) * (1.0 / units.y_scale[:, None])
            F = None if F is None else units.values(F)
        return cls(samples, validation, layers, linear, standard, units, units.points(samples.X), J, F, samples.weights)

    def as_given(self) -> Problem:
        """The same problem in the units and coordinates of the user."""
        units = Units.given(self.samples.n_inputs, self.samples.n_outputs)
        return self.in_units(units, self.samples, self.layers, self.validation, self.linear, standard=False)

    def without_jacobians(self) -> Problem:
        """The same problem for whoever makes models of it and should not keep its Jacobians alive."""
        return dataclasses.replace(self, J=None)

    @cached_property
    def size_J(self) -> float:
        """Weighted ||J||^2."""
        return 0.0 if self.J is None else float(weighted_squares(self.J[None], self.weights)[0])

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
        if not self.samples.in_memory:
            raise InputError(
                f"`samples` must hold J in memory for the solver {name}. Got {len(self.samples)} samples in a store: "
                "take some, `samples.pilot(...)`, or use dc.VarPro(), dc.Proj() or dc.Constr()."
            )

    def model(
        self,
        W: list[ndarray],
        g: list[Functions],
        linear: Float[ndarray, "n k"] | None = None,
    ) -> Decoupling:
        """A model of these data as one of the given data."""
        model = self.units.to_given(Decoupling(W, g, linear=linear))
        return model.with_names(self.samples.inputs, self.samples.outputs)


def small_row_space(J: Float[ndarray, "S n m"]) -> Float[ndarray, "m k"] | None:
    """Orthonormal basis of the space that all rows of all Jacobians span, if its dimension is at most m / 2.

    Random combinations of the rows span the same space once there are enough of them, and show that they were not
    enough by being independent. So few combinations find a small space, and a large one is given up cheaply.
    """
    S, n, m = J.shape
    rows = J.reshape(S * n, m)

    rng = np.random.default_rng(0)
    count = _FIRST_SKETCH
    while True:
        count = min(count, m // 2 + 1)
        few = S * n <= count
        sketch = rows if few else rng.normal(size=(len(rows), count)).T @ rows
        if few or not _independent(sketch):
            break
        if count == m // 2 + 1:
            return None
        count *= 4
    _, sizes, Vt = np.linalg.svd(sketch, full_matrices=False)
    rank = max(1, int(np.count_nonzero(sizes > sizes[0] * _SAME_SPACE)))
    U = Vt[:rank].T
    if 2 * rank > m:
        return None
    missed = np.sum((rows - (rows @ U) @ U.T) ** 2)
    return U if missed <= _SAME_SPACE**2 * np.sum(rows**2) else None


def _independent(rows: Float[ndarray, "k m"]) -> bool:
    """Whether the rows are independent beyond doubt: their Gram matrix stays positive definite after a shift."""
    gram = rows @ rows.T
    try:
        np.linalg.cholesky(gram - 1e-8 * np.trace(gram) / len(gram) * np.eye(len(gram)))
    except np.linalg.LinAlgError:
        return False
    return True
