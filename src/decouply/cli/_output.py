"""Results as tables for people and as JSON for machines."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._support._progress import shown_on_stderr, silent
from ..model._names import label, printable
from ._options import Given, by_options

if TYPE_CHECKING:
    from rich.table import Table

    from ..fit._result import Result
    from ..samples._samples import Samples


_MOST_OUTPUTS = 8  # in one line


def print_json(content: Any) -> None:
    """One JSON document on standard output; NaN and infinity become null."""
    from .._support._arguments import plain

    click.echo(json.dumps(plain(content), indent=2))


def say(text: str, *, err: bool = False) -> None:
    """Text for a person, without codes that a terminal would obey."""
    click.echo(printable(text), err=err)


def say_lines(text: str) -> None:
    """Sentences for a person, line by line; on a terminal, lines break between words."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for line in text.splitlines():
        say("\n".join(textwrap.wrap(line, width, subsequent_indent="  ", break_on_hyphens=False)) or "")


def say_paths(**paths: str | None) -> None:
    """Name the files that were written, by what they hold."""
    for name, path in paths.items():
        if path is not None:
            say(f"{name}: {path}")


def say_next(*commands: str, given: Given | None = None) -> None:
    """Commands that a person may want to run next; or, if those that were `given` keep no model, how to keep it."""
    if given is not None and given.model_path is None:
        page = "" if given.report_path else ", --report page.html for a page"
        commands = (f"add --model model.safetensors to keep the model{page}",)
    for i, command in enumerate(commands):
        say(f"{'      ' if i else 'Next: '}{command}")


@contextmanager
def shown_progress(title: str, *, quiet: bool = False, limit: float | None = None) -> Iterator[Callable[..., None]]:
    """What a command reports to while it works: a bar on a terminal, lines elsewhere, nothing with --quiet.

    A search that ends after `limit` seconds says so. Tables are printed after the block, when the bar is gone.
    """
    if quiet:
        yield silent
    else:
        with shown_on_stderr(title, limit) as report:
            yield report


def csv_text(names: Iterable[str], rows: Iterable[Iterable[float]], digits: int = 17) -> str:
    """A table as CSV, in which NaN is empty; names are labels, since it may be printed."""
    import csv
    import io

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(label(name) for name in names)
    writer.writerows(
        ["" if value != value else f"{value:.{digits}g}" if digits < 17 else repr(value) for value in row]
        for row in rows
    )
    return stream.getvalue()


def print_table(table: Table) -> None:
    """A table on standard output, in full width when piped."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(table, markup=False)


def table_of(title: str, *, header: bool = False) -> Table:
    """A table whose title has no markup."""
    from rich.table import Table
    from rich.text import Text

    return Table(title=Text(printable(title)), title_justify="left", show_header=header)


def save_figure(figure: Any, path: str) -> None:
    """Write a picture in the format that the ending of its file names."""
    from .._support._atomic_files import replace_file

    with replace_file(path) as stream:
        figure.savefig(stream, format=Path(path).suffix.lower().lstrip("."), dpi=150)


def result_content(result: Result, validation: Samples | None, notes: Sequence[str] = ()) -> dict[str, Any]:
    """What --json tells about a result; `notes` go before its own."""
    import dataclasses

    model = result.decoupling
    content: dict[str, Any] = {
        "ranks": model.ranks,
        "degrees": model.degrees,
        "linear": model.linear is not None,
        "inputs": model.inputs,
        "outputs": model.outputs,
        "n_parameters": model.n_parameters,
        "n_effective": result.n_effective,
        "error_jacobian": result.error_jacobian,
        "error_values": result.error_values,
        "relative_rmse_percent": result.relative_rmse() if result.samples.has_values else None,
        "r_squared": result.quality.r_squared if result.samples.has_values else None,
        "noise": result.quality.noise,
        "verdict": result.verdict.word,
        "status": result.status.name,
        "reason": result.reason,
        "found_by": result.found_by,
        "lam": result.lam,
        "notes": (*notes, *result.notes),
        "locally_unique": result.identifiability.locally_unique if model.n_parameters <= 1000 else None,
        "seconds": result.seconds,
        "starts": [row.record() for row in result.starts],
        "path": [dataclasses.asdict(row) for row in result.path],
    }
    if validation is not None and validation.F is not None:
        content["validation_relative_rmse_percent"] = result.relative_rmse(validation)
    return content


def say_result(result: Result, validation: Samples | None, title: str, notes: Sequence[str] = ()) -> None:
    """What a person wants to know first: the words of `print(result)`, and what was read."""
    lines = [title, *by_options(str(result)).splitlines()]
    if validation is not None and validation.F is not None:
        names = validation.outputs or [f"y{i + 1}" for i in range(validation.n_outputs)]
        errors = [f"{name} {error:.2g} %" for name, error in zip(names, result.relative_rmse(validation), strict=True)]
        lines.append(f"On {validation.n_samples} validation samples: {', '.join(errors[:_MOST_OUTPUTS])}.")
    if result.status.name in ("OUT_OF_TIME", "INTERRUPTED"):
        lines.append(by_options(result.reason))
    say_lines("\n".join([*lines, *(f"Note: {by_options(note)}" for note in notes)]))


def result_table(result: Result, validation: Samples | None) -> Table:
    """All that is known of a fit: errors in every unit, starts, uniqueness and notes."""
    table = table_of("Details")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    if result.decoupling.linear is not None:
        table.add_row(
            "linear part", "A x, which the functions do not contain" if result.decoupling.n_layers == 1 else "A x"
        )
    if result.samples.has_jacobians:
        table.add_row("Error(J)", f"{result.error_jacobian:.3g}")
    if result.samples.has_values:
        table.add_row("Error(F)", f"{result.error_values:.3g}")
        table.add_row("e_i, fitted samples", _percents(result.relative_rmse()))
        table.add_row("R²", ", ".join(f"{value:.6g}" for value in result.quality.r_squared))
    if validation is not None and validation.F is not None:
        table.add_row("e_i, validation samples", _percents(result.relative_rmse(validation)))
    if result.samples.has_jacobians and result.samples.has_values:
        table.add_row("lam", f"{result.lam:.0e}" + (f" (of {len(result.path)} tried)" if result.path else ""))
    lost = sum(row.status.name == "NONFINITE" for row in result.starts)
    table.add_row("starts", f"{len(result.starts)}" + (f", of which {lost} became infinite" if lost else ""))
    table.add_row("stopped", by_options(result.reason))
    if result.found_by:
        table.add_row("found by", result.found_by)
    if result.decoupling.n_parameters <= 1000:
        table.add_row("unique", str(result.identifiability))
    for note in result.notes:
        table.add_row("note", printable(by_options(note)))
    table.add_row("time", f"{result.seconds:.2f} s")
    return table


def _percents(values: Any) -> str:
    return ", ".join(f"{value:.3g} %" for value in values)
