import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import decouply as dc
from decouply.solvers.initial._tensor_decompositions import cpd_directions
from decouply.solvers.least_squares._levenberg_marquardt import Dense
from decouply.testing import check_solver
from tests.strategies import Bend, points, sampled

F2 = dc.systems.f2()


def fresh_error(system, result):
    X = points(system.n_inputs, 500, seed=77)
    return np.max(dc.relative_rmse(system(X), result.decoupling(X)))


def recover(system, samples, **options):
    return dc.decouple(samples, system.ranks, system.degrees, progress=False, **options)


@pytest.mark.slow
def test_it_keeps_the_promises_of_a_solver():
    check_solver(dc.VarPro())
    check_solver(dc.VarPro(), dims=(3, 2, 2, 3), degrees=(2, 2))
    check_solver(dc.TwoStage(dc.VarPro()), dims=(3, 2, 3), degrees=(2,))


@pytest.mark.parametrize("make", [dc.systems.f1, dc.systems.f2, dc.systems.f3])
def test_the_systems_of_the_paper_are_recovered_exactly(make):
    system = make()
    result = recover(system, sampled(system, 30, seed=8))
    assert result.status is dc.solvers.Status.EXACT
    assert fresh_error(system, result) <= 1e-6
    assert dc.factor_match(system, result.decoupling) >= 1 - 1e-8
    assert result.identifiability.locally_unique


@pytest.mark.parametrize(
    ("dims", "degrees", "S", "seed"),
    [((4, 3, 3, 4), (3, 3), 60, 3), ((3, 2, 2, 2, 3), (3, 2, 2), 60, 2), ((2, 2, 2), (4,), 40, 3)],
    ids=str,
)
def test_random_systems_are_recovered_exactly(dims, degrees, S, seed):
    system = dc.systems.random_system(dims, degrees, rng=seed)
    assert fresh_error(system, recover(system, sampled(system, S))) <= 1e-6


def test_one_layer_needs_one_start():
    for seed in range(5):
        system = dc.systems.random_system((5, 4, 5), (3,), rng=seed)
        result = recover(system, sampled(system, 60), n_starts=1)
        assert len(result.starts) == 1 and fresh_error(system, result) <= 1e-6


def test_values_alone_are_enough():
    samples = sampled(F2, 200, seed=5)
    result = recover(F2, dc.Samples(samples.X, F=samples.F))
    assert fresh_error(F2, result) <= 1e-6
    assert np.isnan(result.error_jacobian)


def test_jacobians_alone_leave_constants_open():
    samples = sampled(F2, 30, seed=5)
    result = recover(F2, dc.Samples(samples.X, J=samples.J))
    assert result.error_jacobian < 1e-20 and any("constants" in note for note in result.notes)
    assert result.identifiability.locally_unique  # up to the constants, which are known to be open
    difference = F2(samples.X) - result.decoupling(samples.X)
    size = np.abs(samples.F).max()
    assert_allclose(difference, np.broadcast_to(difference[0], difference.shape), rtol=0, atol=1e-9 * size)


@pytest.mark.parametrize("basis", [dc.Chebyshev, dc.bases.Bernstein, dc.bases.ScaledMonomial])
def test_other_polynomial_bases_recover_the_same_system(basis):
    result = recover(F2, sampled(F2, 30, seed=5), basis=basis)
    assert fresh_error(F2, result) <= 1e-6


@pytest.mark.slow
def test_bases_without_scale_invariance_and_mixed_ones_work():
    rng = np.random.default_rng(0)
    truth = dc.Decoupling(rng.normal(size=(2, 3, 3)), [dc.Functions(Bend(1.0), rng.normal(size=(3, 2)))])
    result = dc.decouple(sampled(truth, 80), 3, basis=Bend(1.0), progress=False)
    assert result.status is dc.solvers.Status.EXACT
    mixed = dc.decouple(
        sampled(F2),
        (2, 2),
        basis=[(dc.Monomial(2), dc.bases.Trigonometric(3)), dc.Monomial(3)],
        n_starts=32,
        progress=False,
    )
    assert mixed.error_jacobian < 0.1


def test_the_same_seed_gives_the_same_result():
    samples = sampled(F2, 30)
    first, again = (recover(F2, samples, rng=4) for _ in range(2))
    assert_array_equal(first.decoupling.W[0], again.decoupling.W[0])


