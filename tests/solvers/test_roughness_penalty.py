"""The penalty on roughness, its derivatives, and what it does to noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.bases import LayerBasis
from decouply.solvers.inference._linearisation import linearise
from decouply.solvers.inference._uncertainty import Uncertainty
from decouply.solvers.least_squares._parameters import Parameters, Unknowns
from decouply.solvers.least_squares._roughness_penalty import Penalty

LAYERS = (LayerBasis.of((dc.Spline(4), dc.Monomial(3), dc.Spline(5, 2)), 3), LayerBasis.of(dc.Spline(4), 2))


def parameters(rng, n=2, m=3, B=2):
    """Those of two layers; the last coefficients have constants."""
    first, last = LAYERS[0].size, LAYERS[1].size
    c = rng.normal(size=(B, 3, first))
    for j, size in enumerate(LAYERS[0].sizes):
        c[:, j, size:] = 0.0
    W = tuple(rng.normal(size=(B, *shape)) for shape in ((3, m), (2, 3), (n, 2)))
    return Parameters(W, tuple(rng.normal(size=(B, r)) for r in (3, 2)), (c, rng.normal(size=(B, 2, 1 + last))))


def test_matrix_and_right_hand_side_are_derivatives_of_the_penalty():
    penalty = Penalty.of(LAYERS, 0.3, everything=True)
    theta, unknowns = parameters(np.random.default_rng(0)), Unknowns.of(LAYERS)
    N = unknowns.count(theta)
    M, g, cost = np.zeros((2, N, N)), np.zeros((2, N)), np.zeros(2)
    penalty.add(M, g, cost, theta, unknowns)
    assert_allclose(cost, penalty.value(theta), rtol=1e-12)
    h = 1e-6
    for k in range(N):
        step = np.zeros((2, N))
        step[:, k] = h
        ahead, behind = (
            penalty.value(unknowns.after_step(theta, step)),
            penalty.value(unknowns.after_step(theta, -step)),
        )
        assert_allclose(g[:, k], -(ahead - behind) / (4 * h), atol=1e-6 * np.abs(g).max())
    assert_allclose(M, M.mT)


def test_only_bases_that_ask_for_it_are_smoothed():
    penalty = Penalty.of(LAYERS, 0.3, everything=False)
    assert [list(w) for w in penalty.weights] == [[0.3, 0.0, 0.3], [0.3, 0.3]]
    assert Penalty.of((LayerBasis.of(dc.Monomial(3), 2),), 0.3, everything=False) is None


def test_no_scale_can_hide_from_the_penalty():
    penalty, theta = Penalty.of(LAYERS, 0.3, everything=True), parameters(np.random.default_rng(1))
    before = penalty.value(theta)
    (W_0, W_1, W_2), (c_1, c_2) = theta.W, theta.c
    scaled = Parameters((W_0, 10.0 * W_1, W_2 / 5.0), theta.b, (0.1 * c_1, 5.0 * c_2))
    assert_allclose(penalty.value(scaled), before, rtol=1e-12)


def test_functions_that_have_vanished_leave_weights_finite():
    """The inverse of their numbers in the Gauss-Newton matrix, which are below 1e-300, would overflow."""
    penalty, theta = Penalty.of(LAYERS, 0.3, everything=True), parameters(np.random.default_rng(2), B=1)
    W = (*theta.W[:2], 1e-159 * theta.W[2])
    gone, unknowns = Parameters(W, theta.b, theta.c), Unknowns.of(LAYERS)
    A = np.random.default_rng(3).normal(size=(unknowns.count(gone),) * 2)
    plain = 1e-310 * A @ A.T
    better, used = penalty.improve_weights(plain, 1.0, 60, gone, unknowns)
    assert np.isfinite(used) and all(np.isfinite(w).all() for w in better.weights)


def noisy_saturations(S=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (S, 3))
    W, V = np.array([[1.0, 0.4, -0.3], [0.3, -1.0, 0.5]]), rng.normal(size=(2, 2))

    def f(X):
        return np.clip(2.0 * X @ W.T, -0.8, 0.8) @ V.T

    F = f(X)
    T = rng.uniform(-1, 1, (500, 3))
    return dc.Samples(X, F=F + 0.05 * F.std(axis=0) * rng.normal(size=F.shape)), dc.Samples(T, F=f(T))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This model is further")  # without smoothing and without a ridge they do
def test_splines_do_not_follow_noise():
    samples, fresh = noisy_saturations()
    found = {
        smoothing: dc.decouple(
            samples,
            2,
            basis=dc.Spline(16),
            solver=dc.VarPro(smoothing=smoothing, ridge=0.0),
            n_starts=8,
            progress=False,
        )
        for smoothing in ("auto", None)
    }
    errors = {smoothing: result.relative_rmse(fresh).max() for smoothing, result in found.items()}
    assert errors["auto"] < 4.0 and errors["auto"] < 0.5 * errors[None]
    smooth = found["auto"]
    assert smooth.n_effective < smooth.decoupling.n_parameters and "effective parameters" in smooth.notes[-1]
    assert found[None].n_effective is None


def test_a_number_smooths_functions_of_any_basis():
    samples, _ = noisy_saturations()
    rough = []
    for weight in (1e-6, 10.0):
        model = dc.decouple(samples, 2, 7, solver=dc.VarPro(smoothing=weight), n_starts=4, progress=False).decoupling
        scale = np.linalg.norm(model.W[-1], axis=0)
        rough.append(np.sum(((model.g[0].C[:, 1:] @ dc.Monomial(7).roughness().T) * scale[:, None]) ** 2))
    assert rough[1] < 0.1 * rough[0]


def one_curve(curve, slope=None, S=60, noise=0.0):
    """Samples of one function of two inputs, and fresh ones."""
    rng = np.random.default_rng(5)
    X, T, w = rng.uniform(-1, 1, (S, 2)), rng.uniform(-1, 1, (400, 2)), np.array([0.6, 0.4])
    F = curve(X @ w)[:, None] * [1.0, -0.5]
    J = None if slope is None else np.einsum("n,s,m->snm", [1.0, -0.5], slope(X @ w), w)
    noisy = F + noise * F.std(axis=0) * rng.normal(size=F.shape)
    return dc.Samples(X, F=noisy, J=J), dc.Samples(T, F=curve(T @ w)[:, None] * [1.0, -0.5])


def smoothed(samples, pieces, **options):
    solver = dc.VarPro(**options)
    return dc.decouple(samples, 1, basis=dc.Spline(pieces), solver=solver, n_starts=1, progress=False)


@pytest.mark.slow
def test_smooth_curves_are_held_by_third_differences_and_kinks_by_second_ones(monkeypatch):
    def kink(u):
        return np.abs(u - 0.1)

    found = {}
    for orders in ((2,), (2, 3)):
        monkeypatch.setattr(dc.Spline, "orders", orders)
        for curve in (np.exp, kink):
            samples, fresh = one_curve(curve, noise=0.05)
            result = smoothed(samples, 8)
            found[orders, curve] = result.n_effective, result.relative_rmse(fresh).max()
    assert found[(2, 3), np.exp][0] < found[(2,), np.exp][0] - 0.5
    assert found[(2, 3), np.exp][1] < found[(2,), np.exp][1]
    assert found[(2, 3), kink] == found[(2,), kink]


def test_the_weight_of_values_follows_the_misfits():
    """Slopes that jump cannot be met; values that bend can, and should not pay for the slopes."""
    samples, fresh = one_curve(lambda u: np.abs(u - 0.1), lambda u: np.sign(u - 0.1))
    equal, chosen = smoothed(samples, 24, lam=1.0), smoothed(samples, 24)
    assert equal.lam == 1.0 and chosen.lam > 10.0 and any("as much as Jacobians" in note for note in chosen.notes)
    assert chosen.relative_rmse(fresh).max() < 0.6 * equal.relative_rmse(fresh).max()


def test_values_and_jacobians_count_the_same_where_nothing_is_smoothed():
    samples, _ = one_curve(np.tanh, lambda u: 1 - np.tanh(u) ** 2)
    assert dc.decouple(samples, 1, 3, n_starts=2, progress=False).lam == 1.0
    with pytest.raises(dc.InputError, match="`lam` must be"):
        dc.VarPro(lam=0.0)


def test_bases_without_an_order_of_roughness_have_their_own():
    third, second = (Penalty.of(LAYERS, 0.3, everything=True, order=order) for order in (3, 2))
    assert not np.array_equal(third.roots[0][0], second.roots[0][0])  # cubic pieces
    assert np.array_equal(third.roots[0][1], second.roots[0][1])  # a polynomial


@pytest.mark.parametrize("smoothing", [-1.0, np.nan])
def test_wrong_weights_are_refused(smoothing):
    with pytest.raises(dc.InputError, match="`smoothing` must be"):
        dc.VarPro(smoothing=smoothing)


def test_a_search_with_few_pieces_ends_with_those_asked_for():
    samples, fresh = noisy_saturations()
    fine = dc.decouple(samples, 2, basis=dc.Spline(32), n_starts=8, progress=False)
    assert fine.decoupling.g[0].basis == dc.Spline(32)
    assert fine.relative_rmse(fresh).max() < 3.0


def test_functions_are_the_same_in_finer_bases():
    old, new = LayerBasis.of(dc.Spline(8), 2), LayerBasis.of(dc.Spline(32), 2)
    C = np.random.default_rng(3).normal(size=(4, 2, 1 + old.size))
    t = np.linspace(-1, 1, 300)[:, None].repeat(2, axis=1)
    before, after = (
        c[..., None, :, 0] + np.einsum("srd,brd->bsr", layer.evaluate(t), c[..., 1:])
        for layer, c in ((old, C), (new, old.rewritten(C, new)))
    )
    assert_allclose(after, before, atol=1e-10)


@pytest.mark.parametrize("solver", [dc.Proj, dc.Constr])
def test_alternating_solvers_smooth_too(solver):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (40, 2))
    u = X @ [[1.0, 0.3], [-0.4, 1.0]]
    J = np.einsum("ij,sj,jk->sik", np.eye(2), 1.0 - np.tanh(u) ** 2, [[1.0, -0.4], [0.3, 1.0]])
    samples = dc.Samples(X, F=np.tanh(u), J=J + 0.3 * J.std() * rng.normal(size=J.shape))
    rough, effective = {}, {}
    for smoothing in ("auto", None, 1e3):
        method = solver(smoothing=smoothing, stopping=dc.solvers.Stopping(max_steps=30))
        result = dc.decouple(samples, 2, basis=dc.Spline(16), solver=method, n_starts=2, progress=False)
        g, size = result.decoupling.g[0], np.linalg.norm(result.decoupling.W[-1], axis=0)
        rough[smoothing] = np.sum(((g.C[:, 1:] @ dc.Spline(16).roughness().T) * size[:, None]) ** 2)
        effective[smoothing] = result.n_effective
    assert rough[1e3] < 0.1 * rough["auto"] < 0.05 * rough[None]
    assert effective[None] is None and effective[1e3] < effective["auto"] < 40


def test_bands_of_smoothed_functions_cover_the_truth():
    samples, _ = noisy_saturations()
    result = dc.decouple(samples, 2, basis=dc.Spline(16), n_starts=8, progress=False)
    (errors,) = result.uncertainty()
    (plain,) = Uncertainty(linearise(result.decoupling, samples)).of_functions()
    assert np.all(np.isfinite(errors)) and np.median(errors) < 0.9 * np.median(plain)
