"""Records of inputs and outputs, checked: one record or several, one channel or several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._errors import InputError


@dataclass(frozen=True)
class Signals:
    """One or more records of the same channels: inputs `u` and outputs `y`, (T, channels) each."""

    u: tuple[Float[ndarray, "_ inputs"], ...]
    y: tuple[Float[ndarray, "_ outputs"], ...]
    flat: bool = False  # whether the outputs were given as one-dimensional arrays

    @classmethod
    def read(cls, u: Any, y: Any) -> Signals:
        """Check records that a user gave. A list of arrays is several records, anything else is one."""
        inputs, outputs = _records("u", u), _records("y", y)
        if len(inputs) != len(outputs):
            raise InputError(f"`u` and `y` must hold as many records. Got {len(inputs)} and {len(outputs)}.")
        for k, (a, b) in enumerate(zip(inputs, outputs, strict=True)):
            if len(a) != len(b):
                where = f" in record {k}" if len(inputs) > 1 else ""
                raise InputError(
                    f"`u` and `y` must have the same length{where}. Got {len(a)} and {len(b)} samples: cut the longer "
                    "one to the time both were measured."
                )
        for name, records in (("u", inputs), ("y", outputs)):
            channels = {r.shape[1] for r in records}
            if len(channels) > 1:
                raise InputError(f"`{name}` must have the same channels in every record. Got {sorted(channels)}.")
        first = y[0] if _several(y) else y
        return cls(inputs, outputs, np.ndim(first) == 1)

    @property
    def n_inputs(self) -> int:
        return int(self.u[0].shape[1])

    @property
    def n_outputs(self) -> int:
        return int(self.y[0].shape[1])

    def check_excitation(self) -> None:
        """Complain about channels that do not move: a model cannot be learnt from them."""
        for name, records in (("u", self.u), ("y", self.y)):
            low, high = (
                np.min([r.min(axis=0) for r in records], axis=0),
                np.max([r.max(axis=0) for r in records], axis=0),
            )
            for i in np.flatnonzero(low == high):
                channel = f"[:, {i}]" if len(low) > 1 else ""
                raise InputError(
                    f"`{name}{channel}` must vary. It is {low[i]:g} throughout: nothing can be learnt from a constant "
                    f"{'input' if name == 'u' else 'output'}."
                )


def as_signal(name: str, value: Any) -> Float[ndarray, "T channels"]:
    """One record as a float64 array (T, channels); one-dimensional ones become one channel."""
    rule = f"`{name}` must be a record of shape (T,) or (T, channels)"
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{rule}. It cannot be read as an array of real numbers: {error}.") from error
    if np.iscomplexobj(value):
        raise InputError(f"{rule}. Got complex numbers.")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"{rule}. Got shape {array.shape}.")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size:
        raise InputError(
            f"`{name}` must not have gaps. Got {bad.size} samples with NaN or infinity, the first at {bad[0]}, "
            f"the last at {bad[-1]}: cut the record there and give the pieces as a list of records."
        )
    array.flags.writeable = False
    return array


def _several(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(v, ndarray) and v.ndim for v in value)


def _records(name: str, value: Any) -> tuple[ndarray, ...]:
    several = _several(value)
    records = value if several else [value]
    return tuple(as_signal(f"{name}[{k}]" if several else name, r) for k, r in enumerate(records))
