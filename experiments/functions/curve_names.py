"""Names for curves: how often `recognise` calls a function what it is.

A system has 4 inputs, 3 outputs and one layer of 3 functions: one of the kind that is tested and two others, with
places and widths of their own. It is known by 300 values with 1 % noise, fitted with cubic splines whose smoothness
chooses itself, and recognised from the same samples. Then the names are put in place and the model is refitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy import ndarray

from decouply import __version__
from decouply.bases import Spline
from decouply.fit._decouple import decouple
from decouply.report._style import house_style, new_figure
from decouply.samples._samples import Samples
from experiments.functions.bases import well_conditioned
from experiments.harness import run_all, write_experiment

_INPUTS, _OUTPUTS, _RANK = 4, 3, 3
_SAMPLES, _NOISE, _FRESH = 300, 0.01, 2000
_BASIS, _STARTS = Spline(16), 64
_NO_NAME = "no name"

Curve = Callable[[ndarray], ndarray]


def _line(_: np.random.Generator) -> Curve:
    return lambda u: u


def _parabola(rng: np.random.Generator) -> Curve:
    m = rng.uniform(-0.4, 0.4)
    return lambda u: (u - m) ** 2


def _cubic(rng: np.random.Generator) -> Curve:
    m, b = rng.uniform(-0.3, 0.3, 2)
    return lambda u: 2.0 * (u - m) ** 3 + b * u


def _tanh(rng: np.random.Generator) -> Curve:
    m, s = rng.uniform(-0.3, 0.3), rng.uniform(2.0, 4.0)
    return lambda u: np.tanh(s * (u - m))


def _saturation(rng: np.random.Generator) -> Curve:
    m, s = rng.uniform(-0.2, 0.2), rng.uniform(0.25, 0.5)
    return lambda u: np.clip((u - m) / s, -1.0, 1.0)


def _dead_zone(rng: np.random.Generator) -> Curve:
    m, s = rng.uniform(-0.2, 0.2), rng.uniform(0.2, 0.4)
    return lambda u: u - m - np.clip(u - m, -s, s)


def _absolute(rng: np.random.Generator) -> Curve:
    m = rng.uniform(-0.3, 0.3)
    return lambda u: np.abs(u - m)


def _relu(rng: np.random.Generator) -> Curve:
    m, side = rng.uniform(-0.3, 0.3), rng.choice([-1.0, 1.0])
    return lambda u: np.maximum(side * (u - m), 0.0)


def _sine(rng: np.random.Generator) -> Curve:
    s, phase = rng.uniform(2.5, 5.0), rng.uniform(0.0, 2.0 * np.pi)
    return lambda u: np.sin(s * u + phase)


def _exponential(rng: np.random.Generator) -> Curve:
    s = rng.choice([-1.0, 1.0]) * rng.uniform(1.5, 3.0)
    return lambda u: np.exp(s * u)


def _logarithm(rng: np.random.Generator) -> Curve:
    side, room = rng.choice([-1.0, 1.0]), rng.uniform(0.05, 0.2)
    return lambda u: np.log(_WIDEST + room + side * u)


def _gaussian(rng: np.random.Generator) -> Curve:
    m, s = rng.uniform(-0.3, 0.3), rng.uniform(0.25, 0.5)
    return lambda u: np.exp(-(((u - m) / s) ** 2))


_WIDEST = 1.0  # arguments are between -1 and 1
CURVES: dict[str, Callable[[np.random.Generator], Curve]] = {
    "line": _line,
    "parabola": _parabola,
    "cubic": _cubic,
    "tanh": _tanh,
    "saturation": _saturation,
    "dead zone": _dead_zone,
    "|u|": _absolute,
    "ReLU": _relu,
    "sine": _sine,
    "exponential": _exponential,
    "logarithm": _logarithm,
    "Gaussian": _gaussian,
}
_SAME = {"odd cubic": "cubic"}


@dataclass(frozen=True)
class CurvesTask:
    """One system."""

    kind: str
    run: int
    seed: int
    version: str = __version__


@dataclass(frozen=True)
class CurvesRun:
    """What came of it: true and given names of all functions, the tested one first, and errors on fresh points in %."""

    kind: str
    run: int
    true: tuple[str, ...]
    given: tuple[str, ...]
    error: float
    error_named: float
    n_parameters: float
    n_named: float

    @property
    def right(self) -> bool:
        return self.true[0] == self.given[0]


@dataclass(frozen=True)
class CurvesTable:
    """All runs."""

    runs: tuple[CurvesRun, ...]
    seed: int

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "seed": self.seed,
            "right": self.n_right,
            "systems": len(self.runs),
            "right_functions": self.n_right_functions,
            "functions": len(self.pairs),
            "runs": [asdict(run) for run in self.runs],
        }

    @property
    def n_right(self) -> int:
        """Systems whose tested function has the right name."""
        return sum(run.right for run in self.runs)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """True and given names of all functions of all systems."""
        return [pair for run in self.runs for pair in zip(run.true, run.given, strict=True)]

    @property
    def n_right_functions(self) -> int:
        return sum(true == given for true, given in self.pairs)


def run_curves(
    *,
    n_runs: int,
    seed: int,
    n_jobs: int,
    store: Path | None = None,
    progress: Callable[..., None] = lambda **_: None,
    kinds: tuple[str, ...] = tuple(CURVES),
) -> CurvesTable:
    """Fit and name `n_runs` systems of every kind."""
    tasks = [CurvesTask(kind, run, seed) for kind in kinds for run in range(n_runs)]
    found = run_all(tasks, work, store=store, n_jobs=n_jobs, progress=progress)
    return CurvesTable(tuple(_run(found[task]) for task in tasks), seed)


def _run(outcome: dict[str, Any]) -> CurvesRun:
    return CurvesRun(**outcome | {"true": tuple(outcome["true"]), "given": tuple(outcome["given"])})


def work(task: CurvesTask) -> dict[str, Any]:
    """One fit, its names, and the errors before and after they are put in place."""
    rng = np.random.default_rng([task.seed, list(CURVES).index(task.kind), task.run])
    others = [kind for kind in CURVES if kind not in (task.kind, "line")]  # two lines would be one
    kinds = [task.kind, *rng.choice(others, _RANK - 1, replace=False).tolist()]
    X, fresh = rng.uniform(-1.0, 1.0, (_SAMPLES, _INPUTS)), rng.uniform(-1.0, 1.0, (_FRESH, _INPUTS))
    W_0 = _filling(np.concatenate([X, fresh]), rng)
    W_1 = well_conditioned((_OUTPUTS, _RANK), rng, None)
    curves = [CURVES[kind](rng) for kind in kinds]
    spread = [float(np.std(curve(fresh @ row))) for curve, row in zip(curves, W_0, strict=True)]

    def f(points: ndarray) -> ndarray:
        u = points @ W_0.T
        return np.stack([curve(u[:, j]) / spread[j] for j, curve in enumerate(curves)], axis=1) @ W_1.T

    F, truth = f(X), f(fresh)
    samples = Samples(X, F=F + _NOISE * F.std(axis=0) * rng.normal(size=F.shape))
    result = decouple(samples, _RANK, basis=_BASIS, n_starts=_STARTS, rng=task.run, progress=False)
    names = [name or _NO_NAME for name in result.recognise().names]
    given = [_SAME.get(names[j], names[j]) for j in _matched(W_0, result.decoupling.W[0])]
    named = result.simplified(progress=False)

    def error(model: Callable[[ndarray], ndarray]) -> float:
        return 100.0 * float(np.linalg.norm(model(fresh) - truth) / np.linalg.norm(truth - truth.mean(axis=0)))

    used = result.n_effective or result.decoupling.n_parameters
    return asdict(
        CurvesRun(
            task.kind,
            task.run,
            tuple(kinds),
            tuple(given),
            error(result.decoupling),
            error(named.decoupling),
            float(used),
            float(named.result.n_effective or named.decoupling.n_parameters),
        )
    )


def _filling(X: ndarray, rng: np.random.Generator) -> ndarray:
    """A matrix whose arguments fill [-1, 1] and do not leave it."""
    W = well_conditioned((_RANK, _INPUTS), rng, X)
    return W / np.abs(X @ W.T).max(axis=0)[:, None]


def _matched(W: ndarray, found: ndarray) -> list[int]:
    """For every row of W the row of another matrix that is most nearly parallel, each once, the nearest pairs first."""
    a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (W, found))
    near = np.abs(a @ b.T)
    match = [0] * len(W)
    for _ in range(len(W)):
        i, j = np.unravel_index(np.argmax(near), near.shape)
        match[int(i)] = int(j)
        near[i], near[:, j] = -1.0, -1.0
    return match


def curves_markdown(table: CurvesTable) -> str:
    """One row per kind."""
    lines = [
        "| curve | right name | else called | error on fresh points: splines | named | parameters: splines | named |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(run.kind for run in table.runs):
        runs = [run for run in table.runs if run.kind == kind]
        wrong = ", ".join(_cell(run.given[0]) for run in runs if not run.right)
        errors = [f"{np.median([getattr(run, key) for run in runs]):.2g} %" for key in ("error", "error_named")]
        counts = [f"{np.median([getattr(run, key) for run in runs]):.0f}" for key in ("n_parameters", "n_named")]
        right = f"{sum(run.right for run in runs)} of {len(runs)}"
        lines.append(f"| {_cell(kind)} | {right} | {wrong} | {' | '.join((*errors, *counts))} |")
    total = f"{table.n_right} of {len(table.runs)}"
    lines.append(f"| all | **{total}** | all functions: {table.n_right_functions} of {len(table.pairs)} | | | | |")
    return "\n".join(lines)


def _cell(name: str) -> str:
    return name.replace("|", "\\|")  # or it would end the cell


def write_curves(table: CurvesTable, directory: Path) -> None:
    """Numbers, table and picture."""
    write_experiment(directory, "curves", table.content(), curves_markdown(table), _picture(table))


def _picture(table: CurvesTable) -> Figure:
    """True names against given ones, with the numbers of functions."""
    true = [kind for kind in CURVES if any(kind == t for t, _ in table.pairs)]
    given = [*true, *sorted({g for _, g in table.pairs} - set(true))]
    counts = np.array([[sum(pair == (t, g) for pair in table.pairs) for g in given] for t in true])
    with house_style():
        figure = new_figure(6.4, 4.6)
        ax = figure.subplots()
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
    return figure