def test_weights_and_ridge_do_what_they_say():
    samples = sampled(F2, 40)
    noisy = samples.F.copy()
    noisy[:10] += 100.0
    weights = np.ones(40)
    weights[:10] = 1e-12
    weighted = dc.Samples(samples.X, F=noisy, J=samples.J, weights=weights)
    assert fresh_error(F2, recover(F2, weighted, n_starts=64)) < 0.1
    plain, ridged = (
        dc.decouple(samples, (2, 2), (3, 3), solver=dc.VarPro(ridge=ridge), n_starts=32, progress=False)
        for ridge in (0.0, 1e-2)
    )
    assert ridged.error_jacobian > plain.error_jacobian
    assert np.isfinite(ridged.error_jacobian)


def test_a_warm_start_is_polished():
    samples = sampled(F2, 30)
    rough = dc.decouple(
        samples, (2, 2), (3, 3), solver=dc.Proj(stopping=dc.solvers.Stopping(max_steps=40)), progress=False
    )
    result = recover(F2, samples, solver=dc.VarPro(start=rough.decoupling), n_starts=1)
    assert result.error_jacobian <= rough.error_jacobian
    near = dc.Decoupling([w * 1.01 for w in F2.W], F2.g)
    assert recover(F2, samples, solver=dc.VarPro(start=near), n_starts=1).status is dc.solvers.Status.EXACT


@pytest.mark.slow
@pytest.mark.parametrize("names", [("W0",), ("g1",), ("W2",), ("W1", "g2")], ids=str)
def test_parts_can_be_held_fixed(names):
    parts = {"W0": F2.W[0], "W1": F2.W[1], "W2": F2.W[2], "g1": F2.g[0], "g2": F2.g[1]}
    result = recover(F2, sampled(F2, 30), solver=dc.VarPro(fixed={name: parts[name] for name in names}), n_starts=128)
    assert fresh_error(F2, result) <= 1e-6
    for name in names:
        kept = result.decoupling.W[int(name[1])] if name[0] == "W" else result.decoupling.g[int(name[1]) - 1].C
        assert_allclose(kept, parts[name] if name[0] == "W" else parts[name].C)


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({"W7": np.eye(2)}, "`fixed` must name parts of the model: W0, W1, W2, g1, g2"),
        ({"W0": np.eye(2)}, r"`fixed\['W0'\]` must have shape \(2, 3\)"),
        ({"g1": np.eye(2)}, "must be dc.Functions with the bases of layer 1"),
        ({"g1": dc.Functions(dc.Monomial(3), np.ones((2, 4)))}, "must have constants 0"),
    ],
)
def test_wrong_fixed_parts_are_refused_with_the_rule(fixed, message):
    with pytest.raises(dc.InputError, match=message):
        recover(F2, sampled(F2), solver=dc.VarPro(fixed=fixed))


def test_budgets_are_kept_and_the_table_tells_what_became_of_every_start():
    noisy = sampled(dc.systems.f3(), 30)
    noisy = dc.Samples(noisy.X, F=noisy.F, J=noisy.J + 1e3 * np.random.default_rng(0).normal(size=noisy.J.shape))
    solver = dc.VarPro(batch_size=8, max_steps=20, polish_steps=5)
    result = dc.decouple(noisy, (3, 2), (3, 4), solver=solver, n_starts=20, progress=False)
    assert len(result.starts) == 20
    assert {row.status for row in result.starts} <= {
        dc.solvers.Status.DROPPED,
        dc.solvers.Status.CONVERGED,
        dc.solvers.Status.OUT_OF_STEPS,
    }
    assert result.status is dc.solvers.Status.OUT_OF_STEPS and "max_steps" in result.reason
    quick = dc.decouple(
        noisy, (3, 2), (3, 4), solver=dc.VarPro(batch_size=4, max_steps=5, max_seconds=1e-6), progress=False
    )
    assert len(quick.starts) == 1  # the algebraic one


def test_agreement_of_several_starts_ends_the_search():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 2))
    samples = dc.Samples.from_function(lambda Z: np.exp(Z @ np.array([[1.0, 0.5], [-0.5, 1.0]])), X)
    result = dc.decouple(samples, 2, 3, progress=False)
    assert result.status is dc.solvers.Status.CONVERGED and len(result.starts) < 1024
    assert any("agree on this minimum" in note for note in result.notes)


