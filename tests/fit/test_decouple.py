import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import decouply as dc
from decouply._support._progress import progress_callback
from tests.solvers.every import ALTERNATING
from tests.strategies import points, sampled

F2 = dc.systems.f2()
SAMPLES = sampled(F2, 30)
QUICK = dc.Constr(stopping=dc.solvers.Stopping(max_steps=10))


def test_the_default_finds_a_good_two_layer_decoupling_without_touching_its_arguments():
    before = SAMPLES.J.copy()
    result = dc.decouple(SAMPLES, ranks=(2, 2), degrees=(3, 3), progress=False)
    assert result.error_jacobian < 1e-20 and result.error_values < 1e-20
    assert result.solver == dc.VarPro() and result.status is dc.solvers.Status.EXACT
    assert_array_equal(SAMPLES.J, before)


def test_errors_are_computed_from_the_model():
    result = dc.decouple(SAMPLES, (2, 2), (3, 3), solver=QUICK, progress=False)
    model = result.decoupling
    assert result.error_jacobian == pytest.approx(dc.error_jacobian(SAMPLES.J, model.jacobian(SAMPLES.X)), rel=1e-12)
    assert result.error_values == pytest.approx(dc.error_values(SAMPLES.F, model(SAMPLES.X)), rel=1e-12)
    assert_array_equal(result.relative_rmse(), dc.relative_rmse(SAMPLES.F, model(SAMPLES.X)))
    other = sampled(F2, 20, seed=4)
    assert_array_equal(result.relative_rmse(other), dc.relative_rmse(other.F, model(other.X)))
    with pytest.raises(dc.InputError, match="must hold values"):
        result.relative_rmse(dc.Samples(other.X, J=other.J))


def test_the_seed_decides_and_a_generator_goes_on():
    a, b, c = (
        dc.decouple(SAMPLES, (2, 2), (3, 3), solver=QUICK, rng=s, progress=False).decoupling.W[0] for s in (1, 1, 2)
    )
    assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    rng = np.random.default_rng(1)
    first, second = (dc.decouple(SAMPLES, (2, 2), (3, 3), solver=QUICK, rng=rng, progress=False) for _ in range(2))
    assert_array_equal(first.decoupling.W[0], a)
    assert not np.array_equal(second.decoupling.W[0], a)


def test_there_is_a_row_for_every_start_with_what_became_of_it():
    result = dc.decouple(SAMPLES, (2, 2), (3, 3), solver=QUICK, as_given=True, n_starts=5, progress=False)
    assert [row.start for row in result.starts] == [0, 1, 2, 3, 4]
    assert all(row.steps == 10 and row.seconds > 0 and row.objective > 0 for row in result.starts)
    best = min(result.starts, key=lambda row: row.objective)
    assert best.error_jacobian == pytest.approx(result.error_jacobian, rel=1e-6)
    assert "Error(J)" in repr(result) and "<table>" in result._repr_html_()


def test_progress_goes_to_a_callable():
    seen = []
    dc.decouple(SAMPLES, (2, 2), (3, 3), solver=dc.TwoStage(QUICK), progress=lambda **values: seen.append(values))
    assert seen[0].keys() >= {"stage", "done", "total", "objective"}
    assert seen[0]["stage"] == "lam = 1e-06" and seen[9]["done"] == 10


