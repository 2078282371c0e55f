"""The options of all commands: one table, with the types of their values.

A command lists its options by name, and says what it means otherwise by one of them. They reach it as one record.
"""

from __future__ import annotations

import functools
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import click
from click.shell_completion import CompletionItem

Entry = str | tuple[str, dict[str, Any]]  # the name of an option, and what is said otherwise of it
Given = SimpleNamespace  # the values of the options of one command, by their names


# How help is laid out


class SectionOption(click.Option):
    """An option that help shows under a heading."""

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Name and help; NAMES in it are those of the classes that the option takes."""
        found = super().get_help_record(ctx)
        if found is None or not isinstance(self.type, OwnName):
            return found
        return found[0], found[1].replace("NAMES", ", ".join(self.type.classes()))


class SectionCommand(click.Command):
    """A command whose help lists options under headings, and whose errors call arguments by its options."""

    def invoke(self, ctx: click.Context) -> Any:
        from .._support._errors import DecouplingError

        try:
            return super().invoke(ctx)
        except DecouplingError as error:
            error.args = (by_options(str(error)), *error.args[1:])
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(param, "section", "Options"), []).append(record)
        general = sections.pop("Options", [])
        for title, records in (*sections.items(), ("Options", general)):
            with formatter.section(title):
                formatter.write_dl(records)


class SectionGroup(click.Group):
    """A group whose help lists commands under headings."""

    command_class = SectionCommand

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections: dict[str, list[str]] = {}

    def add_section(self, title: str, *commands: click.Command) -> None:
        """Add commands that help lists under this heading, in this order."""
        self.sections[title] = [command.name for command in commands if command.name is not None]
        for command in commands:
            self.add_command(command)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (the interface of click)
        return [name for names in self.sections.values() for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for name in self.list_commands(ctx))
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", self.commands[name].get_short_help_str()) for name in names])


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


class OwnName(click.Choice):  # type: ignore[type-arg]
    """The name of a class of ours, or one of some other words.

    To import the classes loads numerical libraries. They are asked when a value is read, or when the help of the
    command is shown.
    """

    case_sensitive = True

    def __init__(self, classes: Callable[[], dict[str, Any]], *others: str) -> None:  # that of click reads all names
        self.classes, self.others = classes, others

    @functools.cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.others, *self.classes())

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        completing = ctx is not None and ctx.resilient_parsing  # a shell waits for the answer
        return value if completing else super().convert(value, param, ctx)


def own_bases() -> dict[str, Any]:
    """The bases of the library, by their names on the command line."""
    from ..bases import OWN_BASES

    return {re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "-", kind.__name__).lower(): kind for kind in OWN_BASES}


def basis_class(name: str) -> Any:
    """What is meant by a name on the command line: a class that is given the degrees, or a basis without any.

    None for "auto": the library chooses.
    """
    if name == "auto":
        return None
    from ..fit._settings import needs_degree

    kind = own_bases()[name]
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
            "--inputs", type=NameList(), help="Input columns by name, or by number if they have none: x1,x2 or 1,2."
        ),
        option("--outputs", type=NameList(), help="Output columns by name, or by number if they have none: y or 3."),
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
        # What is fitted
        option("--degrees", type=number_list, metavar="N,N,..."),
        option(
            "--basis",
            type=OwnName(own_bases, "auto"),
            default="auto",
            metavar="NAME",
            help="Basis of the functions: auto (polynomials with --degrees, otherwise the data choose), NAMES.",
        ),
        option("--linear", is_flag=True, help="Add a linear part: A x + W_L g_L(...)."),
        # How long it takes
        option("--n-starts", type=click.IntRange(min=1)),
        option(
            "--max-seconds",
            type=click.FloatRange(min=0, min_open=True),
            help="Stop after about this many seconds with the best model so far, as Ctrl-C does.",
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
        option("--to target", type=FileName(), help="Write here."),
        option("--details", is_flag=True, help="Print starts, errors and notes as well."),
        option("--json as_json", is_flag=True, help="Print the result as JSON."),
        option("--quiet", is_flag=True, help="Print nothing but errors."),
    ]
)
COLUMNS = ("--inputs", "--outputs", "--jacobians/--no-jacobians", "--drop-missing", "--order")
ON_SCREEN = ("--seed", "--json as_json", "--quiet")


def section(title: str, *entries: Entry) -> list[Entry]:
    """Options that help shows under this heading."""
    return [option(name, **settings, section=title) for name, settings in map(_as_option, entries)]


def _as_option(entry: Entry) -> tuple[str, dict[str, Any]]:
    return option(entry) if isinstance(entry, str) else entry


def add_options(command: Callable[..., None], *entries: Entry) -> Callable[..., None]:
    """A command with these options, in this order."""
    for entry in reversed(entries):
        name, otherwise = _as_option(entry)
        settings = OPTIONS.get(name, {}) | otherwise
        shown = settings.get("default") not in (None, "auto")
        command = click.option(*name.split(), cls=SectionOption, show_default=shown, **settings)(command)
    return command


def options(*entries: Entry) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Options that reach a command as one record `given`; its arguments reach it as they are."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_record(**values: Any) -> None:
            parameters = click.get_current_context().command.params
            arguments = [p.name for p in parameters if isinstance(p, click.Argument) and p.name is not None]
            command(**{name: values.pop(name) for name in arguments}, given=Given(**values))

        return add_options(with_record, *entries)

    return add


# What commands do with them


def by_options(text: str) -> str:
    """A sentence of the library in which arguments are called by the options of the running command.

    An argument that only another command has is called by the option there.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return text
    called: dict[str, str] = {}
    group = context.parent.command if context.parent is not None else None
    for command in (context.command, *(group.commands.values() if isinstance(group, click.Group) else ())):
        for p in command.params:
            if isinstance(p, click.Option) and p.name is not None:
                where = "" if command is context.command else f" of `decouply {command.name}`"
                called.setdefault(p.name, p.opts[0] + where)
    called["rng"] = called.get("seed", "`rng`")
    return re.sub(r"`(\w+)`", lambda found: called.get(found[1], found[0]), text)


def command_line() -> str:
    """What the user typed, for a shell to run it again."""
    return shlex.join(["decouply", *sys.argv[1:]])


def check_targets(*paths: str | None) -> None:
    """Complain about places that no file can be written to, before any work is done for it."""
    from .._support._atomic_files import check_target

    for path in paths:
        if path is not None:
            check_target(path)
