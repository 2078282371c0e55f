"""The options of all commands: one table, with the types of their values.

A command lists its options by name, and says what it means otherwise by one of them. They reach it as one record.
"""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import click
from click.shell_completion import CompletionItem

Command = Callable[..., None]
Entry = str | tuple[str, dict[str, Any]]  # the name of an option, and what is said otherwise of it
Given = SimpleNamespace  # the values of the options of one command, by their names


# Types of values


def number_list(text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas, such as 2,2."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers separated by commas, such as 2,2.") from None


def ranks_or_auto(text: str) -> tuple[int, ...] | Literal["auto"]:
    """Whole numbers separated by commas, or the word auto."""
    return "auto" if text == "auto" else number_list(text)


def name_list(text: str) -> tuple[str, ...]:
    """Names separated by commas, such as x1,x2; in double quotes a name may hold a comma itself."""
    import csv

    try:
        return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), []))
    except csv.Error:
        raise click.BadParameter(f"{text!r} is not a list of names: put those with line breaks in quotes.") from None


class NameList(click.ParamType):  # type: ignore[type-arg]
    """Names of columns separated by commas; a shell completes those of the file that was typed before."""

    name = "name,..."

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


def _is_plain_word(name: str) -> bool:
    """Whether a shell takes this for one word and nothing else."""
    return not name.startswith("-") and all(letter.isalnum() or letter in "_-.+:/%@" for letter in name)


class FileName(click.ParamType):  # type: ignore[type-arg]
    """The name of a file.

    One to write has one of these endings: another one would lie about what is inside. Whoever reads one says what is
    wrong with it.
    """

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
        if self.endings and not value.lower().endswith(self.endings):
            self.fail(f"{value!r} must end in {' or '.join(self.endings)}.", param, ctx)
        return value


PAGE, PICTURE = FileName(".html", ".htm"), FileName(".png", ".svg", ".pdf")

# In the order of `bases.OWN_BASES`, which cannot be asked before numerical libraries are loaded.
BASES = (
    "monomial", "scaled-monomial", "bernstein", "chebyshev", "trigonometric", "spline", "tanh", "sigmoid", "saturation",
    "dead-zone", "absolute", "relu", "leaky-relu", "friction", "exponential", "logarithm", "gaussian", "rational",
)  # fmt: skip


def basis_class(name: str) -> Any:
    """What is meant by a name on the command line: a class that is given the degrees, or a basis without any.

    None for "auto": the library chooses.
    """
    if name == "auto":
        return None
    from ..bases import OWN_BASES
    from ..fit._settings import needs_degree

    kind = dict(zip(BASES, OWN_BASES, strict=True))[name]
    return kind if needs_degree(kind) else kind()


def _connect(context: click.Context, _: click.Parameter, address: str | None) -> None:
    if address is not None and not context.resilient_parsing:
        from .._support._parallel import connect

        context.call_on_close(connect(address).close)


def option(name: str, **settings: Any) -> tuple[str, dict[str, Any]]:
    """An option, or what a command means otherwise by one of the table; the keywords are those of `click.option`."""
    return name, settings


# The table

OPTIONS = dict(
    [
        # What is read
        option(
            "--inputs", type=NameList(), help="Input columns by name, or by number where they have none: x1,x2 or 1,2."
        ),
        option("--outputs", type=NameList(), help="Output columns by name, or by number where they have none: y or 3."),
        option(
            "--jacobians/--no-jacobians",
            default=None,
            help="Require columns such as dy/dx1, or ignore them. By default they are used if all are there.",
        ),
        option("--drop-missing", is_flag=True, help="Leave out rows with missing or infinite numbers."),
        option(
            "--order",
            type=click.Choice(["samples", "matlab"]),
            help="Which axis of .npz and .mat arrays counts samples: the first, or the last as in MATLAB.",
        ),
        option(
            "--input inputs",
            type=NameList(),
            help="Input columns, by name, or by number where the file has no header.",
        ),
        option(
            "--output outputs",
            type=NameList(),
            help="Output columns, by name, or by number where the file has no header.",
        ),
        # What is fitted
        option("--degrees", type=number_list, metavar="N,N,..."),
        option(
            "--basis",
            type=click.Choice(("auto", *BASES)),
            default="auto",
            help="Basis of the functions. auto: polynomials with --degrees, else what the data ask for.",
        ),
        option("--linear", is_flag=True, help="Add a linear part: A x + W_L g_L(...)."),
        # How long it takes
        option("--n-starts", type=click.IntRange(min=1)),
        option(
            "--max-seconds",
            type=click.FloatRange(min=0, min_open=True),
            help="Stop after about this many seconds with the best model so far.",
        ),
        option(
            "--scheduler",
            metavar="ADDRESS",
            expose_value=False,
            callback=_connect,
            help="Share the work with a Dask cluster: the address of its scheduler, such as tcp://10.0.0.1:8786.",
        ),
        option(
            "--seed", type=click.IntRange(min=0), default=0, help="Random seed: the same seed gives the same result."
        ),
        # What is written and printed
        option("--model model_path", type=FileName(".safetensors"), help="Write the model here (.safetensors)."),
        option("--report report_path", type=PAGE, help="Write an HTML report here."),
        option("--json as_json", is_flag=True, help="Print the result as JSON."),
        option("--quiet", is_flag=True, help="Print nothing but errors."),
    ]
)
COLUMNS = ("--inputs", "--outputs", "--jacobians/--no-jacobians", "--drop-missing", "--order")
ON_SCREEN = ("--seed", "--json as_json", "--quiet")


def add_options(command: Command, *entries: Entry) -> Command:
    """A command with these options, in this order."""
    for entry in reversed(entries):
        name, otherwise = option(entry) if isinstance(entry, str) else entry
        settings = OPTIONS.get(name, {}) | otherwise
        command = click.option(*name.split(), show_default=settings.get("default") is not None, **settings)(command)
    return command


def options(*entries: Entry) -> Callable[[Command], Command]:
    """Options that reach a command as one record `given`; its arguments reach it as they are."""

    def add(command: Command) -> Command:
        @functools.wraps(command)
        def with_record(**values: Any) -> None:
            parameters = click.get_current_context().command.params
            arguments = [p.name for p in parameters if isinstance(p, click.Argument) and p.name is not None]
            command(**{name: values.pop(name) for name in arguments}, given=Given(**values))

        return add_options(with_record, *entries)

    return add


# What commands do with them


def command_line() -> str:
    """What the user typed, for a shell to run it again."""
    return shlex.join(["decouply", *sys.argv[1:]])


def check_targets(*paths: str | None) -> None:
    """Complain about places that no file can be written to, before any work is done for it."""
    from .._support._atomic_files import check_target

    for path in paths:
        if path is not None:
            check_target(path)
