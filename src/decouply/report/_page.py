"""The report: one self-contained HTML file for a person. It needs no network, and reads well without scripts."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from .. import __version__
from .._support._arguments import plain
from .._support._atomic_files import write_text
from .._support._errors import InputError, short_repr
from ..fit._result import Result
from ..fit.interpret._recognise import LEAST_POINTS, NamedCurve, symbol
from ..fit.refit._simplify import parallel_pairs
from ..model._decoupling import Decoupling
from ..model._names import printable
from ..solvers.inference._identifiability import is_quick
from . import _sentences
from ._layout import Layout, Node, shown_model, signal_names
from ._page_charts import fit_charts, history_chart, starts_by_lam
from ._rerun_source import how_to_run_again
from ._signal_flow_json import signal_flow
from ._svg_frame import Frame, written_number

_LARGE = (46.0, 10.0, 264.0, 160.0)  # left, top, width and height of the large curves within their drawings
_HISTORY = (62.0, 10.0, 560.0, 160.0)
_NOISE = 1e-12  # of the largest contribution to the linear part
_MOST_WEIGHED, _SECONDS_TO_WEIGH = 12, 60.0  # functions whose loss is measured, and the time for it
_MOST_TO_WEIGH = 500_000  # numbers times parameters, beyond which that would take too long
_MOST_NAMED = 24  # functions that are recognised, at up to half a second each
SLIDERS = 8  # inputs that have a slider each; of more, one at a time is chosen
_LARGEST_PAGE = 990_000  # bytes
_LONGEST: dict[Literal["html", "latex", "python"], int] = {
    "html": 40_000,
    "latex": 60_000,
    "python": 200_000,
}  # letters of a formula


def write_report(
    result: Result,
    path: str | os.PathLike[str],
    *,
    title: str = "Decoupling report",
    inputs: Collection[str] | None = None,
    outputs: Collection[str] | None = None,
    command: str | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Render the page and put it at `path`.

    `inputs` and `outputs` are names, by default those of the samples, or x1, x2, ... and y1, y2, ...; `command` is the
    line of a shell that made the result, if one did, and `notes` are sentences to go before those of the result.
    """
    write_text(path, page(result, title=title, inputs=inputs, outputs=outputs, command=command, notes=notes))


