"""`decouply demo`: the whole way from measurements of a pump to a report, in a few seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ._options import ON_SCREEN, Given, SectionCommand, check_targets, command_line, option, options

if TYPE_CHECKING:
    from numpy import ndarray

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
