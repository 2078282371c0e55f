"""Our models: decoupled state space, and on the Silverbox NARX models, their decouplings, and these refined."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import decoupling as dc
from decoupling.reproduce._benchmarks import CASES

from .exchange import Contest, Row

RANKS = (2, 3)
MODELS = {
    "silverbox": ("Silverbox, 2 functions", "Silverbox, 3 functions", "Silverbox, 4 states"),
    "tanks": ("Cascaded tanks",),
    "wiener-hammerstein": ("Wiener-Hammerstein",),
}
NOTE = (
    "State-space models are those of `decouple reproduce benchmarks`, with seed 0. `PolynomialNARX(n_u=1, n_y=3, "
    "degree=3)` is the reference on the Silverbox. `decouple(r)` and `refine(*train)` have their default settings; "
    "refining fits three quarters of the training record and stops by the last. The time of a model includes that of "
    "those it comes from."
)


def state_space(name: str, contest: Contest) -> Iterator[Row]:
    """Decoupled state space on one contest."""
    train, _ = contest.records()
    for key in MODELS[name]:
        case = CASES[key]
        began = time.process_time()
        ss = dc.sysid.DecoupledStateSpace(**case.model).fit(*train, progress=False, **case.fit)
        seconds = time.process_time() - began
        n_functions = sum(ss.step.ranks)
        words = f"{ss.n_states} states, {n_functions} function{'s' * (n_functions > 1)}"
        yield _row(f"decoupling: state space, {words}", ss, contest, seconds, ss.n_canonical)


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


def _row(name: str, model: Any, contest: Contest, seconds: float, n_minimal: int = 0) -> Row:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dc.DecouplingWarning)  # a run that escapes is NaN in the table
        tests = contest.records()[1]
        rmse = tuple(contest.scale * test.rmse(model.simulate(test.u, test.y_init)) for test in tests)
    return Row(name, model.n_parameters, rmse, seconds, ours=True, n_minimal=n_minimal)
