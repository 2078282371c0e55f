"""`decouply fit`: from a file of samples to a model file."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Literal

import click

from ._column_prompt import chosen_columns
from ._columns import FORMULAS, Columns, column_options, written_formula
from ._options import (
    FileName,
    GivenFile,
    Output,
    basis_class,
    basis_option,
    command_line,
    linear_option,
    model_option,
    number_list,
    output_options,
    ranks_or_auto,
    scheduler_option,
    seed_option,
)

if TYPE_CHECKING:
    from ..solvers import AbstractSolver

# In the order of `solvers.OWN_SOLVERS`, which cannot be asked before numerical libraries are loaded.
SOLVERS = ("varpro", "proj", "constr", "zniyed", "hollander", "dreesen")
_ALTERNATING = ("constr", "proj", "zniyed")  # they choose lam in two stages unless told otherwise
_NOT_ON_THE_COMMAND_LINE = ("start", "fixed", "stopping")  # objects of Python
_KEPT = 1_000_000  # numbers of samples that go into a model file
_VALUES_ONLY = "The file has values only, and this solver needs Jacobians: add --estimate-jacobians, or use varpro."
_ESTIMATED = "Jacobians were estimated from the values, which costs accuracy: compare with varpro on values only."


@click.command(short_help="Fit a model to the samples in a file.")
@click.argument("file", type=GivenFile())
@column_options
@click.option(
    "--estimate-jacobians", is_flag=True, help="Estimate Jacobians from the values, for solvers that need them."
)
@click.option(
    "--ranks",
    type=ranks_or_auto,
    metavar="N,N,...|auto",
    default="auto",
    show_default=True,
    help="Functions per layer, input first: 2,2. With auto they are chosen, as by `decouply select`.",
)
@click.option(
    "--degrees",
    type=number_list,
    metavar="N,N,...",
    default=None,
    help="Degrees per layer, input first: 3,3. May be left out with --ranks auto.",
)
@basis_option
@linear_option
@click.option("--solver", type=click.Choice(SOLVERS), default="varpro", show_default=True, help="Method of the search.")
@click.option(
    "--set",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the solver, such as lam=0.1, max_steps=50 or patience=20; may be repeated.",
)
@click.option(
    "--two-stage/--no-two-stage",
    default=None,
    help="Choose lam in two stages, or use the solver's default. By default constr, proj and zniyed choose.",
)
@click.option(
    "--n-starts", type=click.IntRange(min=1), default=None, help="Random starts. By default 8, for varpro up to 1024."
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=None,
    help="Stop after about this many seconds with the best model so far. By default 120 with --ranks auto, otherwise "
    "60 for varpro only.",
)
@click.option(
    "--as-given",
    is_flag=True,
    help="Do not standardise the data: the paper's algorithms as printed.",
)
@click.option("--validation", default=None, help="Another file with the same columns, for choosing lam.")
@click.option(
    "--holdout",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=None,
    help="Hold back this share of the samples for choosing lam.",
)
@model_option
@click.option(
    "--report",
    "report_path",
    metavar="FILE",
    default=None,
    type=FileName(".html", ".htm"),
    help="Write an HTML report here.",
)
@scheduler_option
@click.option("--formula", "formula", type=click.Choice(FORMULAS), default=None, help="Print the formula of the model.")
@seed_option
@output_options
def fit(
    file: str,
    columns: Columns,
    estimate_jacobians: bool,
    ranks: tuple[int, ...] | Literal["auto"],
    degrees: tuple[int, ...] | None,
    basis: str,
    linear: bool,
    solver: str,
    options: tuple[str, ...],
    two_stage: bool | None,
    n_starts: int | None,
    max_seconds: float | None,
    as_given: bool,
    validation: str | None,
    holdout: float | None,
    model_path: str | None,
    report_path: str | None,
    formula: str | None,
    seed: int,
    output: Output,
) -> None:
    """Fit a model to the samples in FILE.

    Given a table and nothing else, it shows what is in the table, asks which columns are inputs and outputs (without a
    terminal, the last column is the output), and chooses ranks and degrees.

    FILE is a table (.csv, .tsv, .parquet, .npy) whose columns are named by --inputs and --outputs, or an .npz or .mat
    file with arrays X (S, m), F (S, n) and J (S, n, m). F or J may be missing; weights (S,) or (S, n) are
    used if they are there. A .zarr store with these arrays is read in portions. In a table, columns
    dy/dx1, dy/dx2, ... hold the Jacobian of y; without them, values alone are fitted.

    \b
    Examples:
      decouply fit data.csv
      decouply fit data.csv --inputs x1,x2 --outputs y --ranks 2 --degrees 3 --formula text
      decouply fit samples.npz --ranks 2,2 --degrees 3,3 --model model.safetensors --report report.html
      decouply fit samples.npz --ranks 2 --degrees 3 --solver proj --set patience=20 --set lam=0.1
      decouply fit data.zarr --ranks 3 --degrees 3 --scheduler tcp://10.0.0.1:8786
    """
    import decouply as dc

    from .._support._atomic_files import check_target
    from ..solvers.problem._solution import Status
    from ._output import print_json, print_table, result_content, result_table, say, shown_progress

    for target in (model_path, report_path):
        if target is not None:
            check_target(target)
    if ranks != "auto" and degrees is None and isinstance(basis_class(basis), type):
        raise click.MissingParameter(param_hint="'--degrees'", param_type="option")
    if ranks == "auto" and n_starts is not None:
        raise click.UsageError("--n-starts must be left out with --ranks auto, which has starts of its own.")
    if validation is not None and holdout is not None:
        raise click.UsageError("Give --validation or --holdout, not both.")
    chosen = _solver_options(solver, options)
    told: tuple[str, ...] = ()
    if columns.inputs is None and columns.outputs is None:
        inputs, outputs, told = chosen_columns(file, silent=output.quiet or output.as_json)
        columns = dataclasses.replace(columns, inputs=inputs, outputs=outputs)
        for note in () if output.quiet else told:
            say(note, err=True)
    with shown_progress("Decoupling", quiet=output.quiet) as progress:
        reading = columns.read(file)
        samples, notes = reading.samples, (*told, *reading.notes)
        judged = None if validation is None else columns.read(validation).samples
        if holdout is not None:
            samples, judged = samples.split(holdout, rng=seed)
        if estimate_jacobians:
            samples = dc.estimate_jacobians(samples)
            notes = (*notes, _ESTIMATED)
        elif not samples.has_jacobians and solver != "varpro":
            notes = (*notes, _VALUES_ONLY)
        result = dc.decouple(
            samples,
            ranks,
            degrees,
            basis=basis_class(basis),
            linear=linear,
            solver=_solver(
                solver,
                chosen,
                two_stage="lam" not in chosen
                and samples.has_values
                and (solver in _ALTERNATING if two_stage is None else two_stage),
            ),
            as_given=as_given,
            n_starts=n_starts,
            validation=None if ranks == "auto" else judged,
            rng=seed,
            progress=progress,
            max_seconds=max_seconds,
        )
        progress(stage="writing")
        if model_path is not None:
            kept = samples.in_memory and samples.n_numbers <= _KEPT
            result.save(model_path, samples=kept)
        model = result.decoupling
        written = None if formula is None else written_formula(model, formula, model.inputs, model.outputs)
        if report_path is not None:
            from ..report import write_report

            write_report(result, report_path, title=f"Decoupling of {file}", command=command_line(), notes=notes)
    if output.as_json:
        written_to = {"formula": written, "model": model_path, "report": report_path}
        print_json(result_content(result, judged, notes) | written_to)
    elif not output.quiet:
        print_table(result_table(result, judged, f"Decoupling of {file}", [note for note in notes if note not in told]))
        if written is not None:
            say(written)
        for name, path in (("Model", model_path), ("Report", report_path)):
            if path is not None:
                say(f"{name}: {path}")
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # the exit code is that of a stopped command, whatever was saved


def _solver_class(name: str) -> Any:
    import decouply as dc

    return dict(zip(SOLVERS, dc.solvers.OWN_SOLVERS, strict=True))[name]


def _solver_options(name: str, options: tuple[str, ...]) -> dict[str, Any]:
    """What --set says, as options that the solver of this name has; the solver checks their values."""
    import decouply as dc

    fields = [field.name for field in dataclasses.fields(_solver_class(name))]
    known = [field for field in fields if field not in _NOT_ON_THE_COMMAND_LINE]
    if "stopping" in fields:
        known += [field.name for field in dataclasses.fields(dc.solvers.Stopping)]
    chosen: dict[str, Any] = {}
    for option in options:
        key, equals, text = option.partition("=")
        if not equals or key not in known:
            raise click.UsageError(
                f"--set must be KEY=VALUE with an option of the solver {name}: {', '.join(sorted(known))}. Got "
                f"{option!r}."
            )
        try:
            chosen[key] = json.loads(text)
        except ValueError:
            chosen[key] = None if text == "none" else text
    return chosen


def _solver(name: str, chosen: dict[str, Any], *, two_stage: bool) -> AbstractSolver:
    """The solver of this name with the options that were chosen."""
    import decouply as dc

    kind = _solver_class(name)
    own = {field.name for field in dataclasses.fields(kind)}
    options = {key: value for key, value in chosen.items() if key in own}
    if "stopping" in own:
        options["stopping"] = dc.solvers.Stopping(**{key: value for key, value in chosen.items() if key not in own})
    solver: AbstractSolver = kind(**options)
    return dc.TwoStage(solver) if two_stage else solver
