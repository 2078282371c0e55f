"""The first call on data it has not seen: no option is given, and what it finds is compared with other methods.

- tables: 1 to 3 functions from a list, 2 to 6 inputs, 1 or 2 outputs, 150 to 600 rows, 1 to 5 % noise. Beside the
  default call stands the best of five fits that are told the right number of functions, which a user cannot have.
- formulas: test functions of engineering without noise, 300 rows.
- curves: three functions of one sharp kind, 4 inputs, 3 outputs, 200 rows, 3 % noise, their number given.
- designs: an engine map and drag of airfoils, with Jacobians. They come with the package smt, and are left out without.

Errors are on fresh points, without noise where that is known, in percent of the spread of an output. Times are those of
the processor, on one thread, tuning included.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from decouply._support._machine import one_thread
from decouply.bases import Monomial, Spline
from decouply.data import airfoil, b777_engine
from decouply.fit._decouple import decouple
from decouply.fit._result import Result
from decouply.samples._samples import Samples
from experiments.functions.bases import well_conditioned_matrix
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown, matching
from experiments.regression.regression import METHODS, OURS, fitted_values, is_installed

_FRESH, _ROWS_OF_FORMULA = 3000, 300
_SHARP = {"rows": 200, "inputs": 4, "functions": 3, "noise": 0.03}
_DRAWS_OF_SHARP = 5
_TOLD = (Spline(8), Spline(32), Spline(64), Monomial(3), Monomial(5))
ESTIMATOR, BEST_TOLD = "DecouplingRegressor()", "told how many"

CURVES: dict[str, Callable[[ndarray], ndarray]] = {
    "saturation": lambda u: np.clip(2.2 * u, -0.7, 0.7),
    "dead zone": lambda u: u - np.clip(u, -0.25, 0.25),
    "step": lambda u: np.tanh(6.0 * u),
    "parabola": np.square,
    "cubic": lambda u: u**3 - 0.3 * u,
    "sine": lambda u: np.sin(3.0 * u),
    "exponential": lambda u: np.exp(1.5 * u),
    "|u|": lambda u: np.abs(u - 0.1),
    "root": lambda u: np.sign(u) * np.sqrt(np.abs(u)),
}
SHARP = tuple(name for name in CURVES if name != "parabola")


# Formulas, all on [-1, 1]^m


def _between(x: ndarray, *limits: tuple[float, float]) -> list[ndarray]:
    """The columns of x, stretched from [-1, 1] to these limits."""
    return [low + (column + 1.0) / 2.0 * (high - low) for column, (low, high) in zip(x.T, limits, strict=True)]


def _rosenbrock(x: ndarray) -> ndarray:
    a, b = 2.0 * x.T
    return 100.0 * (b - a**2) ** 2 + (1.0 - a) ** 2


def _branin(x: ndarray) -> ndarray:
    a, b = _between(x, (-5, 10), (0, 15))
    valley = b - 5.1 / (4.0 * np.pi**2) * a**2 + 5.0 / np.pi * a - 6.0
    return valley**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) + 10.0


def _friedman(x: ndarray) -> ndarray:
    a, b, c, d, e = (x.T + 1.0) / 2.0
    return 10.0 * np.sin(np.pi * a * b) + 20.0 * (c - 0.5) ** 2 + 10.0 * d + 5.0 * e


def _otl_circuit(x: ndarray) -> ndarray:
    b1, b2, f, c1, c2, gain = _between(x, (50, 150), (25, 70), (0.5, 3), (1.2, 2.5), (0.25, 1.2), (50, 300))
    loop = gain * (c2 + 9.0)
    base = 12.0 * b2 / (b1 + b2)
    return ((base + 0.74) * loop + 11.35 * f + 0.74 * f * loop / c1) / (loop + f)


def _borehole(x: ndarray) -> ndarray:
    well, reach, upper, head, lower, sink, length, flow = _between(
        x, (0.05, 0.15), (100, 5e4), (63070, 115600), (990, 1110), (63.1, 116), (700, 820), (1120, 1680), (9855, 12045)
    )
    ratio = np.log(reach / well)
    loss = 1.0 + 2.0 * length * upper / (ratio * well**2 * flow) + upper / lower
    return 2.0 * np.pi * upper * (head - sink) / (ratio * loss)


def _piston(x: ndarray) -> ndarray:
    mass, area, volume, spring, pressure, ambient, filling = _between(
        x, (30, 60), (0.005, 0.02), (0.002, 0.01), (1000, 5000), (9e4, 1.1e5), (290, 296), (340, 360)
    )
    force = pressure * area + 19.62 * mass - spring * volume / area
    gas = pressure * volume / filling * ambient
    V = area / (2.0 * spring) * (np.sqrt(force**2 + 4.0 * spring * gas) - force)
    return 2.0 * np.pi * np.sqrt(mass / (spring + area**2 * gas / V**2))


def _wing_weight(x: ndarray) -> ndarray:
    area, fuel, aspect, sweep, pressure, taper, thick, load, gross, paint = _between(
        x, (150, 200), (220, 300), (6, 10), (-10, 10), (16, 45), (0.5, 1), (0.08, 0.18), (2.5, 6), (1700, 2500),
        (0.025, 0.08),
    )  # fmt: skip
    c = np.cos(np.deg2rad(sweep))
    body = 0.036 * area**0.758 * fuel**0.0035 * (aspect / c**2) ** 0.6 * pressure**0.006 * taper**0.04
    return body * (100.0 * thick / c) ** -0.3 * (load * gross) ** 0.49 + area * paint


FORMULAS: dict[str, tuple[Callable[[ndarray], ndarray], int]] = {
    "Rosenbrock": (_rosenbrock, 2),
    "Branin": (_branin, 2),
    "Friedman": (_friedman, 5),
    "OTL circuit": (_otl_circuit, 6),
    "borehole": (_borehole, 8),
    "piston": (_piston, 7),
    "wing weight": (_wing_weight, 10),
}
DESIGNS = {"engine, 100 rows": 100, "engine, 845 rows": 845, "airfoil, 400 rows": 400}


class Drawn(NamedTuple):
    """Data, and what is known of them: noise is a share of the spread of each output."""

    samples: Samples
    fresh: Float[ndarray, "T m"]
    truth: Float[ndarray, "T n"]
    n_functions: int | None = None
    noise: float = 0.0


def draw(part: str, name: str, run: int, seed: int) -> Drawn:
    """The data of one run; seeds of different parts and names have nothing in common."""
    if part == "designs":
        return _design(name, np.random.default_rng([seed, run]))
    rng = np.random.default_rng([seed, run, sum(name.encode())])
    if part == "formulas":
        f, m = FORMULAS[name]
        X, fresh = rng.uniform(-1.0, 1.0, (_ROWS_OF_FORMULA, m)), rng.uniform(-1.0, 1.0, (_FRESH, m))
        return Drawn(Samples(X, F=f(X)[:, None]), fresh, f(fresh)[:, None])
    if part == "curves":
        g = (CURVES[name],) * int(_SHARP["functions"])
        m, rows, noise = int(_SHARP["inputs"]), int(_SHARP["rows"]), _SHARP["noise"]
        W = well_conditioned_matrix((len(g), m), rng, rng.uniform(-1.0, 1.0, (20_000, m)))
        V = well_conditioned_matrix((3, len(g)), rng, None)
    else:
        m, count, n = int(rng.integers(2, 7)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
        rows, noise = int(rng.choice([150, 300, 600])), float(rng.choice([0.01, 0.02, 0.05]))
        g = tuple(CURVES[kind] for kind in rng.choice(list(CURVES), count, replace=False))
        W, V = rng.normal(size=(count, m)), rng.normal(size=(n, count))
        W /= 0.8 * np.abs(W).sum(axis=1, keepdims=True)
    X, fresh = rng.uniform(-1.0, 1.0, (rows, m)), rng.uniform(-1.0, 1.0, (_FRESH, m))
    F, truth = (np.stack([one(x @ w) for one, w in zip(g, W, strict=True)], axis=1) @ V.T for x in (X, fresh))
    samples = Samples(X, F=F + noise * F.std(axis=0) * rng.normal(size=F.shape))
    return Drawn(samples, fresh, truth, len(g), noise)


def _design(name: str, rng: np.random.Generator) -> Drawn:
    table = b777_engine() if name.startswith("engine") else airfoil()
    order, rows = rng.permutation(len(table)), DESIGNS[name]
    test = table.take(order[rows:])
    return Drawn(table.take(order[:rows]), test.X, np.asarray(test.F))


# The experiment


def _names(part: str, n_tables: int, n_runs: int) -> list[tuple[str, int]]:
    if part == "tables":
        return [("tables", run) for run in range(n_tables)]
    names = {"formulas": tuple(FORMULAS), "curves": SHARP, "designs": tuple(DESIGNS)}[part]
    if part == "designs" and importlib.util.find_spec("smt") is None:
        return []
    return [(name, run) for run in range(_DRAWS_OF_SHARP if part == "curves" else n_runs) for name in names]


def tasks(*, seed: int, n_tables: int, n_runs: int, parts: tuple[str, ...] = (), others: bool = True) -> list[Task]:
    found = []
    for part in parts or ("tables", "formulas", "curves", "designs"):
        methods: tuple[str, ...] = (OURS,)
        if part != "curves":
            methods += (ESTIMATOR,) + ((BEST_TOLD,) if part == "tables" else ())
            methods += tuple(one for one in METHODS if others and one != OURS and is_installed(one))
        for name, run in _names(part, n_tables, n_runs):
            found += grid(method=methods, part=part, name=name, run=run, seed=seed)
    return sorted(found, key=lambda task: ours_first(task["method"]))


def ours_first(method: str) -> int:
    return [OURS, ESTIMATOR, BEST_TOLD, *METHODS].index(method)


def work(method: str, part: str, name: str, run: int, seed: int) -> Outcome:
    """Errors of all outputs, processor seconds, and the ranks that were found, if it is ours."""
    samples, fresh, truth, count, _ = draw(part, name, run, seed)
    began = time.process_time()
    ranks: list[int] | None = None
    with one_thread():
        if method == OURS:
            given = {"ranks": count, "basis": Spline()} if part == "curves" else {}
            model = _fit(samples, run, **given).decoupling
            found, ranks = model(fresh), list(model.ranks)
        elif method == BEST_TOLD:
            fits = (_fit(samples, run, ranks=count, basis=basis).decoupling(fresh) for basis in _TOLD)
            found = min(fits, key=lambda values: float(np.mean(_percent(values, truth))))
        elif method == ESTIMATOR:
            found = fitted_values(OURS, run, samples.X, np.asarray(samples.F), fresh).reshape(truth.shape)
        else:
            outputs = np.asarray(samples.F).T
            found = np.stack([fitted_values(method, run, samples.X, y, fresh) for y in outputs], axis=1)
    return {"errors": _percent(found, truth).tolist(), "seconds": time.process_time() - began, "ranks": ranks,
            "functions": count}  # fmt: skip


def _fit(samples: Samples, seed: int, **given: Any) -> Result:
    return decouple(samples, rng=seed, progress=False, **given)


def _percent(found: ndarray, truth: ndarray) -> ndarray:
    return 100.0 * np.sqrt(np.mean((found - truth) ** 2, axis=0) / np.var(truth, axis=0))


def _error(run: Task) -> float:
    return float(np.sqrt(np.mean(np.square([np.inf if one is None else one for one in run["errors"]]))))


def table(content: Content) -> str:
    """One table for each part."""
    runs = content["runs"]
    methods = sorted({run["method"] for run in runs}, key=ours_first)
    blocks: list[str] = []
    if tables := matching(runs, part="tables"):
        blocks += ["**Tables of unknown functions**: errors relative to the best fit that was told their number."]
        blocks += [_tables(tables, [one for one in methods if one != BEST_TOLD])]
    titles = {
        "formulas": "**Formulas without noise**: median error in percent of the spread",
        "curves": "**Sharp curves, their number given**: median error in percent of the spread",
        "designs": "**Designs with Jacobians** (only ours uses them): median error in percent of the spread",
    }
    for part, title in titles.items():
        if some := matching(runs, part=part):
            known = [one for one in methods if matching(some, method=one)]
            rows = [
                [name.replace("|", "\\|"), *(_cell(matching(some, name=name, method=one)) for one in known)]
                for name in dict.fromkeys(run["name"] for run in some)
            ]
            blocks += [f"{title}; longest time of the processor.", markdown(["", *known], rows)]
    return "\n\n".join(blocks)


def _tables(runs: list[Task], methods: list[str]) -> str:
    best = {run["run"]: _error(run) for run in matching(runs, method=BEST_TOLD)}
    rows = []
    for method in methods:
        some = matching(runs, method=method)
        ratios = np.array([_error(run) / best[run["run"]] for run in some])
        right = [run["ranks"] == [run["functions"]] for run in some if run["ranks"] is not None]
        seconds = column(some, "seconds")
        rows.append([
            method, f"{np.median(ratios):.2f}", f"{np.max(ratios):.2f}", f"{np.sum(ratios <= 2.0)} of {len(ratios)}",
            f"{sum(right)} of {len(right)}" if right else "", f"{np.median(seconds):.1f} s", f"{np.max(seconds):.1f} s",
        ])  # fmt: skip
    head = ["", "median", "worst", "at most twice", "right number", "median time", "longest time"]
    return markdown(head, rows)


def _cell(runs: list[Task]) -> str:
    errors = np.median([[np.inf if one is None else one for one in run["errors"]] for run in runs], axis=0)
    worst = float(np.max(column(runs, "seconds")))
    together = f"{_error({'errors': errors.tolist()}):.2g}"
    return f"{together if len(errors) == 3 else ' / '.join(f'{one:.2g}' for one in errors)}, {worst:.1f} s"


TABLES = Experiment.of(
    globals(),
    "tables",
    "The first call on tables, formulas and designs.",
    options=(
        Option("n_tables", 20, "Tables of unknown functions."),
        Option("n_runs", 3, "Draws of every formula and design."),
        Option("parts", (), "tables, formulas, curves or designs; all if none is named."),
        Option("others", True, "Measure other methods too."),
    ),
    quick={"n_tables": 2, "n_runs": 1, "parts": ("tables",), "others": False},
)
