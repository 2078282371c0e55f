"""Parquet files that are read by row groups: named columns, as `Samples.load` takes them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._errors import DataError
from ..._support._optional_packages import needed
from .._samples import Samples
from ..readers._parquet import ParquetTable
from ..readers._table import roles, shown_names
from ._paths import Path, as_path, opened, readable
from ._stored_arrays import AbstractStoredArray, stored_data


@functools.lru_cache(maxsize=4)
def _row_group(path: str, group: int, columns: tuple[str, ...]) -> ndarray:
    """The numbers of some columns of a row group; neighbouring portions may share one."""
    arrow, parquet = needed("pyarrow", "parquet", "A Parquet file"), needed("pyarrow.parquet", "parquet", "It")
    with readable(f"`{path}` must be a complete Parquet file, row group {group} too"):
        with opened(path) as stream:
            table = parquet.ParquetFile(stream).read_row_group(group, columns=sorted(set(columns)))
        return np.stack([table.column(c).cast(arrow.float64(), safe=False).to_numpy() for c in columns], axis=1)


@dataclass(frozen=True)
class ParquetColumns(AbstractStoredArray):
    """Columns of a file as one array."""

    path: str
    columns: tuple[str, ...]
    shape: tuple[int, ...]
    ends: tuple[int, ...]  # of the row groups
    chunk: int
    dtype: np.dtype[Any]

    def read(self, first: int, stop: int) -> ndarray:
        parts, begin = [], 0
        for group, end in enumerate(self.ends):
            if begin < stop and first < end:
                rows = _row_group(self.path, group, self.columns)
                parts.append(rows[max(first - begin, 0) : stop - begin])
            begin = end
        return np.concatenate(parts).reshape(-1, *self.shape[1:])


def open_parquet(path: Path, inputs: Any, outputs: Any, jacobians: bool | None) -> Samples:
    """Samples of a Parquet file; see `Samples.from_parquet`."""
    place = as_path("path", path, "a Parquet file")
    with opened(place) as stream:
        table = ParquetTable(place, stream)
    x, y, entries, _ = roles(table, inputs, outputs, jacobians=jacobians)
    names = table.names
    table.check_numbers([names.index(name) for name in (*x, *y)] + entries)
    ends = tuple(int(end) for end in np.cumsum(table.row_groups))
    if not ends or ends[-1] == 0:
        raise DataError(f"`{place}` must hold at least one row of numbers. It has none.")
    _row_group.cache_clear()

    def columns(chosen: Sequence[str], of_sample: tuple[int, ...]) -> ParquetColumns:
        return ParquetColumns(place, tuple(chosen), (ends[-1], *of_sample), ends, ends[0], np.dtype(float))

    J = columns([names[j] for j in entries], (len(y), len(x))) if entries else None
    data = stored_data(columns(x, (len(x),)), columns(y, (len(y),)), J, None)
    called = shown_names(x, y)
    return Samples.stored(data, inputs=called[0], outputs=called[1])