@pytest.mark.slow
def test_noise_costs_no_more_than_it_must():
    samples = sampled(F2, 30, seed=2)
    rng = np.random.default_rng(3)
    noisy = dc.Samples(
        samples.X,
        F=samples.F * (1 + 1e-4 * rng.normal(size=samples.F.shape)),
        J=samples.J * (1 + 1e-4 * rng.normal(size=samples.J.shape)),
    )
    found = recover(F2, noisy)
    best = recover(F2, noisy, solver=dc.VarPro(start=F2), n_starts=1)
    assert fresh_error(F2, found) <= 3 * fresh_error(F2, best)


# Odd questions


def test_models_that_are_too_large_or_too_small_say_so():
    samples = sampled(F2, 60)
    small = dc.decouple(samples, (1, 1), (3, 3), n_starts=32, progress=False)
    assert small.status is dc.solvers.Status.CONVERGED and small.error_jacobian > 1e-6
    large = dc.decouple(samples, (3, 3), (3, 3), n_starts=32, progress=False)
    assert np.isfinite(large.error_jacobian)
    if large.status is dc.solvers.Status.EXACT:  # one of many, or with functions that cancel in the outputs
        narrow = np.linalg.matrix_rank(large.decoupling.W[-1], rtol=1e-8) < 3
        assert narrow or not large.identifiability.locally_unique


def test_duplicated_branches_are_found_not_to_be_unique():
    one = dc.systems.random_system((3, 1, 2), (3,), rng=0)
    result = dc.decouple(sampled(one, 40), 2, 3, progress=False)
    assert result.error_jacobian < 1e-20
    assert not result.identifiability.locally_unique and "Not unique" in str(result.identifiability)


@pytest.mark.parametrize("known", ["both", "values"])
def test_degenerate_data_give_an_answer(known):
    X = points(3, 30)
    line = np.outer(X[:, 0], [1.0, 2.0, -1.0])
    flat = X * [1.0, 1.0, 0.0]
    for points_, F, J in (
        (X, np.zeros((30, 2)), np.zeros((30, 2, 3))),
        (X, np.ones((30, 2)), np.zeros((30, 2, 3))),
        (line, line @ np.ones((3, 2)), np.ones((30, 2, 3))),
        (flat, F2(flat)[:, :2], F2.jacobian(flat)[:, :2]),
    ):
        samples = dc.Samples(points_, F=F, J=J if known == "both" else None)
        result = dc.decouple(samples, (2, 2), (2, 2), n_starts=8, progress=False)
        assert np.all(np.isfinite(result.decoupling(points_)))
        assert result.reason and isinstance(str(result.identifiability), str)
    with pytest.raises(dc.InputError, match="Got the same point 30 times"):
        dc.decouple(dc.Samples(np.repeat(X[:1], 30, axis=0), F=np.ones((30, 2))), (2, 2), (2, 2))


def test_many_unknowns_are_solved_without_forming_the_normal_matrix(monkeypatch):
    monkeypatch.setattr("decouply.solvers.problem._weighted_rows._MAX_DENSE_UNKNOWNS", 5)
    system = dc.systems.random_system((6, 3, 4), (3,), rng=1)
    samples = sampled(system, 40)
    result = dc.decouple(samples, 3, 3, n_starts=3, progress=False)
    assert result.error_jacobian < 1e-12
    two = dc.decouple(
        sampled(F2, 30),
        (2, 2),
        (3, 3),
        solver=dc.VarPro(start=F2.scaled(1, [1.001, 1.0], [1.0, 1.0])),
        n_starts=1,
        progress=False,
    )
    assert two.error_jacobian < 1e-10


# The algebraic start


def test_generalised_eigenvectors_give_the_directions_of_one_layer():
    system = dc.systems.random_system((6, 4, 5), (3,), rng=2)
    J = system.jacobian(points(6, 30))
    found = cpd_directions(J, 4, np.random.default_rng(0))
    true = system.W[0] / np.linalg.norm(system.W[0], axis=1, keepdims=True)
    assert_allclose(np.abs(found @ true.T).max(axis=1), 1.0, rtol=1e-9)
    assert cpd_directions(J, 6, np.random.default_rng(0)) is None
    assert cpd_directions(0 * J, 2, np.random.default_rng(0)) is None


# Uncertainty


