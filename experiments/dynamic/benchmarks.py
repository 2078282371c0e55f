"""Decoupled state space on the benchmarks of nonlinear system identification, several seeds each.

Silverbox, cascaded tanks, Wiener-Hammerstein and EMPS, with official splits. The start of a fit is chosen on the last
quarter of the training record, and nothing of a test record but its first outputs, from which the initial state is
found, enters a model. The sizes of the models were chosen by training data alone, with other seeds (`order-choice`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray

from decouply._support._errors import pluralised
from decouply.report._style import COLOURS, new_figure
from experiments.dynamic.model_pool import POOLS, QUICK_POOLS, Candidate, Pool
from experiments.harness import (
    Content,
    Experiment,
    Option,
    Outcome,
    Task,
    column,
    grid,
    markdown,
    matching,
    plot_rows,
)


@dataclass(frozen=True)
class Case:
    """One class of models of one benchmark, and the one of its candidates that held-back training data chose.

    Attributes
    ----------
    pool
        The benchmark and its candidates, by name.
    candidate
        What `python -m experiments order-choice` chose among those that are small enough.
    most_free, most_canonical
        How many numbers may be free in the fit, and how many the canonical form may have.
    """

    pool: str
    candidate: Candidate
    most_free: float = math.inf
    most_canonical: float = math.inf

    @property
    def about(self) -> Pool:
        """The records, and the unit of errors."""
        return (POOLS | QUICK_POOLS)[self.pool]


CASES: dict[str, Case] = {
    "Silverbox, at most 24 free": Case("Silverbox, causal", Candidate(2, "quintic, state-tanh"), most_free=24),
    "Silverbox, at most 33": Case("Silverbox, causal", Candidate(4, "quintic, state-tanh"), most_canonical=33),
    "Silverbox, oversampled": Case(
        "Silverbox, oversampled", Candidate(2, "cubic, state-tanh, state-tanh", oversample=2)
    ),
    "Cascaded tanks": Case("Cascaded tanks", Candidate(2, "tanh, tanh", feedthrough=False, n_starts=30)),
    "Wiener-Hammerstein": Case(
        "Wiener-Hammerstein", Candidate(6, "spline-20", feedback=False, n_starts=3, max_steps=400)
    ),
    "Wiener-Hammerstein, oversampled": Case(
        "Wiener-Hammerstein, oversampled",
        Candidate(6, "spline-20", oversample=2, feedback=False, n_starts=3, max_steps=400),
    ),
    "EMPS": Case("EMPS", Candidate(2, "tanh, state-tanh", feedthrough=False, integrating=True, n_starts=3)),
}
QUICK: dict[str, Case] = {"Oscillator": Case("Oscillator", Candidate(2, "cubic", n_starts=1))}
ONLY = Option("only", (), "Only models whose name begins with this, such as Silverbox; may be repeated.")


def names_beginning(names: Sequence[str], only: Sequence[str]) -> tuple[str, ...]:
    """Those that are called as in `only`, or that begin so where none is called so; all where `only` is empty."""
    begun = tuple(name for name in only if name not in names)
    wanted = tuple(name for name in names if not only or name in only or (begun and name.startswith(begun)))
    if not wanted:
        raise click.BadParameter(f"must begin the name of a model: {', '.join(names)}.", param_hint="--only")
    return wanted


def cases_called(only: Sequence[str]) -> dict[str, Case]:
    """The cases whose names begin so; that of --quick by its whole name."""
    if tuple(only) == tuple(QUICK):
        return QUICK
    return {name: CASES[name] for name in names_beginning(tuple(CASES), only)}


def tasks(*, seed: int, n_runs: int, only: Sequence[str]) -> list[Task]:
    return [
        task
        for name, case in cases_called(only).items()
        for task in grid(case=name, candidate=asdict(case.candidate), run=range(n_runs), seed=seed)
    ]


def work(case: str, candidate: dict[str, Any], run: int, seed: int) -> Outcome:
    """One fit and its errors."""
    about = (CASES | QUICK)[case].about
    train, tests = about.records()
    model, errors, seconds = Candidate(**candidate).fit(train, tests, about.scale, np.random.default_rng([seed, run]))
    if model is None:
        return {"errors": errors, "training": math.inf, "seconds": seconds}
    return {
        "errors": errors,
        "training": about.scale * float(model.fitted.rmse[0]),
        "linear": about.scale * float(model.fitted.linear_rmse[0]),
        "n_free": model.n_parameters,
        "n_parameters": model.n_canonical,
        "start": next(row.start for row in model.starts if row.chosen),
        "seconds": seconds,
    }


def content(runs: list[Task], *, n_runs: int, seed: int, only: Sequence[str]) -> Content:
    rows = []
    for name, case in cases_called(only).items():
        some = [{k: v for k, v in run.items() if k not in ("case", "candidate")} for run in matching(runs, case=name)]
        errors = _errors(some)
        row: dict[str, Any] = {"name": name, "model": case.candidate.words, "unit": case.about.unit}
        row |= {"median": np.median(errors, axis=0), "best": errors.min(axis=0), "worst": errors.max(axis=0)}
        rows.append(row | {"runs": some})
    return {"n_runs": n_runs, "seed": seed, "cases": rows}


def _errors(runs: list[Task]) -> Float[ndarray, "runs tests"]:
    """Infinite where a fit or a free run failed."""
    return np.array([[math.inf if error is None else error for error in run["errors"]] for run in runs], dtype=float)


def table(content: Content) -> str:
    """One row per model and test."""
    rows = []
    for case in content["cases"]:
        errors, whole = _errors(case["runs"]), [run for run in case["runs"] if "n_free" in run]
        about = ["", "", "", ""]
        if whole:
            training, linear, seconds = (np.median(column(whole, key)) for key in ("training", "linear", "seconds"))
            counts = f"{whole[0]['n_parameters']} ({whole[0]['n_free']})"
            about = [f"{training:.3g}", f"{linear:.3g}", counts, f"{seconds:.0f}"]
        for i, test in enumerate((CASES | QUICK)[case["name"]].about.tests):
            shown = spread_in_words(errors[:, i], case["unit"], 3)
            first, last = (f"{case['name']} ({case['model']})", about) if i == 0 else ("", [""] * 4)
            rows.append([first, test, shown, *last])
    intro = (
        f"Free-run errors on the tests: median (best to worst) over {pluralised(content['n_runs'], 'seed')}, seed "
        f"{content['seed']}. *Training* and *linear* are the errors of the model and of the linear model with as many "
        "states on the training record. Parameters are those of the canonical form, and in brackets those that were "
        "free in the fit. Seconds are of one thread."
    )
    head = ["model", "test", "error", "training", "linear", "parameters", "seconds"]
    return "\n\n".join([intro, markdown(head, rows)])


def spread_in_words(errors: Float[ndarray, " runs"], unit: str, digits: int) -> str:
    """Median (best to worst), with a word for runs that diverged."""
    numbers = (float(np.median(errors)), float(errors.min()), float(errors.max()))
    median, best, worst = (f"{x:.{digits}g}" if math.isfinite(x) else "diverged" for x in numbers)
    span = f"({best} to {worst}) {unit}".replace(" ", "\N{NO-BREAK SPACE}")
    return f"**{median}** {span}"


def figure(content: Content) -> Figure:
    """Errors of all runs as a share of the training error of the linear model with as many states."""
    rows = []
    for k, case in enumerate(content["cases"]):
        errors = _errors(case["runs"])
        linear = np.median([run["linear"] for run in case["runs"] if "linear" in run])
        for i, some in enumerate(errors.T):
            name = case["name"] + (f", test {i + 1}" if errors.shape[1] > 1 else "")
            rows.append((name, some[np.isfinite(some)] / linear, COLOURS[k % len(COLOURS)]))
    canvas = new_figure(7.0, 0.45 * len(rows) + 1.2)
    plot_rows(canvas.subplots(), rows, "error as a share of the linear model's, one dot per seed", log=True)
    return canvas


BENCHMARKS = Experiment.of(
    globals(),
    "benchmarks",
    "Decoupled state space on public benchmarks of dynamic systems.",
    options=(Option("n_runs", 5, "Seeds per model."), ONLY),
    quick={"n_runs": 1, "only": tuple(QUICK)},
)
