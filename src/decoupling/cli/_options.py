"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Command = Callable[..., None]


class NumberList(click.ParamType):
    """Whole numbers separated by commas, such as 2,2."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of whole numbers separated by commas, such as 2,2.", param, ctx)


def output_options(command: Command) -> Command:
    """--json for machines, --quiet for silence."""
    command = click.option("--quiet", is_flag=True, help="Print nothing but errors.")(command)
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(command)


seed_option = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of everything random.")
