"""`python -m experiments`: the experiments of the paper, and our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from decouply.cli._main import main
from decouply.cli._options import Command, output_options, scheduler_option, seed_option


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def experiments() -> None:
    """Run an experiment of the paper, or one of ours, and print its table."""


@dataclass(frozen=True)
class Experiment:
    """What the user asked of one experiment, whichever it is."""

    name: str
    jobs: int
    directory: str
    fresh: bool
    seed: int
    as_json: bool
    quiet: bool

    def carry_out(self, run: Callable[..., Any], write: Callable[..., None], markdown: Callable[[Any], str]) -> None:
        """Run it, write its files and print its table. `run` is given seed, n_jobs, store and progress."""
        import time

        from decouply._support._atomic_files import check_target, make_directory
        from decouply._support._progress import progress_callback
        from decouply.cli._output import print_json, shown_progress

        if not self.directory.strip():
            raise click.BadParameter("must name a directory.", param_hint="--directory")
        directory = make_directory(self.directory)
        for ending in ("json", "md", "png"):
            check_target(directory / f"{self.name}.{ending}")
        store = directory / f"{self.name}-runs.jsonl"
        if self.fresh:
            store.unlink(missing_ok=True)
        began = time.perf_counter()
        with shown_progress(self.name, quiet=self.quiet) as shown:
            with progress_callback(False if self.quiet else shown, self.name) as progress:
                found = run(seed=self.seed, n_jobs=self.jobs, store=store, progress=progress)
            write(found, directory)
        if self.as_json:
            print_json(found.content())
        elif not self.quiet:
            click.echo(markdown(found))
            seconds = time.perf_counter() - began
            click.echo(f"{seconds:.0f} s. Written: {self.name}.json, .md and .png in {directory}")


def experiment_options(name: str) -> Callable[[Command], Command]:
    """The options behind the fields of `Experiment`."""
    options = (
        click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Processes."),
        click.option(
            "--directory",
            default="results",
            show_default=True,
            help=f"Directory for {name}.json, .md, .png and the runs.",
        ),
        click.option("--fresh", is_flag=True, help="Discard the finished runs in the directory and start over."),
        scheduler_option,
        seed_option,
        output_options,
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def runs_option(default: int, what: str) -> Callable[[Command], Command]:
    """--runs, of which `default` is the paper's number or ours."""
    return click.option("--runs", type=click.IntRange(min=1), default=default, show_default=True, help=what)


def check_quick(quick: bool, runs: int | None, default: int | None, **others: Any) -> None:
    """--quick has a size of its own, so that options of size are refused, not ignored."""
    if quick and runs != default:
        raise click.UsageError("--quick has its own number of runs: leave --runs out.")
    for name, value in others.items():
        if quick and value:
            raise click.UsageError(f"--quick is one small run that does not depend on --{name}: leave --{name} out.")


@experiments.command(short_help="Table 1 of the paper.")
@runs_option(30, "Data sets per system.")
@click.option("--n-starts", type=click.IntRange(min=1), default=8, show_default=True, help="Starts of our own variant.")
@experiment_options("table1")
def table1(runs: int, n_starts: int, **asked: Any) -> None:
    """Table 1: two-layer decouplings of f1, f2 and f3 by PROJ and CONSTR.

    Finished runs are kept in table1-runs.jsonl: a stopped command resumes where it left off.
    """
    from experiments import run_table1, table1_markdown, write_table1

    run = partial(run_table1, n_runs=runs, n_starts=n_starts)
    Experiment("table1", **asked).carry_out(run, write_table1, table1_markdown)


@experiments.command(short_help="Regression on small tables, compared with other methods.")
@click.option(
    "--splits", type=click.IntRange(min=2), default=5, show_default=True, help="Splits into training and test samples."
)
@experiment_options("regression")
def regression(splits: int, **asked: Any) -> None:
    """Regression on small tables: ours beside ridge, boosting, kernel ridge, MLP, pyGAM and KAN.

    Needs the extra sklearn. pyGAM and KAN are measured where the packages pygam and pykan are installed.
    """
    from experiments import regression_markdown, run_regression, write_regression

    run = partial(run_regression, n_splits=splits)
    Experiment("regression", **asked).carry_out(run, write_regression, regression_markdown)


