"""Tables: columns by name, samples made from the columns that the user names, and what is in an unknown table.

A column named `dy/dx1` or `dy_dx1` holds the derivative of the output `y` with respect to the input `x1`.
"""

from __future__ import annotations

import abc
import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from ..._support._errors import InputError, SampleFileError, pluralised, short_repr
from ...model._names import label
from .._samples import Samples

_ROWS_IN_MESSAGE = 5  # rows named in a message
_MOST_COLUMNS = 10**9  # no table has more
_COLUMNS_IN_MESSAGE = 30  # columns named in a message
_NAMES_COMPARED = 1000  # columns whose names are compared with a wrong one
_NUMBERED = re.compile(r"^(?:c|column)(\d+)$")  # what models call a column that has a number only
_ENTRIES = ("d{y}/d{x}", "d{y}_d{x}")  # names of derivatives; the second where a slash is not allowed


@dataclass(frozen=True)
class Reading:
    """Samples from a file, and what the user should know about how it was read."""

    samples: Samples
    notes: tuple[str, ...] = ()
    whole: Bool[ndarray, " S"] | None = None  # which rows of the file the samples are, unless they are all of them


class AbstractTable(abc.ABC):
    """Named columns of numbers in a file.

    Attributes
    ----------
    names
        The columns; an empty text if one has no name.
    notes
        What the user should know about how the file was read.
    row_word
        What positions count: lines or rows.
    """

    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    row_word: ClassVar[str] = "row"

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def source(self) -> str:
        """The file, as messages call it."""
        return f"`{self.path}`"

    @abc.abstractmethod
    def read(self, columns: Sequence[int]) -> tuple[Float[ndarray, "S k"], Int[ndarray, " S"]]:
        """The numbers of these columns, NaN if they are missing, and the position of each row in the file."""

    def texts(self, column: int) -> list[str]:  # noqa: ARG002
        """The first cells of a column as they are written; none for files that hold no text."""
        return []


def samples_of(
    table: AbstractTable,
    inputs: Any,
    outputs: Any,
    *,
    jacobians: bool | None,
    drop_missing: bool,
    in_time: bool = False,
) -> Reading:
    """Samples of the named columns; `in_time` if rows follow one another, so that none can be left out."""
    x, y, entries, notes = roles(table, inputs, outputs, jacobians=jacobians)
    places = _places(table)
    columns = [places[name][0] for name in (*x, *y)] + entries
    values, positions = table.read(columns)
    if len(values) == 0:
        raise SampleFileError(f"{table.source} must hold at least one row of numbers. It has none.")
    whole, dropped = _complete_rows(table, values, positions, drop_missing, in_time)
    kept = values[whole]
    notes += dropped
    X, F, rest = np.split(kept, [len(x), len(x) + len(y)], axis=1)
    J = rest.reshape(len(kept), len(y), len(x)) if entries else None
    # Numbers of columns become c1, c2, ..., or column1 where there is a c1: in a formula 2 would be a number.
    word = "column" if any(name.startswith("c") and name[1:].isdecimal() for name in (*x, *y)) else "c"
    inputs, outputs = (tuple(f"{word}{name}" if name.isdecimal() else name for name in names) for names in (x, y))
    return Reading(Samples(X, F=F, J=J, inputs=inputs, outputs=outputs), tuple(notes), whole)


def roles(
    table: AbstractTable, inputs: Any, outputs: Any, *, jacobians: bool | None
) -> tuple[tuple[str, ...], tuple[str, ...], list[int], list[str]]:
    """Names of the columns that are inputs and outputs, the places of derivatives (maybe none), and notes."""
    notes = list(table.notes)
    x, y = _as_names(table, "inputs", inputs), _as_names(table, "outputs", outputs)
    if x is None and y is None:
        raise InputError(
            f"`inputs` and `outputs` must name columns of {table.source}, at least one of them. {_listing(table)}"
        )
    if y is None:
        known = set(x or ())
        others = (n for n in table.names if n and n not in known)
        y = tuple(n for n in others if not any(by in known for _, by in _derivative_parts(n)))
        notes.append(f"Outputs: {', '.join(map(label, y))} (all columns but the inputs).")
    elif x is None:
        known = set(y)
        others = (n for n in table.names if n and n not in known)
        x = tuple(n for n in others if not any(of in known for of, _ in _derivative_parts(n)))
        notes.append(f"Inputs: {', '.join(map(label, x))} (all columns but the outputs).")
    assert x is not None
    _check_roles(table, x, y)
    return x, y, _jacobian_columns(table, x, y, jacobians), notes


