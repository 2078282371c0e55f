"""`decouply fit` and `decouply select`: from a file of samples to a model, and to a choice of its size."""

from __future__ import annotations

import dataclasses
import json
import shlex
from typing import TYPE_CHECKING, Any

import click

from ._columns import FORMULAS, choose_columns, read_columns
from ._options import (
    COLUMNS,
    PICTURE,
    FileName,
    Given,
    OwnName,
    SectionCommand,
    basis_class,
    by_options,
    check_targets,
    command_line,
    number_list,
    option,
    options,
    ranks_or_auto,
    section,
)

if TYPE_CHECKING:
    from rich.table import Table

    from ..fit.select._selection import Selection
    from ..solvers import AbstractSolver

_ALTERNATING = ("constr", "proj", "zniyed")  # they choose lam in two stages unless told otherwise
_NOT_ON_THE_COMMAND_LINE = ("start", "fixed", "stopping")  # objects of Python
_MOST_KEPT = 1_000_000  # numbers of samples that go into a model file
_VALUES_ONLY = "The file has values only, and this solver needs Jacobians: add --estimate-jacobians, or use varpro."
_ESTIMATED = "Jacobians were estimated from the values, which costs accuracy: compare with varpro on values only."


def _own_solvers() -> dict[str, Any]:
    """The solvers of the library, by their names on the command line."""
    from ..solvers import OWN_SOLVERS

    return {kind.__name__.lower(): kind for kind in OWN_SOLVERS}


@click.command(cls=SectionCommand, short_help="Fit a model to a table or to samples.")
@click.argument("file", type=FileName())
@options(
    *section(
        "Data",
        *COLUMNS,
        option(
            "--estimate-jacobians", is_flag=True, help="Estimate Jacobians from the values, for solvers that need them."
        ),
        option("--validation", type=FileName(), help="Another file with the same columns, for choosing lam."),
        option(
            "--holdout",
            type=click.FloatRange(0, 1, min_open=True, max_open=True),
            help="Hold back this share of the samples for choosing lam.",
        ),
    ),
    *section(
        "Model",
        option(
            "--ranks",
            type=ranks_or_auto,
            metavar="N,N,...",
            default="auto",
            help="Functions per layer, input first: 2,2. Without it the data choose them.",
        ),
        option(
            "--degrees",
            help="Degrees of polynomials per layer, input first: 3,3. Without it the data choose the functions.",
        ),
        "--basis",
        "--linear",
    ),
    *section(
        "Search",
        option(
            "--max-seconds",
            help="Stop after about this many seconds with the best model so far, as Ctrl-C does. By default 120 "
            "without --ranks, otherwise 60 for varpro only.",
        ),
        option("--n-starts", help="Random starts. By default 8, for varpro up to 1024."),
        "--seed",
    ),
    *section(
        "Output",
        "--model model_path",
        "--report report_path",
        option("--formula", type=click.Choice(FORMULAS), help="Print the formula of the model."),
        "--details",
        "--json as_json",
        "--quiet",
    ),
    *section(
        "Expert",
        option("--solver", type=OwnName(_own_solvers), default="varpro", help="Method of the search."),
        option(
            "--set solver_options",
            multiple=True,
            metavar="KEY=VALUE",
            help="An option of the solver, such as lam=0.1, max_steps=50 or patience=20; may be repeated.",
        ),
        option(
            "--two-stage/--no-two-stage",
            default=None,
            help="Choose lam in two stages, or use the solver's default. By default constr, proj and zniyed choose.",
        ),
        option("--as-given", is_flag=True, help="Do not standardise the data: the paper's algorithms as printed."),
        "--scheduler",
    ),
)
def fit(file: str, given: Given) -> None:
    """Fit a model to the samples in FILE.

    Without options, the command lists the columns of a table and asks which are inputs and outputs. In a script it
    takes the last column of numbers as the output. The data then choose the functions and their number.

    FILE is a table (.csv, .tsv, .parquet, .npy), or an .npz or .mat file with arrays X (S, m), F (S, n) and
    J (S, n, m). F or J may be missing. The command uses weights (S,) or (S, n) if the file has them. It reads a .zarr
    store with these arrays in portions. In a table, columns dy/dx1, dy/dx2, ... hold the Jacobian of y.

    \b
    decouply fit data.csv --inputs x1,x2 --outputs y --formula text
    decouply fit samples.npz --ranks 2,2 --degrees 3,3 --report report.html
    decouply fit samples.npz --ranks 2 --degrees 3 --solver proj --set lam=0.1
    """
    import decouply as dc

    from ..fit.select._select import SECONDS
    from ..solvers.problem._solution import Status
    from ._output import (
        print_json,
        print_table,
        result_content,
        result_table,
        say,
        say_next,
        say_paths,
        say_result,
        shown_progress,
    )

    check_targets(given.model_path, given.report_path)
    auto, solver = given.ranks == "auto", given.solver
    basis, bound = basis_class(given.basis), solver != "varpro" or given.as_given or given.validation or given.holdout
    if not auto and given.degrees is None and (isinstance(basis, type) or (basis is None and bound)):
        raise click.MissingParameter(param_hint="'--degrees'", param_type="option")
    if auto and given.n_starts is not None:
        raise click.UsageError("--n-starts must be left out with --ranks auto, which has its own starts.")
    if given.validation is not None and given.holdout is not None:
        raise click.UsageError("Give --validation or --holdout, not both.")
    own_options = _solver_options(solver, given.solver_options)
    told = choose_columns(file, given)
    limit = SECONDS if auto and given.max_seconds is None else given.max_seconds
    with shown_progress("Decoupling", quiet=given.quiet, limit=limit) as progress:
        reading = read_columns(file, given)
        samples, notes = reading.samples, (*told, *reading.notes)
        judged = None if given.validation is None else read_columns(given.validation, given).samples
        if given.holdout is not None:
            samples, judged = samples.split(given.holdout, rng=given.seed)
        if given.estimate_jacobians:
            samples = dc.estimate_jacobians(samples)
            notes = (*notes, _ESTIMATED)
        elif not samples.has_jacobians and solver != "varpro":
            notes = (*notes, _VALUES_ONLY)
        wanted = solver in _ALTERNATING if given.two_stage is None else given.two_stage
        result = dc.decouple(
            samples,
            given.ranks,
            given.degrees,
            basis=basis,
            linear=given.linear,
            solver=_solver(solver, own_options, two_stage=wanted and "lam" not in own_options and samples.has_values),
            as_given=given.as_given,
            n_starts=given.n_starts,
            validation=None if auto else judged,
            rng=given.seed,
            progress=progress,
            max_seconds=given.max_seconds,
        )
        progress(stage="writing")
        if given.model_path is not None:
            result.save(given.model_path, samples=samples.in_memory and samples.n_numbers <= _MOST_KEPT)
        written = None if given.formula is None else str(result.formula(given.formula))  # as far as the data can tell
        if given.report_path is not None:
            from ..report import write_report

            write_report(result, given.report_path, title=f"Decoupling of {file}", command=command_line(), notes=notes)
    if given.as_json:
        written_to = {"formula": written, "model": given.model_path, "report": given.report_path}
        print_json(result_content(result, judged, notes) | written_to)
    elif not given.quiet:
        say_result(result, judged, f"Decoupling of {file}", [note for note in notes if note not in told])
        if written is not None:
            say(written)
        if given.details:
            print_table(result_table(result, judged))
        say_paths(Model=given.model_path, Report=given.report_path)
        model = shlex.quote(given.model_path or "")
        say_next(f"decouply plot {model}", f"decouply predict {model} new.csv", given=given)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # the exit code is that of a stopped command, whatever was saved


