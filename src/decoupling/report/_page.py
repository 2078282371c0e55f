"""The report: one self-contained HTML file for a person. It needs no network, and reads well without scripts."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from .. import __version__
from .._support._errors import InputError
from .._support._json import plain
from .._support._whole_files import write_text
from ..fit._result import Result, fixed_parts
from ..model._decoupling import Decoupling
from ..model._names import names, printable
from ..write._formula import Kind, has_formula
from . import _words
from ._flow import signal_flow
from ._frame import Frame, written_number
from ._layout import Layout, Node, band_errors
from ._rerun import how_to_run_again
from ._search import history_chart, starts_by_lam

_LARGE = (46.0, 10.0, 264.0, 160.0)  # left, top, width and height of the large curves within their drawings
_HISTORY = (62.0, 10.0, 560.0, 160.0)
_SLIDERS = 8  # inputs that have a slider each; of more, one at a time is chosen
_LARGEST_PAGE = 990_000  # bytes
_LONGEST: dict[Kind, int] = {"html": 40_000, "latex": 60_000, "python": 200_000}  # letters of a formula


def write_report(
    result: Result,
    path: str | os.PathLike[str],
    *,
    title: str = "Decoupling report",
    inputs: Collection[str] | None = None,
    outputs: Collection[str] | None = None,
    command: str | None = None,
) -> None:
    """Render the page and put it at `path`.

    `inputs` and `outputs` are names, by default x1, x2, ... and y1, y2, ...; `command` is the line of a shell that made
    the result, if one did.
    """
    write_text(path, page(result, title=title, inputs=inputs, outputs=outputs, command=command))


def page(
    result: Result,
    *,
    title: str,
    inputs: Collection[str] | None = None,
    outputs: Collection[str] | None = None,
    command: str | None = None,
) -> str:
    """The text of the page."""
    model, samples = result.decoupling, result.samples
    x = [name.text for name in names("inputs", inputs, "x", model.n_inputs)]
    y = [name.text for name in names("outputs", outputs, "y", model.n_outputs)]
    layout = Layout.of_result(result, inputs=inputs, outputs=outputs)
    cards = _cards(model, samples.X, layout)
    frames = {(card.node.layer, card.node.index): (card.small, card.large) for card in cards}
    rows = _words.output_rows(result, y)
    grade, verdict = _words.verdict(rows)
    small = band_errors(model, samples, fixed_parts(result.solver)) is not None
    environment = _environment()
    template = environment.get_template("report.html.j2")
    content: dict[str, Any] = {
        "title": title,
        "version": __version__,
        "result": result,
        "model": model,
        "samples": samples,
        "inputs": x,
        "outputs": y,
        "grade": grade,
        "verdict": verdict,
        "rows": rows,
        "apart": _words.apart_in_words(result),
        "known": _words.data_in_words(samples),
        "kinds": [_words.kind_of_functions(g) for g in model.g],
        "fixed": fixed_parts(result.solver),
        "n_numbers": sum(a.size for a in (samples.F, samples.J) if a is not None),
        "unique": result.identifiability if small else None,
        "layout": layout,
        "cards": cards,
        "flow": plain(signal_flow(model, samples.X, layout, frames, (x, y))),
        "n_sliders": _SLIDERS,
        "formulas": _formulas(model, inputs, outputs),
        "starts": starts_by_lam(result.starts),
        "history": history_chart(result, *_HISTORY),
        "again": how_to_run_again(result),
        "command": command,
        "style": _verbatim(environment, "report.css"),
        "script": _verbatim(environment, "report.js"),
    }
    text = printable(template.render(content))
    if len(text.encode()) > _LARGEST_PAGE:  # many wide layers: the drawings stay, what can be had from the model goes
        without = content | {"flow": None, "formulas": {"names": True} | dict.fromkeys(_LONGEST)}
        text = printable(template.render(without))
    return text


@dataclass(frozen=True)
class Card:
    """One function on the page: in the small frame of the diagram and in a large one of its own."""

    node: Node
    subscript: str
    small: Frame
    large: Frame
    small_line: str
    line: str
    band: str
    rug: str
    words: str
    share: float  # of the effect of its layer


def _cards(model: Decoupling, X: np.ndarray, layout: Layout) -> list[Card]:
    u, importance = model.inner_inputs(X), model.importance(X)
    found = []
    for node in layout.nodes:
        if node.curve is None:
            continue
        small = Frame.of(
            node.curve, node.x - node.width / 2 + 3, node.y - node.height / 2 + 3, node.width - 6, node.height - 6
        )
        large = Frame.of(node.curve, *_LARGE)
        effects = importance[node.layer - 1]
        found.append(
            Card(
                node,
                f"{node.layer},{node.index + 1}" if model.n_layers > 1 else str(node.index + 1),
                small,
                large,
                small.line(node.curve),
                large.line(node.curve),
                large.band(node.curve),
                large.rug(u[node.layer - 1][:, node.index], 6.0),
                _words.shape_in_words(node.curve),
                float(effects[node.index] / (np.sum(effects) or 1.0)),
            )
        )
    return found


def _formulas(model: Decoupling, inputs: Collection[str] | None, outputs: Collection[str] | None) -> dict[str, Any]:
    """The formula of each kind; None for those that are too long, and nothing where the basis has no formula."""
    if not has_formula(model):
        return {}
    found: dict[str, Any] = {"names": True}
    for kind, longest in _LONGEST.items():
        if 5 * model.n_parameters > longest:  # no need to write it out to know
            found[kind] = None
            continue
        try:
            text: str = model.formula(kind, inputs=inputs, outputs=outputs)
        except InputError:  # names that are no Python names
            text = model.formula(kind)
            found["names"] = False
        found[kind] = text if len(text) <= longest else None
    if found["html"] is not None:
        found["html"] = Markup(found["html"])  # escaped where it is written
    return found


@cache
def _environment() -> Environment:
    environment = Environment(loader=PackageLoader("decoupling.report"), autoescape=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.filters |= {"sig": _significant, "percent": _words.percent, "many": _many, "ticks": _ticks}
    return environment


def _verbatim(environment: Environment, name: str) -> Markup:
    """A file of ours that goes into the page as it is."""
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0])


def _significant(value: float | None) -> str:
    return "–" if value is None or not np.isfinite(value) else written_number(value, 3)


def _ticks(text: str) -> Markup:
    """A sentence with `names` in backticks, as HTML."""
    parts = [escape(part) for part in text.split("`")]
    return Markup("").join(Markup("<code>{}</code>").format(p) if i % 2 else p for i, p in enumerate(parts))


def _many(n: int, one: str, many: str | None = None) -> str:
    """1 input, 2 inputs."""
    return f"{n} {one if n == 1 else many or one + 's'}"
