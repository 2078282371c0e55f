"""Our models: decoupled state space, and on the Silverbox NARX models, their decouplings, and these refined."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import decouply as dc
from decouply._support._errors import pluralised
from experiments.dynamic.benchmarks import CASES

from .exchange import Contest, Row

RANKS = (2, 3)
MEASURED = Path(__file__).parents[2] / "docs" / "dynamic"
MODELS = {
    "silverbox": ("Silverbox, at most 24 free", "Silverbox, at most 33"),
    "tanks": ("Cascaded tanks",),
    "wiener-hammerstein": ("Wiener-Hammerstein", "Wiener-Hammerstein, oversampled"),
}
NOTE = (
    "State-space models are those of `python -m experiments benchmarks`, medians over its seeds, read from its file; "
    "their sizes were chosen by held-back training data. The one that is not causal takes two steps per sample on "
    "inputs that are interpolated with limited bandwidth. `PolynomialNARX(n_u=1, n_y=3, degree=3)` is the reference on "
    "the Silverbox. `decouple(r)` and `refine(*train)` have their default settings; refining fits three quarters of "
    "the training record and stops by the last. The time of a model includes that of those it comes from."
)


def state_space(name: str, _: Contest) -> Iterator[Row]:
    """Decoupled state space on one contest, as `python -m experiments benchmarks` found it: medians over its seeds."""
    files = sorted(MEASURED.rglob("benchmarks.json"))
    found = {case["name"]: case for file in files for case in json.loads(file.read_text(encoding="utf-8"))["cases"]}
    for key in MODELS[name]:
        candidate, runs = CASES[key].candidate, found[key]["runs"]
        words = (
            f"{pluralised(candidate.n_states, 'state')}, {pluralised(len(candidate.functions.split(', ')), 'function')}"
        )
        words += ", not causal" * (candidate.oversample > 1)
        seconds = float(np.median([run["seconds"] for run in runs]))
        yield Row(
            f"decoupling: state space, {words}",
            runs[0]["n_free"],
            tuple(found[key]["median"]),
            seconds,
            ours=True,
            n_minimal=runs[0]["n_parameters"],
        )


def narx(name: str, contest: Contest) -> Iterator[Row]:
    """A polynomial NARX model, its decouplings, and these refined; on the Silverbox alone."""
    if name != "silverbox":
        return
    train, _ = contest.records()
    began = time.process_time()
    reference = dc.sysid.PolynomialNARX(n_u=1, n_y=3, degree=3).fit(*train)
    reference_seconds = time.process_time() - began
    yield _row("decoupling: polynomial NARX, the reference", reference, contest, reference_seconds)
    for rank in RANKS:
        name = f"decoupling: rank {rank}"
        began = time.process_time()
        try:
            model = reference.decouple(rank, progress=False)
            seconds = reference_seconds + time.process_time() - began
            yield _row(name, model, contest, seconds)
            name += ", refined"
            began = time.process_time()
            model = model.refine(*train, progress=False)
            yield _row(name, model, contest, seconds + time.process_time() - began)
        except dc.SolverError as error:
            yield Row(name, failure=f"did not run: {error}", ours=True)


def _row(name: str, model: Any, contest: Contest, seconds: float) -> Row:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dc.DecouplingWarning)  # a run that escapes is NaN in the table
        tests = contest.records()[1]
        rmse = tuple(contest.scale * test.rmse(model.simulate(test.u, test.y_init)) for test in tests)
    return Row(name, model.n_parameters, rmse, seconds, ours=True)