@experiments.command(short_help="How often the true system is found.")
@runs_option(30, "Data sets per system.")
@click.option("--noise/--no-noise", default=True, show_default=True, help="Whether noisy data are tried as well.")
@click.option(
    "--max-seconds", type=click.FloatRange(min=0, min_open=True), default=60, show_default=True, help="Per data set."
)
@experiment_options("recovery")
def recovery(runs: int, noise: bool, max_seconds: float, **asked: Any) -> None:
    """Exact recovery: how often VarPro finds the system behind the data, for one to five layers, and with noise.

    Finished runs are kept in recovery-runs.jsonl: a stopped command resumes where it left off.
    """
    from experiments import recovery_markdown, run_recovery, write_recovery

    run = partial(run_recovery, n_runs=runs, max_seconds=max_seconds, noise=noise)
    Experiment("recovery", **asked).carry_out(run, write_recovery, recovery_markdown)


@experiments.command(short_help="How deep and wide a system may be to be recovered.")
@runs_option(3, "Data sets per rank and number of layers.")
@click.option(
    "--max-seconds", type=click.FloatRange(min=0, min_open=True), default=20, show_default=True, help="Per data set."
)
@experiment_options("cliff")
def cliff(runs: int, max_seconds: float, **asked: Any) -> None:
    """The cliff: share of systems recovered and time, over ranks 2 to 8 and one to four layers.

    Finished runs are kept in cliff-runs.jsonl: a stopped command resumes where it left off.
    """
    from experiments import cliff_markdown, run_cliff, write_cliff

    run = partial(run_cliff, n_runs=runs, max_seconds=max_seconds)
    Experiment("cliff", **asked).carry_out(run, write_cliff, cliff_markdown)


@experiments.command(short_help="Whether a change of units changes the answer.")
@runs_option(10, "Data sets per system and choice of units.")
@experiment_options("equivariance")
def equivariance(runs: int, **asked: Any) -> None:
    """Units do not matter: how often VarPro recovers systems whose inputs and outputs are moved, scaled and rotated.

    Finished runs are kept in equivariance-runs.jsonl: a stopped command resumes where it left off.
    """
    from experiments import equivariance_markdown, run_equivariance, write_equivariance

    run = partial(run_equivariance, n_runs=runs)
    Experiment("equivariance", **asked).carry_out(run, write_equivariance, equivariance_markdown)


@experiments.command(short_help="Polynomials and splines on many kinds of curves.")
@runs_option(10, "Systems per case and curve.")
@experiment_options("functions")
def functions(runs: int, **asked: Any) -> None:
    """Functions of any shape: polynomials and splines on saturations, dead zones and other curves.

    Finished runs are kept in functions-runs.jsonl: a stopped command resumes where it left off.
    """
    from experiments import functions_markdown, run_functions, write_functions

    Experiment("functions", **asked).carry_out(partial(run_functions, n_runs=runs), write_functions, functions_markdown)


@experiments.command(short_help="How often curves get the right name.")
@runs_option(5, "Systems per kind of curve.")
@experiment_options("curves")
def curves(runs: int, **asked: Any) -> None:
    """Names for curves: how often functions that were fitted with splines are called what they are.

    Finished runs are kept in curves-runs.jsonl: a stopped command resumes where it left off.
    """
    from experiments import curves_markdown, run_curves, write_curves

    Experiment("curves", **asked).carry_out(partial(run_curves, n_runs=runs), write_curves, curves_markdown)


@experiments.command(short_help="The Silverbox figure of the paper.")
@runs_option(30, "Draws of training regressors.")
@click.option("--quick", is_flag=True, help="Two runs of ranks 3 and 4, within a minute.")
@experiment_options("silverbox")
def silverbox(runs: int, quick: bool, **asked: Any) -> None:
    """The Silverbox figure: decouplings of a polynomial NARX model, ranks 2 to 6, six algorithms.

    Finished runs are kept in silverbox-runs.jsonl: a stopped command resumes where it left off.
    """
    from experiments import run_silverbox, silverbox_markdown, write_silverbox

    check_quick(quick, runs, 30)
    run = partial(run_silverbox, n_runs=runs)
    if quick:
        run = partial(run_silverbox, n_runs=2, ranks=(3, 4), n_refined=1, refine_steps=10)
    Experiment("silverbox", **asked).carry_out(run, write_silverbox, silverbox_markdown)


@experiments.command(short_help="How often the right ranks are chosen.")
@runs_option(30, "Data sets per group and noise level.")
@click.option("--quick", is_flag=True, help="Three data sets per group, within two minutes.")
@experiment_options("selection")
def selection(runs: int, quick: bool, **asked: Any) -> None:
    """Choosing ranks: how often `decouply select` finds those of the system behind the data.

    Finished runs are kept in selection-runs.jsonl: a stopped command resumes where it left off.
    """
    from experiments import run_selection, selection_markdown, write_selection

    check_quick(quick, runs, 30)
    run = partial(run_selection, n_runs=3 if quick else runs)
    Experiment("selection", **asked).carry_out(run, write_selection, selection_markdown)


