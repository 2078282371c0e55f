r"""Inputs and outputs in other units: what is done to data before a solver sees them, and undone on its answer.

    x' = (x - centre) T,      f' = (f - y_centre) / y_scale

turn samples into standard ones. A model of standard data becomes one of the given data exactly. W_0 takes up T, the
domains of the first layer the centre, and W_L the scales. The constants of the last layer, or an offset, take up the
centre of the outputs. Data, models and validation all go through the same object.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._decoupling import Decoupling

_REACHED = 1e-12  # relative: constants that W_L c gives up to rounding


@dataclass(frozen=True, eq=False)
class Units:
    """An affine change of inputs and outputs.

    `T` (m, k) maps centred inputs to standard ones and `back` (k, m) maps these back: x = centre + x' back. With k < m
    the function must not depend on what `T` leaves out.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> units = dc.Units.given(n_inputs=2, n_outputs=1)
    >>> units.are_given
    True
    >>> units.points(np.array([[1.0, 2.0]]))
    array([[1., 2.]])
    """

    centre: Float[ndarray, " m"]
    T: Float[ndarray, "m k"]
    back: Float[ndarray, "k m"]
    y_centre: Float[ndarray, " n"]
    y_scale: Float[ndarray, " n"]

    @classmethod
    def given(cls, n_inputs: int, n_outputs: int) -> Units:
        """Nothing is changed."""
        same = np.eye(n_inputs)
        return cls(np.zeros(n_inputs), same, same, np.zeros(n_outputs), np.ones(n_outputs))

    @property
    def changes_inputs(self) -> bool:
        return self.T is not self.back

    @property
    def are_given(self) -> bool:
        """Whether nothing is changed at all."""
        return not self.changes_inputs and not self.y_centre.any() and bool(np.all(self.y_scale == 1.0))

    def rotated(self, Q: Float[ndarray, "k q"]) -> Units:
        """Standard inputs in other coordinates: Q has orthonormal columns."""
        return Units(self.centre, self.T @ Q, Q.T @ self.back, self.y_centre, self.y_scale)

    # Data

    def points(self, X: Float[ndarray, "S m"]) -> Float[ndarray, "S k"]:
        return (X - self.centre) @ self.T if self.changes_inputs else X

    def values(self, F: Float[ndarray, "S n"]) -> Float[ndarray, "S n"]:
        return (F - self.y_centre) / self.y_scale

    def jacobians(self, J: Float[ndarray, "S n m"]) -> Float[ndarray, "S n k"]:
        standard: ndarray = J @ self.back.T
        standard /= self.y_scale[:, None]
        return standard

    # Models

    def to_given(self, model: Decoupling) -> Decoupling:
        """A model of standard data as one of the given data."""
        W0 = model.W[0] @ self.T.T if self.changes_inputs else model.W[0]
        g = list(model.g)
        if self.centre.any():
            g[0] = g[0].shifted(-W0 @ self.centre)
        W_L = model.W[-1] * self.y_scale[:, None]
        A = None if model.linear is None else self.y_scale[:, None] * (model.linear @ self.T.T)
        b = self.y_centre if model.offset is None else self.y_centre + self.y_scale * model.offset
        if A is not None:
            b = b - A @ self.centre
        W = [W0, *model.W[1:-1], W_L]
        if not b.any():
            return model.with_parts(W=W, g=g, linear=A, offset=None)
        target = b / self.y_scale  # in standard units, where all outputs count alike
        constants = np.linalg.lstsq(model.W[-1], target, rcond=1e-9)[0]
        if np.any(np.abs(target - model.W[-1] @ constants) > _REACHED * np.abs(target).max()):
            return model.with_parts(W=W, g=g, linear=A, offset=b)
        C = g[-1].C.copy()
        C[:, 0] += constants
        g[-1] = g[-1].with_coefficients(C)
        return model.with_parts(W=W, g=g, linear=A, offset=None)

    def to_standard(self, model: Decoupling) -> Decoupling:
        """A model of the given data as one of standard data: the inverse of `to_given`."""
        W0 = model.W[0] @ self.back.T if self.changes_inputs else model.W[0]
        g = list(model.g)
        if self.centre.any():
            g[0] = g[0].shifted(model.W[0] @ self.centre)
        W_L = model.W[-1] / self.y_scale[:, None]
        A = None if model.linear is None else (model.linear @ self.back.T) / self.y_scale[:, None]
        b = -self.y_centre if model.offset is None else model.offset - self.y_centre
        if model.linear is not None:
            b = b + model.linear @ self.centre
        offset = b / self.y_scale if b.any() else None
        return Decoupling([W0, *model.W[1:-1], W_L], g, linear=A, offset=offset)  # names are those of the given data
