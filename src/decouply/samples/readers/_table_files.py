"""Files of tables: text, with commas, semicolons or tabs between values and maybe a line of names. And Parquet.

Parquet is read by pyarrow, which is imported when such a file is opened.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ..._support._errors import SampleFileError
from ..._support._machine import check_declared
from ..._support._optional_packages import needed
from ...model._names import label
from ._table import AbstractTable

_DELIMITERS = ("\t", ";", ",")  # in this order: decimal commas are found in files with the other two
_HEAD = 20  # lines that the delimiter is chosen by
_MOST_COLUMNS = 100_000
_TEXTS = 10_000  # cells that are looked at to see whether dates rise
_LONGEST_LINE = 50_000_000  # letters
_MOST_CELLS = 500_000  # of rows that are converted at a time
_CHUNK = 20_000  # rows that are converted at a time
_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "-nan"}
_SAYS_DELIMITER = re.compile(r"\"?sep=(.)\"?\s*", re.IGNORECASE)  # a first line that spreadsheets write
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_ADVICE = "Write decimal points: export it again with English number formats, or replace the commas."
_INDEX = "__index_level_"  # how pandas calls the labels of rows of Parquet


class CsvTable(AbstractTable):
    """A text file. The first line holds the names, unless all of its cells are numbers; then columns are numbered.

    Lines that begin with # are comments. The last one before the data holds the names if it has one for each column
    (as `np.savetxt` writes them) and no line of names follows.
    """

    row_word: ClassVar[str] = "line"

    def __init__(self, path: Path, *, delimiter: str | None = None) -> None:
        super().__init__(path)
        comments, lines = self._head()
        if not lines:
            raise SampleFileError(f"{self.source} must be a table of numbers. It is empty.")
        said = _SAYS_DELIMITER.fullmatch(lines[0])
        self._n_before = 0 if said is None else 1
        if said is not None:
            delimiter, lines = said[1], lines[1:]
        if not lines:
            raise SampleFileError(f"{self.source} must be a table of numbers. It has one line, about the delimiter.")
        if max(lines[0].count(d) for d in (delimiter or "", *_DELIMITERS) if d) >= _MOST_COLUMNS:
            raise SampleFileError(f"{self.source} must have at most {_MOST_COLUMNS} columns. Its first line has more.")
        self._delimiter = _guess_delimiter(lines) if delimiter is None else delimiter
        try:
            first = _split_line(lines[0], self._delimiter)
        except csv.Error as error:
            raise SampleFileError(f"{self.source} must be a table of numbers. Its first line: {error}.") from error
        self._has_header = not _holds_numbers(first)
        if self._has_header:
            self.names = tuple(first)
        elif comments and _n_cells(named := comments[-1].lstrip("# "), self._delimiter) == len(first):
            self.names = tuple(_split_line(named, self._delimiter))
        else:
            self.names = tuple(str(i + 1) for i in range(len(first)))
            self.notes = (f"{self.source} has no line of names: its columns are numbered from 1.",)
        if len(first) == 1:
            self.notes += ("Columns must be separated by commas, semicolons or tabs.",)

    def read(self, columns: Sequence[int]) -> tuple[Float[ndarray, "S k"], Int[ndarray, " S"]]:
        check_declared(self.source, self.path.stat().st_size, SampleFileError)  # numbers have about eight letters
        parts: list[ndarray] = []
        positions: list[int] = []
        rows = self._rows()
        while chunk := list(islice(rows, max(1, min(_CHUNK, _MOST_CELLS // len(self.names))))):
            lines = [line for line, _ in chunk]
            numbers = [self._numbers([row[j] for _, row in chunk], lines, self.names[j] or str(j + 1)) for j in columns]
            parts.append(np.stack(numbers, axis=1))
            positions += lines
        values = np.concatenate(parts) if parts else np.empty((0, len(columns)))
        return values, np.array(positions, dtype=np.int64)

    def texts(self, column: int) -> list[str]:
        return [row[column] for _, row in islice(self._rows(), _TEXTS)]

    def _open(self) -> IO[str]:
        return self.path.open(encoding="utf-8-sig", newline="")

    def _head(self) -> tuple[list[str], list[str]]:
        """Comments before the data, and the first lines of the data."""
        comments: list[str] = []
        lines: list[str] = []
        with self._open() as stream:
            try:
                while line := stream.readline(_LONGEST_LINE):
                    if len(line) == _LONGEST_LINE:
                        raise SampleFileError(
                            f"{self.source} must have lines of fewer than {_LONGEST_LINE} letters. It has longer ones."
                        )
                    if "\0" in line:
                        raise SampleFileError(f"{self.source} must be a text file. It holds binary data.")
                    if line.startswith("#"):
                        comments += [] if lines else [line]
                    elif line.strip():
                        lines.append(line)
                    if len(lines) == _HEAD:
                        break
            except UnicodeDecodeError as error:
                raise self._undecodable(error) from error
        return comments, lines

    def _undecodable(self, error: UnicodeDecodeError) -> SampleFileError:
        return SampleFileError(
            f"{self.source} must be text in UTF-8. It is in another encoding ({error.reason}): save it as CSV in UTF-8."
        )

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows below the names, with the line that each one ends at."""
        with self._open() as stream:
            for _ in range(self._n_before):
                stream.readline()
            yield from islice(self._whole_rows(stream), int(self._has_header), None)

    def _whole_rows(self, stream: IO[str]) -> Iterator[tuple[int, list[str]]]:
        """Rows of as many cells as there are names.

        More cells are fine if they are empty: some programs end every line of numbers with a delimiter.
        """
        width = len(self.names)
        lines = ("\n" if line.startswith("#") else line for line in stream)  # comments may be as long as they like
        reader = csv.reader(lines, delimiter=self._delimiter, strict=True, skipinitialspace=True)
        before = self._n_before
        try:
            for row in reader:
                if len(row) == width or (len(row) > width and not any(cell.strip() for cell in row[width:])):
                    if not row[0].startswith("#") and (width > 1 or row[0].strip()):
                        yield before + reader.line_num, row
                elif row and not row[0].startswith("#") and any(cell.strip() for cell in row):
                    raise SampleFileError(
                        f"{self.source} must have {width} cells in every line, as in its first. Line "
                        f"{before + reader.line_num} has {len(row)}{self._reason(row, width)}"
                    )
        except csv.Error as error:
            raise SampleFileError(
                f"{self.source} must be a table with closed quotes and short cells. Line {before + reader.line_num}: "
                f"{error}."
            ) from error
        except UnicodeDecodeError as error:
            raise self._undecodable(error) from error

    def _reason(self, row: list[str], width: int) -> str:
        if len(row) < width:
            return ": the file may have been cut off."
        return (
            f": if its numbers have decimal commas, they are cut in two. {_ADVICE}" if self._delimiter == "," else "."
        )

    def _numbers(self, cells: list[str], lines: list[int], name: str) -> Float[ndarray, " s"]:
        try:
            if "_" not in "".join(cells):  # Python takes 2024_05 for a number
                return np.fromiter(map(float, cells), float, len(cells))
        except ValueError:
            pass
        return np.array([self._number(cell, line, name) for cell, line in zip(cells, lines, strict=True)])

    def _number(self, cell: str, line: int, name: str) -> float:
        text = cell.strip()
        if text.lower() in _MISSING:
            return float("nan")
        if _is_number(text):
            return float(text)
        rule = f"Column `{label(name)}` of {self.source} must hold numbers. Line {line} has {text!r}"
        if _DECIMAL_COMMA.fullmatch(text):
            raise SampleFileError(f"{rule}, with a decimal comma. {_ADVICE}")
        raise SampleFileError(
            f"{rule}. Leave this column out (inputs=, or --inputs, with the others), or write numbers. Begin lines of "
            "units or remarks with #."
        )


