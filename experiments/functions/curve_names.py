"""Names for curves: how often `recognise` calls a function what it is.

A system has 4 inputs, 3 outputs and one layer of 3 functions: one of the kind that is tested and two others, with
places and widths of their own. It is known by 300 values with 1 % noise, fitted with cubic splines whose smoothness
chooses itself, and recognised from the same samples. Then the names are put in place and the model is refitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy import ndarray

from decouply.bases import Spline
from decouply.fit._decouple import decouple
from decouply.report._style import new_figure
from decouply.samples._samples import Samples
from experiments.functions.bases import percent_of_spread, well_conditioned_matrix
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown, matching

_INPUTS, _OUTPUTS, _RANK = 4, 3, 3
_SAMPLES, _NOISE, _FRESH = 300, 0.01, 2000
_BASIS, _STARTS = Spline(16), 64
_NO_NAME = "no name"

SIDE = None  # a sign that is drawn
# Every kind with the ranges that its parameters are drawn from, and its formula; arguments are between -1 and 1.
CURVES: dict[str, tuple[tuple[tuple[float, float] | None, ...], Callable[..., ndarray]]] = {
    "line": ((), lambda u: u),
    "parabola": (((-0.4, 0.4),), lambda u, m: (u - m) ** 2),
    "cubic": (((-0.3, 0.3), (-0.3, 0.3)), lambda u, m, b: 2.0 * (u - m) ** 3 + b * u),
    "tanh": (((-0.3, 0.3), (2.0, 4.0)), lambda u, m, s: np.tanh(s * (u - m))),
    "saturation": (((-0.2, 0.2), (0.25, 0.5)), lambda u, m, s: np.clip((u - m) / s, -1.0, 1.0)),
    "dead zone": (((-0.2, 0.2), (0.2, 0.4)), lambda u, m, s: u - m - np.clip(u - m, -s, s)),
    "|u|": (((-0.3, 0.3),), lambda u, m: np.abs(u - m)),
    "ReLU": (((-0.3, 0.3), SIDE), lambda u, m, side: np.maximum(side * (u - m), 0.0)),
    "sine": (((2.5, 5.0), (0.0, 2.0 * np.pi)), lambda u, s, phase: np.sin(s * u + phase)),
    "exponential": ((SIDE, (1.5, 3.0)), lambda u, side, s: np.exp(side * s * u)),
    "logarithm": ((SIDE, (0.05, 0.2)), lambda u, side, room: np.log(1.0 + room + side * u)),
    "Gaussian": (((-0.3, 0.3), (0.25, 0.5)), lambda u, m, s: np.exp(-(((u - m) / s) ** 2))),
}
_SAME = {"odd cubic": "cubic"}


def tasks(*, seed: int, n_runs: int, kinds: tuple[str, ...] = tuple(CURVES)) -> list[Task]:
    return grid(kind=kinds, run=range(n_runs), seed=seed)


def work(kind: str, run: int, seed: int) -> Outcome:
    """One fit, its names, and the errors on fresh points in percent before and after names are put in place.

    True and given names are those of all functions, the tested one first.
    """
    rng = np.random.default_rng([seed, list(CURVES).index(kind), run])
    others = [other for other in CURVES if other not in (kind, "line")]  # two lines would be one
    kinds = [kind, *rng.choice(others, _RANK - 1, replace=False).tolist()]
    X, fresh = rng.uniform(-1.0, 1.0, (_SAMPLES, _INPUTS)), rng.uniform(-1.0, 1.0, (_FRESH, _INPUTS))
    every = np.concatenate([X, fresh])
    W_0 = well_conditioned_matrix((_RANK, _INPUTS), rng, every)
    W_0 /= np.abs(every @ W_0.T).max(axis=0)[:, None]  # arguments fill [-1, 1] and do not leave it
    W_1 = well_conditioned_matrix((_OUTPUTS, _RANK), rng, None)
    curves = [_drawn_curve(one, rng) for one in kinds]
    spread = [float(np.std(curve(fresh @ row))) for curve, row in zip(curves, W_0, strict=True)]

    def f(points: ndarray) -> ndarray:
        u = points @ W_0.T
        return np.stack([curve(u[:, j]) / spread[j] for j, curve in enumerate(curves)], axis=1) @ W_1.T

    F, truth = f(X), f(fresh)
    samples = Samples(X, F=F + _NOISE * F.std(axis=0) * rng.normal(size=F.shape))
    result = decouple(samples, _RANK, basis=_BASIS, n_starts=_STARTS, rng=run, progress=False)
    names = [name or _NO_NAME for name in result.recognise().names]
    given = [_SAME.get(names[j], names[j]) for j in _match_rows(W_0, result.decoupling.W[0])]
    named = result.simplified(progress=False)

    used = result.n_effective or result.decoupling.n_parameters
    return {
        "true": kinds,
        "given": given,
        "error": percent_of_spread(result.decoupling(fresh), truth),
        "error_named": percent_of_spread(named.decoupling(fresh), truth),
        "n_parameters": float(used),
        "n_named": float(named.result.n_effective or named.decoupling.n_parameters),
    }


def _drawn_curve(kind: str, rng: np.random.Generator) -> Callable[[ndarray], ndarray]:
    """A curve of this kind with random parameters."""
    ranges, formula = CURVES[kind]
    parameters = [rng.choice([-1.0, 1.0]) if one is SIDE else rng.uniform(*one) for one in ranges]
    return lambda u: formula(u, *parameters)


def _match_rows(W: ndarray, found: ndarray) -> list[int]:
    """For every row of W the row of another matrix that is most nearly parallel, each once, the nearest pairs first."""
    a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (W, found))
    near = np.abs(a @ b.T)
    match = [0] * len(W)
    for _ in range(len(W)):
        i, j = np.unravel_index(np.argmax(near), near.shape)
        match[int(i)] = int(j)
        near[i], near[:, j] = -1.0, -1.0
    return match


def content(runs: list[Task], *, seed: int, **_: Any) -> Content:
    pairs = _pairs(runs)
    return {
        "seed": seed,
        "right": sum(_is_right(run) for run in runs),
        "systems": len(runs),
        "right_functions": sum(true == given for true, given in pairs),
        "functions": len(pairs),
        "runs": runs,
    }


def _pairs(runs: list[Task]) -> list[tuple[str, str]]:
    """True and given names of all functions of all systems."""
    return [pair for run in runs for pair in zip(run["true"], run["given"], strict=True)]


def _is_right(run: Task) -> bool:
    """Whether the tested function has its name."""
    return bool(run["true"][0] == run["given"][0])


def table(content: Content) -> str:
    """One row per kind."""
    rows = []
    for kind in dict.fromkeys(run["kind"] for run in content["runs"]):
        runs = matching(content["runs"], kind=kind)
        wrong = [run["given"][0] for run in runs if not _is_right(run)]
        errors = [f"{np.median(column(runs, key)):.2g} %" for key in ("error", "error_named")]
        counts = [f"{np.median(column(runs, key)):.0f}" for key in ("n_parameters", "n_named")]
        rows.append([kind, f"{len(runs) - len(wrong)} of {len(runs)}", ", ".join(wrong), *errors, *counts])
    functions = f"all functions: {content['right_functions']} of {content['functions']}"
    rows.append(["all", f"**{content['right']} of {content['systems']}**", functions, "", "", "", ""])
    head = ["curve", "right name", "else called", "error on fresh points: splines", "named"]
    texts = [[cell.replace("|", "\\|") for cell in row] for row in rows]  # a bar would end the cell
    return markdown([*head, "parameters: splines", "named"], texts)


def figure(content: Content) -> Figure:
    """True names against given ones, with the numbers of functions."""
    pairs = _pairs(content["runs"])
    true = [kind for kind in CURVES if any(kind == t for t, _ in pairs)]
    given = [*true, *sorted({g for _, g in pairs} - set(true))]
    counts = np.array([[sum((a, b) == (t, g) for a, b in pairs) for g in given] for t in true])
    canvas = new_figure(6.4, 4.6)
    ax = canvas.subplots()
    ax.imshow(counts, cmap="Blues", aspect="auto", vmax=1.6 * counts.max())
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            if count:
                ax.text(j, i, str(count), ha="center", va="center", fontsize=8)
    ax.set_xticks(range(len(given)), given, rotation=40, ha="right")
    ax.set_yticks(range(len(true)), true)
    ax.grid(visible=False)
    ax.set_xlabel("name given")
    ax.set_ylabel("true name")
    return canvas


CURVE_NAMES = Experiment.of(
    globals(),
    "curve-names",
    "How often curves get the right name.",
    options=(Option("n_runs", 5, "Systems per kind of curve."),),
)
