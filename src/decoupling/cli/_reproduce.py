"""`decouple reproduce`: the experiments of the paper, run again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ._options import output_options, seed_option

jobs_option = click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Processes.")
fresh_option = click.option(
    "--fresh", is_flag=True, help="Forget the finished runs in the directory instead of going on with them."
)


@click.group()
def reproduce() -> None:
    """Run the experiments of the paper and print our numbers beside its own."""


@reproduce.command()
@click.option("--runs", type=click.IntRange(min=1), default=30, show_default=True, help="Data sets per system.")
@click.option("--n-starts", type=click.IntRange(min=1), default=8, show_default=True, help="Starts of our own variant.")
@jobs_option
@click.option(
    "--output", default="reproduced", show_default=True, help="Directory for table1.json, .md, .png and the runs."
)
@fresh_option
@seed_option
@output_options
def table1(
    runs: int, n_starts: int, jobs: int, output: str, fresh: bool, seed: int, as_json: bool, quiet: bool
) -> None:
    """Table 1: two-layer decouplings of f1, f2 and f3 by PROJ and CONSTR.

    Finished runs are kept in table1-runs.jsonl: a command that was stopped goes on where it was.
    """
    from ..reproduce import run_table1, table1_markdown, write_table1

    def run(directory: Path, progress: Callable[..., None]) -> Any:
        store = _store(directory, "table1", fresh)
        return run_table1(n_runs=runs, n_starts=n_starts, seed=seed, n_jobs=jobs, store=store, progress=progress)

    _carry_out("table1", output, as_json, quiet, run, write_table1, table1_markdown)


@reproduce.command()
@click.option("--runs", type=click.IntRange(min=1), default=30, show_default=True, help="Data sets per system.")
@click.option("--noise/--no-noise", default=True, show_default=True, help="Whether noisy data are tried as well.")
@click.option(
    "--max-seconds", type=click.FloatRange(min=0, min_open=True), default=60, show_default=True, help="Per data set."
)
@jobs_option
@click.option(
    "--output", default="reproduced", show_default=True, help="Directory for recovery.json, .md, .png and the runs."
)
@fresh_option
@seed_option
@output_options
def recovery(
    runs: int,
    noise: bool,
    max_seconds: float,
    jobs: int,
    output: str,
    fresh: bool,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Exact recovery: how often VarPro finds the system behind the data, for one to four layers.

    Finished runs are kept in recovery-runs.jsonl: a command that was stopped goes on where it was.
    """
    from ..reproduce import recovery_markdown, run_recovery, write_recovery

    def run(directory: Path, progress: Callable[..., None]) -> Any:
        return run_recovery(
            n_runs=runs,
            seed=seed,
            n_jobs=jobs,
            max_seconds=max_seconds,
            noise=noise,
            store=_store(directory, "recovery", fresh),
            progress=progress,
        )

    _carry_out("recovery", output, as_json, quiet, run, write_recovery, recovery_markdown)


@reproduce.command()
@click.option("--runs", type=click.IntRange(min=1), default=30, show_default=True, help="Draws of training regressors.")
@click.option("--quick", is_flag=True, help="Two runs of ranks 3 and 4, within a minute.")
@jobs_option
@click.option(
    "--output", default="reproduced", show_default=True, help="Directory for silverbox.json, .md, .png and the runs."
)
@fresh_option
@seed_option
@output_options
def silverbox(
    runs: int, quick: bool, jobs: int, output: str, fresh: bool, seed: int, as_json: bool, quiet: bool
) -> None:
    """The Silverbox figure: decouplings of a polynomial NARX model, ranks 2 to 6, six algorithms.

    Finished runs are kept in silverbox-runs.jsonl: a command that was stopped goes on where it was.
    """
    from ..reproduce import run_silverbox, silverbox_markdown, write_silverbox

    if quick and runs != 30:
        raise click.UsageError("--quick has its own number of runs: leave --runs out.")

    def run(directory: Path, progress: Callable[..., None]) -> Any:
        store = _store(directory, "silverbox", fresh)
        if not quick:
            return run_silverbox(n_runs=runs, seed=seed, n_jobs=jobs, store=store, progress=progress)
        return run_silverbox(
            n_runs=2, ranks=(3, 4), n_refined=1, refine_steps=10, seed=seed, n_jobs=jobs, store=store, progress=progress
        )

    _carry_out("silverbox", output, as_json, quiet, run, write_silverbox, silverbox_markdown)


