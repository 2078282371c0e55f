import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from benchmarks.problems import problem_of
from decouply.cli._fit import fit
from decouply.solvers.alternating._loop import draw_factors, objective_of, run_starts
from decouply.testing import check_solver
from tests.solvers.every import ALTERNATING, SINGLE_LAYER, quick_solvers
from tests.strategies import Bend, points, random_model, sampled

ONE_LAYER = [*(kind() for kind in SINGLE_LAYER), dc.Zniyed(lam=1e-4)]
ANY_LAYER = [
    *(kind() for kind in ALTERNATING if kind not in SINGLE_LAYER),
    dc.Proj(weighted_projection=False),
    dc.TwoStage(dc.Proj()),
    dc.TwoStage(dc.Constr()),
]
FEW_STEPS = quick_solvers(50, "layers", kinds=ALTERNATING)
F1_LAYER = dc.systems.random_system((5, 4, 5), (3,), rng=11)


class Broken(dc.solvers.AbstractStart):
    """NaN for the first `n_bad` starts."""

    def __init__(self, n_bad, draws_per_start):
        self.left = n_bad * draws_per_start

    def draw(self, rng, shape):
        self.left -= 1
        return np.full(shape, np.nan) if self.left >= 0 else rng.uniform(0.1, 10, shape)


class Zeros(dc.solvers.AbstractStart):
    def draw(self, rng, shape):
        return np.zeros(shape)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ONE_LAYER + ANY_LAYER, ids=repr)
def test_every_solver_keeps_its_promises(solver):
    check_solver(solver)


def test_every_solver_is_in_the_reference_and_on_the_command_line():
    names = [kind.__name__ for kind in (*dc.solvers.OWN_SOLVERS, dc.TwoStage)]
    reference = (Path(__file__).parents[2] / "docs" / "reference" / "api.rst").read_text().split()
    assert set(names) <= {*reference} and all(getattr(dc, name) for name in names)
    (solver,) = (param for param in fit.params if param.name == "solver")
    assert solver.type.choices == tuple(kind.__name__.lower() for kind in dc.solvers.OWN_SOLVERS)


@pytest.mark.slow
@pytest.mark.parametrize("solver", FEW_STEPS, ids=repr)
@pytest.mark.parametrize("dims", [(3, 2, 2, 3), (3, 2, 2, 2, 3)], ids=str)
def test_solvers_of_the_paper_take_any_number_of_layers(solver, dims):
    check_solver(solver, dims=dims, degrees=(2,) * (len(dims) - 2))


@pytest.mark.parametrize("solver", ONE_LAYER + ANY_LAYER, ids=repr)
def test_single_layer_systems_are_recovered_to_rounding(solver):
    samples = sampled(F1_LAYER, 60)
    result = dc.decouple(samples, 4, 3, solver=solver, rng=1, progress=False)
    assert result.error_jacobian < 1e-20
    assert dc.factor_match(result.decoupling, F1_LAYER) > 1 - 1e-8
    fresh = points(5, 100, seed=9)
    assert np.max(dc.relative_rmse(F1_LAYER(fresh), result.decoupling(fresh))) < 1e-6


@pytest.mark.parametrize("solver", [s for s in ONE_LAYER if not isinstance(s, dc.Zniyed)], ids=repr)
def test_jacobian_methods_get_their_constants_from_the_mean_of_the_values(solver):
    samples = sampled(F1_LAYER, 60)
    noisy = dc.Samples(
        samples.X, F=samples.F + 5.0, J=samples.J + 0.1 * np.random.default_rng(0).normal(size=samples.J.shape)
    )
    wide = dc.decouple(noisy, 5, 3, solver=solver, progress=False)
    assert_allclose(np.mean(noisy.F - wide.decoupling(noisy.X), axis=0), 0.0, atol=1e-8)
    assert wide.notes == ()
    offset = dc.decouple(noisy, 3, 3, solver=solver, progress=False).decoupling
    assert_allclose(np.mean(noisy.F - offset(noisy.X), axis=0), 0.0, atol=1e-8)
    assert offset.offset is not None
    narrow = dc.decouple(noisy, 3, 3, solver=solver, as_given=True, progress=False)
    assert any("bias correction could not be met in full" in note for note in narrow.notes)
    left = np.mean(noisy.F - narrow.decoupling(noisy.X), axis=0)
    assert_allclose(narrow.decoupling.W[-1].T @ left, 0.0, atol=1e-6)  # what is left is out of reach


