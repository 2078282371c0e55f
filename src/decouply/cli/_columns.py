"""Which columns of a file are inputs, outputs and Jacobians.

If no option names columns of a table, `decouply fit` lists all columns and asks which ones to use.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model._names import label
from ._options import Given, name_list

if TYPE_CHECKING:
    from ..samples.readers._table import Look, Reading

FORMULAS = ("text", "latex", "python", "c", "matlab")
_MOST_ROWS = 40  # of the table of columns
_MOST_IN_SENTENCE = 12  # columns

Chosen = tuple[tuple[str, ...] | None, tuple[str, ...] | None, tuple[str, ...]]


def read_columns(file: str, given: Given) -> Reading:
    """The samples in a file, with the columns that the options name."""
    from ..samples.readers._by_extension import read_samples

    names = ("inputs", "outputs", "jacobians", "drop_missing", "order")
    return read_samples(file, **{name: getattr(given, name) for name in names})


def choose_columns(file: str, given: Given) -> tuple[str, ...]:
    """Ask for inputs and outputs that no option names, or choose them; what was said of the choice."""
    if given.inputs is not None or given.outputs is not None:
        return ()
    from ._output import say

    given.inputs, given.outputs, told = chosen_columns(file, silent=given.quiet or given.as_json)
    for note in () if given.quiet else told:
        say(note, err=True)
    return told


def chosen_columns(file: str, *, silent: bool) -> Chosen:
    """Inputs and outputs of a table, and what to say of the choice; None for files that hold the arrays X, F and J."""
    found = _looked_at(file)
    if found is None:
        return None, None, ()
    usable = found.usable
    if not silent:
        _show(found, file)
    if not silent and sys.stdin.isatty():
        inputs, outputs = _ask(usable)
        return inputs, outputs, _series_note(found, file, inputs, outputs)
    inputs, outputs = usable[:-1], usable[-1:]
    return inputs, outputs, (_choice_note(found, inputs, outputs), *_series_note(found, file, inputs, outputs))


def chosen_signals(file: str, given: Given) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Inputs and outputs of a record; those that the options do not name are asked for, or chosen with a note."""
    inputs, outputs = given.inputs, given.outputs
    if inputs is not None and outputs is not None:
        return inputs, outputs
    found = _looked_at(file)
    if found is None:
        raise click.UsageError(f"{file} holds arrays. Name its signals with --inputs and --outputs.")
    silent = given.quiet or given.as_json
    if inputs is None and outputs is None and not silent:
        _show(found, file)
        if sys.stdin.isatty():
            return _ask(found.usable)
    if outputs is None:
        rest = tuple(name for name in found.usable if name not in (inputs or ()))
        outputs = rest if inputs is not None else rest[-1:]
    if inputs is None:
        inputs = tuple(name for name in found.usable if name not in outputs)
    if not given.quiet:
        from ._output import say

        say(_choice_note(found, inputs, outputs), err=True)
        times = [c.name for c in found.columns if c.kind == "time" and c.low == c.low]  # numbers, not dates
        if len(times) == 1 and given.sampling_time is None and not given.narx:
            say(f"For a model in seconds, add: --sampling-time {shlex.quote(times[0])}", err=True)
    return inputs, outputs


def _looked_at(file: str) -> Look | None:
    """What is in a table; None for files of arrays."""
    from .._support._errors import InputError
    from ..samples.readers._by_extension import open_table
    from ..samples.readers._table import look

    table = open_table(Path(file)) if Path(file).is_file() else None
    if table is None:
        return None
    found = look(table)
    if len(found.usable) < 2:
        why = next((column.why for column in found.columns if column.why), "")
        if "decimal comma" in why:
            raise InputError(why)
        raise InputError(
            f"`{file}` must have at least two columns of numbers that vary, an input and an output. It has "
            f"{_listed(found.usable) or 'none'}{_left_out(found)}. {' '.join((why, *table.notes))}".rstrip()
        )
    return found


def _left_out(found: Look) -> str:
    others = [f"{label(column.name)} ({column.words})" for column in found.columns if column.kind != "number"]
    return f"; left out: {_listed(others)}" if others else ""


def _choice_note(found: Look, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> str:
    word = "outputs are" if len(outputs) > 1 else "output is"
    return (
        f"The {word} {_listed(outputs)}, the inputs are {_listed(inputs)}{_left_out(found)}. Choose others with "
        "--inputs and --outputs."
    )


def _ask(usable: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Inputs and outputs, as a person answers."""
    outputs = _asked("Outputs, separated by commas", (usable[-1],), usable)
    inputs = _asked("Inputs", tuple(n for n in usable if n not in outputs), usable)
    return inputs, outputs


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_IN_SENTENCE} more" if len(names) > _MOST_IN_SENTENCE else ""
    return ", ".join(f"column {name}" if name.isdecimal() else label(name) for name in names[:_MOST_IN_SENTENCE]) + more


def _show(found: Look, file: str) -> None:
    from .._support._errors import pluralised
    from ..model._names import printable
    from ._output import print_table, table_of

    table = table_of(f"{file}: {pluralised(found.n_rows, 'row')}, {pluralised(len(found.columns), 'column')}")
    for column in found.columns[:_MOST_ROWS]:
        table.add_row(printable(column.name), column.words)
    if len(found.columns) > _MOST_ROWS:
        table.add_row("…", f"and {len(found.columns) - _MOST_ROWS} more")
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
        f"The rows look like a time series: {found.series}. A model of `decouply fit` has no memory. For a dynamic "
        f"model, run: decouply identify {shlex.quote(file)} --inputs {shlex.quote(','.join(inputs))} "
        f"--outputs {shlex.quote(','.join(outputs))}",
    )
