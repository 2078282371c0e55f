"""Samples from a file of any kind that we know, told by the ending of its name."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_path, missing
from ..._support._errors import InputError, SampleFileError, short_repr
from .._array_checks import as_array_names
from ..stores._zarr import open_zarr
from ._arrays import (
    ArraysTable,
    Order,
    arrays_by_our_names,
    belongs_to,
    check_order,
    names_in_X,
    read_npy,
    read_npz,
    samples_of_arrays,
)
from ._csv import CsvTable
from ._mat import read_mat
from ._parquet import ParquetTable
from ._table import AbstractTable, Reading, columns_of, samples_of

KINDS = ".zarr, .npz, .npy, .csv, .tsv, .parquet or .mat"
_NUMBERED = "has no names: its columns are numbered from 1."


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
    """Samples and what there is to know about them; see `Samples.load`. `in_time` where rows follow one another."""
    for argument, flag in (("jacobians", jacobians), ("drop_missing", drop_missing)):
        if flag is not None and not isinstance(flag, bool):
            raise InputError(f"`{argument}` must be True or False. Got {short_repr(flag)}.")
    check_order(order)
    theirs = as_array_names(arrays)
    file = as_path("path", path)
    if str(path).rstrip("/").lower().endswith(".zarr"):  # read when needed, and not as a whole
        for argument, value in (("inputs", inputs), ("outputs", outputs), ("order", order)):
            if value is not None:
                raise InputError(f"`{argument}` must be left out for the store {path}, which has arrays X, F and J.")
        return Reading(open_zarr(path, theirs, None, None))
    if not file.is_file():
        raise SampleFileError(f"`{file}` must be a file with samples ({KINDS}). {missing(file)}")
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
            found = arrays_by_our_names(file, found, theirs)
        table = ArraysTable(file, found)
        called = {"inputs": _listed("inputs", inputs), "outputs": _listed("outputs", outputs)}
        if as_samples or ("X" in found and not _are_arrays(called, table.names, found)):
            return samples_of_arrays(
                file, found, called, jacobians=jacobians, drop_missing=drop_missing, order=order, in_time=in_time
            )
        if order == "matlab":
            raise InputError("`order` must be left out where columns are named: it is about the arrays X, F and J.")
    return samples_of(table, inputs, outputs, jacobians=jacobians, drop_missing=drop_missing, in_time=in_time)


def read_columns(path: str | os.PathLike[str], argument: str, names: Any) -> Float[ndarray, "S k"]:
    """Columns of a file that need not hold anything else, in the order of their names.

    Where an archive of samples has no such arrays, they are columns of X, as for `read_samples`.
    """
    file = as_path("path", path)
    table = open_table(file) if file.is_file() else None
    if table is None:
        ending = file.suffix.lower()
        if ending not in (".npy", ".npz", ".mat") or not file.is_file():
            raise SampleFileError(
                f"`{file}` must be a .csv, .tsv, .parquet, .npz, .npy or .mat file. "
                + ("It is none." if file.is_file() else missing(file))
            )
        found = read_npy(file) if ending == ".npy" else _archive(file, ending, False)
        table = ArraysTable(file, found)
        X = found.get("X")
        if X is not None and np.ndim(X) == 2 and not set(names) & set(table.names):
            names = names_in_X(file, names, found)
    return columns_of(table, argument, names)


def _are_arrays(called: Mapping[str, Any], known: Collection[str], arrays: Mapping[str, ndarray]) -> bool:
    """Whether names are those of arrays beside X and F, which are then taken for columns of a table."""
    return any(
        name in known and not belongs_to(which, name, arrays)
        for which, listed in called.items()
        for name in listed or ()
    )


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
