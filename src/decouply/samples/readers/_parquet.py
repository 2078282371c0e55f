"""Tables in Parquet files, read by pyarrow, which is imported when such a file is opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ..._support._errors import SampleFileError
from ..._support._memory import check_declared
from ..._support._optional_packages import needed
from ...model._names import label
from ._table import AbstractTable

_INDEX = "__index_level_"  # how pandas calls the labels of its rows


class ParquetTable(AbstractTable):
    """The columns of a Parquet file; only the chosen ones are read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        what = f"`{path}`, a Parquet file,"
        self._arrow = needed("pyarrow", "parquet", what)
        self._parquet = needed("pyarrow.parquet", "parquet", what)
        try:
            with self._parquet.ParquetFile(path) as file:
                self._schema = file.schema_arrow
                self._n_rows = file.metadata.num_rows
        except Exception as error:  # whatever damaged bytes make a reader of others do
            raise self._unreadable(error) from error

    @property
    def source(self) -> str:
        return f"`{self._path}`"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple("" if name.startswith(_INDEX) else name.strip() for name in self._schema.names)

    @property
    def notes(self) -> tuple[str, ...]:
        return ()

    @property
    def row_word(self) -> str:
        return "row"

    def read(self, columns: Sequence[int]) -> tuple[Float[ndarray, "S k"], Int[ndarray, " S"]]:
        kinds = self._arrow.types
        for j in columns:
            field = self._schema.field(j)
            tests = (kinds.is_floating, kinds.is_integer, kinds.is_decimal, kinds.is_boolean)
            if not any(test(field.type) for test in tests):
                raise SampleFileError(
                    f"Column `{label(field.name)}` of {self.source} must hold numbers. It holds {field.type}: leave it "
                    "out, or convert it."
                )
        check_declared(self.source, 8.0 * self._n_rows * len(columns), SampleFileError)
        listed = self._schema.names  # made anew every time
        names = [listed[j] for j in columns]
        try:
            with self._parquet.ParquetFile(self._path) as file:
                table = file.read(columns=sorted(set(names)))
            numbers = [table.column(name).cast(self._arrow.float64(), safe=False).to_numpy() for name in names]
        except Exception as error:  # as above
            raise self._unreadable(error) from error
        values = np.stack(numbers, axis=1)
        return values, np.arange(1, len(values) + 1)

    def _unreadable(self, error: Exception) -> SampleFileError:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        return SampleFileError(f"{self.source} must be a Parquet file. It cannot be read: {reason}.")
