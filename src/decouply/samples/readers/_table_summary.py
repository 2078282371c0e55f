"""What is in a table of which nothing is known yet: columns, their kinds, and whether rows are a time series."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._errors import SampleFileError
from ._table import AbstractTable, is_derivative

Kind = Literal["number", "constant", "time", "text", "empty"]
_TIME = re.compile(r"(t|time|times|timestamp|date|datetime|seconds|zeit)([ _]*[\[(].*[\])])?", re.IGNORECASE)
_SMOOTH = 0.8  # correlation of a column with itself one row later, from which rows seem to follow each other
_LEAST_ROWS = 30


@dataclass(frozen=True)
class Column:
    """One column: `missing` counts cells without a number; `why` says why a text cannot be read as numbers."""

    name: str
    kind: Kind
    missing: int = 0
    low: float = float("nan")
    high: float = float("nan")
    smooth: float = 0.0
    why: str = ""

    @property
    def words(self) -> str:
        if self.kind in ("text", "empty"):
            return "text" if self.kind == "text" else "no numbers"
        if self.kind == "time" and self.low != self.low:  # written as dates, whose range was not read
            return "dates"
        gaps = f", {self.missing} missing" if self.missing else ""
        if self.kind == "constant":
            return f"always {self.low:.4g}{gaps}"
        return f"{'time' if self.kind == 'time' else 'numbers'}, {self.low:.4g} to {self.high:.4g}{gaps}"


@dataclass(frozen=True)
class Look:
    """All columns of a table.

    `series` says why rows look like a time series; empty where they do not.
    """

    n_rows: int
    columns: tuple[Column, ...]
    series: str

    @property
    def usable(self) -> tuple[str, ...]:
        """Columns that may be inputs or outputs: numbers that vary, and are neither times nor derivatives of others."""
        names = tuple(c.name for c in self.columns if c.kind == "number")
        return tuple(name for name in names if not is_derivative(name, names))


def look(table: AbstractTable) -> Look:
    """Read every column by itself, and tell what it holds."""
    columns: list[Column] = []
    n_rows = 0
    for j, name in enumerate(table.names):
        if not name:
            continue
        try:
            values = table.read([j])[0][:, 0]
        except SampleFileError as error:
            kind: Kind = "time" if _is_date(str(error)) or _TIME.fullmatch(name) else "text"
            columns.append(Column(name, kind, why=str(error)))
            continue
        n_rows = max(n_rows, len(values))
        columns.append(_column(name, values))
    return Look(n_rows, tuple(columns), _series(columns, n_rows))


def _column(name: str, values: Float[ndarray, " S"]) -> Column:
    known = values[np.isfinite(values)]
    missing = len(values) - len(known)
    if not known.size:
        return Column(name, "empty", missing)
    low, high = float(known.min()), float(known.max())
    if low == high:
        return Column(name, "constant", missing, low, high)
    rises = bool(np.all(np.diff(known) > 0.0))
    kind: Kind = "time" if rises and _TIME.fullmatch(name) else "number"
    return Column(name, kind, missing, low, high, _correlation(known))


def _correlation(values: Float[ndarray, " S"]) -> float:
    """Of a column with itself one row later."""
    z = values - values.mean()
    return float(z[1:] @ z[:-1] / (z @ z))


def _is_date(message: str) -> bool:
    """Whether the cell that a message quotes is a date."""
    quoted = re.search(r" has '(.*?)'", message)
    try:
        datetime.fromisoformat(quoted.group(1) if quoted else "")
    except ValueError:
        return False
    return True


def _series(columns: list[Column], n_rows: int) -> str:
    times = [c.name for c in columns if c.kind == "time"]
    if times:
        return f"column `{times[0]}` holds times"
    numbers = [c for c in columns if c.kind == "number"]
    smooth = [c.name for c in numbers if c.smooth > _SMOOTH]
    if n_rows >= _LEAST_ROWS and 2 * len(smooth) > len(numbers):
        return (
            f"{', '.join(f'`{name}`' for name in smooth[:4])} hardly change{'s' * (len(smooth) == 1)} from row to row"
        )
    return ""