def columns_of(table: AbstractTable, argument: str, given: Any) -> Float[ndarray, "S k"]:
    """The named columns alone, in time: every number must be there."""
    names, places = _as_names(table, argument, given), _places(table)
    assert names is not None
    values, positions = table.read([_find(table, argument, name, places) for name in names])
    _complete_rows(table, values, positions, drop=False, in_time=True)
    return values


# Columns


def _as_names(table: AbstractTable, argument: str, given: Any) -> tuple[str, ...] | None:
    """Names of columns, or their numbers, as texts.

    c1 or column1, as models call them, is column 1 if columns have numbers only.
    """
    if given is None:
        return None
    names = (given,) if isinstance(given, str | int) else given
    is_list = isinstance(names, Sequence) and len(names) > 0
    for name in names if is_list else (None,):
        is_number = isinstance(name, int) and not isinstance(name, bool) and abs(name) < _MOST_COLUMNS
        if not is_number and not (isinstance(name, str) and name.strip()):
            raise InputError(f"`{argument}` must be the name of a column or a list of names. Got {short_repr(given)}.")
    found = tuple(str(name).strip() for name in names)
    if table.names == tuple(str(i + 1) for i in range(len(table.names))):
        found = tuple(_NUMBERED.sub(r"\1", name) for name in found)
    return found


def _places(table: AbstractTable) -> dict[str, list[int]]:
    """The places of the columns of every name: tables may have very many."""
    places: dict[str, list[int]] = {}
    for i, name in enumerate(table.names):
        places.setdefault(name, []).append(i)
    return places


def _find(table: AbstractTable, argument: str, name: str, known: dict[str, list[int]]) -> int:
    places = known.get(name, [])
    if len(places) == 1:
        return places[0]
    if places:
        where = ", ".join(str(i + 1) for i in places[:_COLUMNS_IN_MESSAGE]) + (
            ", ..." if len(places) > _COLUMNS_IN_MESSAGE else ""
        )
        raise InputError(
            f"`{argument}`: {table.source} has {len(places)} columns `{label(name)}`, at {where}: rename them."
        )
    lower = {n.lower(): n for n in table.names if n}
    close = difflib.get_close_matches(name.lower(), list(lower)[:_NAMES_COMPARED], n=3)
    hint = f" Did you mean {' or '.join(f'`{label(lower[n])}`' for n in close)}?" if close else ""
    raise InputError(f"`{argument}` must name columns of {table.source}. Got `{label(name)}`.{hint} {_listing(table)}")


def _listing(table: AbstractTable) -> str:
    named = [f"`{label(n)}`" for n in table.names if n]
    more = f", ... ({len(named)} in all)" if len(named) > _COLUMNS_IN_MESSAGE else ""
    listing = f"It has the columns {', '.join(named[:_COLUMNS_IN_MESSAGE]) or '(none)'}{more}."
    note = " ".join(table.notes)
    return f"{listing} {note}".strip()


def _derivative_parts(name: str) -> Iterator[tuple[str, str]]:
    """What a column may be the derivative of, and by what, for every place where its name can be cut."""
    for entry in _ENTRIES if name.startswith("d") else ():
        between = entry.replace("d{y}", "").replace("{x}", "")
        at = name.find(between)
        while at >= 0:
            yield name[1:at], name[at + len(between) :]
            at = name.find(between, at + 1)


def _check_roles(table: AbstractTable, x: tuple[str, ...], y: tuple[str, ...]) -> None:
    places = _places(table)
    for argument, names in (("inputs", x), ("outputs", y)):
        for name in names:
            _find(table, argument, name, places)
        if not names:
            raise InputError(f"`{argument}` must be at least one column. None is left. {_listing(table)}")
    several = sorted(name for name, count in Counter((*x, *y)).items() if count > 1)
    if several:
        twice = ", ".join(f"`{label(n)}`" for n in several)
        raise InputError(f"`inputs` and `outputs` must name every column once. Got {twice} twice.")


def _jacobian_columns(table: AbstractTable, x: tuple[str, ...], y: tuple[str, ...], wanted: bool | None) -> list[int]:
    """The places of the derivatives: all of them, output by output, or none."""
    if wanted is False:
        return []
    places, taken = _places(table), {*x, *y}
    found: dict[tuple[str, str], int] = {}
    for o in y:
        for i in x:
            for entry in _ENTRIES:
                name = entry.format(y=o, x=i)
                if name in places and name not in taken:
                    found[o, i] = _find(table, "jacobians", name, places)
    missing = [_ENTRIES[0].format(y=o, x=i) for o in y for i in x if (o, i) not in found]
    if not missing:
        return [found[o, i] for o in y for i in x]
    if found or wanted:
        shown = ", ".join(f"`{label(n)}`" for n in missing[:_COLUMNS_IN_MESSAGE])
        raise InputError(
            f"`jacobians`: {table.source} must have one column for every derivative. Missing: {shown}. Add them, or "
            "leave Jacobians out (jacobians=False, or --no-jacobians)."
        )
    return []


