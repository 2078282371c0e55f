"""`decouply select`: ranks and degrees for a file of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ._columns import Columns, column_options
from ._options import (
    FileName,
    GivenFile,
    Output,
    basis_class,
    basis_option,
    linear_option,
    model_option,
    number_list,
    output_options,
    scheduler_option,
    seed_option,
)

if TYPE_CHECKING:
    from rich.table import Table

    from ..fit.select._select import Selection


@click.command(short_help="Recommend ranks and degrees.")
@click.argument("file", type=GivenFile())
@column_options
@click.option(
    "--max-ranks",
    type=number_list,
    metavar="N,N,...",
    default="4,4",
    show_default=True,
    help="Largest ranks per layer, input first. Fewer layers are tried too.",
)
@click.option(
    "--max-degrees",
    type=number_list,
    metavar="N[,N,...]",
    default="5",
    show_default=True,
    help="Largest degree, or one per layer.",
)
@click.option(
    "--degrees", type=number_list, metavar="N,N,...", default=None, help="Degrees per layer, if they are known."
)
@click.option("--n-folds", type=click.IntRange(min=2), default=5, show_default=True, help="Parts for cross-validation.")
@basis_option
@linear_option
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=120,
    show_default=True,
    help="Stop after about this many seconds with the best model so far, as Ctrl-C does.",
)
@model_option
@click.option(
    "--plot",
    metavar="FILE",
    default=None,
    type=FileName(".png", ".svg", ".pdf"),
    help="Draw errors against numbers of parameters here (.png, .svg or .pdf).",
)
@scheduler_option
@seed_option
@output_options
def select(
    file: str,
    columns: Columns,
    max_ranks: tuple[int, ...],
    max_degrees: tuple[int, ...],
    degrees: tuple[int, ...] | None,
    n_folds: int,
    basis: str,
    linear: bool,
    max_seconds: float,
    model_path: str | None,
    plot: str | None,
    seed: int,
    output: Output,
) -> None:
    """Recommend ranks and degrees for the samples in FILE.

    FILE and its columns are as for `decouply fit`. Shapes are compared by their errors on left-out samples, beginning
    with the ranks that singular values of the Jacobians suggest.

    \b
    Examples:
      decouply select data.csv --inputs x1,x2 --outputs y --max-ranks 4
      decouply select samples.npz --max-ranks 4,4 --max-degrees 4 --plot pareto.png
    """
    from pathlib import Path

    import decouply as dc

    from .._support._atomic_files import check_target, replace_file
    from ..solvers.problem._solution import Status
    from ._output import by_options, print_json, print_table, say, shown_progress

    for target in (plot, model_path):
        if target is not None:
            check_target(target)
    kind = "" if plot is None else Path(plot).suffix.lower().lstrip(".")
    with shown_progress("Selecting", quiet=output.quiet) as progress:
        reading = columns.read(file)
        selection = dc.select(
            reading.samples,
            max_ranks,
            max_degrees,
            degrees=degrees,
            n_folds=n_folds,
            basis=basis_class(basis),
            linear=linear,
            rng=seed,
            progress=progress,
            max_seconds=max_seconds,
        )
        progress(stage="writing")
        if model_path is not None:
            selection.result.decoupling.save(model_path)
        if plot is not None:
            figure = selection.plot()
            with replace_file(plot) as stream:
                figure.savefig(stream, format=kind, dpi=150)
    notes = (*reading.notes, *selection.notes)
    if output.as_json:
        print_json(_content(selection) | {"notes": notes, "picture": plot, "model": model_path})
    elif not output.quiet:
        print_table(_table(selection, f"Shapes tried for {file}"))
        say("\n".join([*map(by_options, (selection.reason, *notes)), "Singular values:", str(selection.hints)]))
        for name, path in (("Picture", plot), ("Model", model_path)):
            if path is not None:
                say(f"{name}: {path}")
    if selection.result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # the exit code is that of a stopped command, whatever was saved


def _content(selection: Selection) -> dict[str, Any]:
    names = ("ranks", "degrees", "n_parameters", "error", "spread", "training_error", "score", "seconds")
    return {
        "ranks": selection.ranks,
        "degrees": selection.degrees,
        "reason": selection.reason,
        "table": [{name: getattr(row, name) for name in (*names, "pareto", "chosen")} for row in selection.table],
        "hints": [
            {"unfolding": u.name, "rank": u.rank, "singular_values": u.singular_values}
            for u in selection.hints.unfoldings
        ],
        "seconds": selection.seconds,
    }


def _table(selection: Selection, title: str) -> Table:
    from rich.table import Table
    from rich.text import Text

    from ..fit.select._select import COLUMNS, row_cells
    from ..model._names import printable

    table = Table(title=Text(printable(title)), title_justify="left")
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in selection.table:
        table.add_row(*row_cells(row), style="bold" if row.chosen else None)
    return table