@pytest.mark.parametrize("solver", ONE_LAYER, ids=repr)
def test_single_layer_methods_refuse_more_layers(solver):
    with pytest.raises(dc.InputError, match="knows a single layer"):
        dc.decouple(sampled(dc.systems.f2()), (2, 2), (3, 3), solver=solver, progress=False)


@pytest.mark.parametrize("solver", ONE_LAYER + ANY_LAYER, ids=repr)
def test_values_alone_are_not_enough_for_alternating_solvers(solver):
    X = points(2)
    with pytest.raises(dc.InputError, match="must hold Jacobians"):
        dc.decouple(dc.Samples(X, F=X), 1, 2, solver=solver, progress=False)


def test_jacobians_alone_leave_the_constants_open_and_the_result_says_so():
    samples = sampled(F1_LAYER)
    result = dc.decouple(dc.Samples(samples.X, J=samples.J), 4, 3, progress=False)
    assert result.error_jacobian < 1e-20 and np.isnan(result.error_values)
    assert not result.decoupling.g[-1].constants.any()
    assert any("constants" in note for note in result.notes)
    with pytest.raises(dc.InputError, match="`samples` must hold values F for the solver TwoStage"):
        dc.decouple(dc.Samples(samples.X, J=samples.J), 4, 3, solver=dc.TwoStage(dc.Proj()), progress=False)


def test_the_original_schedule_of_zniyed_multiplies_lam_by_ten_every_ten_iterations():
    result = dc.decouple(
        sampled(dc.systems.f2()),
        2,
        3,
        solver=dc.Zniyed(stopping=dc.solvers.Stopping(max_steps=30, patience=30)),
        n_starts=1,
        progress=False,
    )
    assert_allclose(result.history.lam, np.repeat([1e-6, 1e-5, 1e-4], 10))


# Stopping


def test_a_start_ends_after_max_iterations():
    result = dc.decouple(
        sampled(dc.systems.f3()),
        (3, 2),
        (3, 4),
        solver=dc.Constr(stopping=dc.solvers.Stopping(max_steps=12)),
        progress=False,
    )
    assert all(row.steps == 12 for row in result.starts)
    assert result.status is dc.solvers.Status.OUT_OF_STEPS and "max_steps" in result.reason


def test_a_start_ends_when_the_objective_has_not_decreased_for_patience_iterations():
    solver = dc.Proj(stopping=dc.solvers.Stopping(max_steps=400, patience=7, min_steps=0))
    result = dc.decouple(sampled(dc.systems.f1()), (2, 2), (5, 2), solver=solver, n_starts=1, progress=False)
    assert result.status is dc.solvers.Status.STALLED and "patience" in result.reason
    objective = result.history.objective
    assert np.argmin(objective) == len(objective) - 1 - 7


def test_no_start_ends_before_min_iterations():
    solver = dc.Proj(stopping=dc.solvers.Stopping(max_steps=400, patience=1, min_steps=25))
    result = dc.decouple(sampled(dc.systems.f1()), (2, 2), (5, 2), solver=solver, n_starts=6, progress=False)
    assert all(row.steps >= 25 for row in result.starts)


def test_the_best_iterate_is_returned():
    solver = dc.Proj(stopping=dc.solvers.Stopping(max_steps=60, patience=60), weighted_projection=False)
    samples = sampled(dc.systems.f1())
    result = dc.decouple(samples, (2, 2), (5, 2), solver=solver, as_given=True, n_starts=3, progress=False)
    best = np.argmin(result.history.objective)
    assert best < len(result.history) - 1
    assert result.error_jacobian == pytest.approx(result.history.error_jacobian[best], rel=1e-8)
    assert min(row.objective for row in result.starts) == pytest.approx(result.history.objective[best])


