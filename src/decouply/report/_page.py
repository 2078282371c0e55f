"""The report: one self-contained HTML file for a person. It needs no network, and reads well without scripts."""

from __future__ import annotations

import base64
import csv
import io
import os
import re
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from .. import __version__
from .._support._arguments import plain
from .._support._atomic_files import write_text
from .._support._errors import InputError, short_repr
from ..fit._relative_errors import Measure
from ..fit._result import Result
from ..fit._simplification import parallel_pairs
from ..fit.interpret._importances import Importances
from ..fit.interpret._recognise import NamedCurve, symbol
from ..model._decoupling import Decoupling
from ..model._names import printable
from ..samples._duplicates import n_originals
from ..samples._samples import Samples
from ..solvers.inference._linearisation import is_quick
from ..solvers.problem._solution import Status
from ..write._formula import formula
from ..write._readable import readable_model
from . import _sentences
from ._layout import Layout, Node, mixture, shown_model, signal_names
from ._page_charts import fit_charts, history_chart, starts_by_lam
from ._rerun_source import how_to_run_again
from ._signal_flow_json import signal_flow
from ._svg_frame import Frame, written_number

_LARGE = (46.0, 10.0, 264.0, 160.0)  # left, top, width and height of the large curves within their drawings
_HISTORY = (62.0, 10.0, 560.0, 160.0)
_NOISE = 1e-12  # of the largest contribution to the linear part
_MOST_WEIGHED, _SECONDS_TO_WEIGH = 12, 60.0  # functions whose loss is measured, and the time for it
_MOST_TO_WEIGH = 500_000  # numbers times parameters, beyond which that would take too long
SLIDERS = 8  # inputs that have a slider each; of more, one at a time is chosen
_LARGEST_PAGE = 990_000  # bytes
_LARGEST_DOWNLOAD = 200_000  # bytes of a file in the page
_MOST_EFFECTS = 6  # outputs with a curve for every input
_EFFECT_POINTS = 30
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

    `inputs` and `outputs` are names, by default those of the samples, or x1, x2, ... and y1, y2, .... `command` is the
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
    good = result.verdict.is_good
    x, y = ([name.text for name in side] for side in signal_names(model, inputs, outputs))
    layout = Layout.of_result(result, inputs=inputs, outputs=outputs)
    rows = _sentences.output_rows(result, y)
    content: dict[str, Any] = {
        "result": result,
        "facts": _sentences.facts(samples, result.size_in_words, result.settings.rng),
        "remarks": notes if good else (*notes, *result.notes),
        "notes": result.notes if good else (),
        "samples": samples,
        "copies": samples.n_samples - n_originals(samples),
        "columns": _columns(samples, (x, y)),
        "downloads": _downloads(result, (x, y)),
        "verdict": result.verdict,
        "unseen": _sentences.unseen_in_words(rows),
        "rows": rows,
        "fits": fit_charts(model, samples, y, [row.worst for row in rows]),
        "exact": result.status is Status.EXACT,
        "netted": model is not result.decoupling,
        "doubles": _doubles(model, samples.X),
        "apart": _sentences.apart_in_words(result),
        "known": _sentences.data_in_words(samples),
        "fixed": tuple(result.settings.fixed),
        "n_samples": len(result.samples),
        "n_numbers": result.samples.n_numbers,
        "unique": result.identifiability if is_quick(result.decoupling, samples) else None,
        "code": "result.decoupling",
        "measure": "error",
        "written": _sentences.percent,
        "formulas": formulas_of(model, inputs, outputs, samples),
        "simpler": _simpler(result, inputs, outputs),
        "starts": starts_by_lam(result.starts),
        "history": history_chart(result, *_HISTORY),
        "again": how_to_run_again(result),
        "command": command,
    }
    content |= model_content(model, samples.X, layout, (x, y), result.named_curves, _losses(result), result.importances)
    return render_page("report.html.j2", title, content)


def model_content(
    model: Decoupling,
    X: np.ndarray,
    layout: Layout,
    names: tuple[list[str], list[str]],
    curves: dict[tuple[int, int], NamedCurve],
    losses: dict[tuple[int, int], tuple[float, float]],
    shares: Importances,
) -> dict[str, Any]:
    """What pages of static models share: the diagram, what matters, the functions, and what the sliders need."""
    cards = function_cards(model, X, layout, curves, losses, names[0])
    frames = {(card.node.layer, card.node.index): (card.small, card.large) for card in cards}
    return {
        "model": model,
        "inputs": names[0],
        "outputs": names[1],
        "layout": layout,
        "importances": shares,
        "inputs_by_effect": np.argsort(-shares.of_inputs, kind="stable").tolist(),
        "effects": _effects(model, X),
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
        without = content | {"flow": None, "downloads": {}, "formulas": {"names": True} | dict.fromkeys(_LONGEST)}
        text = printable(environment().get_template(template).render(without))
    return text


@dataclass(frozen=True)
class Card:
    """One function on the page: in the small frame of the diagram and in a large one."""

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
    named: str  # the curve that has a name, over the function
    name: str  # in words, such as "a saturation at u = ±0.7"; empty where there is none
    off: float  # how far it is from the function, in percent of the spread of that
    title: str  # the same in a word, such as "saturation"
    mixture: str  # the sum that goes into it
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


def function_cards(
    model: Decoupling,
    X: np.ndarray,
    layout: Layout,
    names: dict[tuple[int, int], NamedCurve],
    losses: dict[tuple[int, int], tuple[float, float]],
    inputs: list[str],
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
                "" if name is None else large.line_of(node.curve.u, name(node.curve.u)),
                "" if name is None else name.words,
                0.0 if name is None else 100.0 * name.off,
                "" if name is None else name.name,
                mixture(model, X, node.layer, node.index, inputs),
                _sentences.shape_in_words(node.curve),
                float(effects[node.index] / (np.sum(effects) or 1.0)),
                losses.get((node.layer, node.index + 1)),
            )
        )
    return found