def _solver_options(name: str, settings: tuple[str, ...]) -> dict[str, Any]:
    """What --set says, as options that the solver of this name has; the solver checks their values."""
    import decouply as dc

    fields = [field.name for field in dataclasses.fields(_own_solvers()[name])]
    known = [field for field in fields if field not in _NOT_ON_THE_COMMAND_LINE]
    if "stopping" in fields:
        known += [field.name for field in dataclasses.fields(dc.solvers.Stopping)]
    chosen: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or key not in known:
            raise click.UsageError(
                f"--set must be KEY=VALUE with an option of the solver {name}: {', '.join(sorted(known))}. Got "
                f"{setting!r}."
            )
        try:
            chosen[key] = json.loads(text)
        except ValueError:
            chosen[key] = None if text == "none" else text
    return chosen


def _solver(name: str, chosen: dict[str, Any], *, two_stage: bool) -> AbstractSolver:
    """The solver of this name with the options that were chosen."""
    import decouply as dc

    kind = _own_solvers()[name]
    own = {field.name for field in dataclasses.fields(kind)}
    options = {key: value for key, value in chosen.items() if key in own}
    if "stopping" in own:
        options["stopping"] = dc.solvers.Stopping(**{key: value for key, value in chosen.items() if key not in own})
    solver: AbstractSolver = kind(**options)
    return dc.TwoStage(solver) if two_stage else solver