@pytest.mark.parametrize(
    "solver",
    [dc.Proj(weighted_projection=False), dc.Constr(), dc.Zniyed(lam=1e-4), dc.Zniyed(), dc.Hollander()],
    ids=repr,
)
def test_the_last_iterate_is_returned_on_request(solver):
    """The steps are the same whichever iterate is kept; only the answer differs."""
    samples, one = sampled(dc.systems.f1()), isinstance(solver, dc.Zniyed | dc.Hollander)
    ranks, degrees = (3, 5) if one else ((2, 2), (5, 2))
    best, last = (
        dc.decouple(
            samples,
            ranks,
            degrees,
            solver=dataclasses.replace(solver, stopping=dc.solvers.Stopping(iterate=which, max_steps=40, patience=30)),
            as_given=True,
            n_starts=1,
            progress=False,
        )
        for which in ("best", "last")
    )
    assert_allclose(best.history.objective, last.history.objective, rtol=0)
    assert last.error_jacobian == pytest.approx(last.history.error_jacobian[-1], rel=1e-6)
    assert last.starts[0].objective == last.history.objective[-1]
    assert last.lam == last.history.lam[-1] if not isinstance(solver, dc.Hollander) else last.lam == 0.0
    assert best.starts[0].objective == np.min(best.history.objective) <= last.starts[0].objective


def test_of_starts_that_become_non_finite_the_last_finite_iterate_is_kept():
    def overflow(state, iteration):
        state.residual_J[:] = np.inf if iteration == 4 else 10.0 + iteration
        state.residual_F[:] = 0.0
        return state, 0.0

    problem = problem_of(sampled(dc.systems.f1()), (2, 2), (5, 2))
    start = draw_factors(problem, dc.solvers.Uniform(), 2, np.random.default_rng(0))
    for which, kept in (("best", 11.0), ("last", 13.0)):
        stopping = dc.solvers.Stopping(min_steps=1, max_steps=9, patience=9, iterate=which)
        run = run_starts(problem, start, overflow, objective_of, 0.0, stopping, lambda **_: None)
        assert run.objective.tolist() == run.kept.residual_J.tolist() == [kept, kept]
        assert set(run.status) == {dc.solvers.Status.NONFINITE} and run.steps.tolist() == [4, 4]


# Starts


def test_starts_that_become_non_finite_are_marked_and_dropped():
    solver = dc.Constr(stopping=dc.solvers.Stopping(max_steps=20), start=Broken(2, draws_per_start=6))
    result = dc.decouple(sampled(dc.systems.f2()), (2, 2), (3, 3), solver=solver, n_starts=5, progress=False)
    assert [row.status is dc.solvers.Status.NONFINITE for row in result.starts] == [True, True, False, False, False]
    assert np.isfinite(result.error_jacobian)


def test_when_all_starts_fail_the_error_says_what_to_do():
    solver = dc.Constr(start=Broken(9, draws_per_start=6))
    with pytest.raises(dc.SolverError, match=r"All 3 starts became NaN.*n_starts"):
        dc.decouple(sampled(dc.systems.f2()), (2, 2), (3, 3), solver=solver, n_starts=3, progress=False)


@pytest.mark.parametrize("method", [dc.Proj, dc.Constr, dc.Zniyed])
def test_singular_starts_do_not_raise(method):
    result = dc.decouple(sampled(F1_LAYER), 4, 3, solver=method(start=Zeros()), n_starts=2, progress=False)
    assert np.isfinite(result.error_jacobian)


def test_a_warm_start_goes_on_from_a_given_decoupling():
    system = dc.systems.f2()
    samples = sampled(system)
    result = dc.decouple(samples, (2, 2), (3, 3), solver=dc.Constr(start=system), n_starts=3, progress=False)
    assert result.error_jacobian < 1e-20
    assert len(result.starts) == 3 and result.starts[1].error_jacobian > 1e-20
    with pytest.raises(dc.InputError, match=r"`start` must have 3 inputs, ranks \(2, 2\)"):
        dc.decouple(samples, (2, 2), (3, 3), solver=dc.Constr(start=dc.systems.f3()), progress=False)


def test_the_same_seed_gives_the_same_start_whatever_comes_after_it():
    samples = sampled(dc.systems.f2())
    few, many = (
        dc.decouple(
            samples,
            (2, 2),
            (3, 3),
            solver=dc.Constr(stopping=dc.solvers.Stopping(max_steps=15)),
            n_starts=n,
            rng=5,
            progress=False,
        )
        for n in (2, 6)
    )
    for a, b in zip(few.starts, many.starts, strict=False):
        assert a.objective == pytest.approx(b.objective, rel=1e-6)


# The two-stage choice of lam


