"""Options that several commands share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable

import click

Command = Callable[..., None]


def number_list(text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas, such as 2,2."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers separated by commas, such as 2,2.") from None


def name_list(text: str) -> tuple[str, ...]:
    """Names separated by commas, such as x1,x2; in double quotes a name may hold a comma itself."""
    import csv

    return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), []))


def command_line() -> str:
    """What the user typed, for a shell to run it again."""
    return shlex.join(["decouple", *sys.argv[1:]])


def output_options(command: Command) -> Command:
    """--json for machines, --quiet for silence."""
    command = click.option("--quiet", is_flag=True, help="Print nothing but errors.")(command)
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(command)


seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of everything random."
)
