"""The order of the axes in files of arrays: samples first, as everywhere in this package, or last, as in MATLAB.

    order       X        F        J            weights
    "samples"   (S, m)   (S, n)   (S, n, m)    (S,), (S, n) or (S, n, n)
    "matlab"    (m, S)   (n, S)   (n, m, S)    (S,), (n, S) or (n, n, S)

Shapes do not always tell the two apart: J alone with n = m, or values with m = n, fit both. A file of MATLAB that fits
both is read with samples first only where that gives more samples than inputs; otherwise it is refused unless the order
is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from numpy import ndarray

from ..._support._arguments import is_word
from ..._support._errors import InputError, SampleFileError
from ..._support._messages import short_repr

Order = Literal["samples", "matlab"]
_FEWEST = 2  # samples: a reading with fewer is none


def check_order(order: object) -> None:
    """The two words."""
    if order is not None and not is_word(order, ("samples", "matlab")):
        raise InputError(f'`order` must be "samples" or "matlab". Got {short_repr(order)}.')


def samples_first(path: Path, parts: Mapping[str, ndarray], order: Order | None) -> dict[str, ndarray]:
    """The arrays of samples with samples first; without an order, only where their shapes leave no doubt."""
    if order is None:
        if path.suffix.lower() != ".mat":
            return dict(parts)
        usual, moved = _with_lost_axes(parts), _moved(parts)
        tall = usual["X"].ndim == 2 and usual["X"].shape[0] > usual["X"].shape[1]
        if not _consistent(moved) or (_consistent(usual) and tall):
            return usual
        shapes = ", ".join(f"{name} {array.shape}" for name, array in parts.items())
        if _consistent(usual):
            raise SampleFileError(
                f'`{path}` must be read with order="samples" or order="matlab" (--order): the shapes {shapes} fit '
                f"both {len(usual['X'])} samples in the first axis and {len(moved['X'])} samples in the last one."
            )
        raise SampleFileError(
            f"`{path}` must have samples in the first axis. Got {shapes}, with samples in the last one, as in MATLAB: "
            'say order="matlab" (--order matlab).'
        )
    return _with_lost_axes(parts) if order == "samples" else _moved(parts)


def _moved(parts: Mapping[str, ndarray]) -> dict[str, ndarray]:
    """The last axis first; a vector of weights, which MATLAB keeps as a row or column, stays one."""
    moved = {name: np.moveaxis(array, -1, 0) if array.ndim else array for name, array in parts.items()}
    weights = parts.get("weights")
    if weights is not None and weights.ndim == 2 and 1 in weights.shape and weights.size == len(moved["X"]):
        moved["weights"] = weights.reshape(-1)
    return moved


def _with_lost_axes(parts: Mapping[str, ndarray]) -> dict[str, ndarray]:
    """MATLAB drops the last axis of J where there is one input, and has no vectors."""
    parts = dict(parts)
    X, J, weights = parts["X"], parts.get("J"), parts.get("weights")
    if J is not None and J.ndim == 2 and X.ndim == 2 and X.shape[1] == 1:
        parts["J"] = J[:, :, None]
    if weights is not None and weights.ndim == 2 and 1 in weights.shape and weights.size == len(X):
        parts["weights"] = weights.reshape(-1)
    return parts


def _consistent(parts: Mapping[str, ndarray]) -> bool:
    """Whether arrays with samples first fit together."""
    X, F, J = (parts.get(name) for name in ("X", "F", "J"))
    if X is None or X.ndim != 2 or len(X) < _FEWEST or (F is None and J is None):
        return False
    if F is not None and (F.ndim != 2 or len(F) != len(X)):
        return False
    if J is not None and (J.ndim != 3 or len(J) != len(X) or J.shape[2] != X.shape[1]):
        return False
    return F is None or J is None or F.shape[1] == J.shape[1]