def test_lam_grows_by_beta_until_the_loss_gets_worse():
    scores = iter([5.0, 3.0, 3.0, 4.0, 0.0])
    solver = dc.TwoStage(
        dc.Constr(stopping=dc.solvers.Stopping(max_steps=10)), lam=1e-6, beta=100, loss=lambda model: next(scores)
    )
    result = dc.decouple(sampled(dc.systems.f2()), (2, 2), (3, 3), solver=solver, progress=False)
    assert_allclose([row.lam for row in result.path], [1e-6, 1e-4, 1e-2, 1.0])
    assert [row.loss for row in result.path] == [5.0, 3.0, 3.0, 4.0]
    assert [row.chosen for row in result.path] == [False, False, True, False]
    assert result.lam == pytest.approx(1e-2)
    assert len(result.starts) == 4 * 8


def test_a_loss_of_the_user_may_pass_through_zero():
    scores = iter([0.0, -1.0, 0.0])
    solver = dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=5)), loss=lambda model: next(scores))
    result = dc.decouple(sampled(dc.systems.f2()), (2, 2), (3, 3), solver=solver, n_starts=1, progress=False)
    assert [row.loss for row in result.path] == [0.0, -1.0, 0.0] and result.path[1].chosen


def test_the_default_loss_is_the_sum_of_errors_on_the_validation_samples():
    system = dc.systems.f2()
    samples, validation = sampled(system, 30, 1), sampled(system, 30, 2)
    result = dc.decouple(
        samples,
        (2, 2),
        (3, 3),
        solver=dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=20))),
        validation=validation,
        progress=False,
    )
    chosen = next(row for row in result.path if row.chosen)
    assert chosen.loss == pytest.approx(result.relative_rmse(validation).sum())
    assert chosen.loss == min(row.loss for row in result.path)


def test_a_loss_that_is_not_a_number_ends_the_path_or_is_an_error():
    samples = sampled(dc.systems.f2())
    scores = iter([1.0, np.nan])
    solver = dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=10)), loss=lambda model: next(scores))
    assert len(dc.decouple(samples, (2, 2), (3, 3), solver=solver, progress=False).path) == 2
    with pytest.raises(dc.SolverError, match="`loss` was not a finite number"):
        dc.decouple(
            samples,
            (2, 2),
            (3, 3),
            solver=dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=5)), loss=lambda m: np.nan),
            progress=False,
        )


# Bases


@pytest.mark.parametrize(
    "solver",
    [dc.Proj(stopping=dc.solvers.Stopping(max_steps=40)), dc.Constr(stopping=dc.solvers.Stopping(max_steps=40))],
    ids=repr,
)
@pytest.mark.parametrize(
    "basis",
    [dc.Monomial, dc.bases.ScaledMonomial, dc.bases.Bernstein, dc.Chebyshev, dc.bases.Trigonometric],
    ids=lambda b: b.__name__,
)
def test_every_basis_works_in_every_layer(solver, basis):
    samples = sampled(dc.systems.f2())
    result = dc.decouple(samples, (2, 2), (3, 3), basis=basis, solver=solver, progress=False)
    assert result.error_jacobian < 0.9
    assert isinstance(result.decoupling.g[0].basis, basis)


def test_polynomial_bases_of_equal_degree_reach_the_same_model():
    samples = sampled(F1_LAYER, 60)
    for basis in (dc.Monomial, dc.bases.ScaledMonomial, dc.bases.Bernstein, dc.Chebyshev):
        result = dc.decouple(samples, 4, 3, basis=basis, progress=False)
        assert dc.factor_match(result.decoupling, F1_LAYER) > 1 - 1e-8


def test_a_users_own_basis_and_one_basis_per_function_work_everywhere():
    rng = np.random.default_rng(0)
    truth = dc.Decoupling(rng.normal(size=(2, 3, 3)), [dc.Functions(Bend(1.0), rng.normal(size=(3, 2)))])
    samples = sampled(truth, 80)
    solver = dc.Constr(stopping=dc.solvers.Stopping(max_steps=300), start=dc.solvers.Normal())
    result = dc.decouple(samples, 3, basis=Bend(1.0), solver=solver, n_starts=16, progress=False)
    assert result.error_jacobian < 0.02
    mixed = dc.decouple(
        samples, (2, 2), basis=[(Bend(1.0), dc.Monomial(2)), dc.Monomial(3)], n_starts=4, progress=False
    )
    assert mixed.decoupling.degrees == (2, 3)
    assert mixed.decoupling.g[0].layer.sizes == (1, 2)


