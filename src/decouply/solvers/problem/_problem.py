r"""The coupled problem: minimise ||J - A - PT_L||^2 + lam ||F - X A^T - R W_L^T||^2, sample s weighted by M_s.

A problem is the samples in the form solvers want them, together with the shape of the model to be found. Solvers work
in standard units (see `_standard_units`); the paper's algorithms as printed take the data as given. Samples in a store
make a problem too: its arrays are not at hand, but every sum over its samples is.
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
from ._model_shape import ModelShape
from ._prepared_samples import PreparedSamples
from ._sample_weights import sample_factors
from ._weighted_rows import MAX_DERIVATIVES, Rows


@dataclass(frozen=True)
class Problem:
    """What a solver is given, in the notation of the package.

    Attributes
    ----------
    prepared
        The samples with their units and sizes.
    layers
        The bases of every layer.
    validation
        Samples that the model is not fitted to.
    linear
        Whether the model has a linear part A x.
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