def page(
    result: Result,
    *,
    title: str,
    inputs: Collection[str] | None = None,
    outputs: Collection[str] | None = None,
    command: str | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The text of the page."""
    model, samples = shown_model(result), result.samples.shown
    x, y = ([name.text for name in side] for side in signal_names(model, inputs, outputs))
    layout = Layout.of_result(result, inputs=inputs, outputs=outputs)
    rows = _sentences.output_rows(result, y)
    content: dict[str, Any] = {
        "result": result,
        "notes": (*notes, *result.notes),
        "samples": samples,
        "verdict": result.verdict,
        "unseen": _sentences.unseen_in_words(rows),
        "rows": rows,
        "fits": fit_charts(model, samples, y, [row.worst for row in rows]),
        "netted": model is not result.decoupling,
        "doubles": _doubles(model, samples.X),
        "apart": _sentences.apart_in_words(result),
        "known": _sentences.data_in_words(samples),
        "kinds": [_sentences.kind_of_functions(g) for g in model.g],
        "fixed": tuple(result.settings.fixed),
        "n_samples": len(result.samples),
        "n_numbers": result.samples.n_numbers,
        "unique": result.identifiability if is_quick(result.decoupling, samples) else None,
        "code": "result.decoupling",
        "measure": "error",
        "written": _sentences.percent,
        "formulas": formulas_of(model, inputs, outputs),
        "starts": starts_by_lam(result.starts),
        "history": history_chart(result, *_HISTORY),
        "again": how_to_run_again(result),
        "command": command,
    }
    content |= model_content(model, samples.X, layout, (x, y), _names(result), _losses(result))
    return render_page("report.html.j2", title, content)


def model_content(
    model: Decoupling,
    X: np.ndarray,
    layout: Layout,
    names: tuple[list[str], list[str]],
    curves: dict[tuple[int, int], NamedCurve],
    losses: dict[tuple[int, int], tuple[float, float]],
) -> dict[str, Any]:
    """What pages of static models share: the diagram, its functions, and what the sliders need."""
    cards = function_cards(model, X, layout, curves, losses)
    frames = {(card.node.layer, card.node.index): (card.small, card.large) for card in cards}
    return {
        "model": model,
        "inputs": names[0],
        "outputs": names[1],
        "layout": layout,
        "cards": cards,
        "tails": _sentences.tails_in_words(model, marked=any(card.ends for card in cards)),
        "linear": linear_table(model, X),
        "flow": plain(signal_flow(model, X, layout, frames, names)),
        "n_sliders": SLIDERS,
        "script": verbatim("report.js"),
    }


def render_page(template: str, title: str, content: dict[str, Any]) -> str:
    """The text of a page below 1 MB."""
    content = content | {
        "title": title if isinstance(title, str) else short_repr(title),
        "version": __version__,
        "style": verbatim("report.css"),
    }
    text = printable(environment().get_template(template).render(content))
    if len(text.encode()) > _LARGEST_PAGE:  # many wide layers: the drawings stay, what can be had from the model goes
        without = content | {"flow": None, "formulas": {"names": True} | dict.fromkeys(_LONGEST)}
        text = printable(environment().get_template(template).render(without))
    return text


@dataclass(frozen=True)
class Card:
    """One function on the page: in the small frame of the diagram and in a large one of its own."""

    node: Node
    subscript: str
    small: Frame
    large: Frame
    small_line: str
    small_beyond: str  # what of it lies outside the domain
    line: str
    beyond: str
    ends: str  # of the domain
    band: str
    rug: str
    knots: str
    named: str  # the curve that has a name, over the function
    name: str  # in words, such as "a saturation at u = ±0.7"; empty where there is none
    off: float  # how far it is from the function, in percent of the spread of that
    words: str
    share: float  # of the effect of its layer
    loss: tuple[float, float] | None  # the error with it and without it, in percent; None where it was not measured


def _losses(result: Result) -> dict[tuple[int, int], tuple[float, float]]:
    """The error of the model with every function and without it, by layer and place from 1; none for large models."""
    model, samples = result.decoupling, result.samples
    large = samples.n_numbers * model.n_parameters > _MOST_TO_WEIGH or sum(model.ranks) > _MOST_WEIGHED
    if large or not samples.in_memory:
        return {}
    rows = result.ablation(max_seconds=_SECONDS_TO_WEIGH, progress=False)
    return {(row.layer, row.index): (row.error, row.error_without) for row in rows if row.refitted}


def _doubles(model: Decoupling, X: np.ndarray) -> list[str]:
    """Pairs of functions of nearly the same argument."""
    return [
        f"{symbol(l + 1, i + 1, model.n_layers)} and {symbol(l + 1, j + 1, model.n_layers)}"
        for l, i, j in parallel_pairs(model, X)
    ]


def _names(result: Result) -> dict[tuple[int, int], NamedCurve]:
    """Curves that functions are recognised as, by layer and place from 1; none where there are too many to look at."""
    if sum(result.decoupling.ranks) > _MOST_NAMED or result.samples.n_samples < LEAST_POINTS:
        return {}
    return {(f.layer, f.index): f.best for f in result.recognise() if f.best is not None}


def function_cards(
    model: Decoupling,
    X: np.ndarray,
    layout: Layout,
    names: dict[tuple[int, int], NamedCurve],
    losses: dict[tuple[int, int], tuple[float, float]],
) -> list[Card]:
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
        name = names.get((node.layer, node.index + 1))
        cut = node.curve.parts
        found.append(
            Card(
                node,
                f"{node.layer},{node.index + 1}" if model.n_layers > 1 else str(node.index + 1),
                small,
                large,
                small.lines(cut.inside),
                small.lines(cut.beyond),
                large.lines(cut.inside),
                large.lines(cut.beyond),
                large.strokes(cut.ends, 12.0),
                large.band(node.curve),
                large.rug(u[node.layer - 1][:, node.index], 6.0),
                large.hanging(node.curve.knots, 5.0),
                "" if name is None else large.line_of(node.curve.u, name(node.curve.u)),
                "" if name is None else name.words,
                0.0 if name is None else 100.0 * name.off,
                _sentences.shape_in_words(node.curve),
                float(effects[node.index] / (np.sum(effects) or 1.0)),
                losses.get((node.layer, node.index + 1)),
            )
        )
    return found


def linear_table(model: Decoupling, X: np.ndarray) -> np.ndarray | None:
    """The matrix A, with 0 for entries that bring nothing but rounding."""
    if model.linear is None:
        return None
    brought = np.abs(model.linear) * np.maximum(np.std(X, axis=0), np.finfo(float).tiny)
    return np.where(brought > _NOISE * np.max(brought), model.linear, 0.0)


def formulas_of(model: Decoupling, inputs: Collection[str] | None, outputs: Collection[str] | None) -> dict[str, Any]:
    """The formula of each kind; None for those that are too long, and nothing where the basis has no formula."""
    if not all(basis.writable for g in model.g for basis in g.layer.bases):
        return {}
    found: dict[str, Any] = {"names": True}
    called: dict[str, Any] = {
        "inputs": model.inputs if inputs is None else inputs,
        "outputs": model.outputs if outputs is None else outputs,
    }
    plain_names: dict[str, Any] = {
        "inputs": [f"x{i + 1}" for i in range(model.n_inputs)],
        "outputs": [f"y{i + 1}" for i in range(model.n_outputs)],
    }
    for kind, longest in _LONGEST.items():
        if 5 * model.n_parameters > longest:  # no need to write it out to know
            found[kind] = None
            continue
        try:
            text: str = model.formula(kind, **called)
        except InputError:  # names that are no Python names
            text = model.formula(kind, **plain_names)
            found["names"] = False
        found[kind] = text if len(text) <= longest else None
    if found["html"] is not None:
        found["html"] = Markup(found["html"])  # escaped where it is written
    return found


@cache
def environment() -> Environment:
    """Templates of pages, with our filters."""
    pages = Environment(loader=PackageLoader("decouply.report"), autoescape=True, lstrip_blocks=True)
    pages.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    pages.filters |= {
        "sig": _significant,
        "percent": _sentences.percent,
        "distance": _sentences.distance,
        "many": _many,
        "ticks": _ticks,
        "r_squared": _sentences.r_squared,
        "share": lambda value: f"{value:.1f} %",
    }
    return pages


def verbatim(name: str) -> Markup:
    """A file of ours that goes into the page as it is."""
    pages = environment()
    assert pages.loader is not None
    return Markup(pages.loader.get_source(pages, name)[0])


def _significant(value: float | None) -> str:
    return "–" if value is None or not np.isfinite(value) else written_number(value, 3)


def _ticks(text: str) -> Markup:
    """A sentence with `names` in backticks, as HTML."""
    parts = [escape(part) for part in text.split("`")]
    return Markup("").join(Markup("<code>{}</code>").format(p) if i % 2 else p for i, p in enumerate(parts))


def _many(n: int, one: str, many: str | None = None) -> str:
    """1 input, 2 inputs."""
    return f"{n} {one if n == 1 else many or one + 's'}"
