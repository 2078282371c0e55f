"""The example of docs/own-solver.md, run."""

import re
from pathlib import Path

import numpy as np
import pytest

import decouply as dc

PAGE = Path(__file__).parents[2] / "docs" / "own-solver.md"


@pytest.fixture
def solver():
    space = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S):
        exec(compile(block, "own-solver.md", "exec"), space)
    return space["RandomDirections"]()


def test_a_solver_of_ones_own_finds_an_easy_model_in_any_units(solver):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (100, 2)) * [1e3, 1e-3] + [5e3, 0.0]
    F = np.tanh((X[:, :1] - 5e3) / 1e3 + 1e3 * X[:, 1:]) + 7.0
    result = dc.decouple(dc.Samples(X, F=F, inputs=["a", "b"]), 1, 7, solver=solver, progress=False)
    assert result.relative_rmse()[0] < 5.0
    assert result.decoupling.inputs == ("a", "b") and result.status is dc.Status.FITTED
    assert len(result.history) == 1 and np.isnan(result.history.lam[0])


def test_it_says_what_it_cannot_do(solver):
    X = np.zeros((5, 2)) + np.arange(5)[:, None]
    with pytest.raises(dc.InputError, match="must hold values for RandomDirections"):
        dc.decouple(dc.Samples(X, J=np.ones((5, 1, 2))), 1, 2, solver=solver)


def test_the_contract_has_defaults(solver):
    assert solver.uses_values and not solver.stops_by_itself and not solver.fixed and solver.given_start is None
    assert solver.started_at(dc.systems.f1()) is None and solver.within(1.0) is solver
    with pytest.raises(dc.InputError, match="`solver` must be a solver with a weight lam"):
        dc.TwoStage(solver)


@pytest.mark.parametrize(
    "inner", [dc.Hollander(), dc.Dreesen(), dc.TwoStage(dc.Proj())], ids=lambda s: type(s).__name__
)
def test_two_stages_need_a_solver_with_a_weight(inner):
    with pytest.raises(dc.InputError, match="`solver` must be a solver with a weight lam"):
        dc.TwoStage(inner)
