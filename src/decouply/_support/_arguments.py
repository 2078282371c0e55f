"""Numbers and arrays out of whatever people hand over: checked once, at the public door, with messages that teach.

And back again: as what JSON has, and with a warning if some are too large for a float.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy import ndarray

from ._errors import InputError, short_repr, warn

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
        if given.dtype.kind == "O" and _holds_numbers(value):
            given = value.to_numpy(dtype=np.float64)
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


def _holds_numbers(value: Any) -> bool:
    """Whether a data frame or series has columns of numbers only, in types of its own that may have missing entries."""
    kinds: Any = getattr(value, "dtypes", None) if hasattr(value, "to_numpy") else None
    listed = kinds if hasattr(kinds, "__len__") else [kinds]
    return all(getattr(kind, "kind", "O") in "fiub" for kind in listed)


_LARGEST = 2**63 - 1  # nothing is counted beyond, and Python writes no numbers of thousands of digits into messages
_LONGEST_NAME = 255  # bytes, in the file systems that are in use
_LAYERS = 1000  # more numbers than a model has layers


def as_array(name: str, value: object, axes: tuple[str, ...]) -> ndarray:
    """Convert to a fresh, read-only float64 array with one axis per name in `axes`, all entries finite."""
    rule = f"`{name}` must be a real array of shape ({', '.join(axes)}{',' if len(axes) == 1 else ''})"
    given = read_array(rule, value)
    if given.dtype.kind not in "fiub":
        raise InputError(f"{rule}. Got entries of type {given.dtype}.")
    if given.ndim != len(axes):
        raise InputError(f"{rule}. Got shape {given.shape}.")
    try:
        with np.errstate(over="ignore"):  # what no float64 holds becomes infinite, and is told below
            array = np.array(given, dtype=np.float64, order="C")
    except MemoryError as error:
        raise InputError(
            f"`{name}` must fit into memory. Got shape {given.shape}, which takes {8e-9 * given.size:.3g} GB."
        ) from error
    n_bad = array.size - int(np.count_nonzero(np.isfinite(array)))
    if n_bad:
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(
            f"`{name}` must hold finite numbers only. Got {n_bad} NaN or infinite entries, the first at index {where}: "
            "drop those samples or repair them."
        )
    array.flags.writeable = False
    return array


def as_points(name: str, value: object, n_inputs: int) -> ndarray:
    """Convert to points of shape (S, m), with m known."""
    X = as_array(name, value, ("S", str(n_inputs)))
    if X.shape[1] != n_inputs:
        raise InputError(f"`{name}` must have {n_inputs} columns, one per input. Got shape {X.shape}.")
    return X


def as_some_points(name: str, value: object, n_inputs: int) -> ndarray:
    """Convert to points of shape (S, m), with S of at least 1."""
    X = as_points(name, value, n_inputs)
    if len(X) == 0:
        raise InputError(f"`{name}` must hold at least one point: scales and ranges are taken there. Got none.")
    return X


def as_count(name: str, value: Any, *, least: int = 1, most: int = _LARGEST) -> int:
    """Accept a whole number from `least` to `most`."""
    good = isinstance(value, Integral) and not isinstance(value, bool)
    if not good or not least <= value <= most:
        rule = f"of at most {most}" if good and value > most else f"of at least {least}"
        raise InputError(f"`{name}` must be a whole number {rule}. Got {short_repr(value)}.")
    return int(value)


def as_number(name: str, value: Any, *, least: float = 0.0, above: bool = False) -> float:
    """Accept a finite number that is at least (or, with `above`, more than) `least`."""
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except (OverflowError, ValueError):  # a whole number, or a fraction, that no float holds
        number = math.inf
    if not math.isfinite(number) or number < least or (above and number == least):
        rule = f"{'above' if above else 'of at least'} {least:g}"
        raise InputError(f"`{name}` must be a number {rule}. Got {short_repr(value)}.")
    return number


def settle_numbers(record: object, *names: str) -> None:
    """Make floats of those fields of a frozen record that are numbers of other kinds, such as fractions."""
    for name in names:
        value = getattr(record, name)
        if isinstance(value, Real) and not isinstance(value, Integral | float):
            object.__setattr__(record, name, float(value))


def as_counts(name: str, value: Any, *, most: int = _LARGEST) -> tuple[int, ...]:
    """Accept one whole number or a non-empty sequence of them."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        value = (value,)
    listed = value.tolist() if isinstance(value, ndarray) and value.ndim == 1 and value.size <= _LAYERS else value
    is_text = isinstance(listed, str | bytes | bytearray | memoryview)  # whose entries are numbers of letters
    if is_text or not isinstance(listed, Sequence) or not 0 < len(listed) <= _LAYERS:
        raise InputError(
            f"`{name}` must be a tuple of whole numbers, such as (2, 2), or one number. Got {short_repr(value)}."
        )
    return tuple(as_count(f"{name}[{i}]", item, most=most) for i, item in enumerate(listed))


