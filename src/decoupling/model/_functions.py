r"""One layer of univariate functions: :math:`g_j(u) = c_{j0} + \sum_k c_{jk} \phi_k(u)`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._checks import as_array, as_points
from .._support._errors import InputError
from ..bases import AbstractBasis, LayerBasis


@dataclass(frozen=True, eq=False)
class Functions:
    """The internal functions g_1, ..., g_r of one layer.

    Parameters
    ----------
    basis
        One basis for all functions, or a tuple with one for each.
    C : (r, 1 + d)
        Coefficients, constant first. With one basis per function, d is the largest size and the coefficients past a
        function's own size must be 0.

    Examples
    --------
    >>> import decoupling as dc, numpy as np
    >>> g = dc.Functions(dc.Monomial(2), [[1.0, 0.0, 3.0]])
    >>> g(np.array([[2.0]])), g.derivative(np.array([[2.0]]))
    (array([[13.]]), array([[12.]]))
    """

    layer: LayerBasis
    C: Float[ndarray, "r e"]

    def __init__(self, basis: AbstractBasis | tuple[AbstractBasis, ...], C: object) -> None:
        coefficients = as_array("C", C, ("r", "1 + d"))
        rank = coefficients.shape[0]
        if rank == 0:
            raise InputError("`C` must have at least one row: one per internal function. Got none.")
        layer = LayerBasis.of(basis, rank)
        if coefficients.shape[1] != 1 + layer.size:
            raise InputError(
                f"`C` must have shape ({rank}, {1 + layer.size}): the constant, then one per basis function. "
                f"Got {coefficients.shape}."
            )
        for j, size in enumerate(layer.sizes):
            if np.any(coefficients[j, 1 + size :]):
                raise InputError(f"`C[{j}]` must be 0 past entry {size}, the size of its basis. Got {coefficients[j]}.")
        object.__setattr__(self, "layer", layer)
        object.__setattr__(self, "C", coefficients)

    @property
    def rank(self) -> int:
        """The number r of functions."""
        return len(self.layer.bases)

    @property
    def degree(self) -> int:
        """The largest number d of basis functions that a function of this layer combines."""
        return self.layer.size

    @property
    def basis(self) -> AbstractBasis | tuple[AbstractBasis, ...]:
        return self.layer.shared or self.layer.bases

    @property
    def constants(self) -> Float[ndarray, " r"]:
        return self.C[:, 0]

    def __call__(self, u: object) -> Float[ndarray, "S r"]:
        """Values g_j(u_j)."""
        u = as_points("u", u, self.rank)
        return self.C[:, 0] + np.sum(self.layer.evaluate(u) * self.C[:, 1:], axis=-1)

    def derivative(self, u: object) -> Float[ndarray, "S r"]:
        """Derivatives g_j'(u_j)."""
        u = as_points("u", u, self.rank)
        return np.sum(self.layer.derivative(u) * self.C[:, 1:], axis=-1)

    def second_derivative(self, u: object) -> Float[ndarray, "S r"]:
        """Second derivatives g_j''(u_j)."""
        u = as_points("u", u, self.rank)
        return np.sum(self.layer.second_derivative(u) * self.C[:, 1:], axis=-1)

    def __repr__(self) -> str:
        return f"Functions({self.basis!r}, r={self.rank})"
