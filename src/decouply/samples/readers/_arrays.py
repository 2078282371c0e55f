"""Files of arrays: NumPy's .npz and .npy; those of MATLAB's .mat are read in `_mat`.

Arrays called X, F, J and weights are samples as they are. Where columns are named instead, every name is that of an
array: one number per sample, or a matrix whose columns are called `name1`, `name2`, ... Columns of X and F are called
what the texts in `input_names` and `output_names` say; they are chosen by these names or by number.

Samples are the first axis, as everywhere in this package, or the last, as in MATLAB:

    order       X        F        J            weights
    "samples"   (S, m)   (S, n)   (S, n, m)    (S,) or (S, n)
    "matlab"    (m, S)   (n, S)   (n, m, S)    (S,) or (n, S)

Shapes do not always tell the two apart: J alone with n = m, or values with m = n, fit both. A file of MATLAB that fits
both is read with samples first only if that gives more samples than inputs; otherwise the order must be said.

The header of a NumPy file is believed only once it fits the file: NumPy makes room for what a header declares before it
reads anything, and takes members of an archive that are no arrays for bytes.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ..._support._arguments import is_word
from ..._support._errors import DecouplingError, InputError, SampleFileError, pluralised, short_repr
from ..._support._memory import check_declared
from ...model._names import label, one_line
from .._samples import Samples
from ._table import AbstractTable, Reading, check_gaps

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


_LONGEST_HEADER = 100_000  # letters
_MOST_MEMBERS = 10_000
_READERS: dict[tuple[int, int], Callable[..., Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_file(path: Path) -> ndarray:
    """The one array of an .npy file."""
    with path.open("rb") as stream:
        _check(f"`{path}`", stream, path.stat().st_size)
        stream.seek(0)
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False, max_header_size=_LONGEST_HEADER))


def read_archive(path: Path, wanted: Callable[[tuple[str, ...]], tuple[str, ...]]) -> dict[str, ndarray]:
    """Those arrays of an .npz file that `wanted` chooses from the names of all."""
    with zipfile.ZipFile(path) as archive:
        members = dict(_members(path, archive))
        chosen = {name: members[name] for name in wanted(tuple(members)) if name in members}
        check_declared(f"`{path}`", sum(info.file_size for info in chosen.values()), SampleFileError)
        return {name: _member(path, archive, name, info) for name, info in chosen.items()}


def _members(path: Path, archive: zipfile.ZipFile) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    infos = archive.infolist()
    if len(infos) > _MOST_MEMBERS:
        raise SampleFileError(f"`{path}` must hold at most {_MOST_MEMBERS} arrays. It has {len(infos)}.")
    for info in infos:
        yield info.filename.removesuffix(".npy"), info


def _member(path: Path, archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo) -> ndarray:
    source = f"The array `{label(name)}` of `{path}`"
    if not info.filename.endswith(".npy"):
        raise SampleFileError(f"{source} must be in NumPy's format. It is a file of another kind.")
    with archive.open(info) as stream:
        _check(source, stream, info.file_size)
    with archive.open(info) as stream:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False, max_header_size=_LONGEST_HEADER))


def _check(source: str, stream: Any, there: int) -> None:
    """The header must declare no objects, no more than the limit, and what is there."""
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise SampleFileError(f"{source} must be in version 1 or 2 of NumPy's format. It is in {version}.")
    shape, _, dtype = _READERS[version](stream, max_header_size=_LONGEST_HEADER)
    if dtype.hasobject:
        raise SampleFileError(f"{source} must hold numbers. It holds objects, which could run code.")
    declared = math.prod(shape) * dtype.itemsize
    check_declared(source, declared, SampleFileError)
    header = stream.tell()
    if declared > there - header:
        raise SampleFileError(
            f"{source} must hold {declared} bytes of numbers, as its header says. It has {max(there - header, 0)}: it "
            "is cut off or damaged."
        )


_ARRAY = {"inputs": "X", "outputs": "F"}
_DEFAULT = {"inputs": "x", "outputs": "y"}  # what samples without names call them


@dataclass(frozen=True)
class Side:
    """Inputs or outputs as the user wants them: which columns, and what they are called; None for all, and no names."""

    columns: list[int] | None = None
    names: tuple[str, ...] | None = None


def belongs_to(which: str, name: Any, arrays: Mapping[str, ndarray]) -> bool:
    """Whether a name is that of a column of X or F, such as X2, and of no array of its own."""
    array = _ARRAY[which]
    return re.fullmatch(rf"{array}\d*", str(name)) is not None and (name == array or str(name) not in arrays)


def choose_columns(
    path: Path, which: str, given: tuple[Any, ...] | None, own: tuple[str, ...] | None, count: int
) -> Side:
    """What `given` asks for among `count` columns, of which the file may have names of its `own`."""
    if given is None:
        return Side(names=own)
    array, asked = _ARRAY[which], tuple(str(name).strip() for name in given)
    own = own if own is not None and len(own) == count else None
    numbered = tuple(f"{array}{i + 1}" for i in range(count)) if count > 1 else (array,)
    numbers = tuple(str(i + 1) for i in range(count))
    called = own or tuple(f"{_DEFAULT[which]}{i + 1}" for i in range(count))
    for known, theirs in ((called, called), (numbered, numbered), (numbers, called)):
        if asked and set(asked) <= set(known):
            columns = [known.index(name) for name in asked]
            if len(set(asked)) < len(asked):
                raise InputError(f"`{which}` must name every column once. Got {', '.join(map(label, asked))}.")
            return Side(columns, tuple(theirs[i] for i in columns))
    whose = f", by name ({', '.join(map(label, own))}) or" if own else ""
    raise InputError(
        f"`{which}` must choose among the {pluralised(count, 'column')} of {array} in `{path}`{whose} by number "
        f"({numbers[0]} to {numbers[-1]}). Got {', '.join(map(label, asked))}."
    )


def select_columns(parts: Mapping[str, ndarray], inputs: Side, outputs: Side) -> dict[str, ndarray]:
    """The arrays X, F, J and weights with the chosen columns only."""
    chosen = dict(parts)
    if inputs.columns is not None:
        chosen["X"] = chosen["X"][:, inputs.columns]
        if "J" in chosen:
            chosen["J"] = chosen["J"][:, :, inputs.columns]
    if outputs.columns is not None:
        for name in ("F", "J"):
            if name in chosen:
                chosen[name] = chosen[name][:, outputs.columns]
        weights = chosen.get("weights")
        if weights is not None and weights.ndim > 1:
            chosen["weights"] = weights[:, outputs.columns]
    return chosen


_PARTS = ("X", "F", "J", "weights")
_LONGEST_REASON = 300  # letters that readers of others may add to a message
_MAGIC = b"\x93NUMPY"
_NAMES = {"inputs": "input_names", "outputs": "output_names"}  # as `Samples.save` writes them
_OURS = (*_PARTS, *_NAMES.values())


def read_npz(path: Path, *, as_samples: bool) -> dict[str, ndarray]:
    """The arrays of an .npz file, or only those of samples; objects, which could run code, are refused."""
    rule = f"`{path}` must be an .npz file with the arrays X and F or J"
    with _readable(rule), path.open("rb") as stream:
        if stream.read(len(_MAGIC)) == _MAGIC:
            raise SampleFileError(f"{rule}. It holds one bare array: save with np.savez(path, X=X, F=F, J=J).")
    with _readable(rule):
        return read_archive(path, lambda names: _OURS if as_samples and "X" in names else names)


def read_npy(path: Path) -> dict[str, ndarray]:
    """The columns of the one array in an .npy file: its fields, or the numbers 1, 2, ..."""
    rule = f"`{path}` must be an .npy file with a matrix, one row per sample, or an array with named fields"
    if zipfile.is_zipfile(path):
        raise SampleFileError(f"{rule}. It is an archive: give it the ending .npz.")
    with _readable(rule):
        array = read_file(path)
    if array.dtype.names is not None and array.ndim == 1:
        return {name: array[name] for name in array.dtype.names}
    if array.ndim != 2 or array.dtype.names is not None:
        raise SampleFileError(f"{rule}. Its shape is {array.shape}.")
    return {str(i + 1): column for i, column in enumerate(array.T)}


@contextmanager
def _readable(rule: str) -> Iterator[None]:
    """Whatever damaged bytes make a reader of others do is told as what it is: a file that cannot be read."""
    try:
        yield
    except DecouplingError:
        raise
    except Exception as error:
        reason = one_line(str(error))[:_LONGEST_REASON].rstrip(". ") or type(error).__name__
        raise SampleFileError(f"{rule}. It cannot be read: {reason}.") from error


def arrays_by_our_names(path: Path, arrays: Mapping[str, ndarray], given: Mapping[str, str]) -> dict[str, ndarray]:
    """The arrays of a file by our names, where the user says which are X, F, J and weights."""
    unknown = sorted(set(given) - set(_PARTS))
    if unknown:
        raise InputError(f"`arrays` must name arrays for X, F, J or weights. Got {', '.join(map(repr, unknown))}.")
    missing = [name for name in given.values() if name not in arrays]
    if missing:
        raise SampleFileError(
            f"`{path}` must have the arrays that `arrays` names. It lacks {', '.join(map(label, missing))}; it has "
            f"{', '.join(map(label, arrays)) or '(none)'}."
        )
    return {ours: arrays[theirs] for ours, theirs in given.items()}


def samples_of_arrays(
    path: Path,
    arrays: Mapping[str, ndarray],
    called: Mapping[str, Any],
    *,
    jacobians: bool | None,
    drop_missing: bool,
    order: Order | None,
    in_time: bool,
) -> Reading:
    """Samples of the arrays X, F, J and weights; `called` holds what the user says about their columns."""
    rule = f"`{path}` must have the arrays X and F or J"
    if "X" not in arrays:
        raise SampleFileError(
            f"{rule}. It has the arrays {', '.join(map(label, arrays)) or '(none)'}: name the columns with inputs= and "
            "outputs= (--inputs and --outputs), or say which arrays they are with arrays=dict(X=..., F=..., J=...)."
        )
    parts = {name: arrays[name] for name in _PARTS if name in arrays}
    if jacobians is False:
        parts.pop("J", None)
    elif jacobians and "J" not in parts:
        raise SampleFileError(f"{rule}, J among them. It has the arrays {', '.join(map(label, arrays))}.")
    parts = samples_first(path, parts, order)
    if "F" in parts and parts["F"].ndim == 1:
        parts["F"] = parts["F"][:, None]
    if not _fit_together(parts):
        return Reading(Samples(**parts))  # which says what does not fit
    n_inputs, n_outputs = parts["X"].shape[1], parts["F" if "F" in parts else "J"].shape[1]
    x = choose_columns(path, "inputs", called["inputs"], _texts(arrays.get(_NAMES["inputs"])), n_inputs)
    y = choose_columns(path, "outputs", called["outputs"], _texts(arrays.get(_NAMES["outputs"])), n_outputs)
    parts = select_columns(parts, x, y)
    whole = np.all([np.isfinite(array.reshape(len(array), -1)).all(axis=1) for array in parts.values()], axis=0)
    positions = np.arange(1, len(whole) + 1)
    dropped = check_gaps(f"`{path}`", whole, positions, "row", drop=drop_missing, in_time=in_time)
    if dropped:
        parts = {name: array[whole] for name, array in parts.items()}
    return Reading(Samples(**parts, inputs=x.names, outputs=y.names), tuple(dropped))


def names_in_X(path: Path, given: Sequence[Any], arrays: Mapping[str, ndarray]) -> list[str]:
    """What a table calls the columns of X that are asked for."""
    width = arrays["X"].shape[1]
    columns = choose_columns(path, "inputs", tuple(given), _texts(arrays.get(_NAMES["inputs"])), width).columns
    return ["X" if width == 1 else f"X{i + 1}" for i in columns or ()]


def _texts(array: ndarray | None) -> tuple[str, ...] | None:
    """Names as `Samples.save` writes them; whatever else bears that name in a file is none of ours."""
    return tuple(array.tolist()) if array is not None and array.dtype.kind == "U" and array.ndim == 1 else None


def _fit_together(parts: Mapping[str, ndarray]) -> bool:
    """Whether these are samples, so that columns and rows of them can be chosen."""
    X, F, J, weights = (parts.get(name) for name in _PARTS)
    if any(array.dtype.kind not in "fiub" or array.ndim == 0 for array in parts.values()):
        return False
    assert X is not None
    if X.ndim != 2 or 0 in X.shape or any(len(array) != len(X) for array in parts.values()):
        return False
    values = J if F is None else F
    if values is None or (F is not None and F.ndim != 2) or 0 in values.shape:
        return False
    n = values.shape[1]
    if J is not None and J.shape[1:] != (n, X.shape[1]):
        return False
    return weights is None or weights.shape[1:] in ((), (n,))


class ArraysTable(AbstractTable):
    """Arrays as columns."""

    def __init__(self, path: Path, arrays: Mapping[str, ndarray], *, notes: tuple[str, ...] = ()) -> None:
        self._path, self._notes = path, notes
        self._columns: dict[str, ndarray] = {}
        for name, array in arrays.items():
            self._columns |= _columns(name, array)

    @property
    def source(self) -> str:
        return f"`{self._path}`"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._columns)

    @property
    def notes(self) -> tuple[str, ...]:
        return self._notes

    @property
    def row_word(self) -> str:
        return "row"

    def read(self, columns: Sequence[int]) -> tuple[Float[ndarray, "S k"], Int[ndarray, " S"]]:
        listed = self.names
        names = [listed[j] for j in columns]
        for name in names:
            array = self._columns[name]
            if array.ndim != 1 or array.dtype.kind not in "fiub":
                raise SampleFileError(
                    f"Array `{label(name)}` of {self.source} must hold one real number per sample. Its shape is "
                    f"{array.shape} and its entries are of type {array.dtype}."
                )
        sizes = {name: len(self._columns[name]) for name in names}
        if len(set(sizes.values())) > 1:
            found = ", ".join(f"`{label(name)}`: {size}" for name, size in sizes.items())
            raise SampleFileError(f"{self.source} must have equally many numbers in all chosen arrays. Got {found}.")
        values = np.stack([self._columns[name] for name in names], axis=1).astype(np.float64)
        return values, np.arange(1, len(values) + 1)


def _columns(name: str, array: ndarray) -> dict[str, ndarray]:
    """A vector is one column; a matrix is one column for each of its own."""
    if array.ndim == 2 and 1 in array.shape:  # MATLAB has no other vectors
        array = array.reshape(-1)
    if array.ndim != 2:
        return {name: array}
    return {f"{name}{i + 1}": column for i, column in enumerate(array.T)}
