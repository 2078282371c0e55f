"""Choosing ranks and degrees; the whole experiment is `python -m experiments rank-selection`."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

import decouply as dc
from decouply.fit._settings import Settings, layer_bases
from decouply.fit.select._candidates import Limits
from decouply.fit.select._rank_hints import hints_of
from decouply.fit.select._scan import Scan
from decouply.model._canonical_form import resize_model
from decouply.solvers.inference._identifiability import identifiability
from decouply.solvers.inference._linearisation import linearise
from decouply.solvers.problem._prepared_samples import PreparedSamples
from tests.cli import run_here
from tests.cli.test_cli import decouple
from tests.strategies import points, random_model, sampled, seeds

ONE = dc.systems.random_system((3, 2, 3), (3,), rng=3)
QUICK = dc.VarPro(max_steps=60, polish_steps=40)  # annotations are checked at every call here, which makes steps slow
TWO = dc.systems.random_system((2, 2, 2, 2), (2, 2), rng=5)


def noisy(model, level, S=40, seed=0):
    clean, rng = sampled(model, S, seed), np.random.default_rng(seed + 1000)
    F, J = (a + level * np.sqrt(np.mean(a**2)) * rng.normal(size=a.shape) for a in (clean.F, clean.J))
    return dc.Samples(clean.X, F=F, J=J)


@pytest.fixture(scope="module")
def clean():
    return dc.select(sampled(TWO, 20), max_ranks=(2, 2), max_degrees=2, n_folds=2, solver=QUICK, progress=False)


@pytest.fixture(scope="module")
def rough():
    return dc.select(noisy(ONE, 1e-2, S=20), max_ranks=3, max_degrees=3, n_folds=2, solver=QUICK, progress=False)


# What is recommended


def test_two_layers_are_found_to_rounding(clean):
    assert (clean.ranks, clean.degrees) == ((2, 2), (2, 2))
    assert clean.result.error_jacobian < 1e-20 and clean.result.decoupling.ranks == (2, 2)
    assert "to machine precision with 22 parameters" in clean.reason
    assert clean.result.notes[0] == clean.reason
    smaller = [row for row in clean.table if row.n_parameters < clean.chosen.n_parameters]
    assert smaller and min(row.training_error for row in smaller) > 1e-3


def test_one_basis_for_all_layers_leaves_their_number_open():
    cubic = dc.systems.random_system((3, 1, 2), (3,), rng=0)
    choice = dc.select(sampled(cubic, 20), (2, 2), basis=dc.Monomial(3), n_folds=2, solver=QUICK, progress=False)
    assert (choice.ranks, choice.degrees) == ((1,), (3,))


def test_noise_is_not_taken_for_functions(rough):
    assert (rough.ranks, rough.degrees) == ((2,), (3,))
    assert 0.5 < rough.chosen.training_error < 3.0 and 0.5 < rough.chosen.error < 5.0  # percent, like the noise
    assert "Larger models do not predict new data better" in rough.reason
    larger = [row for row in rough.table if row.n_parameters > rough.chosen.n_parameters]
    assert larger and min(row.training_error for row in larger) < rough.chosen.training_error


def test_two_layers_are_found_in_noise():
    choice = dc.select(
        noisy(TWO, 1e-3, S=20), max_ranks=(2, 2), degrees=(2, 2), n_folds=2, solver=QUICK, progress=False
    )
    assert choice.ranks == (2, 2) and "at the limit 2, 2" in choice.notes[0]


@pytest.mark.parametrize(
    "samples",
    [
        dc.Samples(points(3, 40), F=ONE(points(3, 40))),
        dc.Samples(points(3), J=ONE.jacobian(points(3))),
        dc.Samples(points(3), F=ONE(points(3)), J=ONE.jacobian(points(3)), weights=1.0 + points(3)[:, 0] ** 2),
    ],
    ids=["values", "Jacobians", "weights"],
)
def test_whatever_is_known_is_used(samples):
    choice = dc.select(samples, max_ranks=3, max_degrees=4, n_folds=2, solver=QUICK, progress=False)
    assert (choice.ranks, choice.degrees) == ((2,), (3,))
    assert choice.chosen.error < 1e-8 and bool(choice.hints.unfoldings) == (samples.J is not None)


def test_what_weights_leave_out_does_not_count():
    good = sampled(ONE)
    F, J, weights = good.F.copy(), good.J.copy(), np.ones((40, 3))
    F[0, 0], J[0, 0], weights[0, 0] = 100.0, -7.0, 0.0
    choice = dc.select(dc.Samples(good.X, F=F, J=J, weights=weights), 2, 3, n_folds=2, progress=False)
    assert (choice.ranks, choice.degrees) == ((2,), (3,)) and choice.chosen.error < 1e-8


def test_constant_and_linear_functions_are_the_smallest_shapes():
    X, A = points(3), np.arange(1.0, 4.0)[None]
    constant = dc.select(dc.Samples(X, F=np.ones((20, 2)), J=np.zeros((20, 2, 3))), (2, 2), 3, progress=False)
    assert (constant.ranks, constant.degrees) == ((1,), (1,))
    linear = dc.Samples(X, F=X @ A.T, J=np.broadcast_to(A, (20, 1, 3)))
    choice = dc.select(linear, (2, 2), 3, progress=False)
    assert (choice.ranks, choice.degrees) == ((1,), (1,)) and "no smaller model" in choice.reason


def test_known_degrees_and_a_given_basis_leave_ranks_to_choose():
    for options in ({"degrees": (2, 2)}, {"basis": dc.Chebyshev(2)}):
        choice = dc.select(sampled(TWO, 20), (2, 2), n_folds=2, solver=QUICK, progress=False, **options)
        assert choice.ranks == (2, 2) and {d for row in choice.table for d in row.degrees} == {2}
        assert {len(row.ranks) for row in choice.table} == ({2} if "degrees" in options else {1, 2})


@pytest.mark.parametrize(
    "solver",
    [
        dc.Constr(stopping=dc.solvers.Stopping(max_steps=30)),
        dc.TwoStage(dc.Proj(stopping=dc.solvers.Stopping(max_steps=10))),
    ],
    ids=repr,
)
def test_other_solvers_can_be_used(solver):
    choice = dc.select(sampled(ONE, 20), 2, degrees=3, solver=solver, n_folds=2, progress=False)
    assert choice.ranks == (2,)
    assert type(choice.result.solver) is type(solver)


def test_the_seed_decides():
    a, b = (dc.select(noisy(ONE, 1e-2, S=20), 1, 3, n_folds=2, rng=5, solver=QUICK, progress=False) for _ in range(2))
    strip = [(row.ranks, row.degrees, row.error, row.score) for row in a.table]
    assert strip == [(row.ranks, row.degrees, row.error, row.score) for row in b.table]


# The table


def test_the_table_is_what_it_says(clean, rough):
    for choice in (clean, rough):
        sizes = [row.n_parameters for row in choice.table]
        assert sizes == sorted(sizes) and sum(row.chosen for row in choice.table) == 1
        assert len({(row.ranks, row.degrees) for row in choice.table}) == len(choice.table)
        for row in choice.table:
            assert (row.decoupling.ranks, row.decoupling.degrees) == (row.ranks, row.degrees)
            better = [
                other
                for other in choice.table
                if other.n_parameters <= row.n_parameters and max(other.error, 1e-8) < max(row.error, 1e-8)
            ]
            assert not (row.pareto and better)


def test_the_training_error_is_that_of_the_model(rough):
    samples, row = rough.result.samples, rough.table[0]
    units = PreparedSamples.of(samples).full_units
    given, found = units.jacobians(samples.J), units.jacobians(row.decoupling.jacobian(samples.X))
    of_J = dc.error_jacobian(given, found)
    spread = np.sum(((samples.F - samples.F.mean(axis=0)) / units.y_scale) ** 2)
    of_F = np.sum(((samples.F - row.decoupling(samples.X)) / units.y_scale) ** 2) / spread
    assert_allclose(row.training_error, 100.0 * np.sqrt((of_J + of_F) / 2.0))


def scan_of(samples):
    settings = Settings(None, solver=QUICK, rng=np.random.default_rng(0), max_seconds=1e9)
    return Scan(samples, settings, Limits((3,), (3,), fixed_degrees=False), n_folds=4, report=lambda **_: None)


def test_every_sample_is_left_out_once_and_not_seen_by_the_fit():
    samples = noisy(ONE, 1e-2, S=22)
    scan = scan_of(samples)
    assert sorted(np.concatenate(scan.folds).tolist()) == list(range(22))
    found = scan.fit((2,), (3,), start=None, n_starts=8)
    total = 0.0
    for rows in scan.folds:  # straight from the definition
        rest = samples.take(np.setdiff1d(np.arange(22), rows))
        fit = dc.decouple(rest, 2, 3, n_starts=8, progress=False).decoupling
        units = PreparedSamples.of(samples).full_units
        J, F = samples.J[rows] - fit.jacobian(samples.X[rows]), samples.F[rows] - fit(samples.X[rows])
        total += np.sum(units.jacobians(J) ** 2) / np.sum(units.jacobians(samples.J) ** 2) / 2
        spread = (samples.F - samples.F.mean(axis=0)) / units.y_scale
        total += np.sum((F / units.y_scale) ** 2) / np.sum(spread**2) / 2
    pooled = np.sum(found.fold_errors**2 * [len(rows) for rows in scan.folds]) / 22
    assert_allclose(pooled, total, rtol=1e-3)


def test_the_choice_is_the_smallest_shape_that_none_is_strongly_better_than():
    scan = scan_of(noisy(ONE, 1e-2, S=20))
    small, large = (scan.fit((r,), (1,), start=None, n_starts=1) for r in (1, 2))
    extra = (large.n_free - small.n_free) * np.log(sum(small.counts))

    def chosen(gain, errors=(1.0, 1.0)):
        """The choice when the larger shape has a criterion lower by `gain`, and left-out errors are like these."""
        ratio = np.exp(-(gain + extra) / sum(small.counts))
        for c, square, error in ((small, 1e-4, errors[0]), (large, 1e-4 * ratio, errors[1])):
            changed = {"squares": (square, square), "fold_errors": np.full(4, error)}
            scan.found[c.shape] = dataclasses.replace(c, **changed)
        return scan.choice().ranks

    assert [chosen(gain) for gain in (-1.0, 0.0, 5.9, 6.1)] == [(1,), (1,), (1,), (2,)]
    assert chosen(100.0, errors=(0.01, 0.099)) == (2,) and chosen(100.0, errors=(0.01, 0.101)) == (1,)
    assert chosen(-100.0, errors=(0.101, 0.01)) == (2,)
    assert chosen(100.0, errors=(0.1, 0.29)) == (2,) and chosen(100.0, errors=(0.1, 0.31)) == (1,)
    assert chosen(100.0, errors=(1.0, 1.9)) == (2,) and chosen(100.0, errors=(1.0, 2.1)) == (1,)


def test_a_quick_choice_is_a_selection_like_any_other():
    samples = noisy(ONE, 1e-2)
    found = dc.select(samples, effort="quick", progress=False)
    assert found.ranks == (2,) and found.reason == found.result.notes[0] and found.chosen in found.table
    assert all(row.training_error <= row.error for row in found.table)
    assert "chosen" in str(found) and found.plot().axes


def test_free_parameters_are_those_that_can_be_told():
    for model in (ONE, TWO, dc.systems.f1(), dc.systems.f3(), dc.systems.random_system((2, 3, 3, 2), (3, 3), rng=1)):
        samples = sampled(model)
        unique = identifiability(linearise(model.canonical(samples.X), samples))
        assert scan_of(samples).n_free(model.ranks, model.degrees) == unique.rank


def test_it_is_read_on_a_screen_and_in_a_notebook(clean, rough):
    text = str(clean)
    assert text.count("chosen") == 1 and "Singular values:" in text and "r_1 ≥ 2" in text
    assert repr(clean).startswith("Selection(ranks (2, 2), degrees (2, 2), ")
    assert "<table>" in clean._repr_html_() and "<th>chosen</th>" in clean._repr_html_()
    for choice in (clean, rough):
        figure = choice.plot()
        assert len(figure.axes) == 2 and figure.axes[0].get_yscale() == "log"
        signs = [(line.get_marker(), line.get_linestyle()) for line in figure.axes[1].lines]
        assert len(signs) > 1 and len(set(signs)) == len(signs)  # told apart without colours
    light, dark = (clean.plot(dark=d) for d in (False, True))
    rings = [f.axes[0].lines[-1].get_markeredgecolor() for f in (light, dark)]
    assert light.get_facecolor() != dark.get_facecolor() and rings[0] != rings[1]


# Singular values


def test_singular_values_tell_ranks_below_the_dimensions():
    for samples in (sampled(dc.systems.f3(), 30), noisy(dc.systems.f3(), 1e-3, S=60)):
        hints = hints_of(samples)
        assert hints.least_ranks(2) == (3, 2) and hints.least_ranks(3) == (3, 2, 2)
    assert hints_of(sampled(ONE)).least_ranks(1) == (2,)
    only_values = hints_of(dc.Samples(points(3), F=ONE(points(3))))
    assert only_values.least_ranks(1) is None and "Without Jacobians" in str(only_values)


def test_noise_has_no_rank():
    rng = np.random.default_rng(0)
    J = np.einsum("s,i,j->sij", rng.normal(size=200), [1.0, 2.0, 3.0], [1.0, 0.0, -1.0, 2.0])
    hints = hints_of(dc.Samples(points(4, 200), J=J + 0.05 * rng.normal(size=J.shape)))
    assert [unfolding.rank for unfolding in hints.unfoldings] == [1, 1, 1, 1]


# Starts from models of other shapes


@given(seed=seeds)
def test_larger_bases_leave_the_function_as_it_is(seed):
    model, X = random_model([3, 2, 2, 2], seed, degree=2), points(3)
    larger = resize_model(model, layer_bases((2, 2), (4, 3), dc.Monomial), X, np.random.default_rng(0))
    assert larger.degrees == (4, 3)
    assert_allclose(larger(X), model(X), atol=1e-8 * np.abs(model(X)).max())


def test_a_larger_model_disturbs_no_output_by_the_units_of_another():
    system, X = dc.systems.random_system((2, 2, 2), (3,), rng=1), np.random.default_rng(0).uniform(-1, 1, (50, 2))
    scaled = system.with_parts(W=[system.W[0], np.diag([1e6, 1e-3]) @ system.W[1]])
    larger = resize_model(scaled, layer_bases((4,), (3,), dc.Monomial), X, np.random.default_rng(0))
    assert_allclose(larger(X) / scaled(X).std(axis=0), scaled(X) / scaled(X).std(axis=0), atol=0.5)


def test_more_functions_change_little_and_fewer_keep_the_important_ones():
    X, rng = points(3), np.random.default_rng(0)
    system = dc.systems.f2()
    larger = resize_model(system, layer_bases((3, 3), (3, 3), dc.Monomial), X, rng)
    assert larger.ranks == (3, 3) and dc.error_values(system(X), larger(X)) < 0.1
    back = resize_model(larger, layer_bases((2, 2), (3, 3), dc.Monomial), X, rng)
    assert back.ranks == (2, 2) and dc.error_values(system(X), back(X)) < 0.1


# Limits and mistakes


def test_time_and_patience_may_run_out():
    choice = dc.select(sampled(TWO), (2, 2), 2, max_seconds=1e-3, progress=False)
    assert "`max_seconds` = 0.001 was reached" in choice.notes[0] and len(choice.table) == 1
    assert choice.notes[0] in choice.result.notes

    def stop_at(count):
        def progress(**values):
            if values["done"] == count:
                raise KeyboardInterrupt

        return progress

    choice = dc.select(sampled(TWO), (2, 2), 2, progress=stop_at(2))
    assert len(choice.table) == 2 and "interrupted" in choice.notes[0]
    assert choice.result.status is dc.solvers.Status.INTERRUPTED
    with pytest.raises(KeyboardInterrupt):
        dc.select(sampled(TWO), (3, 3), 3, progress=stop_at(0))


def test_limits_that_are_met_are_said():
    choice = dc.select(sampled(ONE, 20), 1, 2, n_folds=2, progress=False)
    assert "The singular values ask for ranks of at least 2:" in choice.notes[0]
    assert "The degrees are at the limit 2" in choice.notes[1]


def test_progress_names_the_shapes():
    seen = []
    dc.select(sampled(ONE, 20), 2, 3, n_folds=2, progress=lambda **values: seen.append(values["stage"]))
    assert any(stage.startswith("ranks 2, degrees 3") for stage in seen)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_ranks": ()}, "`max_ranks` must be a tuple of whole numbers"),
        ({"max_ranks": (2, 0)}, r"`max_ranks\[1\]` must be a whole number of at least 1. Got 0"),
        ({"max_ranks": 1000}, "`max_ranks` must not be above 50"),
        ({"max_degrees": (3, 3, 3)}, "`max_degrees` must be one number, or one per layer"),
        ({"max_degrees": 100}, "`max_degrees` must not be above 20"),
        ({"degrees": (3,)}, "`degrees` must have one number per layer, like `max_ranks`: 2. Got 1"),
        ({"n_folds": 1}, "`n_folds` must be a whole number of at least 2"),
        ({"n_folds": 41}, "`n_folds` must not be above the number of samples: 40"),
        ({"basis": [dc.Monomial]}, "`basis` must be a basis class"),
        ({"max_seconds": 0.0}, "`max_seconds` must be a number above 0"),
        ({"rng": -1}, "`rng` must be"),
        ({"solver": dc.VarPro(fixed={"W0": np.eye(3)})}, "must leave all parts of the model free"),
        ({"solver": dc.VarPro(start=TWO)}, "must leave all parts of the model free"),
        ({"solver": dc.Hollander()}, "single layer"),
        (
            {"samples": dc.Samples(points(3, 4), F=points(3, 4)[:, :1]), "n_folds": 2},
            "more numbers than the smallest model",
        ),
    ],
)
def test_wrong_arguments_are_refused_with_the_rule(arguments, message):
    given = {"samples": sampled(TWO), "max_ranks": (2, 2), "progress": False} | arguments
    with pytest.raises(dc.InputError, match=message):
        dc.select(**given)


def test_models_of_stored_samples_are_compared_on_some_of_them():
    given = dc.Samples.from_batches([sampled(ONE)], progress=False)
    choice = dc.select(given, 2, 2, progress=False)
    assert choice.result.samples is given and "fitted to all" in choice.notes[0]


# Where it is used


def test_decouple_chooses_ranks_by_itself():
    result = dc.decouple(sampled(ONE), ranks="auto", degrees=3, progress=False)
    assert result.decoupling.ranks == (2,) and result.status is dc.solvers.Status.EXACT
    assert result.notes[0].startswith("2 polynomials of degree 3 meet the samples to machine precision")
    assert dc.decouple(sampled(ONE), ranks="auto", progress=False).decoupling.degrees == (3,)
    for name, value in (("n_starts", 3), ("validation", sampled(ONE))):
        with pytest.raises(dc.InputError, match=f"`{name}` must be left out with ranks="):
            dc.decouple(sampled(ONE), ranks="auto", degrees=3, **{name: value})


@pytest.mark.slow
def test_the_command_line_selects_and_fits(tmp_path):
    sampled(ONE).save(tmp_path / "s.npz")
    done = decouple("select s.npz --max-ranks 3 --max-degrees 4 --plot p.png --model m.safetensors", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "chosen" in done.stdout and "2 polynomials of degree 3" in done.stdout
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert dc.Decoupling.load(tmp_path / "m.safetensors").ranks == (2,)
    content = json.loads(decouple("select s.npz --max-ranks 3 --degrees 3 --json", cwd=tmp_path).stdout)
    assert content["ranks"] == [2] and [row["chosen"] for row in content["table"]].count(True) == 1
    fit = json.loads(decouple("fit s.npz --ranks auto --holdout 0.2 --json", cwd=tmp_path).stdout)
    assert fit["ranks"] == [2] and "to machine precision" in fit["notes"][0]
    assert max(fit["validation_relative_rmse_percent"]) < 1e-8


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("select missing.npz", "File not found: missing.npz"),
        ("select s.npz --max-ranks 2,x", "not a list of whole numbers"),
        ("select s.npz --max-ranks 0", "at least 1"),
        ("select s.npz --n-folds 99", "--n-folds must not be above the number of samples"),
        ("select s.npz --plot p.txt", "must end in .png"),
        ("select s.npz --plot s.npz", "must end in .png"),
        ("fit s.npz --ranks auto --n-starts 4", "--n-starts must be left out"),
    ],
)
def test_mistakes_on_the_command_line_give_one_message(line, message, tmp_path):
    sampled(ONE, 20).save(tmp_path / "s.npz")
    done = run_here(line.split(), cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["s.npz"]


@pytest.mark.slow
def test_shapes_that_cannot_win_are_not_fitted(monkeypatch):
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (120, 2))
    F = (X[:, :1] + X[:, 1:]) ** 3 + 0.3 * rng.normal(size=(120, 1))
    scans = []
    for prunes in (True, False):
        if not prunes:
            monkeypatch.setattr(Scan, "_hopeless", lambda *_: False)
        scans.append(dc.select(dc.Samples(X, F=F), (2, 1), 3, n_folds=2, solver=QUICK, progress=False))
    few, everything = ({(row.ranks, row.degrees): row for row in scan.table} for scan in scans)
    assert (scans[0].ranks, scans[0].degrees) == (scans[1].ranks, scans[1].degrees)
    left_out = set(everything) - set(few)
    assert left_out and all(everything[shape].score > scans[1].chosen.score for shape in left_out)


@pytest.mark.slow
def test_few_noisy_rows_do_not_choose_a_shape_that_fits_their_noise():
    """Three functions of degree 5 have the best criterion there, and errors on left-out samples of 66 to 200 %."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.0, 1.0, (300, 3))
    y = (X @ [1.0, 2.0, -1.0]) ** 2 + 0.3 * rng.normal(size=300)
    found = dc.select(dc.Samples(X[:30], F=y[:30, None]), max_ranks=3, max_degrees=5, progress=False)
    left = found.result.decoupling(X[100:])[:, 0] - y[100:]
    assert found.chosen.error < 30.0 and np.sqrt(np.mean(left**2)) < 0.6


