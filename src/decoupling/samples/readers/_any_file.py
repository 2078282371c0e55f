"""Samples from a file of any kind that we know, told by the ending of its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..._support._errors import InputError, SampleFileError
from ._arrays import ArraysTable, read_mat, read_npy, read_npz, samples_of_arrays
from ._csv import CsvTable
from ._parquet import ParquetTable
from ._table import AbstractTable, Reading, samples_of

KINDS = ".npz, .npy, .csv, .tsv, .parquet or .mat"
_NUMBERED = "has no names: its columns are numbered from 1."


def read_samples(
    path: str | os.PathLike[str],
    *,
    inputs: Any = None,
    outputs: Any = None,
    jacobians: bool | None = None,
    drop_missing: bool = False,
) -> Reading:
    """Samples and what there is to know about them; see `Samples.load`."""
    for argument, flag in (("jacobians", jacobians), ("drop_missing", drop_missing)):
        if flag is not None and not isinstance(flag, bool):
            raise InputError(f"`{argument}` must be True or False. Got {flag!r}.")
    file = Path(path)
    if not file.is_file():
        what = "It is a directory" if file.is_dir() else "There is no such file"
        raise SampleFileError(f"`{file}` must be a file with samples ({KINDS}). {what}.")
    ending = file.suffix.lower()
    table: AbstractTable
    if ending in (".csv", ".tsv", ".txt"):
        table = CsvTable(file, delimiter="\t" if ending == ".tsv" else None)
    elif ending in (".parquet", ".pq"):
        table = ParquetTable(file)
    elif ending == ".npy":
        arrays = read_npy(file)
        numbered = list(arrays) == [str(i + 1) for i in range(len(arrays))]
        table = ArraysTable(file, arrays, notes=(f"`{file}` {_NUMBERED}",) if numbered else ())
    else:
        as_samples = inputs is None and outputs is None
        arrays = _archive(file, ending, as_samples)
        table = ArraysTable(file, arrays)
        given = [_listed(name) for name in (inputs, outputs)]
        if as_samples or ("X" in arrays and not any(name in table.names for listed in given for name in listed or ())):
            called = {"inputs": given[0], "outputs": given[1]}
            return samples_of_arrays(file, arrays, called, jacobians=jacobians, drop_missing=drop_missing)
    return samples_of(table, inputs, outputs, jacobians=jacobians, drop_missing=drop_missing)


def _listed(given: Any) -> tuple[Any, ...] | None:
    return None if given is None else (given,) if isinstance(given, str) else tuple(given)


def _archive(file: Path, ending: str, as_samples: bool) -> Any:
    if ending == ".mat":
        return read_mat(file)
    try:
        return read_npz(file, as_samples=as_samples)
    except SampleFileError as error:
        if ending == ".npz":
            raise
        raise SampleFileError(
            f"`{file}` must be a file with samples, named {KINDS}. Its ending is {ending!r}, and it is no .npz file."
        ) from error
