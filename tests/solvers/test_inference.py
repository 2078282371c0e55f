"""What the data determine: which functions, how well, and whether other models fit as well."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.solvers.inference._canonical_moves import canonical_moves
from decouply.solvers.inference._identifiability import free_moves, identifiability
from decouply.solvers.inference._linearisation import linearise
from decouply.solvers.inference._uncertainty import distances_of_functions
from decouply.solvers.least_squares._fitting_problem import model_of
from tests.strategies import sampled

FREE = dc.systems.random_system((2, 3, 2), (2,), rng=0)


def noisy(model, level=0.01, S=40, seed=0):
    clean, rng = sampled(model, S, seed=seed), np.random.default_rng(seed)
    F, J = (a + level * a.std() * rng.normal(size=a.shape) for a in (clean.F, clean.J))
    return dc.Samples(clean.X, F=F, J=J)


def fit(samples, start, **options):
    options = {"solver": dc.VarPro(start=start), "n_starts": 1} | options
    return dc.decouple(samples, start.ranks, start.degrees, progress=False, **options)


def test_functions_that_can_be_mixed_are_named_and_have_no_band():
    result = fit(noisy(FREE), FREE, solver=dc.VarPro(start=FREE, ridge=0.0))
    assert result.identifiability.free == (((1, 1), (1, 2), (1, 3)),) and not result.identifiability.determined
    assert "g_1, g_2 and g_3 can be mixed" in str(result.identifiability)
    assert np.all(np.isinf(result.uncertainty()[0]))
    assert any("g_1, g_2 and g_3 can be mixed" in note for note in result.notes)


def test_a_ridge_does_not_make_them_determined():
    result = fit(noisy(FREE), FREE)
    assert result.ridge > 0.0 and np.all(np.isinf(result.uncertainty()[0]))


def test_a_function_of_its_own_is_determined_beside_free_ones():
    """Two equal directions: their functions can be mixed, the third is known."""
    one = dc.systems.random_system((3, 2, 3), (3,), rng=1)
    W0, W1 = one.W[0][[0, 0, 1]], np.column_stack([one.W[1][:, 0], one.W[1][:, 0], one.W[1][:, 1]])
    double = dc.Decoupling([W0, W1], [dc.Functions(dc.Monomial(3), one.g[0].C[[0, 0, 1]])])
    found = dc.decouple(sampled(double), 3, 3, solver=dc.VarPro(start=double, ridge=0.0), n_starts=1, progress=False)
    (group,) = found.identifiability.free
    assert len(group) == 2 and len(found.identifiability.determined) == 1
    bands = found.uncertainty()[0]
    assert np.isinf(bands[:, [j - 1 for _, j in group]]).all()
    assert np.isfinite(bands[:, [j - 1 for _, j in found.identifiability.determined]]).all()


@pytest.mark.parametrize(
    ("shape", "unique"),
    [
        ((2, 2, 3, 2), False),
        ((3, 3, 7, 2), False),
        ((2, 2, 4, 3), False),
        ((2, 2, 4, 4), True),
        ((2, 2, 5, 6), False),  # more than m n functions: straight lines can be moved between them
        ((3, 3, (2, 2), 3), True),
        ((4, 3, (3, 2), (3, 4)), True),
    ],
    ids=str,
)
def test_shapes_are_known_before_anything_is_measured(shape, unique):
    assert dc.identifiable(*shape).locally_unique is unique


@pytest.mark.parametrize(
    ("shape", "theorem"),
    [
        ((3, 3, 2, 3), "Kruskal's theorem"),
        ((4, 4, 5, 3), "Kruskal's theorem"),  # more functions than inputs: 4 + 4 + 5 >= 2 * 5 + 2
        ((2, 2, 3, 3), ""),  # locally unique, but 2 + 2 + 3 < 8
        ((2, 1, 2, 3), ""),  # the Jacobians of one output are a matrix
        ((3, 3, (2, 2), 3), "the uniqueness of ParaTuck-2"),
        ((2, 4, (2, 3), 3), "the uniqueness of ParaTuck-2"),
        ((1, 1, (1, 1), 3), ""),  # T_6
        ((3, 3, (2, 2, 2), 2), ""),
    ],
    ids=str,
)
def test_theorems_that_rule_out_models_far_away_are_named(shape, theorem):
    found = dc.identifiable(*shape)
    assert found.locally_unique and found.theorem == theorem
    assert ("no other model" in str(found)) is bool(theorem)


def test_no_theorem_rules_out_waves_of_other_lengths():
    grid = np.linspace(-1.0, 1.0, 9)
    X = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)

    def waves(w):
        domain = np.array([[0.25 - 1.0 / w, 0.25 + 1.0 / w]] * 2)
        g = dc.Functions(dc.bases.Trigonometric(1), np.array([[0.0, 1.0 / w]] * 2), domain)
        return dc.Decoupling([np.eye(2), np.eye(2)], [g])

    long, short = waves(1.7), waves(1.7 + 8.0 * np.pi)
    assert_allclose(long.jacobians(X), short.jacobians(X), atol=1e-13)
    found = identifiability(linearise(long.canonical(X), dc.Samples(X, J=long.jacobians(X))))
    assert found.locally_unique and not found.theorem


def test_theorems_ask_for_jacobians_and_independent_factors():
    system = dc.systems.random_system((3, 2, 3), (3,), rng=1)
    values = dc.Samples(sampled(system).X, F=sampled(system).F)
    assert fit(sampled(system), system).identifiability.theorem == "Kruskal's theorem"
    assert fit(values, system).identifiability.theorem == ""
    two = dc.systems.f2()
    parallel = two.with_parts(W=[two.W[0], np.array([[1.0, 2.0], [3.0, 6.0]]), two.W[2]])  # its one minor is 0
    assert fit(sampled(two), two).identifiability.theorem == "the uniqueness of ParaTuck-2"
    at = linearise(parallel.canonical(sampled(two).X), sampled(parallel))
    assert identifiability(at).theorem == ""


def test_a_limit_that_no_model_of_the_shape_reaches_is_named():
    """x^2 y is the limit of sums of two cubes, (e y + x)^3 - x^3 over 3 e, and no such sum itself."""
    e, X = 1e-4, np.random.default_rng(0).uniform(-1.0, 1.0, (60, 2))
    samples = dc.Samples(X, F=X[:, :1] ** 2 * X[:, 1:])
    cubes = dc.Functions(dc.Monomial(3), np.tile([0.0, 0.0, 0.0, 1.0], (2, 1)))
    start = dc.Decoupling([[[1.0, e], [1.0, 0.0]], [[1.0 / (3 * e), -1.0 / (3 * e)]]], [cubes])
    solver = dc.VarPro(start=start, ridge=0.0, polish_steps=1)
    result = dc.decouple(samples, 2, 3, solver=solver, n_starts=1, progress=False)
    assert "A border case: g_1 and g_2 have nearly the same argument" in str(result)
    assert "border case" not in str(fit(sampled(dc.systems.f1()), dc.systems.f1()))


def test_functions_that_are_open_are_told_beside_a_good_verdict():
    result = fit(sampled(FREE), FREE)
    assert result.verdict.is_good and "g_1, g_2 and g_3 can be mixed" in str(result)


def test_simulated_data_give_the_errors_that_derivatives_give():
    system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    result = fit(noisy(system, S=60), system, solver=dc.VarPro(start=system, ridge=0.0))
    (plain,), (simulated,) = result.uncertainty(), result.uncertainty(bootstrap=40)
    ratio = np.sqrt(np.mean(simulated**2, axis=0) / np.mean(plain**2, axis=0))
    assert np.all((ratio > 0.7) & (ratio < 1.4))
    at_numbers = result.uncertainty([-0.5, 0.5], bootstrap=3, level=0.95)
    assert at_numbers[0].shape == (2, 2) and np.all(at_numbers[0] > 0.0)
    assert np.all(np.isinf(fit(noisy(FREE), FREE).uncertainty(bootstrap=2)[0]))


@pytest.mark.parametrize(
    "system", [dc.systems.random_system((3, 2, 3), (3,), rng=0), dc.systems.f2()], ids=["one", "two"]
)
def test_errors_of_weights_are_what_weights_vary_by(system):
    """Simulated data, each fit in the canonical form of the same points."""
    clean, rng = sampled(system, 60), np.random.default_rng(3)
    noise = [1e-3 * a.std() for a in (clean.F, clean.J)]
    units = np.array([1.0, 3.0, 0.2])
    X, found = clean.X * units + [0.0, 1.0, 0.0], []
    for _ in range(40):
        F, J = (a + level * rng.normal(size=a.shape) for a, level in zip((clean.F, clean.J), noise, strict=True))
        start = found[0].decoupling if found else None
        solver = dc.VarPro(ridge=0.0) if start is None else dc.VarPro(start=start, ridge=0.0)
        count = None if start is None else 1
        samples = dc.Samples(X, F=F, J=J / units)
        found.append(dc.decouple(samples, system.ranks, system.degrees, solver=solver, n_starts=count, progress=False))
    errors = found[0].uncertainty_of_weights()
    for l, error in enumerate(errors):
        assert np.all(np.isfinite(error))
        spread = np.std([result.decoupling.W[l] for result in found], axis=0)
        assert np.all((0.4 * error < spread + 1e-12) & (spread < 2.5 * error + 1e-12))
    assert all(np.isinf(table).any() for table in fit(noisy(FREE), FREE).uncertainty_of_weights())


def test_wrong_questions_about_shapes_are_answered_with_a_way_out():
    with pytest.raises(dc.InputError, match="one entry per layer, 2 here"):
        dc.identifiable(2, 2, (2, 2), (3, 3, 3))
    with pytest.raises(dc.InputError, match="`ranks` must be a tuple of whole numbers"):
        dc.identifiable(2, 2, ())
    with pytest.raises(dc.InputError, match="at most 400 parameters"):
        dc.identifiable(40, 40, 20, 3)


def test_another_exact_model_far_away_is_found():
    """T_6 is T_2 of T_3, and T_3 of T_2."""
    X = np.linspace(-1.0, 1.0, 60)[:, None]
    samples = dc.Samples(X, F=np.cos(6.0 * np.arccos(X)))
    C = [[[0.0, -3.0, 0.0, 4.0]], [[-1.0, 0.0, 2.0, 0.0]]]
    inner_T3 = dc.Decoupling([np.eye(1)] * 3, [dc.Functions(dc.Monomial(3), c) for c in C])
    result = fit(samples, inner_T3)
    (other,) = result.other_solutions(progress=False)
    assert result.identifiability.locally_unique
    assert_allclose(other(X), samples.F, atol=1e-9)
    assert max(d.max() for d in distances_of_functions(result.decoupling, other, X)) > 0.1


def test_what_is_determined_has_no_other_solution():
    system = dc.systems.random_system((3, 2, 3), (3,), rng=1)
    assert fit(sampled(system), system).other_solutions(max_seconds=0.2, progress=False) == ()


def test_scales_and_constants_do_not_move_the_standard_writing():
    system = dc.systems.f2()
    at = linearise(system.canonical(sampled(system).X), sampled(system))
    null, layers = free_moves(at)
    assert len(null) == 8  # two scales for each of four functions
    for layer in layers:
        assert max(np.abs(layer.curves).max(), np.abs(layer.before).max(), np.abs(layer.after).max()) < 1e-8


def standard_curves(model, X):
    found = []
    for g, u in zip(model.g, model.arguments(X), strict=True):
        t = np.linspace(-0.9, 0.9, 5)[:, None]
        half, middle = np.ptp(u, axis=0) / 2, (u.max(axis=0) + u.min(axis=0)) / 2
        size = np.sqrt(np.mean(g.slopes(u) ** 2, axis=0)) * half
        found.append((g.values(middle + half * t) - g.values(u).mean(axis=0)) / size)
    return found


def test_moves_of_the_standard_writing_agree_with_differences():
    samples = sampled(dc.systems.f2())
    model, rng, h = dc.systems.f2().canonical(samples.X), np.random.default_rng(0), 1e-8
    at = linearise(model, samples)
    flat = rng.normal(size=(1, at.unknowns.count(at.theta)))
    move = at.unknowns.split(flat, at.theta)
    there = []
    for step in (h, -h):
        moved = at.theta.combine(np.add, move.map(lambda d, step=step: step * d))
        there.append(standard_curves(model_of(at.problem, moved, None, None), samples.X))
    points = []
    for t in at.chain.t:
        half, middle = np.ptp(t[0], axis=0) / 2, (t[0].max(axis=0) + t[0].min(axis=0)) / 2
        points.append(middle + half * np.linspace(-0.9, 0.9, 5)[:, None])
    sizes = [
        np.sqrt(np.mean(g.slopes(u) ** 2, axis=0)) * np.ptp(u, axis=0) / 2
        for g, u in zip(model.g, model.arguments(samples.X), strict=True)
    ]
    for layer, size, up, down in zip(canonical_moves(at, move, points), sizes, *there, strict=True):
        assert_allclose(layer.curves[0] / size, (up - down) / (2 * h), rtol=1e-4, atol=1e-4)


def test_predictions_of_a_line_have_the_errors_of_the_textbook():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 3.0, 30)
    y = 2.0 * x + 1.0 + 0.3 * rng.normal(size=30)
    result = dc.decouple(dc.Samples(x[:, None], F=y[:, None]), 1, 1, solver=dc.VarPro(ridge=0.0), progress=False)
    at = np.array([-2.0, 0.5, 5.0])
    noise = np.sqrt(np.sum((y - result.decoupling(x[:, None])[:, 0]) ** 2) / 28)
    wanted = noise * np.sqrt(1 / 30 + (at - x.mean()) ** 2 / np.sum((x - x.mean()) ** 2))
    assert_allclose(result.uncertainty_at(at[:, None], noise=False)[:, 0], wanted, rtol=1e-6)
    assert_allclose(result.uncertainty_at(at[:, None])[:, 0], np.hypot(wanted, noise), rtol=1e-6)
    t = 2.048407  # of 28 degrees of freedom
    assert_allclose(result.uncertainty_at(at[:, None], level=0.95)[:, 0], t * np.hypot(wanted, noise), rtol=1e-5)


def test_constants_that_an_offset_holds_do_not_widen_bands():
    system = dc.systems.random_system((3, 1, 3), (3,), rng=2)
    samples = noisy(system)
    moved = dc.Samples(samples.X, F=samples.F + np.array([100.0, -50.0, 3.0]), J=samples.J)
    plain, offset = (fit(data, system) for data in (samples, moved))
    assert offset.decoupling.offset is not None
    assert_allclose(offset.uncertainty()[0], plain.uncertainty()[0], rtol=1e-3)


def test_misfit_that_is_no_noise_leaves_no_bands():
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (200, 2))
    u = X @ [1.0, 0.5]
    samples = dc.Samples(X, F=np.tanh(12.0 * u)[:, None])
    result = dc.decouple(samples, 1, 3, n_starts=4, progress=False)
    assert np.all(np.isinf(result.uncertainty([0.0])[0]))
    off = np.sqrt(np.mean((result.decoupling(X) - samples.F) ** 2))
    assert np.all(result.uncertainty_at(X, noise=False) > 0.3 * off)
