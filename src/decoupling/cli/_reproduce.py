"""`decouple reproduce`: the experiments of the paper, run again."""

from __future__ import annotations

import click

from ._options import output_options, seed_option


@click.group()
def reproduce() -> None:
    """Run the experiments of the paper and print our numbers beside its own."""


@reproduce.command()
@click.option("--runs", type=click.IntRange(min=1), default=30, show_default=True, help="Data sets per system.")
@click.option("--n-starts", type=click.IntRange(min=1), default=8, show_default=True, help="Starts of our own variant.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Processes.")
@click.option("--output", default="reproduced", show_default=True, help="Directory for table1.json, .md and .png.")
@seed_option
@output_options
def table1(runs: int, n_starts: int, jobs: int, output: str, seed: int, as_json: bool, quiet: bool) -> None:
    """Table 1: two-layer decouplings of f1, f2 and f3 by PROJ and CONSTR."""
    import time

    from .._files import make_directory
    from .._progress import progress_callback
    from ..reproduce import run_table1, table1_markdown, write_table1
    from ._screen import print_json

    directory = make_directory(output)
    began = time.perf_counter()
    with progress_callback(not quiet, "Table 1") as progress:
        table = run_table1(n_runs=runs, n_starts=n_starts, seed=seed, n_jobs=jobs, progress=progress)
    write_table1(table, directory)
    if as_json:
        print_json(table.content())
    elif not quiet:
        click.echo(table1_markdown(table))
        click.echo(
            f"{time.perf_counter() - began:.0f} s. Written: table1.json, table1.md and table1.png in {directory}"
        )


@reproduce.command()
@click.option("--runs", type=click.IntRange(min=1), default=30, show_default=True, help="Data sets per system.")
@click.option("--noise/--no-noise", default=True, show_default=True, help="Whether noisy data are tried as well.")
@click.option(
    "--max-seconds", type=click.FloatRange(min=0, min_open=True), default=60, show_default=True, help="Per data set."
)
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Processes.")
@click.option("--output", default="reproduced", show_default=True, help="Directory for recovery.json, .md and .png.")
@seed_option
@output_options
def recovery(
    runs: int, noise: bool, max_seconds: float, jobs: int, output: str, seed: int, as_json: bool, quiet: bool
) -> None:
    """Exact recovery: how often VarPro finds the system behind the data, for one to four layers."""
    import time

    from .._files import make_directory
    from .._progress import progress_callback
    from ..reproduce import recovery_markdown, run_recovery, write_recovery
    from ._screen import print_json

    directory = make_directory(output)
    began = time.perf_counter()
    with progress_callback(not quiet, "Recovery") as progress:
        found = run_recovery(
            n_runs=runs, seed=seed, n_jobs=jobs, max_seconds=max_seconds, noise=noise, progress=progress
        )
    write_recovery(found, directory)
    if as_json:
        print_json(found.content())
    elif not quiet:
        click.echo(recovery_markdown(found))
        click.echo(
            f"{time.perf_counter() - began:.0f} s. Written: recovery.json, recovery.md and recovery.png in {directory}"
        )