# Rows


def _complete_rows(
    table: AbstractTable, values: Float[ndarray, "S k"], positions: Int[ndarray, " S"], drop: bool, in_time: bool
) -> tuple[Bool[ndarray, " S"], list[str]]:
    whole = np.isfinite(values).all(axis=1)
    notes = check_gaps(table.source, whole, positions, table.row_word, drop=drop, in_time=in_time)
    return whole, notes


def check_gaps(
    source: str, whole: Bool[ndarray, " S"], positions: Int[ndarray, " S"], word: str, *, drop: bool, in_time: bool
) -> list[str]:
    """Rows that are not `whole` are refused, or left out with a note if the user wants that."""
    n_bad = len(whole) - int(np.count_nonzero(whole))
    if n_bad == 0:
        return []
    where = ", ".join(str(int(p)) for p in positions[~whole][:_ROWS_IN_MESSAGE]) + (
        ", ..." if n_bad > _ROWS_IN_MESSAGE else ""
    )
    rows = pluralised(len(whole), "row")
    what = f"{n_bad} of {rows} with missing or infinite values ({word}{'s' * (n_bad > 1)} {where})"
    if not drop:
        cure = (
            "fill the gap, or cut the record there; rows follow one another in time, so none can be left out."
            if in_time
            else "repair them, or leave them out (drop_missing=True, or --drop-missing)."
        )
        raise SampleFileError(f"{source} must have a number in every chosen column. Got {what}: {cure}")
    if n_bad == len(whole):
        raise SampleFileError(f"{source} must hold at least one complete row. Got {what}.")
    return [f"Left out: {what}."]


# What is in a table of which nothing is known yet: columns, their kinds, and whether rows are a time series

Kind = Literal["number", "constant", "time", "text", "empty"]
_TIME = re.compile(r"(t|time|times|timestamp|date|datetime|seconds|zeit)([ _]*[\[(].*[\])])?", re.IGNORECASE)
_SMOOTH = 0.8  # correlation of a column with itself one row later, from which rows seem to follow each other
_LEAST_ROWS = 30


@dataclass(frozen=True)
class Column:
    """One column: `missing` counts cells without a number. `why` says why a text cannot be read as numbers."""

    name: str
    kind: Kind
    missing: int = 0
    low: float = float("nan")
    high: float = float("nan")
    smooth: float = 0.0
    why: str = ""
    rises: bool = True

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

    `series` says why rows look like a time series; empty if they do not.
    """

    n_rows: int
    columns: tuple[Column, ...]
    series: str

    @property
    def usable(self) -> tuple[str, ...]:
        """Columns that may be inputs or outputs: numbers that vary, and are neither times nor derivatives of others."""
        names = tuple(c.name for c in self.columns if c.kind == "number")
        known = set(names)
        return tuple(n for n in names if not any({of, by} <= known for of, by in _derivative_parts(n)))


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
            columns.append(Column(name, kind, why=str(error), rises=_dates_rise(table.texts(j))))
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
    z = known - known.mean()
    return Column(name, kind, missing, low, high, smooth=float(z[1:] @ z[:-1] / (z @ z)))


def _is_date(message: str) -> bool:
    """Whether the cell that a message quotes is a date."""
    quoted = re.search(r" has '(.*?)'", message)
    try:
        datetime.fromisoformat(quoted.group(1) if quoted else "")
    except ValueError:
        return False
    return True


def _dates_rise(texts: list[str]) -> bool:
    """Whether dates do not jump back, as far as they can be read as dates."""
    try:
        dates = [datetime.fromisoformat(text.strip()) for text in texts if text.strip()]
        return all(a <= b for a, b in pairwise(dates))
    except (ValueError, TypeError):  # other formats, or zones on some of them
        return True


def _series(columns: list[Column], n_rows: int) -> str:
    times = [c.name for c in columns if c.kind == "time" and c.rises]
    if times:
        return f"column `{times[0]}` holds times"
    numbers = [c for c in columns if c.kind == "number"]
    smooth = [c.name for c in numbers if c.smooth > _SMOOTH]
    if n_rows >= _LEAST_ROWS and 2 * len(smooth) > len(numbers):
        return (
            f"{', '.join(f'`{name}`' for name in smooth[:4])} hardly change{'s' * (len(smooth) == 1)} from row to row"
        )
    return ""