@experiments.command(short_help="Dynamic models on public benchmarks.")
@click.option(
    "--runs", type=click.IntRange(min=1), default=None, help="Seeds per model: by default 5, and 3 with --choose."
)
@click.option(
    "--only", multiple=True, help="Only models whose name begins with this, such as Silverbox; may be repeated."
)
@click.option("--choose", is_flag=True, help="Choose the sizes of the models, by held-back training data alone.")
@click.option("--quick", is_flag=True, help="One system of our own, which needs no files, within a minute.")
@experiment_options("benchmarks")
def benchmarks(runs: int | None, only: tuple[str, ...], choose: bool, quick: bool, **asked: Any) -> None:
    """Decoupled state space on Silverbox, cascaded tanks, Wiener-Hammerstein and EMPS.

    Finished runs are kept in benchmarks-runs.jsonl: a stopped command resumes where it left off. With --choose all
    candidates are scored on the last quarter of the training records, and files are named choice.
    """
    from experiments import (
        benchmarks_markdown,
        choice_markdown,
        run_benchmarks,
        run_choice,
        write_benchmarks,
        write_choice,
    )
    from experiments.dynamic.benchmarks import CASES, N_RUNS, QUICK
    from experiments.dynamic.order_choice import N_CHOICE_RUNS

    check_quick(quick, runs, None, only=only)
    cases = QUICK if quick else {name: c for name, c in CASES.items() if not only or name.startswith(only)}
    if not cases:
        raise click.BadParameter(f"must begin the name of a model: {', '.join(CASES)}.", param_hint="--only")
    if choose:
        choice = partial(run_choice, n_runs=1 if quick else runs or N_CHOICE_RUNS, cases=cases)
        Experiment("choice", **asked).carry_out(choice, write_choice, choice_markdown)
        return
    run = partial(run_benchmarks, n_runs=1 if quick else runs or N_RUNS, cases=cases)
    Experiment("benchmarks", **asked).carry_out(run, write_benchmarks, benchmarks_markdown)


def _steps_option() -> Callable[[Command], Command]:
    return click.option(
        "--steps", type=click.IntRange(min=1), help="Training steps of every row. By default as in the docs."
    )


def _inputs_option() -> Callable[[Command], Command]:
    return click.option(
        "--inputs",
        type=click.IntRange(min=20),
        multiple=True,
        help="Number of inputs, such as 20000; may be repeated.",
    )


def _only_option() -> Callable[[Command], Command]:
    return click.option(
        "--only", multiple=True, help="Only rows whose name begins with this, such as GELU; may be repeated."
    )


def _chosen(methods: tuple[str, ...], only: tuple[str, ...]) -> tuple[str, ...]:
    """Rows that are called so, or that begin so where none is."""
    begun = tuple(name for name in only if name not in methods)
    found = tuple(m for m in methods if not only or m in only or (begun and m.startswith(begun)))
    if not found:
        raise click.BadParameter(f"must begin the name of a row: {', '.join(methods)}.", param_hint="--only")
    return found


def _students(
    case: str,
    runs: int,
    steps: int | None,
    inputs: tuple[int, ...],
    only: tuple[str, ...],
    quick: bool,
    asked: dict[str, Any],
) -> None:
    """One network, ours among others of the same size."""
    from experiments.networks.students import METHODS, QUICK, run_students, students_markdown, write_students

    methods = _chosen(METHODS, only)
    run = partial(run_students, case, n_runs=runs, steps=steps, inputs=inputs or None, methods=methods)
    if quick:
        run = partial(run_students, case, n_runs=1, steps=200, epochs=1, inputs=(2000,), methods=QUICK)
    name = f"{case}-students" if case in ("mnist", "fashion") else case
    Experiment(name, **asked).carry_out(run, write_students, students_markdown)