def as_flag(name: str, value: Any) -> bool:
    """Accept True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"`{name}` must be True or False. Got {short_repr(value)}.")
    return bool(value)


def is_word(value: Any, words: Collection[str]) -> bool:
    """Whether a value is one of these texts; arrays, which compare entry by entry, are none."""
    return isinstance(value, str) and value in words


def missing(path: Path) -> str:
    """A message for a path at which there is nothing to read."""
    if str(path) == "-":
        return "Standard input is not read. Write it to a file first."
    return f"`{path}` is a directory. Give a file." if path.is_dir() else f"File not found: {path}"


def as_path(name: str, value: Any) -> Path:
    """Accept a text or an object of `pathlib` that names a place for files."""
    try:
        if isinstance(value, str | os.PathLike) and b"\0" not in os.fsencode(value):
            path = Path(value)
            if any(len(os.fsencode(part)) > _LONGEST_NAME for part in path.parts):
                raise InputError(f"`{name}` must consist of names of at most {_LONGEST_NAME} bytes. Got a longer one.")
            return path
    except InputError:
        raise
    except Exception as error:  # of somebody's own path
        raise InputError(f"`{name}` must be a path. It cannot be read as one: {short_repr(error)}.") from error
    raise InputError(f'`{name}` must be a path, such as "model.safetensors". Got {short_repr(value)}.')


def as_layer(layer: Any, n_layers: int) -> int:
    """Accept a layer 1, ..., L and return its index in lists."""
    if isinstance(layer, bool) or not isinstance(layer, Integral) or not 1 <= int(layer) <= n_layers:
        raise InputError(f"`layer` must be one of 1, ..., {n_layers}. Got {short_repr(layer)}.")
    return int(layer) - 1


def as_permutation(order: Any, size: int) -> ndarray:
    """Accept an order of the components 0, ..., size - 1."""
    index = read_array(f"`order` must be a permutation of 0, ..., {size - 1}", order)
    if index.ndim != 1 or index.dtype.kind not in "iu" or sorted(index.tolist()) != list(range(size)):
        raise InputError(f"`order` must be a permutation of 0, ..., {size - 1}. Got {short_repr(order)}.")
    return index


def as_generator(rng: Any) -> np.random.Generator:
    """Accept a seed or a generator."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, Integral) and not isinstance(rng, bool) and int(rng) >= 0:
        return np.random.default_rng(int(rng))
    raise InputError(f"`rng` must be a whole number of at least 0 or a numpy.random.Generator. Got {short_repr(rng)}.")


def plain(content: Any) -> Any:
    """Only what JSON has: arrays become lists, NaN and infinity become null."""
    if isinstance(content, dict):
        return {str(key): plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    return plain(content.tolist()) if hasattr(content, "tolist") else content


Array = TypeVar("Array", bound=ndarray)


def warn_nonfinite(what: str, array: Array, way_out: str, *, stacklevel: int = 3) -> Array:
    """The same array, one row per point; a warning if some of it is not finite."""
    if not np.isfinite(array).all():
        bad = np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))
        warn(
            f"{what} are too large for a float, and infinite or NaN, in {len(bad)} of {len(array)} rows, the first of "
            f"them {bad[0]}: {way_out}.",
            stacklevel=stacklevel,
        )
    return array


class ReadOnlyArrays:
    """Base of frozen dataclasses of arrays that stay read-only when they are copied or pickled, which NumPy forgets."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            for array in value if isinstance(value, tuple) else (value,):
                if isinstance(array, ndarray):
                    array.flags.writeable = False
        self.__dict__.update(state)
