"""`decouple demo`: the whole way from a function to a report, in a few seconds."""

from __future__ import annotations

import click

from ._options import FileName, command_line, output_options, seed_option


@click.command()
@click.option(
    "--report",
    metavar="FILE",
    default="demo-report.html",
    show_default=True,
    type=FileName(".html", ".htm"),
    help="Write the HTML report here.",
)
@seed_option
@output_options
def demo(report: str, seed: int, as_json: bool, quiet: bool) -> None:
    """Decouple a two-layer system of three inputs and outputs, print a table, write an HTML report."""
    from pathlib import Path

    import numpy as np

    import decoupling as dc

    from .._support._whole_files import check_target
    from ..report import write_report
    from ._screen import print_json, print_table, result_content, result_table, say

    check_target(report)
    system = dc.systems.f2()
    rng = np.random.default_rng(seed)
    X, X_validation = rng.uniform(-1, 1, (60, 3)), rng.uniform(-1, 1, (60, 3))
    samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    validation = dc.Samples(X_validation, F=system(X_validation))
    result = dc.decouple(samples, system.ranks, system.degrees, validation=validation, rng=seed, progress=not quiet)
    write_report(result, report, title="Demo: the two-layer system f2", command=command_line())
    if as_json:
        print_json(result_content(result, validation) | {"report": report})
    elif not quiet:
        click.echo(
            "f2 of the paper maps R^3 to R^3 by two layers of two cubic functions each. From 60 samples we find:"
        )
        print_table(result_table(result, validation, "Decoupling of f2"))
        say(f"Report, to open in a browser: {Path(report).resolve()}")