def _columns(samples: Samples, names: tuple[list[str], list[str]]) -> list[dict[str, Any]]:
    """Every column of the data: its name, range, mean and spread."""
    parts = [(names[0], samples.X)] + ([] if samples.F is None else [(names[1], np.asarray(samples.F))])
    return [
        {"name": name, "low": v.min(), "high": v.max(), "mean": v.mean(), "spread": v.std()}
        for some, table in parts
        for name, v in zip(some, table.T, strict=True)
    ]


def _effects(model: Decoupling, X: np.ndarray) -> list[list[str]]:
    """A small curve for every output and input: the output while the input moves and the others rest at their mean."""
    values = []
    for i in range(model.n_inputs):
        moved = np.tile(X.mean(axis=0), (_EFFECT_POINTS, 1))
        moved[:, i] = np.linspace(X[:, i].min(), X[:, i].max(), _EFFECT_POINTS)
        values.append(model.values(moved))
    found = []
    for k in range(min(model.n_outputs, _MOST_EFFECTS)):
        low, high = min(v[:, k].min() for v in values), max(v[:, k].max() for v in values)
        across = np.linspace(1.0, 59.0, _EFFECT_POINTS)
        down = [19.0 - 18.0 * (v[:, k] - low) / ((high - low) or 1.0) for v in values]
        found.append(["M" + "L".join(f"{a:.0f} {d:.1f}" for a, d in zip(across, line, strict=True)) for line in down])
    return found


def _downloads(result: Result, names: tuple[list[str], list[str]]) -> dict[str, str]:
    """Files that a reader may want, in base 64: predictions beside what was given, the formula in C, and the model."""
    model, samples = result.decoupling, result.samples.shown
    F = None if samples.F is None else np.asarray(samples.F)
    found: dict[str, bytes] = {}
    head = [*names[0], *(names[1] if F is not None else ()), *(f"{name} (model)" for name in names[1])]
    table = np.column_stack([samples.X, *([] if F is None else [F]), model(samples.X)])
    if table.size * 12 < _LARGEST_DOWNLOAD:
        text = io.StringIO()
        csv.writer(text).writerows([head, *table.tolist()])
        found["predictions.csv"] = text.getvalue().encode()
    if all(basis.writable for g in model.g for basis in g.layer.bases) and 60 * model.n_parameters < _LARGEST_DOWNLOAD:
        x, y = (
            [f"{letter}{i + 1}" for i in range(size)]
            for letter, size in (("x", model.n_inputs), ("y", model.n_outputs))
        )
        found["model.c"] = model.formula("c", inputs=x, outputs=y).encode()
    if 8 * model.n_parameters < _LARGEST_DOWNLOAD:
        with tempfile.TemporaryDirectory() as folder:
            model.save(path := Path(folder) / "model.safetensors")
            found[path.name] = path.read_bytes()
    return {name: base64.b64encode(file).decode() for name, file in found.items() if len(file) < _LARGEST_DOWNLOAD}


def _simpler(result: Result, inputs: Collection[str] | None, outputs: Collection[str] | None) -> dict[str, Any]:
    """The formula with named curves and few pieces, if it is shorter than that of the model, and what that costs."""
    fitted, samples = result.decoupling, result.samples.shown
    model = readable_model(result)
    if model is fitted or not all(basis.writable for g in model.g for basis in g.layer.bases):
        return {}
    text = formula(model, "html", inputs=inputs, outputs=outputs, samples=samples)
    measure = Measure.of(samples)
    smooth, before = ([basis.smooths for g in one.g for basis in g.layer.bases] for one in (model, fitted))
    return {
        "html": Markup(text),
        "errors": [100.0 * measure.error(one, samples) for one in (fitted, model)],
        "n_parameters": [one.n_parameters for one in (fitted, model)],
        "named": not any(smooth),
        "partly": all(before) and not all(smooth),
    }


def linear_table(model: Decoupling, X: np.ndarray) -> np.ndarray | None:
    """The matrix A, with 0 for entries that bring nothing but rounding."""
    if model.linear is None:
        return None
    brought = np.abs(model.linear) * np.maximum(np.std(X, axis=0), np.finfo(float).tiny)
    return np.where(brought > _NOISE * np.max(brought), model.linear, 0.0)


def formulas_of(
    model: Decoupling,
    inputs: Collection[str] | None,
    outputs: Collection[str] | None,
    samples: Samples | None = None,
) -> dict[str, Any]:
    """The formula of each kind; None for those that are too long, and nothing if the basis has no formula."""
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
    of_jacobian = model.n_inputs * model.n_outputs * min(model.ranks)  # products that Python code has besides
    for kind, longest in _LONGEST.items():
        if 5 * (model.n_parameters + of_jacobian * (kind == "python")) > longest:  # no need to write it out to know
            found[kind] = None
            continue
        try:
            text: str = formula(model, kind, samples=samples, **called)
        except InputError:  # names that are no Python names
            text = formula(model, kind, samples=samples, **plain_names)
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
        "functions": _functions,
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


def _functions(text: str) -> Markup:
    """A sentence with functions such as g_2 or g_1,2, as HTML."""
    parts = re.split(r"\bg_(\d+(?:,\d+)?)", text)
    return Markup("").join(
        Markup("<i>g</i><sub>{}</sub>").format(p) if i % 2 else escape(p) for i, p in enumerate(parts)
    )


def _many(n: int, one: str, many: str | None = None) -> str:
    """1 input, 2 inputs."""
    return f"{n} {one if n == 1 else many or one + 's'}"
