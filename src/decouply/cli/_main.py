"""The command group, and how errors reach a person: one message, exit code 2, no traceback.

Commands import what they need when they run, so that `decouply --help` answers at once.
"""

from __future__ import annotations

import io
import signal
import sys
import warnings
from types import FrameType

import click

from .._support._errors import DecouplingError, DecouplingWarning
from ._compress import compress
from ._demo import demo
from ._fit import fit, select
from ._identify import identify, simulate
from ._model_commands import export, plot, predict, report, show
from ._options import SectionGroup
from ._output import say


@click.group(cls=SectionGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="decouply")
def decouply() -> None:
    """Find the curves inside a table, a record or a network.

    \b
    decouply fit data.csv --report page.html
    decouply identify record.csv --inputs u --outputs y --model model.safetensors
    """


decouply.add_section("Fit", fit, select, identify)
decouply.add_section("Use a model", predict, simulate, export)
decouply.add_section("Look at a model", report, plot, show)
decouply.add_section("Networks", compress)
decouply.add_section("Try", demo)


def main(group: click.Group = decouply) -> None:
    """Run the command line of a group of commands."""
    warnings.showwarning = _show_warning
    signal.signal(signal.SIGTERM, _stop)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # pipes on Windows take few letters
    try:
        group.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except DecouplingError as error:
        say(f"Error: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        say(f"Error: {error.filename or 'a file'}: {error.strerror or error}.", err=True)
        sys.exit(2)
    except MemoryError:
        click.echo("Error: there is not enough memory for this problem. Use fewer samples or starts.", err=True)
        sys.exit(2)


def _stop(_: int, frame: FrameType | None) -> None:
    """To be ended is to be stopped by Ctrl-C, also if Ctrl-C itself is ignored, as in the background of a script."""
    press = signal.getsignal(signal.SIGINT)
    if not callable(press):
        raise KeyboardInterrupt
    press(signal.SIGINT, frame)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    context = click.get_current_context(silent=True)
    if context is not None and context.params.get("quiet"):
        return
    kind = "Warning" if issubclass(category, DecouplingWarning) else category.__name__
    say(f"{kind}: {message}", err=True)
