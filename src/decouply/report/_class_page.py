"""The page of a model of classes: log-odds, a verdict that suits them, a confusion matrix and calibration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._atomic_files import write_text
from .._support._time_limit import now
from ..fit._classification import ClassQuality, deviance_without
from ..fit.interpret._importances import importances
from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from ..solvers.least_squares._logistic_deviance import probabilities
from ._layout import Layout, signal_names
from ._page import formulas_of, model_content, render_page
from ._page_charts import SQUARE
from ._sentences import facts
from ._svg_frame import Frame, written_number

_GROUPS = 10  # of probabilities
_MOST_WEIGHED, _SECONDS = 12, 20.0  # functions whose loss is measured, and the time for it


@dataclass(frozen=True, eq=False)
class Classes:
    """A model of log-odds with what is known about it; `left_out` are log-odds by fits without the sample."""

    decoupling: Decoupling
    samples: Samples
    names: tuple[str, ...]
    quality: ClassQuality
    left_out: Float[ndarray, "S n"]
    ridge: float
    note: str
    source: str


@dataclass(frozen=True)
class Calibration:
    """Shares seen against probabilities given, in groups of about `count` of similar probability."""

    frame: Frame
    dots: str
    line: str
    count: int


def write_class_report(told: Classes, path: str | os.PathLike[str], *, title: str) -> None:
    """Render the page and put it at `path`."""
    write_text(path, class_page(told, title=title))


def class_page(told: Classes, *, title: str) -> str:
    """The text of the page."""
    model, samples = told.decoupling, told.samples
    outputs = odds_names(told.names)
    x, y = ([name.text for name in side] for side in signal_names(model, None, outputs))
    layout = Layout.of(model, samples.X, outputs=outputs)
    content: dict[str, Any] = {
        "facts": facts(samples, str(model), None),
        "samples": samples,
        "n_samples": len(samples),
        "classes": told.names,
        "quality": told.quality,
        "verdict": told.quality.verdict,
        "calibration": _calibration(told),
        "ridge": told.ridge,
        "note": told.note,
        "source": told.source,
        "netted": False,
        "doubles": [],
        "code": "model.decoupling_",
        "measure": "deviance per sample",
        "written": partial(written_number, digits=3),
        "formulas": formulas_of(model, None, [f"log_odds_{name}" for name in told.names[-model.n_outputs :]]),
    }
    of_odds = Samples(samples.X, F=model.values(samples.X), inputs=samples.inputs, outputs=outputs)
    content |= model_content(model, samples.X, layout, (x, y), {}, _losses(told), importances(model, of_odds))
    if content["flow"] is not None:
        content["flow"] |= {"classes": list(told.names)}
    return render_page("classes.html.j2", title, content)


def odds_names(names: Sequence[str]) -> tuple[str, ...]:
    """What the outputs are called in drawings."""
    return (f"log-odds of {names[1]}",) if len(names) == 2 else tuple(names)


def _losses(told: Classes) -> dict[tuple[int, int], tuple[float, float]]:
    """The deviance with every function and without it, by layer and place from 1; none for many functions."""
    model, until = told.decoupling, now() + _SECONDS
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for l, rank in enumerate(model.ranks):
        for j in range(rank):
            if sum(model.ranks) > _MOST_WEIGHED or now() > until:
                return found
            lost = deviance_without(told.samples, model, told.ridge, l, j)
            if np.isfinite(lost):
                found[l + 1, j + 1] = (told.quality.deviance, lost)
    return found


def _calibration(told: Classes) -> Calibration:
    assert told.samples.F is not None
    given, seen = probabilities(told.left_out).ravel(), told.samples.F.ravel()
    order = np.argsort(given, kind="stable")
    groups = np.array_split(order, min(_GROUPS, max(1, len(order) // 10)))
    frame = Frame(*SQUARE, -0.03, 1.03, -0.03, 1.03)
    line = frame.lines([(np.array([0.0, 1.0]), np.array([0.0, 1.0]))])
    places = [(frame.x(given[g].mean(keepdims=True))[0], frame.y(seen[g].mean(keepdims=True))[0]) for g in groups]
    dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places)
    return Calibration(frame, dots, line, round(len(order) / len(groups)))
