"""Options that several commands share."""

from __future__ import annotations

import dataclasses
import functools
import shlex
import sys
from collections.abc import Callable
from typing import Any, Literal

import click
from click.shell_completion import CompletionItem

Command = Callable[..., None]
Decorator = Callable[[Command], Command]


def option_group(argument: str, kind: type[Any], *options: Decorator) -> Decorator:
    """Options that reach a command as one `argument`: a record of a `kind` whose fields are called as they are."""
    names = [field.name for field in dataclasses.fields(kind)]

    def add(command: Command) -> Command:
        @functools.wraps(command)
        def with_group(*args: Any, **given: Any) -> None:
            group = kind(**{name: given.pop(name) for name in names})
            command(*args, **{argument: group}, **given)

        decorated: Command = with_group
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return add


def number_list(text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas, such as 2,2."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers separated by commas, such as 2,2.") from None


def name_list(text: str) -> tuple[str, ...]:
    """Names separated by commas, such as x1,x2; in double quotes a name may hold a comma itself."""
    import csv

    try:
        return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), []))
    except csv.Error:
        raise click.BadParameter(f"{text!r} is not a list of names: put those with line breaks in quotes.") from None


def command_line() -> str:
    """What the user typed, for a shell to run it again."""
    return shlex.join(["decouply", *sys.argv[1:]])


def ranks_or_auto(text: str) -> tuple[int, ...] | Literal["auto"]:
    """Whole numbers separated by commas, or the word auto."""
    return "auto" if text == "auto" else number_list(text)


@dataclasses.dataclass(frozen=True)
class Output:
    """How much a command prints: JSON for machines, or nothing."""

    as_json: bool
    quiet: bool


output_options = option_group(
    "output",
    Output,
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    click.option("--quiet", is_flag=True, help="Print nothing but errors."),
)


def _is_plain_word(name: str) -> bool:
    """Whether a shell takes this for one word and nothing else."""
    return not name.startswith("-") and all(letter.isalnum() or letter in "_-.+:/%@" for letter in name)


class GivenFile(click.ParamType):  # type: ignore[type-arg]
    """A file to read; whoever reads it says what is wrong with it."""

    name = "file"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 (the interface of click)
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class NameList(click.ParamType):  # type: ignore[type-arg]
    """Names of columns separated by commas; a shell completes those of the file that was typed before."""

    name = "names"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002 (the interface of click)
        ctx: click.Context | None,  # noqa: ARG002
    ) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else name_list(value)

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 (the interface of click)
        incomplete: str,
    ) -> list[CompletionItem]:
        from pathlib import Path

        from .._support._errors import DecouplingError
        from ..samples.readers._by_extension import open_table

        before, _, begun = incomplete.rpartition(",")
        try:
            table = open_table(Path(ctx.params.get("file") or ""))
        except (DecouplingError, OSError):
            return []
        # A shell puts names into the line as they are, where it would obey $(...) or a line break.
        names = () if table is None else filter(_is_plain_word, table.names)
        taken = before.split(",")
        return [
            CompletionItem(f"{before},{name}" if before else name)
            for name in names
            if name.startswith(begun) and name not in taken
        ]


class FileName(click.ParamType):  # type: ignore[type-arg]
    """A file name with one of these endings: another one would lie about what is inside."""

    name = "file"

    def __init__(self, *endings: str) -> None:
        self.endings = endings

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 (the interface of click)
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value.lower().endswith(self.endings):
            self.fail(f"{value!r} must end in {' or '.join(self.endings)}.", param, ctx)
        return value


model_option = click.option(
    "--model",
    "model_path",
    metavar="FILE",
    type=FileName(".safetensors"),
    default=None,
    help="Write the model here (.safetensors).",
)

# In the order of `bases.OWN_BASES`, which cannot be asked before numerical libraries are loaded.
BASES = (
    "monomial",
    "scaled-monomial",
    "bernstein",
    "chebyshev",
    "trigonometric",
    "spline",
    "tanh",
    "sigmoid",
    "saturation",
    "dead-zone",
    "absolute",
    "relu",
    "leaky-relu",
    "friction",
    "exponential",
    "logarithm",
    "gaussian",
    "rational",
)
basis_option = click.option(
    "--basis",
    type=click.Choice(BASES),
    default="monomial",
    show_default=True,
    help="Basis of the functions. spline, and curves such as tanh, need no --degrees.",
)
linear_option = click.option("--linear", is_flag=True, help="Add a linear part: A x + W_L g_L(...).")


def basis_class(name: str) -> Any:
    """What is meant by a name on the command line: a class that is given the degrees, or a basis without any."""
    from ..bases import OWN_BASES
    from ..fit._settings import needs_degree

    kind = dict(zip(BASES, OWN_BASES, strict=True))[name]
    return kind if needs_degree(kind) else kind()


seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Random seed: the same seed gives the same result.",
)


def _connect(context: click.Context, _: click.Parameter, address: str | None) -> None:
    if address is not None and not context.resilient_parsing:
        from .._support._parallel import connect

        context.call_on_close(connect(address).close)


scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS",
    default=None,
    expose_value=False,
    callback=_connect,
    help="Share the work with a Dask cluster: the address of its scheduler, such as tcp://10.0.0.1:8786.",
)
