"""`dc.decouple(samples)` without options: how many functions, of which kind, and what it says of itself."""

import numpy as np
import pytest

import decouply as dc
from decouply.fit import Grade, _pieces
from decouply.fit.select._rank_hints import as_polynomial, exact_shapes, true_degrees
from decouply.fit.select._tails import with_believed_tails
from experiments.regression.tables import CURVES, draw
from experiments.regression.verdicts import KINDS, is_right, work

QUIET = {"rng": 0, "progress": False}


def rows(f, n_rows=200, n_inputs=2, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n_rows, n_inputs))
    F = f(X).reshape(n_rows, -1)
    return dc.Samples(X, F=F + noise * F.std(axis=0) * rng.normal(size=F.shape))


def test_a_saturation_and_a_parabola_are_two_functions_of_their_own_shape():
    def f(X):
        return np.stack([CURVES["saturation"](X @ [0.7, 0.5]), np.square(X @ [0.5, -0.6])], axis=1) @ [
            [1, 0.5],
            [0.4, 1],
        ]

    result = dc.decouple(rows(f, 150, noise=0.02), **QUIET)
    assert result.decoupling.ranks == (2,) and result.verdict.grade is Grade.NOISE
    fresh = np.random.default_rng(1).uniform(-1, 1, (1000, 2))
    assert np.all(dc.relative_rmse(f(fresh), result.decoupling(fresh)) < 2.0)


def test_a_difference_of_inputs_that_hang_together_is_found():
    """In most corners of the box it is ten times as large as at any sample."""
    rng = np.random.default_rng(0)
    a = rng.uniform(-1.0, 1.0, 200)
    X = np.column_stack([a, a + 0.05 * rng.normal(size=200)])
    F = a + 20.0 * (X[:, 1] - X[:, 0]) + 0.05 * rng.normal(size=200)
    model = dc.decouple(dc.Samples(X, F=F[:, None] + np.sin(3.0 * a)[:, None]), **QUIET).decoupling
    assert np.sqrt(np.mean((model(X)[:, 0] - F - np.sin(3.0 * a)) ** 2)) < 0.06


def test_a_polynomial_that_predicts_the_farthest_samples_is_believed_a_little_beyond_them():
    def f(X):
        return CURVES["cubic"](X @ np.full(6, 0.2))

    samples = rows(f, 300, n_inputs=6, noise=0.02)
    model = dc.decouple(samples, **QUIET).decoupling
    fresh = np.random.default_rng(1).uniform(-1.0, 1.0, (5000, 6))
    cut = model.with_parts(g=[model.g[0].on_domain([[u.min(), u.max()] for u in model.arguments(samples.X)[0].T])])
    apart, if_cut = (float(dc.relative_rmse(f(fresh)[:, None], one(fresh))[0]) for one in (model, cut))
    assert model.g[0].outside == "linear" and apart < 0.5 * if_cut


def test_a_polynomial_that_only_looks_like_a_step_is_not_believed_beyond_the_samples():
    samples = rows(lambda X: np.tanh(6.0 * X @ np.full(6, 0.2)), 300, n_inputs=6)
    model = dc.decouple(samples, 1, 5, **QUIET).decoupling.with_outside("linear")
    assert with_believed_tails(model, samples) is model


@pytest.mark.parametrize("jacobians", [False, True])
def test_exact_samples_have_the_lowest_degrees_and_the_fewest_functions(jacobians):
    system = dc.systems.random_system((3, 2, 2), (3,), rng=1)
    X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    result = dc.decouple(dc.Samples(X, F=system(X), J=system.jacobian(X) if jacobians else None), **QUIET)
    assert result.verdict.grade is Grade.EXACT
    assert (result.decoupling.ranks, result.decoupling.degrees) == ((2,), (3,))


def test_a_quartic_of_three_directions_is_no_blind_spot():
    rosenbrock = rows(lambda X: 100 * (2 * X[:, 1] - 4 * X[:, 0] ** 2) ** 2 + (1 - 2 * X[:, 0]) ** 2, 300)
    assert dc.decouple(rosenbrock, **QUIET).verdict.grade is Grade.EXACT


def test_jacobians_that_are_mostly_noise_do_not_hurt():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (80, 2))
    u = X @ [1.0, 0.5]
    F = np.tanh(2.0 * u) + 1e-3 * rng.normal(size=80)
    J = (2.0 / np.cosh(2.0 * u) ** 2)[:, None, None] * [[1.0, 0.5]] + rng.normal(scale=0.5, size=(80, 1, 2))
    result = dc.decouple(dc.Samples(X, F=F, J=J), **QUIET)
    assert result.error_values < 0.01 and not result.samples.has_jacobians
    assert any("values alone" in note for note in result.notes)


def test_a_line_is_a_line():
    result = dc.decouple(rows(lambda X: X @ [1.0, 2.0], 100, noise=0.1), **QUIET)
    assert result.verdict.grade is Grade.LINE and result.decoupling.degrees == (1,)


