"""What `decouply fit` does with a table of which it is told nothing: it looks, says what it sees, and asks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model._names import label
from ._options import name_list

if TYPE_CHECKING:
    from ..samples.readers._table import Look

_SHOWN = 40  # columns
_LISTED = 12  # of them in one sentence

Chosen = tuple[tuple[str, ...] | None, tuple[str, ...] | None, tuple[str, ...]]


def chosen_columns(file: str, *, silent: bool) -> Chosen:
    """Inputs and outputs of a table, and what to say of the choice; None for files that hold the arrays X, F and J."""
    from .._support._errors import InputError
    from ..samples.readers._by_extension import open_table
    from ..samples.readers._table import look

    table = open_table(Path(file)) if Path(file).is_file() else None
    if table is None:
        return None, None, ()
    found = look(table)
    usable = found.usable
    if len(usable) < 2:
        why = next((column.why for column in found.columns if column.why), "")
        raise InputError(
            f"`{file}` must have at least two columns of numbers that vary, an input and an output. It has "
            f"{_some(usable) or 'none'}{_left_out(found)}. {' '.join((why, *table.notes))}".rstrip()
        )
    if not silent:
        _show(found, file)
    if not silent and sys.stdin.isatty():
        outputs = _asked("Outputs, separated by commas", (usable[-1],), usable)
        inputs = _asked("Inputs", tuple(n for n in usable if n not in outputs), usable)
        return inputs, outputs, _series_note(found, file, inputs, outputs)
    inputs, outputs = usable[:-1], usable[-1:]
    note = (
        f"The output is {_some(outputs)}, the last column of numbers that vary, and the inputs are "
        f"{_some(inputs)}{_left_out(found)}; choose others with --inputs and --outputs."
    )
    return inputs, outputs, (note, *_series_note(found, file, inputs, outputs))


def _left_out(found: Look) -> str:
    """Columns that are neither inputs nor outputs, and why."""
    others = [f"{label(column.name)} ({column.words})" for column in found.columns if column.kind != "number"]
    return f"; left out: {_some(others)}" if others else ""


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(f"column {name}" if name.isdecimal() else label(name) for name in names[:_LISTED]) + more


def _show(found: Look, file: str) -> None:
    from .._support._errors import pluralised
    from ..model._names import printable
    from ._output import plain_table, print_table

    table = plain_table(f"{file}: {pluralised(found.n_rows, 'row')}, {pluralised(len(found.columns), 'column')}")
    for column in found.columns[:_SHOWN]:
        table.add_row(printable(column.name), column.words)
    if len(found.columns) > _SHOWN:
        table.add_row("…", f"and {len(found.columns) - _SHOWN} more")
    print_table(table)


def _asked(question: str, proposed: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """Names of columns, asked for until all of them are known; shown, and typed, without what a terminal obeys."""
    from ..model._names import labels

    meant = dict(zip(labels(known), known, strict=True))
    shown = {name: text for text, name in meant.items()}

    def checked(text: str) -> tuple[str, ...]:
        names = name_list(text)
        for name in names:
            if name not in meant:
                raise click.BadParameter(f"{name!r} is not one of {', '.join(meant)}.")
        return tuple(meant[name] for name in names)

    quoted = ",".join(f'"{text}"' if "," in text else text for text in (shown[name] for name in proposed))
    answer: tuple[str, ...] = click.prompt(question, default=quoted, value_proc=checked)
    return answer


def _series_note(found: Look, file: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> tuple[str, ...]:
    if not found.series:
        return ()
    return (
        f"The rows look like a time series: {found.series}. This model has no memory; for one that has, run: decouply "
        f"identify {file} --input {','.join(inputs)} --output {','.join(outputs)}",
    )
