"""Samples from a file of any kind that we know, told by the ending of its name: tables by their columns, and arrays.

Arrays called X, F, J and weights are samples as they are. If columns are named instead, every name is that of a
column of X or F, by what the texts in `input_names` and `output_names` say or by number. Or else that of an array: one
number per sample, or a matrix whose columns are called `name1`, `name2`, ...

Samples are the first axis of arrays, as everywhere in this package, or the last, as in MATLAB:

    order       X        F        J            weights
    "samples"   (S, m)   (S, n)   (S, n, m)    (S,) or (S, n)
    "matlab"    (m, S)   (n, S)   (n, m, S)    (S,) or (n, S)

Shapes do not always tell the two apart: J alone with n = m, or values with m = n, fit both. A file of MATLAB that fits
both is read with samples first only if that gives more samples than inputs; otherwise the order must be said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ..._support._arguments import as_path, is_word, missing
from ..._support._errors import InputError, SampleFileError, pluralised, short_repr
from ...model._names import label
from .._array_checks import as_array_names, what_does_not_fit
from .._samples import Samples
from ..stores._zarr import open_zarr
from ._array_files import NAMES_OF, PARTS, read_mat, read_npy, read_npz
from ._table import AbstractTable, Reading, check_gaps, columns_of, samples_of
from ._table_files import CsvTable, ParquetTable

Order = Literal["samples", "matlab"]
KINDS = ".zarr, .npz, .npy, .csv, .tsv, .parquet or .mat"
_NUMBERED = "has no names: its columns are numbered from 1."
_FEWEST_SAMPLES = 2  # an order of axes that gives fewer is none
_ARRAY = {"inputs": "X", "outputs": "F"}
_DEFAULT = {"inputs": "x", "outputs": "y"}  # what samples without names call them


def open_table(file: Path) -> AbstractTable | None:
    """The table in a file of text or in Parquet, whose columns are known before they are read; None for other files."""
    ending = file.suffix.lower()
    if ending in (".csv", ".tsv", ".txt"):
        return CsvTable(file, delimiter="\t" if ending == ".tsv" else None)
    return ParquetTable(file) if ending in (".parquet", ".pq") else None


def read_samples(
    path: str | os.PathLike[str],
    *,
    inputs: Any = None,
    outputs: Any = None,
    jacobians: bool | None = None,
    drop_missing: bool = False,
    order: Order | None = None,
    arrays: Mapping[str, str] | None = None,
    in_time: bool = False,
) -> Reading:
    """Samples and what there is to know about them; see `Samples.load`. `in_time` if rows follow one another."""
    for argument, flag in (("jacobians", jacobians), ("drop_missing", drop_missing)):
        if flag is not None and not isinstance(flag, bool):
            raise InputError(f"`{argument}` must be True or False. Got {short_repr(flag)}.")
    if order is not None and not is_word(order, ("samples", "matlab")):
        raise InputError(f'`order` must be "samples" or "matlab". Got {short_repr(order)}.')
    theirs = as_array_names(arrays)
    file = as_path("path", path)
    if str(path).rstrip("/").lower().endswith(".zarr"):  # read when needed, and not as a whole
        for argument, value in (("inputs", inputs), ("outputs", outputs), ("order", order)):
            if value is not None:
                raise InputError(f"`{argument}` must be left out for the store {path}, which has arrays X, F and J.")
        return Reading(open_zarr(path, theirs, None, None))
    if not file.is_file():
        raise SampleFileError(missing(file))
    ending = file.suffix.lower()
    for argument, value in (("order", order), ("arrays", arrays)):
        if value is not None and ending not in (".npz", ".mat"):
            raise InputError(f"`{argument}` must be left out for {file.name}: it is for arrays of .npz and .mat files.")
    table = open_table(file)
    if table is not None:
        pass
    elif ending == ".npy":
        columns = read_npy(file)
        numbered = list(columns) == [str(i + 1) for i in range(len(columns))]
        table = ArraysTable(file, columns, notes=(f"`{file}` {_NUMBERED}",) if numbered else ())
    else:
        as_samples = inputs is None and outputs is None
        found = _archive(file, ending, as_samples and theirs is None)
        if theirs is not None:
            found = _arrays_by_our_names(file, found, theirs)
        table = ArraysTable(file, found)
        called = {"inputs": _listed("inputs", inputs), "outputs": _listed("outputs", outputs)}
        if as_samples or ("X" in found and not _name_other_arrays(called, table.names, found)):
            return samples_of_arrays(
                file, found, called, jacobians=jacobians, drop_missing=drop_missing, order=order, in_time=in_time
            )
        if order == "matlab":
            raise InputError("`order` must be left out where columns are named: it is about the arrays X, F and J.")
    return samples_of(table, inputs, outputs, jacobians=jacobians, drop_missing=drop_missing, in_time=in_time)


def read_columns(path: str | os.PathLike[str], argument: str, names: Any) -> Float[ndarray, "S k"]:
    """Columns of a file that need not hold anything else, in the order of their names.

    If an archive of samples has no such arrays, they are columns of X, as for `read_samples`.
    """
    file = as_path("path", path)
    table = open_table(file) if file.is_file() else None
    if table is None:
        ending = file.suffix.lower()
        if not file.is_file():
            raise SampleFileError(missing(file))
        if ending not in (".npy", ".npz", ".mat"):
            raise SampleFileError(f"`{file}` must be a .csv, .tsv, .parquet, .npz, .npy or .mat file. It is none.")
        found = read_npy(file) if ending == ".npy" else _archive(file, ending, False)
        table = ArraysTable(file, found)
        X = found.get("X")
        if X is not None and np.ndim(X) == 2 and not set(names) & set(table.names):
            width = X.shape[1]
            columns, _ = choose_columns(file, "inputs", tuple(names), own_names(found, "inputs"), width)
            names = ["X" if width == 1 else f"X{i + 1}" for i in columns]
    return columns_of(table, argument, names)


def _name_other_arrays(called: Mapping[str, Any], known: Collection[str], arrays: Mapping[str, ndarray]) -> bool:
    """Whether a name is that of an array, and not of a column of X or F such as X2: then arrays make up a table."""
    for which, array in _ARRAY.items():
        for name in called[which] or ():
            is_column = name == array or (re.fullmatch(rf"{array}\d+", str(name)) and str(name) not in arrays)
            if name in known and not is_column:
                return True
    return False


def _listed(argument: str, given: Any) -> tuple[Any, ...] | None:
    if given is None or isinstance(given, str | int):
        return None if given is None else (given,)
    if not isinstance(given, Collection) or getattr(given, "ndim", 1) != 1:
        raise InputError(f"`{argument}` must be the name of a column or a list of names. Got {short_repr(given)}.")
    listed = tuple(given)
    if not all(isinstance(name, str | int) for name in listed):  # arrays and frames compare entry by entry
        raise InputError(f"`{argument}` must be the name of a column or a list of names. Got {short_repr(given)}.")
    return listed


def _archive(file: Path, ending: str, as_samples: bool) -> Any:
    if ending == ".mat":
        return read_mat(file)
    try:
        return read_npz(file, as_samples=as_samples)
    except SampleFileError as error:
        if ending == ".npz":
            raise
        raise SampleFileError(
            f"`{file}` must be a file with samples, named {KINDS}. Its ending is {ending!r}: save a table as .csv, or "
            "call it so if it is text; arrays of other files become a store with dc.Samples.from_batches."
        ) from error


def _arrays_by_our_names(path: Path, arrays: Mapping[str, ndarray], given: Mapping[str, str]) -> dict[str, ndarray]:
    """The arrays of a file by our names, where the user says which are X, F, J and weights."""
    unknown = sorted(set(given) - set(PARTS))
    if unknown:
        raise InputError(f"`arrays` must name arrays for X, F, J or weights. Got {', '.join(map(repr, unknown))}.")
    missing = [name for name in given.values() if name not in arrays]
    if missing:
        raise SampleFileError(
            f"`{path}` must have the arrays that `arrays` names. It lacks {', '.join(map(label, missing))}; it has "
            f"{', '.join(map(label, arrays)) or '(none)'}."
        )
    return {ours: arrays[theirs] for ours, theirs in given.items()}


# Samples of arrays


def choose_columns(
    path: Path, which: str, given: tuple[Any, ...] | None, own: tuple[str, ...] | None, count: int
) -> tuple[list[int], tuple[str, ...] | None]:
    """What `given` asks for among `count` columns, of which the file may have names of its `own`: places and names."""
    if given is None:
        return list(range(count)), own
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
            return columns, tuple(theirs[i] for i in columns)
    whose = f", by name ({', '.join(map(label, own))}) or" if own else ""
    raise InputError(
        f"`{which}` must choose among the {pluralised(count, 'column')} of {array} in `{path}`{whose} by number "
        f"({numbers[0]} to {numbers[-1]}). Got {', '.join(map(label, asked))}."
    )


def own_names(arrays: Mapping[str, ndarray], which: str) -> tuple[str, ...] | None:
    """Names as `Samples.save` writes them; whatever else bears that name in a file is none of ours."""
    array = arrays.get(NAMES_OF[which])
    return tuple(array.tolist()) if array is not None and array.dtype.kind == "U" and array.ndim == 1 else None


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
    parts = {name: arrays[name] for name in PARTS if name in arrays}
    if jacobians is False:
        parts.pop("J", None)
    elif jacobians and "J" not in parts:
        raise SampleFileError(f"{rule}, J among them. It has the arrays {', '.join(map(label, arrays))}.")
    parts = samples_first(path, parts, order)
    if "F" in parts and parts["F"].ndim == 1:
        parts["F"] = parts["F"][:, None]
    if not _are_samples(parts):
        return Reading(Samples(**parts))  # which says what does not fit
    # Columns: those of X and F that are asked for, with their part of J and of the weights.
    n_inputs, n_outputs = parts["X"].shape[1], parts["F" if "F" in parts else "J"].shape[1]
    i, inputs = choose_columns(path, "inputs", called["inputs"], own_names(arrays, "inputs"), n_inputs)
    o, outputs = choose_columns(path, "outputs", called["outputs"], own_names(arrays, "outputs"), n_outputs)
    of_axes = {"X": np.s_[:, i], "F": np.s_[:, o], "J": np.s_[:, o], "weights": np.s_[:, o]}
    parts = {name: a[of_axes[name]] if a.ndim > 1 else a for name, a in parts.items()}
    parts |= {"J": parts["J"][:, :, i]} if "J" in parts else {}
    # Rows: those without gaps.
    whole = np.all([np.isfinite(array.reshape(len(array), -1)).all(axis=1) for array in parts.values()], axis=0)
    positions = np.arange(1, len(whole) + 1)
    dropped = check_gaps(f"`{path}`", whole, positions, "row", drop=drop_missing, in_time=in_time)
    if dropped:
        parts = {name: array[whole] for name, array in parts.items()}
    return Reading(Samples(**parts, inputs=inputs, outputs=outputs), tuple(dropped), whole)


# The axis of samples


def samples_first(path: Path, parts: Mapping[str, ndarray], order: Order | None) -> dict[str, ndarray]:
    """The arrays of samples with samples first; without an order, only if their shapes leave no doubt."""
    if order is None:
        if path.suffix.lower() != ".mat":
            return dict(parts)
        usual, moved = _with_lost_axes(parts), _samples_axis_first(parts)
        first_fits, last_fits = (_are_samples(arrays, _FEWEST_SAMPLES) for arrays in (usual, moved))
        tall = usual["X"].ndim == 2 and usual["X"].shape[0] > usual["X"].shape[1]
        if not last_fits or (first_fits and tall):
            return usual
        shapes = ", ".join(f"{name} {array.shape}" for name, array in parts.items())
        if first_fits:
            raise SampleFileError(
                f'`{path}` must be read with order="samples" or order="matlab" (--order): the shapes {shapes} fit '
                f"both {len(usual['X'])} samples in the first axis and {len(moved['X'])} samples in the last one."
            )
        raise SampleFileError(
            f"`{path}` must have samples in the first axis. Got {shapes}, with samples in the last one, as in MATLAB: "
            'say order="matlab" (--order matlab).'
        )
    return _with_lost_axes(parts) if order == "samples" else _samples_axis_first(parts)


def _samples_axis_first(parts: Mapping[str, ndarray]) -> dict[str, ndarray]:
    """The last axis first; a vector of weights, which MATLAB keeps as a row or column, stays one."""
    moved = {name: np.moveaxis(array, -1, 0) if array.ndim else array for name, array in parts.items()}
    weights = parts.get("weights")
    if weights is not None and weights.ndim == 2 and 1 in weights.shape and weights.size == len(moved["X"]):
        moved["weights"] = weights.reshape(-1)
    return moved


def _with_lost_axes(parts: Mapping[str, ndarray]) -> dict[str, ndarray]:
    """MATLAB drops the last axis of J if there is one input, and has no vectors."""
    parts = dict(parts)
    X, J, weights = parts["X"], parts.get("J"), parts.get("weights")
    if J is not None and J.ndim == 2 and X.ndim == 2 and X.shape[1] == 1:
        parts["J"] = J[:, :, None]
    if weights is not None and weights.ndim == 2 and 1 in weights.shape and weights.size == len(X):
        parts["weights"] = weights.reshape(-1)
    return parts


def _are_samples(parts: Mapping[str, ndarray], fewest: int = 1) -> bool:
    """Whether these are numbers of this many samples or more, whose shapes fit together."""
    shapes = {name: array.shape for name, array in parts.items()}
    if any(array.dtype.kind not in "fiub" for array in parts.values()) or what_does_not_fit(shapes):
        return False
    S, n = shapes["X"][0], (*shapes.get("F", shapes.get("J", ())), 1)[1]
    return fewest <= S and shapes.get("weights", (S,)) in ((S,), (S, n))


class ArraysTable(AbstractTable):
    """Arrays as columns: a vector is one column, and a matrix is one for each of its columns."""

    def __init__(self, path: Path, arrays: Mapping[str, ndarray], *, notes: tuple[str, ...] = ()) -> None:
        super().__init__(path)
        self._columns: dict[str, ndarray] = {}
        for name, array in arrays.items():
            if array.ndim == 2 and 1 in array.shape:  # MATLAB has no other vectors
                array = array.reshape(-1)
            matrix = array.ndim == 2
            self._columns |= {f"{name}{i + 1}": a for i, a in enumerate(array.T)} if matrix else {name: array}
        self.names, self.notes = tuple(self._columns), notes

    def read(self, columns: Sequence[int]) -> tuple[Float[ndarray, "S k"], Int[ndarray, " S"]]:
        names = [self.names[j] for j in columns]
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