def test_no_model_explodes_in_the_corners_of_the_box():
    """Five inputs and 200 rows: no sample comes near most of the 32 corners."""
    rng = np.random.default_rng(3)
    F = np.tanh(2 * rng.normal(size=5))
    samples = rows(lambda X: np.exp(X @ F) + np.sin(3 * X[:, 0] + X[:, 1]), 200, 5, noise=0.05, seed=3)
    model = dc.decouple(samples, **QUIET).decoupling
    corners = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 5), axis=-1).reshape(-1, 5)
    assert np.ptp(model(corners)) < 3.0 * np.ptp(samples.F)


def test_a_kink_gets_more_pieces_than_a_parabola():
    def pieces(f, noise):
        result = dc.decouple(rows(f, 150, 1, noise), 1, basis=dc.Spline(), **QUIET)
        return result.decoupling.g[0].layer.bases[0].pieces

    assert pieces(lambda X: np.sign(X), 0.05) > pieces(lambda X: X**2, 0.05) == 8
    assert dc.decouple(rows(lambda X: np.sign(X), 40), 1, basis=dc.Spline(16), **QUIET).settings.basis == dc.Spline(16)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": 50}, "`ranks` must not be above the number of different samples, 40"),
        ({"ranks": 0}, "`ranks\\[0\\]`"),
    ],
)
def test_ranks_that_no_data_could_tell_are_named(options, message):
    with pytest.raises(dc.InputError, match=message):
        dc.decouple(rows(lambda X: X[:, 0] ** 2, 40), **options, **QUIET)


def test_constant_and_double_inputs_leave_the_rest_as_it_is():
    X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    X = np.column_stack([X[:, 0], np.full(40, 2.0), X[:, 0], X[:, 1]])
    result = dc.decouple(dc.Samples(X, F=(X[:, :1] + X[:, 3:]) ** 2), **QUIET)
    assert np.all(result.relative_rmse() < 1e-3)


def test_a_few_rows_have_a_model_that_is_not_praised():
    result = dc.decouple(rows(lambda X: np.sin(3 * X[:, 0]), 4, noise=0.1), **QUIET)
    assert result.verdict.grade is Grade.UNTESTED


def test_the_estimator_grows_as_the_default_call_does():
    samples = rows(lambda X: (X @ [0.6, 0.4]) ** 2, 40)
    model = dc.DecouplingRegressor().fit(samples.X, samples.F)
    assert model.decoupling_.ranks == (1,) and model.result_.settings.solver == dc.VarPro()


def test_pieces_stop_growing_when_the_criterion_rises(monkeypatch):
    asked = []
    samples = rows(lambda X: np.sign(X[:, :1]), 60)

    def fit(samples, settings, **options):
        asked.append(settings.layers[0].bases[0].pieces)
        return original(samples, settings, **options)

    original = _pieces.fit_one_shape
    monkeypatch.setattr(_pieces, "fit_one_shape", fit)
    _pieces.fit_with_pieces(samples, dc.fit.Settings(1, basis=dc.Spline(), rng=0), progress=False)
    assert asked[0] == 8 and max(asked) <= samples.n_numbers


def test_the_degree_of_a_polynomial_in_all_inputs_is_found_by_linear_algebra():
    cubic = rows(lambda X: (X @ [1.0, 2.0]) ** 3, 40)
    degree, exact = as_polynomial(cubic, 1e-24)
    assert degree == 3
    np.testing.assert_allclose(exact.J[:, 0], 3 * (cubic.X @ [1.0, 2.0])[:, None] ** 2 * [1.0, 2.0], atol=1e-8)
    assert exact_shapes(exact, 3, None)[0] == ((1,), (3,))
    assert as_polynomial(rows(lambda X: np.sin(9 * X[:, 0]), 40), 1e-24) is None
    assert as_polynomial(rows(lambda X: X[:, 0] ** 2, 40, noise=1e-6), 1e-24) is None


def test_terms_of_rounding_are_no_degree():
    model = dc.decouple(rows(lambda X: X[:, 0] ** 2, 40), 1, 3, **QUIET).decoupling
    assert true_degrees(model) == (2,)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_are_true(kind):
    assert all(work(kind, 0, seed=3)["right"])


def test_what_makes_a_word_right():
    assert is_right(Grade.NOISE, 0.01, 0.1, of_line=0.5, few=False)
    assert not is_right(Grade.NOISE, 0.1, 0.0, of_line=0.5, few=False)
    assert not is_right(Grade.EXACT, 0.01, 0.0, of_line=0.5, few=False)
    assert not is_right(Grade.LINE, 0.1, 0.1, of_line=0.5, few=False)


def test_a_table_is_the_same_for_the_same_seed():
    first, again = (draw("tables", "tables", 0, seed=4)[0] for _ in range(2))
    np.testing.assert_array_equal(first.F, again.F)