def test_copies_of_samples_do_not_change_the_choice():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, (30, 2))
    F = (X[:, :1] + X[:, 1:]) ** 2 + 0.1 * rng.normal(size=(30, 1))
    once, often = (
        dc.select(dc.Samples(np.repeat(X, k, axis=0), F=np.repeat(F, k, axis=0)), 2, 3, solver=QUICK, progress=False)
        for k in (1, 3)
    )
    assert (often.ranks, often.degrees) == (once.ranks, once.degrees)
    assert {(row.ranks, row.degrees) for row in often.table} == {(row.ranks, row.degrees) for row in once.table}


def test_folds_keep_copies_together():
    X = np.repeat(np.random.default_rng(0).uniform(-1.0, 1.0, (9, 2)), 4, axis=0)
    with pytest.raises(dc.InputError, match=r"number of different samples: 9\. Got 10"):
        dc.select(dc.Samples(X, F=X[:, :1]), 1, 1, n_folds=10, progress=False)


def test_repeated_measurements_are_no_copies():
    """Two factors of two levels, 50 measurements each: all of these tell something."""
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 50, axis=0)
    F = X[:, :1] * X[:, 1:] + 0.1 * rng.normal(size=(200, 1))
    found = dc.select(dc.Samples(X, F=F), 2, 2, progress=False)
    assert found.result.verdict.grade is dc.fit.Grade.NOISE and found.result.relative_rmse()[0] < 30.0


def test_a_fit_that_began_at_a_neighbour_names_it():
    scan = scan_of(noisy(ONE, 1e-2, S=20))
    first = scan.fit((1,), (2,), start=None, n_starts=1)
    wider = scan.fit((2,), (2,), start=first, n_starts=1)  # so there is no random start that could be better
    assert wider.result.found_by == "the fit of 1 polynomial of degree 2"
    again = scan.fit((2,), (2,), start=wider, n_starts=1, once_more=True)
    assert again.result.found_by == wider.result.found_by != first.result.found_by
