"""Limits of time: whatever the method, a search ends about then, with the best so far."""

import time

import numpy as np
import pytest

import decouply as dc
from decouply._support._time_limit import _CLOCK
from decouply.solvers import OWN_SOLVERS
from tests.solvers.every import ALTERNATING
from tests.strategies import sampled

HARD = dc.systems.random_system((4, 3, 4), (4,), rng=5)
EVERY = [*(kind() for kind in OWN_SOLVERS), dc.TwoStage(dc.Proj())]
SHORT = 1e-9  # seconds: any step takes longer


@pytest.fixture(scope="module")
def noisy():
    samples = sampled(HARD, 300)
    rng = np.random.default_rng(0)
    return dc.Samples(samples.X, F=samples.F + rng.normal(size=samples.F.shape), J=samples.J)


@pytest.mark.parametrize("kind", ALTERNATING)
def test_alternating_solvers_end_when_the_time_is_over(noisy, kind):
    limited = kind(stopping=dc.solvers.Stopping(max_seconds=SHORT))
    result = dc.decouple(noisy, 3, 4, solver=limited, n_starts=4, progress=False)
    assert result.status is dc.solvers.Status.OUT_OF_TIME and len(result.history) == 1
    assert np.isfinite(result.decoupling(noisy.X)).all()


def limit_of(solver):
    return getattr(solver, "stopping", solver).max_seconds


@pytest.mark.parametrize("solver", EVERY, ids=repr)
def test_a_limit_of_decouple_holds_for_any_solver(noisy, solver):
    result = dc.decouple(noisy, 3, 4, solver=solver, n_starts=4, max_seconds=SHORT, progress=False)
    assert limit_of(result.solver) == SHORT  # and `Run it again` on the page tells so
    assert len(result.history) < 40 and np.isfinite(result.decoupling(noisy.X)).all()


def test_a_limit_is_never_raised_by_another():
    for solver in EVERY:
        assert limit_of(solver.with_time_limit(3.0).with_time_limit(5.0)) == 3.0


def test_two_stages_share_their_time(noisy):
    result = dc.decouple(noisy, 3, 4, solver=dc.TwoStage(dc.Proj(), max_seconds=SHORT), progress=False)
    assert len(result.path) == 1 and "`max_seconds` was reached" in result.notes[-1]


class Slow(dc.solvers.AbstractSolver):
    """A method of somebody's own that does not look at the clock, and keeps the best at Ctrl-C if `keeps`."""

    def __init__(self, keeps):
        self.keeps = keeps

    supports = frozenset()
    default_n_starts = 1

    def solve(self, problem, *, n_starts, rng, progress):
        found = dc.Constr(stopping=dc.solvers.Stopping(max_steps=1)).solve(
            problem, n_starts=1, rng=rng, progress=lambda **_: None
        )
        try:
            for _ in range(10_000):
                time.sleep(0.001)
                progress(stage="thinking")
        except KeyboardInterrupt:
            if self.keeps:
                return dc.solvers.Solution(
                    found.decoupling, dc.solvers.Status.INTERRUPTED, found.lam, found.history, found.starts
                )
            raise
        raise AssertionError("nobody stopped it")


def test_a_solver_that_does_not_look_at_the_clock_is_stopped(noisy):
    result = dc.decouple(noisy, 3, 4, solver=Slow(keeps=True), max_seconds=0.02, progress=False)
    assert result.status is dc.solvers.Status.OUT_OF_TIME
    with pytest.raises(dc.SolverError, match="`max_seconds` passed before a first model was found"):
        dc.decouple(noisy, 3, 4, solver=Slow(keeps=False), max_seconds=0.02, progress=False)


def test_two_stages_that_ran_out_of_time_do_not_speak_of_ctrl_c(noisy):
    result = dc.decouple(noisy, 2, 3, solver=dc.TwoStage(dc.Proj()), max_seconds=1e-9, progress=False)
    assert result.status is dc.solvers.Status.OUT_OF_TIME
    assert any("`max_seconds` was reached" in note for note in result.notes)
    assert not any("Ctrl-C" in note for note in result.notes)


