"""`decouple fit`: from a file of samples to a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ._options import number_list, output_options, seed_option

if TYPE_CHECKING:
    from ..solvers import AbstractSolver

_BASES = ("monomial", "scaled-monomial", "bernstein", "chebyshev", "trigonometric")
_SOLVERS = ("constr", "proj", "zniyed", "hollander", "dreesen")
_WITHOUT_LAM = ("hollander", "dreesen")


@click.command()
@click.argument("file")
@click.option(
    "--ranks",
    type=number_list,
    metavar="N,N,...",
    required=True,
    help="Internal functions per layer, input first: 2,2.",
)
@click.option(
    "--degrees", type=number_list, metavar="N,N,...", required=True, help="Basis functions per layer, input first: 3,3."
)
@click.option(
    "--basis", type=click.Choice(_BASES), default="monomial", show_default=True, help="Basis of all functions."
)
@click.option("--solver", type=click.Choice(_SOLVERS), default="constr", show_default=True, help="Method.")
@click.option(
    "--lam",
    type=click.FloatRange(min=0),
    default=None,
    help="Fixed weight of the values; chosen in two stages if left out.",
)
@click.option(
    "--two-stage/--no-two-stage",
    default=True,
    help="Whether to choose lam in two stages; without, the solver's own default is used.",
)
@click.option("--n-starts", type=click.IntRange(min=1), default=8, show_default=True, help="Random starts.")
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
    ranks: tuple[int, ...],
    degrees: tuple[int, ...],
    basis: str,
    solver: str,
    lam: float | None,
    two_stage: bool,
    n_starts: int,
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

    FILE is an .npz archive with arrays X (S, m), F (S, n) and J (S, n, m); F or J may be missing, and weights (S,) may
    be there.

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
    if validation is not None and holdout is not None:
        raise click.UsageError("Give --validation or --holdout, not both.")
    if lam is not None and solver in _WITHOUT_LAM:
        raise click.UsageError(f"--lam is the weight of the values, which the solver {solver} does not use.")
    samples = dc.Samples.load(file)
    judged = None if validation is None else dc.Samples.load(validation)
    if holdout is not None:
        samples, judged = samples.split(holdout, rng=seed)
    bases = dict(
        zip(_BASES, (dc.Monomial, dc.ScaledMonomial, dc.Bernstein, dc.Chebyshev, dc.Trigonometric), strict=True)
    )
    result = dc.decouple(
        samples,
        ranks,
        degrees,
        basis=bases[basis],
        solver=_solver(solver, lam, max_iterations, patience, two_stage=two_stage and samples.F is not None),
        n_starts=n_starts,
        validation=judged,
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


def _solver(name: str, lam: float | None, max_iterations: int, patience: int, *, two_stage: bool) -> AbstractSolver:
    import decoupling as dc

    options: dict[str, Any] = {"max_iterations": max_iterations, "patience": patience}
    if name == "hollander":
        return dc.Hollander(**options)
    if name == "dreesen":
        return dc.Dreesen(**options)
    solvers: dict[str, Any] = {"constr": dc.Constr, "proj": dc.Proj, "zniyed": dc.Zniyed}
    if lam is not None:
        options["lam"] = lam
    inner: AbstractSolver = solvers[name](**options)
    return dc.TwoStage(inner) if two_stage and lam is None else inner
