"""The report: one self-contained HTML file for a person, without scripts and without the network."""

from __future__ import annotations

import os

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from .. import __version__
from .._files import write_text
from .._jacobians import StoredJacobians
from .._result import Result
from ._style import to_svg

_UNIQUE_UP_TO = 1000  # parameters; more would take longer than the page


def write_report(result: Result, path: str | os.PathLike[str], *, title: str) -> None:
    """Render the page and put it at `path`."""
    environment = Environment(loader=PackageLoader("decoupling.report"), autoescape=True)
    environment.filters["sig"] = _significant
    model, samples = result.decoupling, result.samples
    stored = isinstance(samples.J, StoredJacobians)
    text = environment.get_template("report.html.j2").render(
        title=title,
        version=__version__,
        result=result,
        model=model,
        samples=samples,
        errors=list(result.relative_rmse()) if samples.F is not None else [],
        verdict=_verdict(result),
        unique=str(result.identifiability) if model.n_parameters <= _UNIQUE_UP_TO and not stored else "",
        functions_svg=Markup(to_svg(result.plot_functions())),
        history_svg=Markup(to_svg(result.plot_history())),
        starts_svg=Markup(to_svg(result.plot_starts())),
        n_table=_table_size(result),
    )
    write_text(path, text)


def _verdict(result: Result) -> str:
    """How good the model is, in plain words."""
    if result.samples.F is None:
        size, what = 100.0 * np.sqrt(result.error_jacobian), "the Jacobians are off by {} % of their size"
    elif np.all(np.isfinite(result.relative_rmse())):
        size, what = float(np.max(result.relative_rmse())), "the worst output is off by {} % of its spread"
    else:  # an output that does not vary has no spread
        size, what = 100.0 * np.sqrt(result.error_values), "the values are off by {} % of their size"
    if size < 1e-6:
        return "The model meets the samples to rounding."
    kind = "a very close" if size < 0.1 else "a close" if size < 1.0 else "a rough" if size < 10.0 else "a poor"
    return f"This is {kind} approximation: on the fitted samples {what.format(_significant(size))}."


def _table_size(result: Result) -> int:
    """Numbers in the samples, to set the parameters against."""
    return sum(a.size for a in (result.samples.F, result.samples.J) if a is not None)


def _significant(value: float) -> str:
    return f"{value:.3g}"
