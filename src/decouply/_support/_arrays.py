"""Arrays out of whatever people hand over: lists, frames, tensors, masked arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ._errors import InputError

_SHORT_FLOATS = ("bfloat16", "float8", "float4")  # of machine learning; NumPy knows them as raw bytes


def read_array(rule: str, value: Any) -> ndarray:
    """The array in `value`; `rule` says what was expected, for the message.

    Tensors are taken without their gradients, short floats as float64. Masked entries are missing ones, and refused.
    """
    if isinstance(value, np.ma.MaskedArray):
        hidden = int(np.count_nonzero(np.ma.getmaskarray(value)))
        if hidden:
            raise InputError(f"{rule}. Got {hidden} masked entries: drop those samples, or fill them in.")
        value = value.data
    try:
        given = np.asarray(_detached(value))
        if given.dtype.name.startswith(_SHORT_FLOATS):
            given = given.astype(np.float64)
    except Exception as error:  # whatever a foreign object does when it is asked for its numbers
        raise InputError(f"{rule}. It cannot be read as an array: {error}.") from error
    return given


def _detached(value: Any) -> Any:
    """A PyTorch tensor as one that NumPy takes; everything else as it is."""
    if not (hasattr(value, "detach") and hasattr(value, "cpu")):
        return value
    tensor = value.detach().cpu()
    return tensor.double() if tensor.is_floating_point() else tensor
