"""Our models: decoupled state space, the polynomial NARX reference, its decouplings, and these refined."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import decoupling as dc

from .exchange import Row

RANKS = (2, 3)
NOTE = (
    "`PolynomialNARX(n_u=1, n_y=3, degree=3)` is the reference. `decouple(r)` and `refine(*train)` have their default "
    "settings; refining fits three quarters of the training record and stops by the last. The time of a model includes "
    "that of those it comes from. State-space models are `DecoupledStateSpace(2, functions)` with default settings, a "
    "cubic and one or two tanh functions of the state; the number in brackets is that of their canonical form."
)


def rows(data: dc.data.Silverbox) -> Iterator[Row]:
    tanh = dc.sysid.StateFunction(dc.Tanh())
    for functions in ([dc.Monomial(3), tanh], [dc.Monomial(3), tanh, tanh]):
        began = time.perf_counter()
        ss = dc.sysid.DecoupledStateSpace(2, functions).fit(*data.train, progress=False)
        seconds = time.perf_counter() - began
        count = ss.canonical().n_parameters
        yield _row(f"decoupling: state space, {len(functions)} functions ({count})", ss, data, seconds)
    began = time.perf_counter()
    narx = dc.sysid.PolynomialNARX(n_u=1, n_y=3, degree=3).fit(*data.train)
    reference_seconds = time.perf_counter() - began
    yield _row("decoupling: polynomial NARX, the reference", narx, data, reference_seconds)
    for rank in RANKS:
        name = f"decoupling: rank {rank}"
        began = time.perf_counter()
        try:
            model = narx.decouple(rank, progress=False)
            seconds = reference_seconds + time.perf_counter() - began
            yield _row(name, model, data, seconds)
            name += ", refined"
            began = time.perf_counter()
            model = model.refine(*data.train, progress=False)
            yield _row(name, model, data, seconds + time.perf_counter() - began)
        except dc.SolverError as error:
            yield Row(name, failure=f"did not run: {error}", ours=True)


def _row(
    name: str, model: dc.sysid.AbstractNARX | dc.sysid.DecoupledStateSpace, data: dc.data.Silverbox, seconds: float
) -> Row:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dc.DecouplingWarning)  # a run that escapes is NaN in the table
        rmse = tuple(1e3 * test.rmse(model.simulate(test.u, test.y_init)) for test in data.tests)
    return Row(name, model.n_parameters, rmse, seconds, ours=True)