# Options


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dc.Constr(lam=-1.0), "`lam` must be a number of at least 0"),
        (
            lambda: dc.Proj(stopping=dc.solvers.Stopping(max_steps=0)),
            "`max_steps` must be a whole number of at least 1",
        ),
        (lambda: dc.Zniyed(stopping=dc.solvers.Stopping(patience=0)), "`patience`"),
        (lambda: dc.solvers.Uniform(2.0, 1.0), "`low` must be below `high`"),
        (lambda: dc.solvers.Normal(0.0), "`scale` must be a number above 0"),
        (lambda: dc.TwoStage(dc.TwoStage(dc.Proj())), "`solver` must be a solver"),
        (lambda: dc.TwoStage(dc.Proj(), beta=1.0), "`beta` must be a number above 1"),
        (lambda: dc.TwoStage(dc.Proj(), lam=0.0), "`lam` must be a number above 0"),
    ],
)
def test_wrong_options_are_refused_when_the_solver_is_made(make, message):
    with pytest.raises(dc.InputError, match=message):
        make()


def test_solvers_are_values():
    assert dc.Constr() == dc.Constr() and dc.Constr() != dc.Constr(lam=1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        dc.Constr().lam = 3.0


def test_inputs_that_no_row_of_the_jacobian_sees_do_no_harm():
    model = random_model([3, 2, 2], 1)
    wide = dc.Decoupling([np.pad(model.W[0], ((0, 0), (0, 9))), model.W[1]], model.g)
    result = dc.decouple(sampled(wide), 2, 3, progress=False)
    assert result.error_jacobian < 1e-20
    assert np.abs(result.decoupling.W[0][:, 3:]).max() < 1e-10


# Honest books


@pytest.mark.slow
@pytest.mark.parametrize("method", [dc.Proj, dc.Constr])
def test_a_warm_start_is_never_made_worse(method):
    samples = sampled(dc.systems.f2())
    found = dc.decouple(
        samples,
        (2, 2),
        (3, 3),
        solver=dc.TwoStage(dc.Proj(stopping=dc.solvers.Stopping(max_steps=300))),
        progress=False,
    )
    again = dc.decouple(
        samples, (2, 2), (3, 3), solver=method(start=found.decoupling, lam=found.lam), n_starts=1, progress=False
    )

    def objective(result):
        model = result.decoupling
        return np.sum((samples.J - model.jacobian(samples.X)) ** 2) + found.lam * np.sum(
            (samples.F - model(samples.X)) ** 2
        )

    assert objective(again) <= objective(found) * (1 + 1e-9)


def test_exact_means_that_everything_known_is_met():
    samples = sampled(F1_LAYER, 60)
    result = dc.decouple(samples, 4, 3, solver=dc.Constr(lam=0.0), progress=False)
    assert result.status is dc.solvers.Status.JACOBIANS_EXACT and "constants are 0" in result.notes[0]
    X = points(3, 60)
    waves = dc.Samples.from_function(lambda Z: np.tanh(2 * Z @ np.array([[1.0, 2, 0], [0, 1, 1], [1, 0, 1]])), X)
    assert dc.decouple(waves, 3, 1, solver=dc.Dreesen(), progress=False).status is not dc.solvers.Status.EXACT


def test_the_table_of_starts_tells_the_lam_of_its_own_best_iterate_and_unknown_errors_are_nan():
    samples = sampled(dc.systems.f2())
    scheduled = dc.decouple(samples, 2, 3, solver=dc.Zniyed(stopping=dc.solvers.Stopping(max_steps=60)), progress=False)
    best = np.argmin(scheduled.history.objective)
    assert scheduled.lam == pytest.approx(scheduled.history.lam[best])
    for solver in (
        dc.Hollander(stopping=dc.solvers.Stopping(max_steps=20)),
        dc.Dreesen(stopping=dc.solvers.Stopping(max_steps=20)),
    ):
        result = dc.decouple(samples, 2, 3, solver=solver, progress=False)
        assert all(np.isnan(row.error_values) for row in result.starts)
    jacobians = dc.decouple(
        dc.Samples(samples.X, J=samples.J),
        2,
        3,
        solver=dc.Proj(stopping=dc.solvers.Stopping(max_steps=20)),
        progress=False,
    )
    assert all(np.isnan(row.error_values) for row in jacobians.starts)


@pytest.mark.slow
@pytest.mark.parametrize("constant", [0.0, 0.1, 1.0])
def test_an_output_that_does_not_vary_does_not_decide_lam(constant):
    f2 = dc.systems.f2()
    X = points(3, 40)
    F = np.column_stack([f2(X), np.full(40, constant)])
    J = np.concatenate([f2.jacobian(X), np.zeros((40, 1, 3))], axis=1)
    result = dc.decouple(dc.Samples(X, F=F, J=J), (2, 2), (3, 3), solver=dc.TwoStage(dc.Constr()), progress=False)
    assert len(result.path) < 10 and all(np.isfinite(row.loss) and row.loss < 1e4 for row in result.path)


def test_validation_on_one_point_and_a_path_without_end_are_told():
    samples = sampled(dc.systems.f2())
    solver = dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=10)))
    one = dc.decouple(samples, (2, 2), (3, 3), solver=solver, validation=samples.take([0]), progress=False)
    assert all(np.isfinite(row.loss) for row in one.path)
    flat = dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=5)), loss=lambda model: 1.0, max_runs=4)
    result = dc.decouple(samples, (2, 2), (3, 3), solver=flat, progress=False)
    assert len(result.path) == 4 and any("never got worse" in note for note in result.notes)