@pytest.mark.slow
def test_standard_errors_agree_with_the_spread_over_noisy_data():
    system = dc.systems.random_system((3, 2, 3), (3,), rng=4)
    clean = sampled(system, 40)
    u = np.linspace(-0.9, 0.9, 7)
    fits, claimed = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        noisy = dc.Samples(
            clean.X,
            F=clean.F + 0.01 * clean.F.std() * rng.normal(size=clean.F.shape),
            J=clean.J + 0.01 * clean.J.std() * rng.normal(size=clean.J.shape),
        )
        result = dc.decouple(noisy, 2, 3, solver=dc.VarPro(start=system), n_starts=1, progress=False)
        g = result.decoupling.g[0]
        fits.append(g(np.repeat(u[:, None], 2, axis=1)) - g.constants)
        claimed.append(result.uncertainty(u)[0])
    ratio = np.median(claimed, axis=0).mean(axis=0) / np.std(fits, axis=0).mean(axis=0)
    assert np.all((ratio > 0.3) & (ratio < 3.0)), ratio


def test_errors_shrink_with_the_noise_and_are_drawn():
    samples = sampled(F2, 40)
    result = recover(F2, samples)
    tiny = result.uncertainty()
    assert [e.shape for e in tiny] == [(40, 2), (40, 2)]
    assert max(e.max() for e in tiny) < 1e-6
    assert len(result.plot_functions().axes[0].collections) == 1


def test_a_rank_that_is_too_large_is_not_called_unique():
    system = dc.systems.random_system((3, 2, 3), (3,), rng=1)
    samples = sampled(system, 40)
    for data in (samples, dc.Samples(samples.X, J=samples.J), dc.Samples(samples.X, F=samples.F)):
        result = dc.decouple(data, 3, 3, n_starts=32, progress=False)
        if result.decoupling.importance(samples.X)[0].min() < 1e-9:
            assert not result.identifiability.locally_unique
            assert np.isinf(result.uncertainty([0.5])[0]).any()
        exact = dc.decouple(data, 2, 3, progress=False)
        assert exact.identifiability.locally_unique
        assert exact.identifiability.n_parameters == exact.decoupling.n_parameters


def test_equal_outputs_leave_constants_open_and_that_is_known():
    system = dc.systems.random_system((3, 2, 1), (3,), rng=1)
    double = dc.Decoupling([system.W[0], np.repeat(system.W[1], 2, axis=0)], system.g)
    result = dc.decouple(sampled(double, 60), 2, 3, progress=False)
    assert result.identifiability.locally_unique, str(result.identifiability)


def test_fixed_parts_stay_as_they_are_and_are_not_uncertain():
    rng = np.random.default_rng(0)
    inner = dc.systems.random_system((3, 2, 3), (3,), rng=1)
    wide = dc.Decoupling([inner.W[0] @ rng.normal(size=(3, 9)), inner.W[1]], inner.g)
    samples = sampled(wide, 40)
    W0 = rng.normal(size=(2, 9))
    result = dc.decouple(samples, 2, 3, solver=dc.VarPro(fixed={"W0": W0}), n_starts=4, progress=False)
    assert_array_equal(result.decoupling.W[0], W0)
    held = dc.decouple(
        sampled(inner, 40), 2, 3, solver=dc.VarPro(fixed={"g1": inner.g[0]}), n_starts=32, progress=False
    )
    assert held.uncertainty([0.5])[0].max() < 1e-9
    assert held.identifiability.n_parameters == 6 + 6
    jacobians = dc.Samples(samples.X, J=samples.J)
    open_ = dc.decouple(jacobians, 2, 3, solver=dc.VarPro(fixed={"W1": inner.W[1]}), n_starts=4, progress=False)
    assert not open_.decoupling.g[-1].constants.any()


@pytest.mark.slow
def test_the_table_of_starts_agrees_with_the_result():
    samples = sampled(F2, 30)
    exact = recover(F2, samples)
    assert {row.status for row in exact.starts} <= {
        dc.solvers.Status.EXACT,
        dc.solvers.Status.DROPPED,
        dc.solvers.Status.CONVERGED,
    }
    noisy = dc.Samples(
        samples.X, F=samples.F, J=samples.J * (1 + 1e-2 * np.random.default_rng(0).normal(size=samples.J.shape))
    )
    result = recover(F2, noisy, n_starts=32, as_given=True)
    known = [row for row in result.starts if np.isfinite(row.objective)]
    assert min(known, key=lambda row: row.objective).error_jacobian == pytest.approx(result.error_jacobian, rel=1e-6)
    path = recover(F2, noisy, n_starts=32, solver=dc.TwoStage(dc.VarPro(), max_runs=2)).path
    assert all(np.isfinite(row.error_jacobian) for row in path)


