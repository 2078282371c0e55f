r"""The coupled problem: minimise ||J - A - PT_L||^2 + lam ||F - X A^T - R W_L^T||^2, sample s weighted by M_s.

A problem is the samples in the form solvers want them, together with the shape of the model to be found. It knows how
many parameters that has, and how many samples and bytes a search for them takes. Solvers work in standard units (see
`_prepared_samples`); the paper's algorithms as printed take the data as given. Samples in a store make a problem too:
its arrays are not at hand, but every sum over its samples is.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ...model._units import Units
from ...samples._samples import Samples
from ._prepared_samples import PreparedSamples
from ._weighted_rows import MAX_DERIVATIVES, Rows, sample_factors

# A pilot begins with this many numbers for every free parameter, and at least this many samples; it grows if they
# turn out to be too few.
_NUMBERS_PER_PARAMETER, _MIN_PILOT = 20, 200
# Tables that live at the same time during a search. Of the size of the eliminated design: itself, with the ridge below
# it, Q, and the copy of LAPACK. Of the size of the data: the model, the residual, and its copy in another order. Of the
# derivatives of some samples: themselves, and what is made of them.
_DESIGN_TABLES, _RESIDUAL_TABLES, DERIVATIVE_TABLES = 4, 3, 2


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
        left = memory - 8.0 * (DERIVATIVE_TABLES * rows.max_derivatives + rows.X.size + _RESIDUAL_TABLES * rows.Y.size)
        return int(np.clip(left / self._start_bytes(S, rows.X.shape[1], q, n), 1, 2**31))

    def _start_bytes(self, S: int, m: int, q: int, n: int) -> float:
        """Bytes of one start on S samples with m inputs and q rows of n outputs each."""
        last = self.layers[-1]
        columns = 1 + len(last.bases) * last.size + m * self.linear
        tables = sum(len(layer.bases) * (3 * layer.size + 2 * m * (l > 0) + 4) for l, layer in enumerate(self.layers))
        return 8.0 * S * (_DESIGN_TABLES * q * columns + _RESIDUAL_TABLES * q * n + tables)


@dataclass(frozen=True)
class Problem:
    """What a solver is given, in the notation of the package.

    Attributes
    ----------
    prepared : PreparedSamples
        The samples with their units and sizes.
    layers : tuple of LayerBasis
        The bases of every layer.
    validation : Samples or None
        Samples that the model is not fitted to.
    linear : bool
        Whether the model has a linear part A x.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3)
    >>> layer = dc.bases.LayerBasis.of(dc.Monomial(3), 1)
    >>> problem = dc.solvers.Problem.build(samples, (layer,))
    >>> problem.samples.n_samples
    60
    """

    prepared: PreparedSamples
    layers: tuple[LayerBasis, ...]
    validation: Samples | None = None
    linear: bool = False

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
        """The problem in standard units, or as given, with its inputs compressed if that pays."""
        return cls(PreparedSamples.of(samples, standard=standard, compress=compress), layers, validation, linear)

    def of_pilot(self, pilot: Samples) -> Problem:
        """The problem of some of the samples, in the units of all of them."""
        prepared = PreparedSamples.in_units(pilot, self.units, standard=self.standard)
        return dataclasses.replace(self, prepared=prepared)

    def as_given(self) -> Problem:
        """The same problem in the units and coordinates of the user."""
        units = Units.given(self.samples.n_inputs, self.samples.n_outputs)
        return dataclasses.replace(self, prepared=PreparedSamples.in_units(self.samples, units, standard=False))

    def without_arrays(self) -> Problem:
        """The same problem for whoever makes models of it and should not keep its arrays alive."""
        return dataclasses.replace(self, prepared=self.prepared.without_arrays())

    # The data

    @property
    def samples(self) -> Samples:
        """The data as given."""
        return self.prepared.samples

    @property
    def standard(self) -> bool:
        """Whether the data are in standard units: then functions live on the range that the samples visit.

        As given, they are functions around 0, as the paper's are.
        """
        return self.prepared.standard

    @property
    def units(self) -> Units:
        """What turns models of these data into models of the given ones."""
        return self.prepared.units

    @property
    def X(self) -> Float[ndarray, "S k"]:
        return self.prepared.X

    @property
    def F(self) -> Float[ndarray, "S n"] | None:
        return self.prepared.F

    @property
    def J(self) -> Float[ndarray, "S n k"] | None:
        return self.prepared.J

    @property
    def weights(self) -> Float[ndarray, "S *outputs"] | None:
        return self.samples.weights

    @property
    def size_J(self) -> float:
        """Weighted ||J||^2."""
        return self.prepared.sizes.J

    @property
    def size_F(self) -> float:
        """Weighted ||F||^2."""
        return self.prepared.sizes.F

    @cached_property
    def sample_weights(self) -> Float[ndarray, " S"] | None:
        """One factor per sample in place of its weights."""
        return sample_factors(self.weights)

    @cached_property
    def root(self) -> Float[ndarray, "S *outputs"] | None:
        """Square roots of the weights."""
        return None if self.weights is None else np.sqrt(self.weights)

    @property
    def dims(self) -> tuple[int, ...]:
        """Widths from the (compressed) input to the output."""
        return (self.units.T.shape[1], *self.shape.dims[1:])

    @property
    def shape(self) -> ModelShape:
        """The shape of the model, with all inputs."""
        return ModelShape.of(self.samples, self.layers, linear=self.linear)

    @property
    def n_free(self) -> int:
        """Free parameters of the model."""
        return self.shape.n_free(values=self.samples.has_values)

    def rows(self, lam: float, max_derivatives: int = MAX_DERIVATIVES) -> Rows:
        """All samples as the rows of the least-squares problem."""
        return self.prepared.rows(self.prepared.row_scaling(lam), max_derivatives)

    def model(
        self,
        W: list[ndarray],
        g: list[Functions],
        linear: Float[ndarray, "n k"] | None = None,
    ) -> Decoupling:
        """A model of these data as one of the given data."""
        model = self.units.to_given(Decoupling(W, g, linear=linear))
        return model.with_names(self.samples.inputs, self.samples.outputs)