def _network_command(case: str, n_runs: int, short: str, what: str) -> None:
    """Add the command of one compression experiment."""

    @experiments.command(
        name=case,
        short_help=short,
        help=f"{short} {what}\n\nFinished runs are kept in {case}-runs.jsonl, the network beside it. With --students "
        "the network is trained to the end, and all replacements have the same size; the files are then named "
        f"{case}-students.",
    )
    @runs_option(n_runs, "Draws of 200 images.")
    @click.option(
        "--students", is_flag=True, help="Compare ours with students, pruned and rounded networks of equal size."
    )
    @_steps_option()
    @_inputs_option()
    @_only_option()
    @click.option("--quick", is_flag=True, help="One run of one size, within two minutes.")
    @experiment_options(case)
    def command(
        runs: int,
        students: bool,
        steps: int | None,
        inputs: tuple[int, ...],
        only: tuple[str, ...],
        quick: bool,
        **asked: Any,
    ) -> None:
        from decouply._support._optional_packages import needed

        needed("torch", "torch", f"python -m experiments {case}")
        from experiments.paper.network_compression import networks_markdown, run_networks, write_networks

        check_quick(quick, runs, n_runs, steps=steps, inputs=inputs, only=only)
        if not students and (steps or inputs or only):
            raise click.UsageError("--steps, --inputs and --only are about --students: add it, or leave them out.")
        if students:
            _students(case, 5 if runs == n_runs else runs, steps, inputs, only, quick, asked)
            return
        run = partial(run_networks, case, n_runs=runs)
        if quick:
            run = partial(run_networks, case, n_runs=1, sizes=(0,), epochs=2)
        Experiment(case, **asked).carry_out(run, write_networks, networks_markdown)


_network_command(
    "mnist", 15, "Compress an MNIST network.", "The part 80 to 10 is replaced by decouplings and by other methods."
)
_network_command(
    "fashion",
    5,
    "Compress a FashionMNIST network.",
    "The part 512 to 10 is replaced by decouplings and by other methods.",
)


def _student_command(case: str, short: str, what: str) -> None:
    """Add the command of one network among others of the same size."""

    @experiments.command(
        name=case,
        short_help=short,
        help=f"{short} {what}\n\nFinished runs are kept in {case}-runs.jsonl, the network beside it.",
    )
    @runs_option(5, "Draws of inputs.")
    @_steps_option()
    @_inputs_option()
    @_only_option()
    @click.option("--quick", is_flag=True, help="One run of some rows, trained little, within two minutes.")
    @experiment_options(case)
    def command(
        runs: int, steps: int | None, inputs: tuple[int, ...], only: tuple[str, ...], quick: bool, **asked: Any
    ) -> None:
        from decouply._support._optional_packages import needed

        needed("torch", "torch", f"python -m experiments {case}")
        check_quick(quick, runs, 5, steps=steps, inputs=inputs, only=only)
        _students(case, runs, steps, inputs, only, quick, asked)


_student_command(
    "cnn",
    "Compress the head of a convolutional network.",
    "The head of LeNet-5 on FashionMNIST, 400 to 10, keeps 8 % of its parameters.",
)
_student_command(
    "tabular", "Compress a regression network.", "The part from ten inputs to one output keeps 5 % of its parameters."
)


@experiments.command(short_help="Compress the MLPs of a vision transformer.")
@runs_option(5, "Draws of inputs.")
@_steps_option()
@_only_option()
@click.option("--quick", is_flag=True, help="One run, trained little, within two minutes.")
@experiment_options("vit")
def vit(runs: int, steps: int | None, only: tuple[str, ...], quick: bool, **asked: Any) -> None:
    """All MLP blocks of a small vision transformer, replaced at an eighth of their parameters.

    Finished runs are kept in vit-runs.jsonl, the network beside it.
    """
    from decouply._support._optional_packages import needed

    needed("torch", "torch", "python -m experiments vit")
    from experiments.networks.vision_transformer import METHODS, run_vit, vit_markdown, write_vit

    check_quick(quick, runs, 5, steps=steps, only=only)
    run = partial(run_vit, n_runs=runs, steps=steps, methods=_chosen(METHODS, only))
    if quick:
        run = partial(run_vit, n_runs=1, steps=100, joint_steps=20, epochs=1)
    Experiment("vit", **asked).carry_out(run, write_vit, vit_markdown)


@experiments.command(short_help="Whether Jacobians pay off as starts for networks.")
@runs_option(5, "Draws of inputs.")
@click.option("--quick", is_flag=True, help="One run with 200 inputs, trained little, within two minutes.")
@experiment_options("starts")
def starts(runs: int, quick: bool, **asked: Any) -> None:
    """Layers of networks from Jacobians and from random starts: do the Jacobians pay?

    Finished runs are kept in starts-runs.jsonl, the MNIST network beside it.
    """
    from decouply._support._optional_packages import needed

    needed("torch", "torch", "python -m experiments starts")
    from experiments.networks.jacobian_start import run_starts, starts_markdown, write_starts

    check_quick(quick, runs, 5)
    run = partial(run_starts, n_runs=runs)
    if quick:
        run = partial(run_starts, n_runs=1, inputs=(200,), steps=(100,), epochs=1)
    Experiment("starts", **asked).carry_out(run, write_starts, starts_markdown)


if __name__ == "__main__":
    main(experiments)
