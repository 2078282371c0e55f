"""Is the verdict right? Data whose truth is known, and the word that `result.verdict` has for the fit.

- noise: functions of `python -m experiments tables` with their noise, the default call.
- too few functions: the same with one function, where there are two or three.
- wrong functions: steps and kinks without noise, fitted by one cubic for each.
- formulas: test functions of engineering without noise, 100 or 300 rows, the default call.
- exact: random polynomial systems, the default call.
- lines: linear functions with noise; pure noise: nothing to find.

Whether a word is right follows from the noise and from the error of the model on fresh points without noise, not from
the kind of data: see `is_right`.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from decouply._support._machine import one_thread
from decouply.bases import Monomial
from decouply.fit._decouple import decouple
from decouply.fit.quality._quality import Grade
from decouply.samples._samples import Samples
from decouply.systems import random_system
from experiments.harness import Content, Experiment, Option, Outcome, Task, grid, markdown, matching
from experiments.regression.tables import FORMULAS, Drawn, draw

KINDS = ("noise", "too few functions", "wrong functions", "formulas", "exact", "lines", "pure noise")
_FRESH = 2000
_EXACT, _MOSTLY, _SOME = 1e-6, 0.3, 0.05  # an error that is rounding, and shares of what is left that are misfit
_PER_INPUT = 50  # samples: with fewer, nobody can tell noise from misfit
_SMALL, _HALF = 0.08, 0.6  # of the spread: what may be called close, and what may be called poor


def tasks(*, seed: int, n_sets: int) -> list[Task]:
    return grid(kind=KINDS, run=range(n_sets), seed=seed)


def _data(kind: str, run: int, seed: int) -> tuple[Drawn, dict[str, Any]]:
    """Data and what is asked for."""
    rng = np.random.default_rng([seed, KINDS.index(kind), run])
    if kind == "noise":
        return draw("tables", "tables", run, seed), {}
    if kind == "too few functions":
        tables = (draw("tables", "tables", int(rng.integers(10**6)), seed) for _ in count())
        return next(one for one in tables if one.n_functions != 1), {"ranks": 1}
    if kind == "formulas":
        whole = draw("formulas", list(FORMULAS)[run % len(FORMULAS)], run, seed)
        return whole._replace(samples=whole.samples.take(np.arange(100 if run % 2 else 300))), {}
    m, rows = int(rng.integers(2, 6)), int(rng.choice([80, 150, 300]))
    X, fresh = rng.uniform(-1.0, 1.0, (rows, m)), rng.uniform(-1.0, 1.0, (_FRESH, m))
    if kind == "exact":
        system = random_system((m, int(rng.integers(1, 4)), 2), (int(rng.integers(2, 4)),), rng=rng)
        return Drawn(Samples(X, F=system(X), J=system.jacobian(X) if run % 2 else None), fresh, system(fresh)), {}
    w = rng.normal(size=(m, 2))
    w /= np.abs(w).sum(axis=0)
    if kind == "wrong functions":
        F, truth = (np.sign(x @ w[:, :1]) + np.abs(x @ w[:, 1:]) for x in (X, fresh))
        return Drawn(Samples(X, F=F), fresh, truth), {"ranks": 2, "basis": Monomial(3)}
    line, noise = (w[:, :1], float(rng.choice([0.05, 0.2, 0.5]))) if kind == "lines" else (0.0 * w[:, :1], 1.0)
    size = noise * (np.std(X @ line) or 1.0)
    return Drawn(Samples(X, F=X @ line + size * rng.normal(size=(rows, 1))), fresh, fresh @ line, noise=noise), {}


def work(kind: str, run: int, seed: int) -> Outcome:
    """The word, and the facts that decide whether it is right."""
    (samples, fresh, truth, _, noise), given = _data(kind, run, seed)
    with one_thread():
        result = decouple(samples, rng=run, progress=False, **given)
        grades = [verdict.grade for verdict in result.quality.verdicts]
    F, model = np.asarray(samples.F), result.decoupling
    X = np.column_stack([np.ones(samples.n_samples), samples.X])
    line = np.column_stack([np.ones(len(fresh)), fresh]) @ np.linalg.lstsq(X, F, rcond=None)[0]
    misfit, of_line = (np.sqrt(np.mean((found - truth) ** 2, axis=0)) / F.std(axis=0) for found in (model(fresh), line))
    few = float(result.n_effective or model.n_parameters) > 0.25 * samples.n_samples
    few = few or samples.n_samples < _PER_INPUT * samples.n_inputs
    facts = zip(grades, misfit, of_line, strict=True)
    return {
        "grades": [grade.name for grade in grades],
        "right": [is_right(grade, e, noise, of_line=line, few=few) for grade, e, line in facts],
        "misfit": misfit,
        "noise": noise,
    }


def is_right(grade: Grade, misfit: float, noise: float, *, of_line: float, few: bool) -> bool:
    """Whether a word is true of a model; `misfit` is without noise, and all are shares of the spread."""
    left = misfit**2 + noise**2
    return {
        Grade.EXACT: noise == 0.0 and misfit < _EXACT,
        Grade.NOISE: noise > 0.0 and misfit**2 <= _MOSTLY * left and left < _HALF,
        Grade.CLOSE: left < _SMALL**2,
        Grade.LINE: of_line <= 1.1 * misfit + 0.3 * noise and of_line**2 + noise**2 < 1.0 - _SOME,
        Grade.BETTER: misfit**2 >= _SOME * left and misfit >= _EXACT,
        Grade.UNTESTED: few,
        Grade.POOR: left >= _HALF,
    }[grade]


def table(content: Content) -> str:
    """How often every word was used for each kind of data, and how often it was right."""
    rows = []
    for kind in KINDS:
        runs = matching(content["runs"], kind=kind)
        words = [word for run in runs for word in run["grades"]]
        right = [one for run in runs for one in run["right"]]
        cells = [str(words.count(grade.name) or "") for grade in Grade]
        rows.append([kind, *cells, f"{sum(right)} of {len(right)}"])
    return markdown(["", *(grade.value for grade in Grade), "right"], rows)


VERDICTS = Experiment.of(
    globals(),
    "verdicts",
    "Verdicts on data whose truth is known.",
    options=(Option("n_sets", 30, "Data sets of every kind."),),
    quick={"n_sets": 2},
)
