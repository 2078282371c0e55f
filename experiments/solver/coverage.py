"""Whether bands are true: how often 95 % bands hold the function that made the data, and intervals a new measurement.

Every run has new points and new noise. A function is compared with its own in the true system at the arguments of all
samples, both written with arguments over the same range, slopes of the same size and the same mean. Functions without a
band are counted apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from decouply import systems
from decouply.bases import Spline, Tanh, Trigonometric
from decouply.estimators._regressor import DecouplingRegressor
from decouply.fit._decouple import decouple
from decouply.fit._result import Result
from decouply.model._decoupling import Decoupling
from decouply.model._functions import Functions
from decouply.samples._samples import Samples
from decouply.solvers import VarPro
from decouply.solvers.inference._uncertainty import differences_of_functions, sizes_of_functions
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown, matching

LEVEL = 0.95
_N_FRESH = 200


@dataclass(frozen=True)
class Case:
    """A kind of system, and how it is fitted; noise is relative to the root mean square of what it is added to."""

    name: str
    make: Callable[[np.random.Generator], Decoupling]
    n_samples: int
    noise: float
    jacobians: bool
    asked: dict[str, Any]
    exact: bool = True  # whether the true system is one of those that are fitted
    bootstrap: int = 0  # fits to simulated data for bands; 0 takes derivatives
    share: float = 1.0  # of the data sets that are asked for: many fits take long
    data_of: str = ""  # the case with the same data sets


def _random(dims: tuple[int, ...], degrees: tuple[int, ...]) -> Callable[[np.random.Generator], Decoupling]:
    return lambda rng: systems.random_system(dims, degrees, rng=rng)


def _bends(rng: np.random.Generator) -> Decoupling:
    """A tanh and a wave of three inputs."""
    g = Functions((Tanh(), Trigonometric(2)), [[0.0, 1.0, 0.0], [0.0, 0.6, 0.8]], domain=(-0.5, 0.5))
    angle = rng.uniform(0.0, 0.5)
    W0 = np.array([[np.cos(angle), np.sin(angle), 0.3], [-0.3, np.cos(angle), -np.sin(angle)]])
    return Decoupling([W0, rng.uniform(0.7, 1.5, (1, 2))], [g])


def _two_bends(rng: np.random.Generator) -> Decoupling:
    """Two layers of such curves."""
    first = Functions((Tanh(), Trigonometric(2)), [[0.0, 1.0, 0.0], [0.0, 0.4, 0.5]], domain=(-0.8, 0.8))
    second = Functions((Trigonometric(2), Tanh()), [[0.0, 0.5, 0.6], [0.0, 1.0, 0.0]], domain=(-1.0, 1.0))
    W1 = np.array([[1.0, 0.6], [-0.5, 1.0]]) + rng.uniform(-0.1, 0.1, (2, 2))
    W0 = np.array([[1.0, 0.2], [-0.3, 0.9]]) + rng.uniform(-0.1, 0.1, (2, 2))
    return Decoupling([W0, W1, np.array([[1.0, 0.4], [-0.3, 1.0]])], [first, second])


def _steep(rng: np.random.Generator) -> Decoupling:
    """A steep step, which quintics do not follow, and a wave."""
    g = Functions((Tanh(), Trigonometric(2)), [[0.0, 1.0, 0.0], [0.0, 0.6, 0.8]], domain=(-0.15, 0.15))
    return Decoupling([rng.normal(size=(2, 2)) + 2 * np.eye(2), np.array([[1.0, 0.5], [0.3, 1.0]])], [g])


CASES = (
    Case("one layer of cubics, 3-2-3", _random((3, 2, 3), (3,)), 40, 0.01, True, {"ranks": 2, "degrees": 3}),
    Case("the same, values only", _random((3, 2, 3), (3,)), 60, 0.05, False, {"ranks": 2, "degrees": 3}),
    Case("one output, 2-2-1", _random((2, 2, 1), (3,)), 100, 0.1, False, {"ranks": 2, "degrees": 3}),
    Case("splines, one output", _bends, 300, 0.1, False, {"ranks": 2, "basis": Spline(12)}),
    Case("splines, Jacobians too", _bends, 100, 0.1, True, {"ranks": 2, "basis": Spline(12)}),
    Case("two layers, f2", lambda _: systems.f2(), 30, 0.01, True, {"ranks": (2, 2), "degrees": (3, 3)}),
    Case("f2, values only", lambda _: systems.f2(), 100, 0.01, False, {"ranks": (2, 2), "degrees": (3, 3)}),
    Case("f3", lambda _: systems.f3(), 60, 0.01, True, {"ranks": (3, 2), "degrees": (3, 4)}),
    Case("two layers of splines", _two_bends, 200, 0.02, True, {"ranks": (2, 2), "basis": Spline(8)}),
    Case("quintics for steep curves", _steep, 200, 0.02, False, {"ranks": 2, "degrees": 5}, exact=False),
    Case(
        "f2, values only, simulated",
        lambda _: systems.f2(),
        100,
        0.01,
        False,
        {"ranks": (2, 2), "degrees": (3, 3)},
        bootstrap=25,
        share=0.2,
        data_of="f2, values only",
    ),
)
_NUMBER_OF_PREDICTED = 10  # in seeds
PREDICTED = "predictions of DecouplingRegressor, 50 samples"


def tasks(*, seed: int, n_runs: int) -> list[Task]:
    counts = {case.name: max(1, round(case.share * n_runs)) for case in CASES} | {PREDICTED: n_runs}
    return [task for name, count in counts.items() for task in grid(case=name, run=range(count), seed=seed)]


def work(case: str, run: int, seed: int) -> Outcome:
    """One data set of a case."""
    if case == PREDICTED:
        return _regressor(np.random.default_rng([seed, _NUMBER_OF_PREDICTED, run]))
    names = [one.name for one in CASES]
    about = CASES[names.index(case)]
    rng = np.random.default_rng([seed, names.index(about.data_of or case), run])
    truth = about.make(rng)
    X, fresh = (rng.uniform(-1.0, 1.0, (count, truth.n_inputs)) for count in (about.n_samples, _N_FRESH))
    F, J = truth(X), truth.jacobian(X)
    level = about.noise * np.sqrt(np.mean(F**2, axis=0))
    noisy = F + level * rng.normal(size=F.shape)
    of_J = J + about.noise * np.sqrt(np.mean(J**2)) * rng.normal(size=J.shape) if about.jacobians else None
    samples = Samples(X, F=noisy, J=of_J)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Searches for polynomials begin at the truth: this is about bands, not about searches.
        known = (
            {"solver": VarPro(start=truth), "n_starts": 1}
            if "degrees" in about.asked and about.exact
            else {"n_starts": 8}
        )
        result = decouple(samples, **about.asked, **known, rng=rng, progress=False)
    new = truth(fresh) + level * rng.normal(size=(_N_FRESH, truth.n_outputs))
    off = np.abs(new - result.decoupling(fresh))
    return {
        **coverage_of_functions(truth, result, about.bootstrap),
        "predictions": float(np.mean(off <= result.uncertainty_at(fresh, level=LEVEL))),
        "values": float(
            np.mean(
                np.abs(truth(fresh) - result.decoupling(fresh))
                <= result.uncertainty_at(fresh, noise=False, level=LEVEL)
            )
        ),
        "ridge": result.ridge,
    }


def coverage_of_functions(truth: Decoupling, result: Result, bootstrap: int = 0) -> Outcome:
    """The share of function values at samples that bands hold, and the share of functions that have a band."""
    model, X = result.decoupling, result.samples.X
    bands, apart = result.uncertainty(level=LEVEL, bootstrap=bootstrap), differences_of_functions(model, truth, X)
    halves, offs = (
        np.concatenate([table / size for table, size in zip(tables, sizes_of_functions(model, X), strict=True)], axis=1)
        for tables in (bands, apart)
    )
    banded = np.isfinite(halves).all(axis=0)
    halves, offs = halves[:, banded], np.abs(offs[:, banded])
    held = np.mean(offs <= halves, axis=0).tolist()
    return {
        "functions": float(np.mean(held)) if held else None,
        "each": held,
        "banded": float(np.mean(banded)),
        "widths": np.sqrt(np.mean(halves**2, axis=0)).tolist(),
        "distances": np.sqrt(np.mean(offs**2, axis=0)).tolist(),
    }


def _regressor(rng: np.random.Generator) -> Outcome:
    """Intervals of predictions from 50 samples."""
    truth = systems.random_system((3, 2, 1), (3,), rng=rng)
    X, fresh = (rng.uniform(-1.0, 1.0, (count, 3)) for count in (50, _N_FRESH))
    y, new = truth(X)[:, 0], truth(fresh)[:, 0]
    noise = 0.1 * np.std(y)
    y, new = y + noise * rng.normal(size=50), new + noise * rng.normal(size=_N_FRESH)
    model = DecouplingRegressor(2, 3, random_state=0).fit(X, y)
    values, std = model.predict(fresh, return_std=True)
    held = np.abs(new - values) <= 1.96 * std
    return {"predictions": float(np.mean(held)), "values": None, "functions": None, "banded": 0.0}


def content(runs: list[Task], *, seed: int, **_: Any) -> Content:
    """What the table is made of: widths and distances of single functions stay with the runs."""
    kept = ("case", "run", "functions", "banded", "values", "predictions")
    return {"seed": seed, "runs": [{name: run[name] for name in kept} for run in runs]}


def table(content: Content) -> str:
    """Coverage of functions, of the model's values and of new measurements."""
    rows = []
    for name in (*(case.name for case in CASES), PREDICTED):
        runs = matching(content["runs"], case=name)
        if not runs:
            continue
        functions = [run["functions"] for run in runs if run["functions"] is not None]
        values = [run["values"] for run in runs if run["values"] is not None]
        rows.append(
            [
                name,
                str(len(runs)),
                f"{np.mean(functions):.3f}" if functions else "–",
                f"{100.0 * np.mean(column(runs, 'banded')):.0f} %",
                f"{np.mean(values):.3f}" if values else "–",
                f"{np.mean(column(runs, 'predictions')):.3f}",
            ]
        )
    intro = (
        f"Shares of {100.0 * LEVEL:.0f} % bands and intervals that hold what they should (seed {content['seed']}): the "
        f"values of functions at all samples, the outputs of the true system at {_N_FRESH} fresh points, and new "
        "measurements there. *With a band* counts functions: one that the data do not determine has none, nor has any "
        "if the residuals are not noise."
    )
    head = ["system", "data sets", "functions", "with a band", "outputs", "new measurements"]
    return "\n\n".join([intro, markdown(head, rows)])


COVERAGE = Experiment.of(
    globals(),
    "coverage",
    "How often 95 % bands hold the true functions, and intervals new measurements.",
    options=(Option("n_runs", 200, "Data sets per system."),),
    quick={"n_runs": 4},
)