def test_a_progress_bar_appears_on_a_terminal_after_a_while(monkeypatch, capsys):
    monkeypatch.setattr("decouply._support._progress._QUIET_SECONDS", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    dc.decouple(SAMPLES, (2, 2), (3, 3), solver=QUICK, progress=True)
    assert "Decoupling" in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    dc.decouple(SAMPLES, (2, 2), (3, 3), solver=QUICK, progress=True)
    assert capsys.readouterr() == ("", "")


def test_the_bar_does_not_wait_for_the_next_report(monkeypatch, capsys):
    monkeypatch.setattr("decouply._support._progress._QUIET_SECONDS", 0.05)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with progress_callback(True, "Waiting") as report:
        report(stage="the first one", done=0, total=3)
        shown, patience = "", time.monotonic() + 60.0
        while "the first one" not in shown and time.monotonic() < patience:
            shown += capsys.readouterr().err
            time.sleep(0.01)
    assert "the first one" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ranks": ()}, "`ranks` must be a tuple of whole numbers"),
        ({"ranks": (2, 0)}, r"`ranks\[1\]` must be a whole number of at least 1. Got 0"),
        ({"ranks": (2, -1)}, r"`ranks\[1\]`"),
        ({"degrees": (3, 0)}, r"`degrees\[1\]` must be a whole number of at least 1"),
        ({"degrees": (3,)}, r"one number per layer, like `ranks`: 2. Got 1"),
        ({"degrees": None, "basis": dc.Monomial}, "`degrees` must be given with a basis class"),
        ({"basis": [dc.Monomial(2)]}, r"one entry per layer \(2\)"),
        ({"basis": "monomial"}, "`basis` must be a basis class"),
        ({"basis": dc.Monomial(2)}, r"agree with `basis`, which has sizes \(2, 2\)"),
        ({"n_starts": 0}, "`n_starts` must be a whole number of at least 1"),
        ({"rng": -1}, "`rng` must be a whole number of at least 0"),
        ({"validation": sampled(dc.systems.f1())}, "`validation` must have 3 inputs and 3 outputs"),
        (
            {"validation": dc.Samples(SAMPLES.X, J=SAMPLES.J), "solver": dc.TwoStage(QUICK)},
            "`validation` must hold values",
        ),
        ({"samples": SAMPLES.take([0])}, "at least 2 points"),
        ({"samples": dc.Samples(SAMPLES.X, F=1e160 * SAMPLES.F)}, "`F` must have a largest entry between"),
        ({"samples": dc.Samples(1e-160 * SAMPLES.X, J=SAMPLES.J)}, "`X` must have a largest entry between"),
    ],
)
def test_wrong_arguments_are_refused_with_the_rule(arguments, message):
    given = {"samples": SAMPLES, "ranks": (2, 2), "degrees": (3, 3), "progress": False} | arguments
    with pytest.raises(dc.InputError, match=message):
        dc.decouple(**given)


def test_ranks_that_the_data_cannot_determine_give_a_warning_and_a_note():
    few = SAMPLES.take(range(3))
    with pytest.warns(dc.DecouplingWarning, match="ask for 113 free parameters, but the samples give 36 numbers"):
        result = dc.decouple(few, (5, 10), (3, 3), solver=QUICK, progress=False)
    assert any("one of many" in note for note in result.notes)
    X = points(2, 40)
    with pytest.warns(dc.DecouplingWarning, match="above m n = 2"):
        dc.decouple(dc.Samples(X, F=X[:, :1], J=np.ones((40, 1, 2))), 3, 2, solver=QUICK, progress=False)
    line = dc.Samples(X, F=X[:, :1])
    dc.decouple(line, 3, 2, linear=True, n_starts=1, progress=False)  # a linear part takes the straight lines
    with pytest.warns(dc.DecouplingWarning, match=r"above n m \(m \+ 1\) / 2 = 3"):
        dc.decouple(line, 4, 2, linear=True, n_starts=1, progress=False)


@pytest.mark.parametrize("solver", [kind() for kind in ALTERNATING], ids=repr)
def test_degenerate_data_give_an_answer_and_no_warning(solver):
    X = points(3, 20)
    line = np.outer(X[:, 0], [1.0, 2.0, -1.0])
    cases = [
        dc.Samples(X, F=np.zeros((20, 2)), J=np.zeros((20, 2, 3))),  # the zero function
        dc.Samples(X, F=np.ones((20, 2)), J=np.zeros((20, 2, 3))),  # a constant
        dc.Samples(line, F=line @ np.ones((3, 2)), J=np.ones((20, 2, 3))),  # points on a line, linear function
        dc.Samples(np.repeat(X[:4], 5, axis=0), F=np.ones((20, 2)), J=np.ones((20, 2, 3))),  # four points only
    ]
    for samples in cases:
        result = dc.decouple(samples, 2, 3, solver=solver, n_starts=3, progress=False)
        assert np.all(np.isfinite(result.decoupling(X)))


def test_copies_do_not_determine_more_than_they_would_once():
    X = points(3, 9)
    with pytest.warns(dc.DecouplingWarning, match="but the samples give 9 different numbers"):
        dc.decouple(dc.Samples(np.repeat(X, 3, axis=0), F=np.repeat(X[:, :1] ** 2, 3, axis=0)), 2, 3, n_starts=1)
