"""The example of docs/how-to/own-solver.md, run."""

import re
from pathlib import Path

import numpy as np
import pytest

import decouply as dc
from decouply.fit._fit_one_shape import _PATIENCE
from decouply.solvers.problem import _solver as contract
from decouply.testing import check_solver

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-solver.md"


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
    assert result.decoupling.inputs == ("a", "b") and result.status is dc.solvers.Status.FITTED
    assert len(result.history) == 1 and np.isnan(result.history.lam[0])


def samples_of(**given):
    f = dc.systems.random_system((2, 2, 1), (2,), rng=1)
    X = np.random.default_rng(1).uniform(-1, 1, (30, 2))
    return dc.Samples(X, **({"F": f(X), "J": f.jacobian(X)} | given))


@pytest.mark.parametrize(
    ("samples", "options", "argument"),
    [
        (samples_of(F=None), {}, "samples"),
        (samples_of(), {"linear": True}, "linear"),
        (samples_of(weights=np.arange(1.0, 31.0)), {}, "weights"),
        (samples_of(), {"ranks": (2, 2), "degrees": (2, 2)}, "ranks"),
    ],
    ids=["Jacobians only", "linear", "weights", "layers"],
)
def test_what_a_solver_does_not_support_is_refused(solver, samples, options, argument):
    with pytest.raises(dc.InputError, match=f"`{argument}` must .* for the solver RandomDirections"):
        dc.decouple(samples, **({"ranks": 2, "degrees": 2, "solver": solver, "progress": False} | options))


def test_what_it_supports_is_not(solver):
    assert dc.decouple(samples_of(J=None), 2, 2, solver=solver, progress=False).error_values < 0.5


def test_a_solver_that_promises_what_it_does_not_do_is_found_out(solver):
    check_solver(solver)
    for word, sentence in (("weights", "must use them"), ("linear", "must give a linear part"), ("depth", "words of")):
        claims = type("Claims", (type(solver),), {"supports": solver.supports | {word}})()
        with pytest.raises(AssertionError, match=sentence):
            check_solver(claims)


def test_conditions_of_its_own_are_checked(solver):
    class Picky(type(solver)):
        def check(self, problem):
            raise dc.InputError("`samples` must be of another kind.")

    with pytest.raises(dc.InputError, match="another kind"):
        dc.decouple(samples_of(), 2, 2, solver=Picky(), progress=False)


def test_the_package_does_without_what_a_solver_cannot_do(solver):
    assert contract.with_start(solver, dc.systems.f1()) is None and contract.given_start(solver) is None
    for function, argument in ((contract.with_time_limit, 1.0), (contract.with_loss, lambda _: 0.0)):
        assert function(solver, argument) is solver
    assert contract.without_ridge(solver) is solver and not contract.fixed_parts(solver)
    assert contract.smoothing_of(solver) is None and not contract.uses_validation(solver)


def test_the_page_says_how_long_a_limit_of_time_waits():
    assert f"after {_PATIENCE:g} times that limit" in PAGE.read_text()


@pytest.mark.parametrize(
    "inner", [dc.Hollander(), dc.Dreesen(), dc.TwoStage(dc.Proj())], ids=lambda s: type(s).__name__
)
def test_two_stages_need_a_solver_with_a_weight(inner):
    with pytest.raises(dc.InputError, match="`solver` must be a solver with a weight lam"):
        dc.TwoStage(inner)