def _guess_delimiter(lines: list[str]) -> str:
    """The delimiter that cuts all first lines into equally many cells; else the one that cuts the first line most."""
    widths = {d: [_n_cells(line, d) for line in lines] for d in _DELIMITERS}
    for delimiter, found in widths.items():
        if found[0] > 1 and len(set(found)) == 1:
            return delimiter
    return max(_DELIMITERS, key=lambda d: widths[d][0])


def _n_cells(line: str, delimiter: str) -> int:
    try:
        return len(_split_line(line, delimiter))
    except csv.Error:  # a cell that is too long: another delimiter cuts it
        return 0


def _split_line(line: str, delimiter: str) -> list[str]:
    row = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    return [cell.strip() for cell in row]


def _holds_numbers(cells: list[str]) -> bool:
    """Whether a line holds numbers instead of names."""
    known = [cell for cell in cells if cell.lower() not in _MISSING]
    return bool(known) and all(_is_number(cell) or _DECIMAL_COMMA.fullmatch(cell) for cell in known)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


class ParquetTable(AbstractTable):
    """The columns of a Parquet file; only the chosen ones are read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        what = f"`{path}`, a Parquet file,"
        self._arrow = needed("pyarrow", "parquet", what)
        self._parquet = needed("pyarrow.parquet", "parquet", what)
        try:
            with self._parquet.ParquetFile(path) as file:
                self._schema = file.schema_arrow
                self._n_rows = file.metadata.num_rows
        except Exception as error:  # whatever damaged bytes make a reader of others do
            raise self._unreadable(error) from error
        self.names = tuple("" if name.startswith(_INDEX) else name.strip() for name in self._schema.names)

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
            with self._parquet.ParquetFile(self.path) as file:
                table = file.read(columns=sorted(set(names)))
            numbers = [table.column(name).cast(self._arrow.float64(), safe=False).to_numpy() for name in names]
        except Exception as error:  # as above
            raise self._unreadable(error) from error
        values = np.stack(numbers, axis=1)
        return values, np.arange(1, len(values) + 1)

    def _unreadable(self, error: Exception) -> SampleFileError:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        return SampleFileError(f"{self.source} must be a Parquet file. It cannot be read: {reason}.")
