"""A model of shifted and scaled signals as a model of the signals themselves, exactly.

The shift of the inputs is taken up by the functions of the first layer, the sizes by W_0 and W_L, and the centre of the
outputs by the constants of the last layer, as far as these reach: W_L c is all they can add.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._errors import InputError
from ..bases import AbstractBasis, shifted
from ._decoupling import Decoupling
from ._functions import Functions


def in_given_units(
    model: Decoupling, centre: Float[ndarray, " m"], size: Float[ndarray, " m"], y_size: Float[ndarray, " n"]
) -> Decoupling:
    """x -> y_size model((x - centre) / size), without inner constants."""
    V = model.W[0] / size
    return Decoupling(
        [V, *model.W[1:-1], model.W[-1] * y_size[:, None]],
        [_with_shifts(model.g[0], -V @ centre), *model.g[1:]],
    ).without_inner_constants()


def plus_constants(
    model: Decoupling, y_centre: Float[ndarray, " n"], rcond: float
) -> tuple[Decoupling, Float[ndarray, " n"]]:
    """The model plus `y_centre` as far as the constants of its last layer can give it, and what they cannot give."""
    W, last = model.W[-1], model.g[-1]
    constants = np.linalg.lstsq(W, y_centre, rcond=rcond)[0]
    C = last.C.copy()
    C[:, 0] += constants
    return Decoupling(model.W, [*model.g[:-1], Functions(last.layer.bases, C)]), y_centre - W @ constants


def can_be_shifted(bases: Sequence[AbstractBasis]) -> bool:
    """Whether the functions of these bases stay in their span when their argument is shifted."""
    try:
        for basis in {id(basis): basis for basis in bases}.values():
            for unit in np.eye(1 + basis.size)[1:]:
                shifted(basis, unit, 0.3)
    except InputError:
        return False
    return True


def _with_shifts(functions: Functions, shifts: Float[ndarray, " r"]) -> Functions:
    """u -> g(u + shift), function by function."""
    C = functions.C.copy()
    for j, (basis, shift) in enumerate(zip(functions.layer.bases, shifts, strict=True)):
        if shift != 0.0:
            C[j, : 1 + basis.size] = shifted(basis, functions.C[j, : 1 + basis.size], shift)
    return Functions(functions.layer.bases, C)
