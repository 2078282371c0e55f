"""From regressors and outputs as measured to what solvers like, and back.

Solvers see z = (x - centre) / size and y - offset. A decoupling of these becomes one of the measured signals exactly:
W_0 z = V x - V centre with V = W_0 / size, where the shift is taken up by the functions of the first layer; and the
offset becomes part of the constants of the last layer.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._decoupling import Decoupling
from .._functions import Functions
from .._result import Result
from .._samples import Samples
from ..bases import shifted

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Units:
    """Centre and size of the regressors, offset of the outputs."""

    centre: Float[ndarray, " m"]
    size: Float[ndarray, " m"]
    offset: Float[ndarray, " n"]

    def without_offset(self) -> Units:
        return dataclasses.replace(self, offset=np.zeros_like(self.offset))

    def scaled(self, samples: Samples) -> Samples:
        """Samples as solvers see them."""
        F = None if samples.F is None else samples.F - self.offset
        J = None if samples.J is None else samples.J * self.size
        return Samples((samples.X - self.centre) / self.size, F=F, J=J)

    def measured(self, result: Result, samples: Samples) -> Result | None:
        """The result for the measured `samples`; None where no constants of the last layer give the offset."""
        model = result.decoupling
        V = model.W[0] / self.size
        moved = Decoupling(
            [V, *model.W[1:]], [_with_shifts(model.g[0], -V @ self.centre), *model.g[1:]]
        ).without_inner_constants()
        W, last = moved.W[-1], moved.g[-1]
        constants = np.linalg.lstsq(W, self.offset, rcond=_TOLERANCE)[0]
        if np.linalg.norm(W @ constants - self.offset) > _TOLERANCE * np.linalg.norm(self.offset):
            return None
        C = last.C.copy()
        C[:, 0] += constants
        model = Decoupling(moved.W, [*moved.g[:-1], Functions(last.layer.bases, C)])
        return dataclasses.replace(result, decoupling=model.canonical(samples.X), samples=samples)


def _with_shifts(functions: Functions, shifts: Float[ndarray, " r"]) -> Functions:
    """u -> g(u + shift), function by function."""
    C = functions.C.copy()
    for j, (basis, shift) in enumerate(zip(functions.layer.bases, shifts, strict=True)):
        C[j, : 1 + basis.size] = shifted(basis, functions.C[j, : 1 + basis.size], shift)
    return Functions(functions.layer.bases, C)
