"""`decouple fit`: from a file of samples to a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from ._options import basis_class, basis_option, number_list, output_options, ranks_or_auto, seed_option

if TYPE_CHECKING:
    from ..solvers import AbstractSolver

_SOLVERS = ("varpro", "constr", "proj", "zniyed", "hollander", "dreesen")
_ALTERNATING = ("constr", "proj", "zniyed")  # they choose lam in two stages unless told otherwise
_WITHOUT_LAM = ("hollander", "dreesen")


@click.command()
@click.argument("file")
@click.option(
    "--ranks",
    type=ranks_or_auto,
    metavar="N,N,...|auto",
    required=True,
    help="Internal functions per layer, input first: 2,2. With auto they are chosen, see `decouple select`.",
)
@click.option(
    "--degrees",
    type=number_list,
    metavar="N,N,...",
    default=None,
    help="Basis functions per layer, input first: 3,3. May be left out with --ranks auto.",
)
@basis_option
@click.option("--solver", type=click.Choice(_SOLVERS), default="varpro", show_default=True, help="Method.")
@click.option(
    "--lam",
    type=click.FloatRange(min=0),
    default=None,
    help="Fixed weight of the values.",
)
@click.option(
    "--two-stage/--no-two-stage",
    default=None,
    help="Choose lam in two stages, or use the solver's own default. Alternating solvers choose if left out.",
)
@click.option(
    "--n-starts", type=click.IntRange(min=1), default=None, help="Random starts: 8, or up to 1024 for varpro."
)
@click.option(
    "--max-seconds", type=click.FloatRange(min=0, min_open=True), default=60, show_default=True, help="Of varpro."
)
@click.option(
    "--max-iterations", type=click.IntRange(min=1), default=500, show_default=True, help="Iterations per start."
)
@click.option(
    "--patience", type=click.IntRange(min=1), default=50, show_default=True, help="Iterations without decrease."
)
@click.option("--validation", default=None, help="Another .npz file on which lam is chosen.")
@click.option(
    "--holdout",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=None,
    help="Or: this share of the samples is kept apart to choose lam on.",
)
@click.option("--output", default=None, help="Write the model here (.safetensors).")
@click.option("--report", "report_path", default=None, help="Write an HTML report here.")
@seed_option
@output_options
def fit(
    file: str,
    ranks: tuple[int, ...] | Literal["auto"],
    degrees: tuple[int, ...] | None,
    basis: str,
    solver: str,
    lam: float | None,
    two_stage: bool | None,
    n_starts: int | None,
    max_seconds: float,
    max_iterations: int,
    patience: int,
    validation: str | None,
    holdout: float | None,
    output: str | None,
    report_path: str | None,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Decouple the samples in FILE.

    FILE is an .npz archive with arrays X (S, m), F (S, n) and J (S, n, m); F or J may be missing, and weights
    (S,), (S, n) or (S, n, n) may be there.

    \b
    Example:
      decouple fit samples.npz --ranks 2,2 --degrees 3,3 --output model.safetensors --report report.html
    """
    from pathlib import Path

    import decoupling as dc

    from .._files import check_target
    from ._screen import print_json, print_table, result_content, result_table

    targets = [check_target(target) for target in (output, report_path) if target is not None]
    sources = [Path(source).resolve() for source in (file, validation) if source is not None]
    if len({*targets, *sources}) < len(targets) + len(set(sources)):
        raise click.UsageError("--output and --report must be two files, and not the ones that are read.")
    if ranks != "auto" and degrees is None:
        raise click.MissingParameter(param_hint="'--degrees'", param_type="option")
    if ranks == "auto" and n_starts is not None:
        raise click.UsageError("--n-starts must be left out with --ranks auto, which has starts of its own.")
    if validation is not None and holdout is not None:
        raise click.UsageError("Give --validation or --holdout, not both.")
    if lam is not None and solver in _WITHOUT_LAM:
        raise click.UsageError(f"--lam is the weight of the values, which the solver {solver} does not use.")
    samples = dc.Samples.load(file)
    judged = None if validation is None else dc.Samples.load(validation)
    if holdout is not None:
        samples, judged = samples.split(holdout, rng=seed)
    result = dc.decouple(
        samples,
        ranks,
        degrees,
        basis=basis_class(basis),
        solver=_solver(
            solver,
            {"lam": lam, "max_iterations": max_iterations, "patience": patience, "max_seconds": max_seconds},
            two_stage=lam is None
            and samples.F is not None
            and (solver in _ALTERNATING if two_stage is None else two_stage),
        ),
        n_starts=n_starts,
        validation=None if ranks == "auto" else judged,
        rng=seed,
        progress=not quiet,
    )
    if output is not None:
        result.decoupling.save(output)
    if report_path is not None:
        result.report(report_path, title=f"Decoupling of {file}")
    if as_json:
        print_json(result_content(result, judged) | {"model": output, "report": report_path})
    elif not quiet:
        print_table(result_table(result, judged, f"Decoupling of {file}"))
        for name, path in (("Model", output), ("Report", report_path)):
            if path is not None:
                click.echo(f"{name}: {path}")


def _solver(name: str, given: dict[str, Any], *, two_stage: bool) -> AbstractSolver:
    """The solver of this name with those of the given options that it has."""
    import dataclasses

    import decoupling as dc

    kinds: dict[str, Any] = {
        "varpro": dc.VarPro,
        "constr": dc.Constr,
        "proj": dc.Proj,
        "zniyed": dc.Zniyed,
        "hollander": dc.Hollander,
        "dreesen": dc.Dreesen,
    }
    known = {field.name for field in dataclasses.fields(kinds[name])}
    solver: AbstractSolver = kinds[name](**{k: v for k, v in given.items() if k in known and v is not None})
    return dc.TwoStage(solver) if two_stage else solver
