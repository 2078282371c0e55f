"""The first call on ten simulated systems: `identify` beside linear models, ARX and polynomial NARX models.

Every record has parameters of its own, 2000 samples for training with 0.5 % of noise, and two tests of 1000 samples
without noise: one with inputs as large as in training, and one with inputs 1.5 times as large. Errors are those of the
free run after the first 50 outputs, as shares of the standard deviation of the test's output.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray

from decouply._support._errors import DecouplingWarning, SolverError, pluralised
from decouply._support._time_limit import by_processor_time
from decouply.report._style import COLOURS, new_figure
from decouply.sysid import DecoupledStateSpace, PolynomialNARX, identify
from experiments.dynamic.benchmarks import names_beginning
from experiments.dynamic.forward_regression import fit_arx, fit_frols
from experiments.dynamic.physical_systems import SYSTEMS
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown, matching, plot_rows

OURS, LINEAR = "identify", "linear"
N_INIT = 50  # first outputs of a test, which give the initial state
_TRAINING, _TEST, _NOISE, _LARGER = 2000, 1000, 0.005, 1.5
_LIKE_THE_BEST = 1.1  # within a tenth of the smallest error
_SAME = 1.001  # the linear model itself, fitted once more
_TESTS = ("as large", "1.5 times as large")
Run = Callable[[ndarray, ndarray], ndarray]  # (u, y_init) -> y


def _identify(u: ndarray, y: ndarray, rng: np.random.Generator, seconds: float) -> tuple[Run, dict[str, Any]]:
    found = identify(u, y, max_seconds=seconds, rng=rng, progress=False)
    (chosen,) = [row for row in found.tried if row.note == "chosen"]
    words = f"{pluralised(chosen.n_states, 'state')}: {chosen.functions or 'linear'}"
    return found.simulate, {"model": words, "agreement": found.agreement, "bounded": found.is_bounded}


def _linear(u: ndarray, y: ndarray, rng: np.random.Generator, seconds: float) -> tuple[Run, dict[str, Any]]:
    """The best linear model, of the order that held-back data choose."""
    return identify(u, y, functions=[], max_seconds=seconds, rng=rng, progress=False).simulate, {}


def _two_cubics(u: ndarray, y: ndarray, rng: np.random.Generator, seconds: float) -> tuple[Run, dict[str, Any]]:
    return DecoupledStateSpace(2).fit(u, y, max_seconds=seconds, rng=rng, progress=False).simulate, {}


def _narx(u: ndarray, y: ndarray, rng: np.random.Generator, seconds: float) -> tuple[Run, dict[str, Any]]:  # noqa: ARG001
    return PolynomialNARX(n_u=2, n_y=3, degree=3).fit(u, y).simulate, {}


METHODS: dict[str, Callable[..., tuple[Run, dict[str, Any]]]] = {
    OURS: _identify,
    LINEAR: _linear,
    "state space, two cubics": _two_cubics,
    "ARX": lambda u, y, _, __: (fit_arx(u, y), {}),
    "FROLS": lambda u, y, _, __: (fit_frols(u, y), {}),
    "polynomial NARX": _narx,
}


def tasks(*, seed: int, n_records: int, max_seconds: float, only: Sequence[str]) -> list[Task]:
    return grid(
        system=names_beginning(tuple(SYSTEMS), only),
        record=range(n_records),
        method=tuple(METHODS),
        max_seconds=max_seconds,
        seed=seed,
    )


def work(system: str, record: int, method: str, max_seconds: float, seed: int) -> Outcome:
    """One fit and its errors on both tests; infinite if the free run leaves ten times the range of training."""
    (u, y), tests = records(system, record, seed)
    rng = np.random.default_rng([seed, record])
    began = time.process_time()
    with warnings.catch_warnings(), by_processor_time():
        warnings.simplefilter("ignore", DecouplingWarning)  # escapes are infinite errors
        try:
            run, about = METHODS[method](u, y, rng, max_seconds)
        except SolverError:  # every start diverged
            return {"errors": [math.inf] * len(tests), "seconds": time.process_time() - began}
        seconds = time.process_time() - began
        errors = [_error(run, *test) for test in tests]
    return {"errors": errors, "seconds": seconds} | about


@lru_cache(maxsize=2)  # all methods of a record follow each other
def records(system: str, record: int, seed: int) -> tuple[tuple[ndarray, ndarray], list[tuple[ndarray, ndarray]]]:
    """A training record and two tests of a system with its own parameters."""
    rng = np.random.default_rng([seed, record, list(SYSTEMS).index(system)])
    made = SYSTEMS[system](rng)
    u, y = made.record(_TRAINING, rng)
    y = y + _NOISE * y.std() * rng.standard_normal(len(y))
    return (u, y), [made.record(_TEST, rng, amplitude=a) for a in (1.0, _LARGER)]


def _error(run: Run, u: ndarray, y: ndarray) -> float:
    y_hat = run(u, y[:N_INIT])
    error = float(np.sqrt(np.mean((y_hat - y)[N_INIT:] ** 2)) / y[N_INIT:].std())
    return error if math.isfinite(error) else math.inf


def content(runs: list[Task], *, n_records: int, max_seconds: float, seed: int, only: Sequence[str]) -> Content:
    """Medians over the records, and how often `identify` is the best or nearly so."""
    systems = {}
    for name in names_beginning(tuple(SYSTEMS), only):
        rows = {method: _median(matching(runs, system=name, method=method)) for method in METHODS}
        systems[name] = {"errors": rows, "runs": matching(runs, system=name)}
    return {"n_records": n_records, "max_seconds": max_seconds, "seed": seed, "systems": systems}


def _errors(runs: Sequence[Task]) -> Float[ndarray, "runs tests"]:
    return np.array([[math.inf if e is None else e for e in run["errors"]] for run in runs], dtype=float)


def _median(runs: Sequence[Task]) -> list[float]:
    return np.median(_errors(runs), axis=0).tolist()


def counts(content: Content) -> dict[str, int]:
    """Over systems and both tests: where `identify` is first or within a tenth, worse than linear, or diverges."""
    first = worse = diverges = 0
    for system in content["systems"].values():
        medians = {m: [math.inf if e is None else e for e in some] for m, some in system["errors"].items()}
        best = np.min(list(medians.values()), axis=0)
        first += int(np.all(np.array(medians[OURS]) <= _LIKE_THE_BEST * best))
        worse += int(np.any(np.array(medians[OURS]) > _SAME * np.array(medians[LINEAR])))
        diverges += int(np.isinf(_errors([r for r in system["runs"] if r["method"] == OURS])).sum())
    return {"first": first, "worse": worse, "diverges": diverges}


def table(content: Content) -> str:
    """One row per system, with the errors on both tests."""
    found, n = counts(content), content["n_records"]
    ours = [run for system in content["systems"].values() for run in system["runs"] if run["method"] == OURS]
    seconds = column(ours, "seconds")
    intro = (
        f"Errors of the simulation in percent of the signal, on a test with inputs as large as in training / "
        f"{_LARGER:g} times as large: medians over {pluralised(n, 'record')}, seed {content['seed']}. "
        f"Every method has at most {content['max_seconds']:g} s of processor time; `identify` took "
        f"{np.median(seconds):.0f} s (at most {seconds.max():.0f} s). It has the smallest error of both tests, or one "
        f"within a tenth of it, on {found['first']} of {pluralised(len(content['systems']), 'system')}. It is worse "
        f"than the linear model on {found['worse']}, and diverges in {found['diverges']} of "
        f"{2 * len(ours)} runs."
    )
    rows = []
    for name, system in content["systems"].items():
        chosen = [run["model"] for run in system["runs"] if run["method"] == OURS]
        shown = [" / ".join(_percent(e) for e in some) for some in system["errors"].values()]
        rows.append([name, *shown, max(chosen, key=chosen.count)])
    return "\n\n".join([intro, markdown(["system", *METHODS, "model of `identify`"], rows)])


def _percent(error: float | None) -> str:
    return "diverges" if error is None or math.isinf(error) else f"{100.0 * error:.2g}"


def figure(content: Content) -> Figure:
    """Errors on both tests as shares of those of the linear model."""
    rows = []
    for k, name in enumerate(METHODS):
        for i, test in enumerate(_TESTS):
            shares = []
            for system in content["systems"].values():
                linear, error = system["errors"][LINEAR][i], system["errors"][name][i]
                shares += [error / linear] if error is not None and linear is not None and math.isfinite(error) else []
            rows.append((f"{name}, {test}", np.array(shares), COLOURS[k % len(COLOURS)]))
    canvas = new_figure(7.0, 0.32 * len(rows) + 1.2)
    plot_rows(canvas.subplots(), rows, "error as a share of the linear model's, one dot per system", log=True)
    return canvas


SYSTEMS_EXPERIMENT = Experiment.of(
    globals(),
    "systems",
    "The first call on ten simulated systems, beside linear and NARX models.",
    options=(
        Option("n_records", 5, "Records per system, each with parameters of its own."),
        Option("max_seconds", 30.0, "Processor time of one fit."),
        Option("only", (), "Only systems whose name begins with this; may be repeated."),
    ),
    quick={"n_records": 1, "max_seconds": 15.0},
)
