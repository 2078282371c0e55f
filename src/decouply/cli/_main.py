"""The command group, its demo, and how errors reach a person: one message, exit code 2, no traceback.

Commands import what they need when they run, so that `decouply --help` answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ._options import ON_SCREEN, Given, SectionCommand, check_targets, command_line, option, options

if TYPE_CHECKING:
    from numpy import ndarray
import io
import signal
import sys
import warnings
from types import FrameType

from .._support._errors import DecouplingError, DecouplingWarning
from ._compress import compress
from ._fit import fit, select
from ._identify import identify, simulate
from ._model_commands import export, plot, predict, report, show
from ._options import SectionGroup
from ._output import say

_STORY = (
    "A centrifugal pump ran at 120 points of its map, at 900 to 1500 rpm and 0 to 60 m³/h. Head and power are measured "
    "with noise of 0.3 m and 0.05 kW. Which curves are behind them? Three functions of one variable each:"
)


def pump_map(X: ndarray) -> ndarray:
    """Head (m) and shaft power (kW) from speed (rpm) and flow (m³/h), by the affinity laws.

    At 1450 rpm: 32 m without flow, falling with its square. Power that rises with flow and with the cube of the speed.
    """
    import numpy as np

    n, Q = X[:, 0] / 1450.0, X[:, 1]
    head = 32.0 * n**2 + 0.06 * n * Q - 0.0052 * Q**2
    power = 1.6 * n**3 + 0.072 * n**2 * Q - 0.00045 * n * Q**2
    return np.stack([head, power], axis=1)


@click.command(cls=SectionCommand, short_help="Find the curves behind the map of a pump.")
@options(
    option("--report report_path", default="demo-report.html", help="Write the HTML report here."),
    "--details",
    *ON_SCREEN,
)
def demo(given: Given) -> None:
    """Find the curves behind the noisy map of a pump, print a table and write an HTML report."""
    from pathlib import Path

    import numpy as np

    import decouply as dc

    from ..report import write_report
    from ._output import (
        print_json,
        print_table,
        result_content,
        result_table,
        say,
        say_lines,
        say_next,
        say_result,
        shown_progress,
    )

    check_targets(given.report_path)
    rng = np.random.default_rng(given.seed)
    X = rng.uniform((900.0, 0.0), (1500.0, 60.0), (160, 2))
    F = pump_map(X) + rng.normal(size=(160, 2)) * (0.3, 0.05)
    measured = dc.Samples(X, F=F, inputs=("speed [rpm]", "flow [m³/h]"), outputs=("head [m]", "power [kW]"))
    samples, validation = measured.take(np.arange(120)), measured.take(np.arange(120, 160))
    with shown_progress("Decoupling", quiet=given.quiet) as progress:
        result = dc.decouple(samples, 3, 3, n_starts=32, validation=validation, rng=given.seed, progress=progress)
        progress(stage="writing")
        write_report(result, given.report_path, title="Demo: the map of a centrifugal pump", command=command_line())
    if given.as_json:
        print_json(result_content(result, validation) | {"report": given.report_path})
    elif not given.quiet:
        say_lines(_STORY)
        say_result(result, validation, "")
        if given.details:
            print_table(result_table(result, validation))
        say(f"Report: {Path(given.report_path).resolve()}")
        say_next("open the report in a browser", "decouply fit YOUR-TABLE.csv")


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