def test_a_rounding_floor_far_above_zero_is_recognised():
    """Values with a large offset cannot be met to the precision that their spread suggests."""
    shifted = dc.Decoupling(
        F2.W, [F2.g[0], dc.Functions(dc.Monomial(3), F2.g[1].C + np.array([[1e10, 0, 0, 0], [-1e10, 0, 0, 0]]))]
    )
    result = recover(shifted, sampled(shifted, 30))
    assert result.status is dc.solvers.Status.EXACT and len(result.starts) < 512


@pytest.mark.parametrize("n_starts", [1, 4])
def test_a_given_model_is_not_lost_where_elimination_would_lose_it(n_starts):
    """Three squares of two functions span all quadratics, so that elimination leaves the directions of W_1 open."""
    system = dc.systems.random_system((2, 2, 3, 4), (2, 2), rng=3)
    clean, rng = sampled(system, 60), np.random.default_rng(0)
    F, J = (a + 1e-3 * np.sqrt(np.mean(a**2)) * rng.normal(size=a.shape) for a in (clean.F, clean.J))
    noisy = dc.Samples(clean.X, F=F, J=J)
    result = recover(system, noisy, solver=dc.VarPro(start=system), n_starts=n_starts, as_given=True)
    assert result.error_jacobian <= dc.error_jacobian(J, system.jacobian(clean.X))
    assert len(result.starts) == n_starts and np.isfinite(result.starts[0].objective)


@pytest.mark.slow
def test_a_given_model_is_polished_where_starts_run_one_at_a_time(monkeypatch):
    monkeypatch.setattr("decouply.solvers.problem._weighted_rows._MAX_DENSE_UNKNOWNS", 3)
    near = dc.Decoupling([w * 1.001 for w in F2.W], F2.g)
    result = recover(F2, sampled(F2, 30), solver=dc.VarPro(start=near), n_starts=2)
    assert result.error_jacobian < 1e-6 and np.isfinite(result.starts[0].objective)


def test_a_poor_given_start_with_many_unknowns_gets_a_last_layer_that_fits(monkeypatch):
    monkeypatch.setattr("decouply.solvers.problem._weighted_rows._MAX_DENSE_UNKNOWNS", 3)
    rng = np.random.default_rng(0)
    poor = dc.Decoupling([*F2.W[:2], 100.0 * rng.normal(size=(3, 2))], F2.g)
    result = recover(F2, sampled(F2, 30), solver=dc.VarPro(start=poor, polish_steps=1, ridge=0.0), n_starts=1)
    assert result.history.objective[0] < 1e-12


def test_one_singular_normal_matrix_does_not_stop_the_others():
    least = 1.0 + 1e-14  # what the diagonal becomes with the least damping
    M = np.stack([np.eye(2), [[1.0, least], [least, 1.0]]])
    move, _ = Dense(M, np.ones((2, 2))).step(np.zeros(2))
    assert_allclose(move[0], 1.0)
    assert np.all(np.isnan(move[1]))


def test_a_warm_start_must_speak_the_same_basis():
    start = dc.decouple(sampled(F2), (2, 2), (3, 3), basis=dc.Chebyshev, progress=False).decoupling
    with pytest.raises(dc.InputError, match="the bases Monomial"):
        recover(F2, sampled(F2), solver=dc.VarPro(start=start))


def test_the_solver_is_a_value():
    assert hash(dc.VarPro()) == hash(dc.VarPro()) and dc.VarPro() == dc.VarPro()


def test_few_starts_for_noisy_values_settle_soon_and_as_low():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    samples = dc.Samples(X, F=(X[:, 0] + X[:, 1]) ** 2 + 0.3 * rng.normal(size=200))
    few, more = (dc.decouple(samples, 1, 3, n_starts=n, rng=0, progress=False) for n in (8, 32))
    polished = [row for row in few.starts if np.isfinite(row.objective)]
    assert {row.status for row in polished} == {few.status} == {dc.solvers.Status.CONVERGED}
    assert max(row.steps for row in few.starts) <= 15 < max(row.steps for row in more.starts)
    assert_allclose(few.relative_rmse(), more.relative_rmse(), rtol=1e-3)
