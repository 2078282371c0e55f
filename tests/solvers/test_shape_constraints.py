"""Shapes of functions are guaranteed, in every solver, and cost little where the data agree."""

import numpy as np
import pytest

import decouply as dc
from tests.solvers.test_roughness_penalty import noisy_saturations

SPLINE = dc.Spline(10)
SOLVERS = [
    dc.VarPro(),
    dc.Constr(stopping=dc.solvers.Stopping(max_steps=40)),
    dc.Proj(stopping=dc.solvers.Stopping(max_steps=40)),
]


def with_slopes(seed=0, S=120):
    """Noisy saturations with noisy Jacobians: what every solver takes."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (S, 3))
    W, V = np.array([[1.0, 0.4, -0.3], [0.3, -1.0, 0.5]]), np.array([[1.0, 0.5], [-0.4, 1.0]])
    u = X @ W.T
    J = np.einsum("ij,sj,jk->sik", V, 2.0 * (np.abs(u) < 0.4), W)
    F = np.clip(2 * u, -0.8, 0.8) @ V.T
    noisy = F + 0.1 * F.std(axis=0) * rng.normal(size=F.shape), J + 0.1 * J.std() * rng.normal(size=J.shape)
    return dc.Samples(X, F=noisy[0], J=noisy[1]), dc.Samples(X, F=F)


def slopes(model):
    """Of all functions, on their domains and somewhat beyond."""
    return [g.slopes(np.linspace(g.middle - 1.3 * g.half_width, g.middle + 1.3 * g.half_width, 800)) for g in model.g]


def fitted(samples, shapes, basis=SPLINE, solver=None, ranks=2):
    return dc.decouple(samples, ranks, basis=basis, solver=solver, n_starts=6, shapes=shapes, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(("shape", "sign"), [("increasing", 1.0), ("decreasing", -1.0)])
def test_no_slope_is_wrong_in_any_solver(solver, shape, sign):
    samples, truth = with_slopes()
    result, plain = fitted(samples, shape, solver=solver), fitted(samples, None, solver=solver)
    for table in slopes(result.decoupling):
        assert np.min(sign * table) >= -1e-12 * np.abs(table).max()
    assert any(np.min(t) < -0.01 and np.max(t) > 0.01 for t in slopes(plain.decoupling))
    assert result.relative_rmse(truth).max() < 1.5 * plain.relative_rmse(truth).max()
    assert "The shapes that were asked for change the relative error" in result.notes[-1]


def test_functions_bend_one_way_in_both_layers():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (120, 2))
    F = np.exp(X @ [[1.0], [0.5]]) + 0.02 * rng.normal(size=(120, 1))
    model = fitted(dc.Samples(X, F=F), ["convex", "concave"], ranks=(1, 1), basis=dc.Spline(6)).decoupling
    for table, sign in zip(slopes(model), (1.0, -1.0), strict=True):
        assert np.min(sign * np.diff(table, axis=0)) >= -1e-9 * np.abs(table).max()


def test_bernstein_polynomials_rise_too():
    samples, _ = noisy_saturations()
    (table,) = slopes(fitted(samples, "increasing", basis=dc.bases.Bernstein(9)).decoupling)
    assert np.min(table) >= -1e-9 * np.abs(table).max()


@pytest.mark.parametrize(("shape", "sign"), [("odd", -1.0), ("even", 1.0)])
def test_symmetric_functions_are_symmetric_about_the_middle(shape, sign):
    samples, _ = noisy_saturations()
    (g,) = fitted(samples, shape).decoupling.g
    t = np.linspace(0, 1, 50)[:, None] * g.half_width
    there, back = (g(g.middle + s * t) - g(g.middle[None]) for s in (1.0, -1.0))
    np.testing.assert_allclose(back, sign * there, atol=1e-9 * np.abs(there).max())


def test_nonnegative_functions_cost_nothing():
    samples, _ = noisy_saturations()
    result, plain = fitted(samples, "nonnegative"), fitted(samples, None)
    (g,) = result.decoupling.g
    assert np.min(g(np.linspace(*g.domain.T, 500))) >= -1e-12
    assert result.error_values <= 1.05 * plain.error_values


def test_functions_are_matched_with_the_list():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (150, 2))
    u = X @ [[1.0, 0.3], [-0.4, 1.0]]
    F = np.stack([np.tanh(2 * u[:, 0]) + u[:, 1] ** 2, u[:, 1] ** 2 - 0.5 * np.tanh(2 * u[:, 0])], axis=1)
    samples = dc.Samples(X, F=F + 0.01 * rng.normal(size=F.shape))
    for shapes, rising in ((["increasing", "convex"], 0), (["convex", "increasing"], 1)):
        result = fitted(samples, shapes)
        (table,) = slopes(result.decoupling)
        assert np.min(table[:, rising]) >= -1e-9
        assert np.min(np.diff(table[:, 1 - rising])) >= -1e-9
        assert "against" not in result.notes[-1]


def test_an_impossible_wish_is_told_with_its_price():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (100, 2))
    F = np.abs(X @ [[1.0], [0.5]]) + 0.01 * rng.normal(size=(100, 1))
    result = fitted(dc.Samples(X, F=F), "increasing", ranks=1)
    assert "the samples contradict them" in result.notes[-1]


@pytest.mark.parametrize(
    ("shapes", "basis", "message"),
    [
        ("round", dc.Spline(4), "`shapes` must be None or words among increasing"),
        (["increasing"], dc.Spline(4), "`shapes` must have one entry per function of a layer, 2 here"),
        ([["odd"] * 2] * 2, dc.Spline(4), "`shapes` must have one entry per layer, 1 here"),
        (3, dc.Spline(4), "`shapes` must be a word"),
        ("increasing", dc.Monomial(3), "`shapes` must be asked of a basis that can guarantee them"),
        ("nonnegative", dc.Monomial(3), "`shapes` must be asked of a basis that can guarantee them"),
        ("odd", dc.bases.Exponential(), "`shapes` must be possible"),
    ],
)
def test_wrong_shapes_are_refused(shapes, basis, message):
    samples, _ = noisy_saturations(S=20)
    with pytest.raises(dc.InputError, match=message):
        fitted(samples, shapes, basis=basis)


def test_shapes_hold_in_a_model_whose_ranks_were_chosen():
    X = np.random.default_rng(1).uniform(-1, 1, (60, 2))
    samples = dc.Samples(X, F=(X @ [[1.0], [0.5]]) ** 3 @ [[1.0, -0.4]])
    result = dc.decouple(samples, "auto", 3, basis=dc.bases.Bernstein, shapes="increasing", progress=False)
    g = result.decoupling.g[0]
    slopes = g.slopes(np.linspace(g.domain[:, 0], g.domain[:, 1], 300))
    assert result.settings.shapes == "increasing" and np.all(slopes * np.sign(slopes.sum(axis=0)) >= -1e-9)


@pytest.mark.parametrize(
    ("shapes", "basis", "message"),
    [
        (["increasing"], dc.Spline(4), '`shapes` must be one word with ranks="auto"'),
        ("increasing", dc.Monomial, "`shapes` must be asked of a basis"),
    ],
)
def test_wrong_shapes_are_refused_before_ranks_are_looked_for(shapes, basis, message):
    samples = dc.Samples(np.eye(3), F=np.eye(3))
    with pytest.raises(dc.InputError, match=message):
        dc.decouple(samples, "auto", basis=basis, shapes=shapes, progress=False)
