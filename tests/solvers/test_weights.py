"""Weights per sample and output, in all solvers."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from benchmarks import reference
from benchmarks.problems import noise_samples, problem_of
from decouply.solvers.alternating._coefficient_updates import update_c_constr, update_c_proj, update_c_proj_weighted
from decouply.solvers.alternating._loop import draw_factors
from decouply.solvers.alternating._sweep import explicit_residual, sweep
from decouply.solvers.problem._weighted_rows import weighted_mean
from tests.strategies import points, random_model, sampled

from .every import quick_solvers
from .test_solvers import Broken

UPDATES = {"proj": update_c_proj, "constr": update_c_constr}
ALL = quick_solvers(40, "weights")
ANY_LAYER = [solver for solver in ALL if "layers" in solver.supports]


def weighted(samples, weights):
    return dc.Samples(samples.X, F=samples.F, J=samples.J, weights=weights)


def random_weights(S, n, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 3.0, (S, n))


def noisy(system, S=40, seed=0):
    samples = sampled(system, S, seed)
    rng = np.random.default_rng(seed + 1)
    return dc.Samples(
        samples.X,
        F=samples.F + 0.05 * samples.F.std() * rng.normal(size=samples.F.shape),
        J=samples.J + 0.05 * samples.J.std() * rng.normal(size=samples.J.shape),
    )


def swept(samples, update, ranks, lam=1e-2, n_sweeps=2, model=None):
    problem = problem_of(samples, ranks, (3,) * len(ranks))
    state = draw_factors(problem, dc.solvers.Normal() if model is None else model, 1, np.random.default_rng(5))
    for _ in range(n_sweeps):
        state = sweep(problem, state, lam, update)
    return state


def objective(samples, model, lam):
    """The definition, sample by sample, for weights by output."""
    total = 0.0
    for w, F, J, F_hat, J_hat in zip(
        samples.weights, samples.F, samples.J, model(samples.X), model.jacobian(samples.X), strict=True
    ):
        M = np.diag(w)
        total += np.trace((J - J_hat).T @ M @ (J - J_hat)) + lam * (F - F_hat) @ M @ (F - F_hat)
    return total


# Both shapes say the same where they can


@pytest.mark.parametrize("update", [update_c_proj, update_c_proj_weighted, update_c_constr])
@pytest.mark.parametrize("ranks", [(2,), (5,), (2, 2), (2, 3, 2)], ids=str)
def test_the_same_weights_in_another_shape_give_the_same_factors(update, ranks):
    samples = noise_samples(3, 4, 40)
    w = np.random.default_rng(1).uniform(0.5, 2.0, 40)
    one, two = (swept(weighted(samples, given), update, ranks) for given in (w, np.repeat(w[:, None], 3, axis=1)))
    for a, b in zip((*one.W, *one.G), (*two.W, *two.G), strict=True):
        assert_allclose(a, b, rtol=0, atol=1e-7 * np.abs(a).max())
    assert_allclose(one.residual_J, two.residual_J, rtol=1e-8)
    assert_allclose(one.residual_F, two.residual_F, rtol=1e-8)


@pytest.mark.parametrize("solver", ALL, ids=repr)
def test_solvers_agree_on_the_same_weights_in_another_shape(solver):
    samples = noisy(dc.systems.random_system((4, 2, 3), (3,), rng=2))
    w = np.random.default_rng(1).uniform(0.5, 2.0, 40)
    one, two = (
        dc.decouple(weighted(samples, given), 2, 3, solver=solver, as_given=True, n_starts=2, progress=False)
        for given in (w, np.repeat(w[:, None], 3, axis=1))
    )
    assert two.error_jacobian == pytest.approx(one.error_jacobian, rel=1e-4)
    assert two.error_values == pytest.approx(one.error_values, rel=1e-4)


@pytest.mark.parametrize("update", [update_c_proj, update_c_constr])
def test_an_output_weighted_twice_is_an_output_given_twice(update):
    samples = noise_samples(3, 4, 40)
    twice = dc.Samples(samples.X, F=samples.F[:, [0, 1, 2, 2]], J=samples.J[:, [0, 1, 2, 2]])
    model = random_model([4, 2, 2, 3], 5)
    double = dc.Decoupling([*model.W[:-1], model.W[-1][[0, 1, 2, 2]]], model.g)
    one = swept(weighted(samples, np.tile([1.0, 1.0, 2.0], (40, 1))), update, (2, 2), model=model)
    two = swept(twice, update, (2, 2), model=double)
    assert_allclose(one.residual_J, two.residual_J, rtol=1e-8)
    assert_allclose(one.residual_F, two.residual_F, rtol=1e-8)
    assert_allclose(one.W[0], two.W[0], rtol=0, atol=1e-8 * np.abs(two.W[0]).max())


@pytest.mark.parametrize("update", [update_c_proj, update_c_proj_weighted, update_c_constr])
def test_what_has_weight_0_does_not_matter(update):
    samples = sampled(dc.systems.f2(), 40)
    w = np.random.default_rng(0).integers(0, 2, (40, 3)).astype(float)
    F, J = np.where(w > 0.0, samples.F, 1e3), np.where(w[..., None] > 0.0, samples.J, 1e3)
    spoiled = dc.Samples(samples.X, F=F, J=J, weights=w)
    a, b = (
        swept(data, update, (2, 2), model=random_model([3, 2, 2, 3], 5)) for data in (weighted(samples, w), spoiled)
    )
    for ours, theirs in zip((*a.W, *a.G), (*b.W, *b.G), strict=True):
        assert_allclose(ours, theirs, rtol=0, atol=1e-6 * np.abs(theirs).max())


# Against dense least squares


def dense_sweep(samples, state, lam, method):
    """One sweep for one layer with the rows multiplied by roots of the weights, by `lstsq`. Slow on purpose."""
    X, F, J = samples.X, samples.F, samples.J
    S, n = F.shape
    root = [np.diag(w) for w in np.sqrt(samples.weights)]
    (W0, W1), G = (w[0] for w in state.W), state.G[0][0]
    r = G.shape[1]
    rows = np.concatenate([root[s] @ (W1 * G[s]) for s in range(S)])
    W0 = np.linalg.lstsq(rows, np.concatenate([root[s] @ J[s] for s in range(S)]), rcond=None)[0]
    u = X @ W0.T
    slopes, values = ([f(u[:, j], 3) for j in range(r)] for f in (reference.derivatives, reference.values))
    target = np.concatenate(
        [(root[s] @ J[s]).ravel() for s in range(S)] + [np.sqrt(lam) * root[s] @ F[s] for s in range(S)]
    )
    if method == "constr":
        of_J = [[np.outer((root[s] @ W1)[:, j], W0[j]).ravel() for j in range(r)] for s in range(S)]
        design = np.concatenate(
            [np.concatenate([np.outer(of_J[s][j], slopes[j][s]) for j in range(r)], axis=1) for s in range(S)]
            + [
                np.sqrt(lam) * np.concatenate([np.outer((root[s] @ W1)[:, j], values[j][s]) for j in range(r)], axis=1)
                for s in range(S)
            ]
        )
        C = np.linalg.lstsq(design, target, rcond=None)[0].reshape(r, 4)
    else:
        free_G, free_R = np.empty((S, r)), np.empty((S, r))
        for s in range(S):
            columns = np.stack([np.outer((root[s] @ W1)[:, j], W0[j]).ravel() for j in range(r)], axis=1)
            free_G[s] = np.linalg.lstsq(columns, (root[s] @ J[s]).ravel(), rcond=None)[0]
            free_R[s] = np.linalg.lstsq(root[s] @ W1, root[s] @ F[s], rcond=None)[0]
        w = np.sqrt(samples.weights.mean(axis=1))
        C = np.empty((r, 4))
        for j in range(r):
            design = np.concatenate([w[:, None] * slopes[j], np.sqrt(lam) * w[:, None] * values[j]])
            C[j] = np.linalg.lstsq(design, np.concatenate([w * free_G[:, j], np.sqrt(lam) * w * free_R[:, j]]))[0]
    G, R = (np.stack([table[j] @ C[j] for j in range(r)], axis=1) for table in (slopes, values))
    design = np.concatenate(
        [np.kron(root[s], (G[s][:, None] * W0).T) for s in range(S)]
        + [np.sqrt(lam) * np.kron(root[s], R[s]) for s in range(S)]
    )
    W1 = np.linalg.lstsq(design, target, rcond=None)[0].reshape(n, r)
    return W0, W1, G, R


@pytest.mark.parametrize("method", ["proj", "constr"])
@pytest.mark.parametrize("rank", [2, 3])
def test_one_sweep_gives_the_factors_of_dense_least_squares(method, rank):
    samples = weighted(noise_samples(3, 4, 30), random_weights(30, 3))
    problem = problem_of(samples, (rank,), (3,))
    state = draw_factors(problem, dc.solvers.Normal(), 1, np.random.default_rng(4))
    fast = sweep(problem, state, 1e-2, UPDATES[method])
    for ours, theirs in zip((*fast.W, *fast.G, fast.R), dense_sweep(samples, state, 1e-2, method), strict=True):
        assert_allclose(ours[0], theirs, rtol=0, atol=1e-8 * np.abs(theirs).max())


@pytest.mark.parametrize("ranks", [(2,), (2, 2), (2, 3, 2)], ids=str)
def test_residuals_are_those_of_the_definition(ranks):
    samples = weighted(noise_samples(3, 4, 30), random_weights(30, 3))
    problem = problem_of(samples, ranks, (3,) * len(ranks))
    state = draw_factors(problem, dc.solvers.Normal(), 2, np.random.default_rng(4))
    for _ in range(2):
        state = sweep(problem, state, 0.3, update_c_constr)
    assert_allclose(state.residual_J, explicit_residual(problem, state), rtol=1e-9)
    for b in range(2):
        g = [
            dc.Functions(layer.bases, C[b], domain[b])
            for layer, C, domain in zip(problem.layers, state.C, state.domain, strict=True)
        ]
        model = problem.model([w[b] for w in state.W], g)
        expected = objective(samples, model, 0.3)
        assert state.residual_J[b] + 0.3 * state.residual_F[b] == pytest.approx(expected, rel=1e-9)


def test_the_inner_factor_is_a_minimum():
    """With its coefficients held, no other W_1 of two layers does better at the moment it is updated."""
    samples = weighted(noise_samples(3, 4, 30), random_weights(30, 3))
    problem = problem_of(samples, (2, 2), (3, 3))
    state = draw_factors(problem, dc.solvers.Normal(), 1, np.random.default_rng(4))
    after = sweep(problem, state, 1e-2, update_c_constr)
    best = dataclasses.replace(after, W=[after.W[0], after.W[1], state.W[2]], G=[after.G[0], state.G[1]])
    rng = np.random.default_rng(0)
    lowest = explicit_residual(problem, best)[0]
    for _ in range(10):
        moved = best.W[1] * (1 + 1e-3 * rng.normal(size=best.W[1].shape))
        assert explicit_residual(problem, dataclasses.replace(best, W=[best.W[0], moved, best.W[2]]))[0] > lowest


# VarPro


@pytest.mark.parametrize("dims", [(3, 2, 3), (3, 2, 2, 3)], ids=str)
def test_a_polished_model_is_a_stationary_point_of_the_weighted_objective(dims):
    samples = noisy(random_model(list(dims), 3))
    samples = weighted(samples, random_weights(40, 3, seed=1))
    degrees = (3,) * (len(dims) - 2)
    solver = dc.VarPro(ridge=0.0)
    result = dc.decouple(samples, dims[1:-1], degrees, solver=solver, as_given=True, n_starts=16, progress=False)
    model = result.decoupling
    w, F = samples.weights, samples.F
    sizes = np.sum(w[:, :, None] * samples.J**2), np.sum(w * (F - weighted_mean(F, w)) ** 2)
    lam = sizes[0] / sizes[1]
    parts = [*model.W, *(g.C for g in model.g)]

    def at(arrays):
        W, C = arrays[: len(model.W)], arrays[len(model.W) :]
        functions = [g.with_coefficients(c) for g, c in zip(model.g, C, strict=True)]
        return objective(samples, dc.Decoupling(W, functions), lam) / sizes[0]

    lowest = at(parts)
    for i, part in enumerate(parts):
        for index in np.ndindex(part.shape):
            if i >= len(model.W) and i < len(parts) - 1 and index[1] == 0:
                continue  # constants of inner layers are 0 by definition
            step = 1e-4 * max(np.abs(part).max(), 1e-3)
            move = np.zeros(part.shape)
            move[index] = step
            high, low = ([*parts[:i], part + d, *parts[i + 1 :]] for d in (move, -move))
            slope, bend = (at(high) - at(low)) / 2.0, (at(high) + at(low)) / 2.0 - lowest
            assert abs(slope) < 1e-7 * lowest + 0.05 * abs(bend), (i, index)


def test_weights_of_outputs_decide_which_output_is_met():
    """One function cannot meet two different outputs: the one with the weight wins."""
    X = points(2, 60)
    samples = dc.Samples.from_function(lambda Z: np.stack([Z[:, 0] ** 3, Z[:, 1] ** 3], axis=1), X)
    for solver in (dc.VarPro(), dc.Constr(lam=1.0), dc.Proj(lam=1.0)):
        for output in (0, 1):
            w = np.full((60, 2), 1e-6)
            w[:, output] = 1.0
            result = dc.decouple(weighted(samples, w), 1, 3, solver=solver, n_starts=16, progress=False)
            assert result.relative_rmse()[output] < 0.1 and result.relative_rmse()[1 - output] > 10


def test_many_unknowns_take_weights_too(monkeypatch):
    monkeypatch.setattr("decouply.solvers.problem._weighted_rows._MAX_DENSE_UNKNOWNS", 5)
    system = dc.systems.random_system((6, 3, 4), (3,), rng=1)
    result = dc.decouple(weighted(sampled(system, 40), random_weights(40, 4)), 3, 3, n_starts=3, progress=False)
    assert result.error_jacobian < 1e-10


def test_exact_systems_are_found_whatever_the_weights():
    system = dc.systems.f2()
    samples = weighted(sampled(system, 30), random_weights(30, 3))
    result = dc.decouple(samples, (2, 2), (3, 3), progress=False)
    assert result.status is dc.solvers.Status.EXACT and dc.factor_match(result.decoupling, system) > 1 - 1e-8
    assert result.identifiability.locally_unique
    assert all(np.all(np.isfinite(e)) for e in result.uncertainty())


# Weights that do not see everything


def test_standard_errors_do_not_depend_on_outputs_without_weight():
    system = dc.systems.random_system((3, 2, 3), (3,), rng=4)
    samples = noisy(system)
    w = np.random.default_rng(0).uniform(0.5, 2.0, (40, 3))
    w[:, 2] = 0.0
    w[0, 2] = 1e-12  # every output must be seen by one sample
    fewer = dc.Samples(samples.X, F=samples.F[:, :2], J=samples.J[:, :2], weights=w[:, :2])
    fits = [
        dc.decouple(data, 2, 3, solver=dc.VarPro(start=start), n_starts=1, progress=False)
        for data, start in (
            (weighted(samples, w), system),
            (fewer, system.with_parts(W=[system.W[0], system.W[1][:2]])),
        )
    ]
    first, second = (fit.uncertainty(np.linspace(-0.9, 0.9, 5))[0] for fit in fits)
    assert_allclose(first, second, rtol=0.1)  # degrees of freedom and the size of parameters are counted differently


@pytest.mark.parametrize("method", [dc.Proj, dc.Constr])
def test_a_start_that_fails_does_not_stop_the_others(method):
    samples = noisy(dc.systems.f2())
    solver = method(start=Broken(2, draws_per_start=6), stopping=dc.solvers.Stopping(max_steps=10))
    for weights in (random_weights(40, 3), np.ones((40, 3))):
        solver.start.left = 12
        result = dc.decouple(weighted(samples, weights), (2, 2), (3, 3), solver=solver, n_starts=4, progress=False)
        assert [row.status is dc.solvers.Status.NONFINITE for row in result.starts] == [True, True, False, False]


# Refused


def test_an_output_without_any_weight_is_refused():
    samples = sampled(dc.systems.f2(), 20)
    w = np.ones((20, 3))
    w[:, 1] = 0.0
    with pytest.raises(dc.InputError, match=r"`weights` must be above 0 for every output.*outputs \[1\]"):
        dc.decouple(weighted(samples, w), (2, 2), (3, 3), progress=False)
    with pytest.raises(dc.InputError, match="Got 0 throughout: scale them up"):
        dc.decouple(weighted(samples, 0.0 * w), (2, 2), (3, 3), progress=False)