def test_a_generator_goes_on_from_where_it_is():
    samples, solver = sampled(dc.systems.f2()), dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=5)))
    fresh, used = np.random.default_rng(1), np.random.default_rng(1)
    used.random(10)
    a, b = (dc.decouple(samples, (2, 2), (3, 3), solver=solver, rng=rng, progress=False) for rng in (fresh, used))
    assert not np.array_equal(a.decoupling.W[0], b.decoupling.W[0])


# For those who look closer


def test_progress_gets_the_raw_factors_of_every_step():
    seen = []
    samples = sampled(dc.systems.f1())
    solver = dc.Constr(stopping=dc.solvers.Stopping(max_steps=6), lam=1e-3)
    result = dc.decouple(
        samples, (2, 2), (5, 2), solver=solver, as_given=True, n_starts=3, progress=lambda **v: seen.append(v)
    )
    iterates = [values["iterate"] for values in seen]
    assert len(iterates) == 6 and all(values["starts"].tolist() == [0, 1, 2] for values in seen)
    assert [w.shape for w in iterates[0].W] == [(3, 2, 2), (3, 2, 2), (3, 2, 2)]
    winner = int(np.argmin([row.objective for row in result.starts]))
    objective = [state.residual_J[winner] + 1e-3 * state.residual_F[winner] for state in iterates]
    assert_allclose(objective, result.history.objective)
    tensor = dc.ParaTuck([w[0] for w in iterates[3].W], [g[0] for g in iterates[3].G]).to_tensor()
    assert np.sum((samples.J - tensor) ** 2) == pytest.approx(iterates[3].residual_J[0])


@pytest.mark.parametrize(
    "solver",
    quick_solvers(20, kinds=ALTERNATING),
    ids=repr,
)
def test_every_start_has_a_model(solver):
    samples = sampled(F1_LAYER, 60)
    result = dc.decouple(samples, 4, 3, solver=solver, n_starts=3, rng=2, progress=False)
    models = [row.decoupling for row in result.starts]
    same = [np.array_equal(model(samples.X), result.decoupling(samples.X)) for model in models]
    assert same.count(True) == 1
    assert result.starts[same.index(True)].objective == min(row.objective for row in result.starts) or len(models) > 3
    again = pickle.loads(pickle.dumps(result.starts[0]))
    assert_allclose(again.decoupling(samples.X), models[0](samples.X), rtol=0)
    kept = [vars(row.build.func.__self__._problem.prepared) for row in result.starts]
    assert not any("J" in arrays for arrays in kept)  # no second copy of J lives on


def test_starts_of_varpro_have_no_model_of_their_own():
    result = dc.decouple(sampled(F1_LAYER, 60), 4, 3, progress=False)
    assert all(row.decoupling is None for row in result.starts)


def test_a_history_becomes_a_frame():
    result = dc.decouple(
        sampled(dc.systems.f2()),
        (2, 2),
        (3, 3),
        solver=dc.Proj(stopping=dc.solvers.Stopping(max_steps=8)),
        progress=False,
    )
    frame = result.history.to_frame()
    assert list(frame.columns) == ["lam", "objective", "error_jacobian", "error_values"]
    assert frame.index.name == "iteration" and frame.index.tolist() == list(range(1, 9))
    assert_allclose(frame["objective"], result.history.objective)