def test_a_limit_of_decouple_reaches_the_choice_of_ranks(noisy):
    result = dc.decouple(noisy, "auto", max_seconds=SHORT, progress=False)
    assert "`max_seconds` = 1e-09 was reached" in result.notes[1]
    assert result.status is dc.solvers.Status.OUT_OF_TIME and "before the search was over" in result.reason
    shaped = dc.decouple(noisy, "auto", basis=dc.Spline(4), shapes="increasing", max_seconds=SHORT, progress=False)
    assert shaped.status is dc.solvers.Status.OUT_OF_TIME


def test_a_quick_choice_of_ranks_that_ran_out_of_time_says_so(noisy):
    with pytest.warns(dc.DecouplingWarning, match="`max_seconds` was reached"):
        result = dc.DecouplingRegressor(ranks="auto", max_seconds=SHORT).fit(noisy.X, noisy.F).result_
    assert result.status is dc.solvers.Status.OUT_OF_TIME and any("was reached" in note for note in result.notes)


def test_factors_of_a_tensor_take_a_limit():
    J = np.random.default_rng(0).normal(size=(50, 4, 4))
    assert dc.paratuck(J, (3, 3), max_seconds=1e-9).n_steps == 1


@pytest.mark.parametrize("limit", [0, -1.0, np.nan])
def test_limits_are_checked(noisy, limit):
    for make in (dc.solvers.Stopping, lambda max_seconds: dc.TwoStage(dc.Proj(), max_seconds=max_seconds)):
        with pytest.raises(dc.InputError, match="`max_seconds` must be a number above 0"):
            make(max_seconds=limit)
    for call in (
        lambda: dc.decouple(noisy, 1, 1, max_seconds=limit),
        lambda: dc.paratuck(noisy.J, 1, max_seconds=limit),
    ):
        with pytest.raises(dc.InputError, match="`max_seconds` must be a number above 0"):
            call()


class Ticks:
    """A clock that goes on by one at every look: limits can be tested without waiting."""

    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1
        return float(self.count)


@pytest.fixture
def ticks():
    clock = Ticks()
    token = _CLOCK.set(clock)
    yield clock
    _CLOCK.reset(token)


LIMIT = 60.0  # looks at the clock


@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        ((3,), {"degrees": 4}),
        ((2, 2), {"degrees": (3, 3)}),
        ((3,), {"basis": dc.Spline(8)}),
        ((3,), {"basis": dc.Spline(8), "shapes": "increasing"}),
    ],
    ids=["one layer", "two layers", "splines", "shapes"],
)
def test_the_search_the_ridge_smoothing_and_shapes_share_one_limit(noisy, ticks, ranks, options):
    values = dc.Samples(noisy.X, F=noisy.F)
    dc.decouple(values, ranks, max_seconds=LIMIT, progress=False, **options)
    assert ticks.count < 1.3 * LIMIT


def test_little_time_is_spent_on_few_starts(noisy, ticks):
    values = dc.Samples(noisy.X, F=noisy.F)
    result = dc.decouple(values, 3, 4, solver=dc.VarPro(batch_size=32, ridge=0.0, max_seconds=LIMIT), progress=False)
    assert 0 < len(result.starts) < 32


def test_names_are_looked_for_only_as_long_as_is_allowed(noisy, ticks):
    found = HARD.recognise(noisy.X, max_seconds=LIMIT, progress=False)
    assert ticks.count < 1.3 * LIMIT and not found[1, 1].out_of_time
    partly = HARD.recognise(noisy.X, max_seconds=5.0, progress=False)[1, 1]
    assert partly.out_of_time and 0 < len(partly.candidates) < len(found[1, 1].candidates)
    rushed = HARD.recognise(noisy.X, max_seconds=1e-9, progress=False)
    assert rushed.names == ("", "", "") and all(function.out_of_time for function in rushed)
    assert "not named in the time" in rushed.sentences()[0] and "time ran out before any kind" in repr(rushed)


def test_a_simpler_model_is_the_best_so_far(noisy):
    simpler = HARD.simplified(noisy.X, max_seconds=1e-9, progress=False)
    assert simpler.notes and "`max_seconds` was reached" in repr(simpler)
    assert len(simpler.changes) == 2 and np.isfinite(simpler.decoupling(noisy.X)).all()
    assert HARD.simplified(noisy.X, progress=False).notes == ()