@click.command(cls=SectionCommand, short_help="Compare ranks and degrees, and recommend some.")
@click.argument("file", type=FileName())
@options(
    *section("Data", *COLUMNS),
    *section(
        "Model",
        option(
            "--max-ranks",
            type=number_list,
            metavar="N,N,...",
            default="4,4",
            help="Largest ranks per layer, input first. Fewer layers are tried too.",
        ),
        option(
            "--max-degrees",
            type=number_list,
            metavar="N,N,...",
            default="5",
            help="Largest degree, or one per layer.",
        ),
        option("--degrees", help="Degrees per layer, if you know them."),
        "--basis",
        "--linear",
    ),
    *section(
        "Search",
        option("--n-folds", type=click.IntRange(min=2), default=5, help="Parts for cross-validation."),
        option("--max-seconds", default=120),
        "--seed",
    ),
    *section(
        "Output",
        "--model model_path",
        option("--plot", type=PICTURE, help="Draw errors against numbers of parameters here (.png, .svg or .pdf)."),
        option("--all show_all", is_flag=True, help="Print every size that was tried, with its score and time."),
        "--json as_json",
        "--quiet",
    ),
    *section("Expert", "--scheduler"),
)
def select(file: str, given: Given) -> None:
    """Recommend ranks and degrees for the samples in FILE.

    FILE and its columns are as for `decouply fit`. The command compares sizes by cross-validation, beginning with the
    ranks that singular values of the Jacobians suggest.

    \b
    decouply select data.csv --inputs x1,x2 --outputs y --max-ranks 4
    decouply select samples.npz --max-ranks 4,4 --max-degrees 4 --plot pareto.png
    """
    import decouply as dc

    from ..solvers.problem._solution import Status
    from ._output import print_json, print_table, save_figure, say, say_lines, say_next, say_paths, shown_progress

    check_targets(given.plot, given.model_path)
    asked = {name: own for name in ("inputs", "outputs") if (own := getattr(given, name)) is not None}
    told = choose_columns(file, given)
    with shown_progress("Selecting", quiet=given.quiet, limit=given.max_seconds) as progress:
        reading = read_columns(file, given)
        selection = dc.select(
            reading.samples,
            given.max_ranks,
            given.max_degrees,
            degrees=given.degrees,
            n_folds=given.n_folds,
            basis=basis_class(given.basis),
            linear=given.linear,
            rng=given.seed,
            progress=progress,
            max_seconds=given.max_seconds,
        )
        progress(stage="writing")
        if given.model_path is not None:
            selection.result.decoupling.save(given.model_path)
        if given.plot is not None:
            save_figure(selection.plot(), given.plot)
    notes = (*told, *reading.notes, *selection.notes)
    if given.as_json:
        print_json(_selection_content(selection) | {"notes": notes, "picture": given.plot, "model": given.model_path})
    elif not given.quiet:
        print_table(_selection_table(selection, f"Sizes for {file}", show_all=given.show_all))
        say_lines("\n".join(map(by_options, (selection.reason, *notes[len(told) :]))))
        if selection.hints.unfoldings:
            say(f"Singular values:\n{selection.hints}")
        say_paths(Picture=given.plot, Model=given.model_path)
        sizes = [",".join(map(str, size)) for size in (selection.ranks, selection.degrees)]
        columns = "".join(f"--{name} {shlex.quote(','.join(map(str, own)))} " for name, own in asked.items())
        say_next(f"decouply fit {shlex.quote(file)} {columns}--ranks {sizes[0]} --degrees {sizes[1]}")
    if selection.result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # the exit code is that of a stopped command, whatever was saved


def _selection_content(selection: Selection) -> dict[str, Any]:
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


def _selection_table(selection: Selection, title: str, *, show_all: bool) -> Table:
    """The sizes that no smaller one beats, or all; each with its error on validation samples and on fitted ones."""
    from ..fit.select._selection import COLUMNS, row_cells
    from ._output import table_of

    table = table_of(title, header=True)
    more = ("score", "seconds") if show_all else ()
    for name in ("ranks", "degrees", "parameters", "validation error", "fitted error", *more, ""):
        table.add_column(name, justify="right")
    for row in selection.table:
        if not (show_all or row.pareto or row.chosen):
            continue
        told = (f"{row.score:.0f}", f"{row.seconds:.1f}") if show_all else ()
        table.add_row(
            ",".join(map(str, row.ranks)),
            ",".join(map(str, row.degrees)),
            str(row.n_parameters),
            f"{row.error:.2g} ± {row_cells(row)[COLUMNS.index('±')]} %",
            f"{row.training_error:.2g} %",
            *told,
            "chosen" if row.chosen else "Pareto" if show_all and row.pareto else "",
            style="bold" if row.chosen else None,
        )
    return table
