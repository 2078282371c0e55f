"""`python -m experiments`: every `Experiment` that a file here declares is a command.

Names and one-line helps are read from the source, so that a list needs no imports, and an experiment only its own.
"""

# ruff: noqa: I001 (Ctrl-C is answered before others are imported)
from __future__ import annotations

from decouply._support._interrupts import hand_over

import importlib
import json
import re
from functools import cache
from pathlib import Path

import click

from decouply._support._atomic_files import write_text
from decouply._support._errors import DataError, MissingExtraError
from decouply._support._optional_packages import needed
from decouply.cli._main import main
from experiments.code_version import what_changed
from experiments.harness import Experiment

_HERE = Path(__file__).parent
_STORED = _HERE.parent / "docs"
_DECLARED = re.compile(r'= Experiment\.of\(\s*globals\(\),\s*"(?P<name>[^"]+)",\s*"(?P<about>[^"]+)"')


@cache
def declarations() -> dict[str, tuple[str, str]]:
    """The module and the one-line help of every experiment."""
    found = {}
    for path in sorted(_HERE.glob("*/*.py")):
        module = ".".join(path.relative_to(_HERE.parent).with_suffix("").parts)
        for name, about in _DECLARED.findall(path.read_text(encoding="utf-8")):
            found[name] = module, about
    return found


def experiment(name: str) -> Experiment:
    """The experiment of this name; its module is imported."""
    try:
        module = importlib.import_module(declarations()[name][0])
    except ModuleNotFoundError as error:
        needed(str(error.name), str(error.name), f"python -m experiments {name}")
        raise
    return next(one for one in vars(module).values() if isinstance(one, Experiment) and one.name == name)


def stored_results() -> dict[str, Path]:
    """The files of numbers that the documentation has, by experiment."""
    return {name: path for name in declarations() for path in _STORED.glob(f"*/{name}.json")}


def stale_results() -> dict[str, str]:
    """What has changed since each of these was made; nothing for those that this code made."""
    stored = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in stored_results().items()}
    return {name: what_changed(content.get("code"), declarations()[name][0]) for name, content in stored.items()}


class _Commands(click.Group):
    """The experiments, imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*declarations(), *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in declarations():
            return super().get_command(ctx, cmd_name)
        return experiment(cmd_name).command()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's)
        with formatter.section("Experiments"):
            formatter.write_dl([(name, about) for name, (_, about) in declarations().items()])
        with formatter.section("Several at once"):
            formatter.write_dl([(str(one.name), str(one.short_help)) for one in (paper, pages, stale)])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def experiments() -> None:
    """Run an experiment of the paper, or one of ours, and print its table."""


@experiments.command(short_help="The paper's own experiments, one after the other.")
@click.option("--quick", is_flag=True, help="All of them in reduced forms, within ten minutes.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Processes.")
@click.option("--directory", default="results", show_default=True, help="Directory for tables, pictures and the runs.")
def paper(quick: bool, jobs: int, directory: str) -> None:
    """Table 1, the Silverbox figure and the compression of both networks; a stopped command resumes.

    An experiment whose data or packages are not there is left out, with the reason.
    """
    names = [name for name, (module, _) in declarations().items() if module.startswith("experiments.paper.")]
    options = ["--jobs", str(jobs), "--directory", directory, *(["--quick"] if quick else [])]
    for name in reversed(names):  # table1, which needs nothing, first
        click.echo(f"\n{name}: {declarations()[name][1]}\n")
        try:
            experiment(name).command().main(options, prog_name=name, standalone_mode=False)
        except (DataError, MissingExtraError) as error:
            click.echo(f"{name} is left out, since something that it needs is not there. {error}")


@experiments.command(short_help="Write the tables of docs/ again, from the stored numbers.")
def pages() -> None:
    """Write docs/*/NAME.md again from docs/*/NAME.json, after a change to what tables look like."""
    for name, path in stored_results().items():
        write_text(path.with_suffix(".md"), experiment(name).table(json.loads(path.read_text(encoding="utf-8"))) + "\n")


@experiments.command(short_help="Which stored results were made by other code than this.")
def stale() -> None:
    """Tell for every result in docs/ which rooms of the package have changed since it was made."""
    for name, changed in stale_results().items():
        click.echo(f"{name}: {changed or 'made by this code'}")


if __name__ == "__main__":
    hand_over()
    main(experiments)
