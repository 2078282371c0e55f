"""Names that come with the data: the columns of a data frame, the name of a series."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._support._errors import InputError
from ...model._names import as_names


def column_names(table: Any) -> tuple[str, ...] | None:
    """The names of the columns of a pandas or polars frame, or that of a series; None for everything else."""
    try:
        frame = table.to_frame() if hasattr(table, "to_frame") else table
        return usable_names(getattr(frame, "columns", None))
    except Exception:  # whatever a foreign object does when it is asked; its numbers are looked at elsewhere
        return None


def usable_names(found: Iterable[Any] | None) -> tuple[str, ...] | None:
    """Names that nobody wrote by hand, if they can be used: a fit must not fail by numbers or twins among them."""
    listed = [] if found is None else list(found)
    if not listed or not all(isinstance(name, str) for name in listed):
        return None
    try:
        return as_names("names", listed, len(listed))
    except InputError:
        return None