@reproduce.command()
@click.option(
    "--runs", type=click.IntRange(min=1), default=30, show_default=True, help="Data sets per group and noise level."
)
@click.option("--quick", is_flag=True, help="Three data sets per group, within two minutes.")
@jobs_option
@click.option(
    "--output", default="reproduced", show_default=True, help="Directory for selection.json, .md, .png and the runs."
)
@fresh_option
@seed_option
@output_options
def selection(
    runs: int, quick: bool, jobs: int, output: str, fresh: bool, seed: int, as_json: bool, quiet: bool
) -> None:
    """Choosing ranks: how often `decouple select` finds those of the system behind the data.

    Finished runs are kept in selection-runs.jsonl: a command that was stopped goes on where it was.
    """
    from ..reproduce import run_selection, selection_markdown, write_selection

    if quick and runs != 30:
        raise click.UsageError("--quick has its own number of runs: leave --runs out.")

    def run(directory: Path, progress: Callable[..., None]) -> Any:
        store = _store(directory, "selection", fresh)
        return run_selection(n_runs=3 if quick else runs, seed=seed, n_jobs=jobs, store=store, progress=progress)

    _carry_out("selection", output, as_json, quiet, run, write_selection, selection_markdown)


def _network_command(case: str, n_runs: int, what: str) -> None:
    """Add the command of one compression experiment."""

    @reproduce.command(name=case, help=f"{what}\n\nFinished runs are kept in {case}-runs.jsonl, the network beside it.")
    @click.option("--runs", type=click.IntRange(min=1), default=n_runs, show_default=True, help="Draws of 200 images.")
    @click.option("--quick", is_flag=True, help="One run of one size, within two minutes.")
    @jobs_option
    @click.option(
        "--output", default="reproduced", show_default=True, help=f"Directory for {case}.json, .md, .png and the runs."
    )
    @fresh_option
    @seed_option
    @output_options
    def command(
        runs: int, quick: bool, jobs: int, output: str, fresh: bool, seed: int, as_json: bool, quiet: bool
    ) -> None:
        try:
            from ..reproduce._networks import networks_markdown, run_networks, write_networks
        except ImportError as error:
            raise click.UsageError(f"This needs PyTorch: pip install decoupling[torch]. ({error})") from error

        if quick and runs != n_runs:
            raise click.UsageError("--quick has its own number of runs: leave --runs out.")

        def run(directory: Path, progress: Callable[..., None]) -> Any:
            return run_networks(
                case,
                n_runs=1 if quick else runs,
                sizes=(0,) if quick else None,
                epochs=2 if quick else None,
                seed=seed,
                n_jobs=jobs,
                folder=directory,
                store=_store(directory, case, fresh),
                progress=progress,
            )

        _carry_out(case, output, as_json, quiet, run, write_networks, networks_markdown)


_network_command("mnist", 15, "Compress an MNIST network: the part 80 to 10 replaced by decouplings and by others.")
_network_command(
    "fashion", 5, "Compress a FashionMNIST network: the part 512 to 10 replaced by decouplings and others."
)


def _store(directory: Path, name: str, fresh: bool) -> Path:
    """The file of finished runs."""
    store = directory / f"{name}-runs.jsonl"
    if fresh:
        store.unlink(missing_ok=True)
    return store


def _carry_out(
    name: str,
    output: str,
    as_json: bool,
    quiet: bool,
    run: Callable[[Path, Callable[..., None]], Any],
    write: Callable[[Any, Path], None],
    markdown: Callable[[Any], str],
) -> None:
    """Run one experiment, write its files and print its table."""
    import time

    from .._files import check_target, make_directory
    from .._progress import progress_callback
    from ._screen import print_json

    if not output.strip():
        raise click.BadParameter("must name a directory.", param_hint="--output")
    directory = make_directory(output)
    for ending in ("json", "md", "png"):
        check_target(directory / f"{name}.{ending}")
    began = time.perf_counter()
    with progress_callback(not quiet, name) as progress:
        found = run(directory, progress)
    write(found, directory)
    if as_json:
        print_json(found.content())
    elif not quiet:
        click.echo(markdown(found))
        seconds = time.perf_counter() - began
        click.echo(f"{seconds:.0f} s. Written: {name}.json, {name}.md and {name}.png in {directory}")
