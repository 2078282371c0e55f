"""The scikit-learn estimator: its conventions, and what people do with it."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.report._rerun_source import how_to_run_again

sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.compose import TransformedTargetRegressor  # noqa: E402
from sklearn.datasets import load_diabetes, make_friedman1  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from tests.strategies import points  # noqa: E402

SEEDED = {"random_state": 0}


def cubic(X):
    """Two branches."""
    return (X[:, 0] + 2 * X[:, 1]) ** 3 - (X[:, 0] - X[:, 1]) ** 2


def cubic_gradient(X):
    a, b = 3 * (X[:, 0] + 2 * X[:, 1]) ** 2, 2 * (X[:, 0] - X[:, 1])
    return np.stack([a - b, 2 * a + b], axis=1)


CHOSEN = dc.DecouplingRegressor(degrees=2, n_starts=1)  # without degrees, splines would be tried as well
DEEP = dc.DecouplingRegressor(ranks=(2, 1), degrees=(2, 2), n_starts=1, ridge=1e-4)


def copies_count_once(estimator):
    """If ranks are chosen, copies of a sample are left out together and count once. A weight of 2 counts twice."""
    if estimator.ranks != "auto":
        return {}
    return {"check_sample_weight_equivalence_on_dense_data": "copies count once in the choice, weights do not"}


# Some checks fit twenty samples of ten inputs, which determine nothing but what the ridge does: we warn then.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::decouply.DecouplingWarning")
@parametrize_with_checks([CHOSEN, DEEP], expected_failed_checks=copies_count_once)
def test_the_conventions_of_scikit_learn_are_kept(estimator, check):
    check(estimator)


def test_a_function_of_its_kind_is_found_from_values():
    X = points(2, 120)
    model = dc.DecouplingRegressor(ranks=2, degrees=3, **SEEDED).fit(X, cubic(X))
    Z = points(2, 50, seed=1)
    assert 1 - model.score(Z, cubic(Z)) < 1e-8
    assert model.predict(Z).shape == (50,)
    assert isinstance(model.decoupling_, dc.Decoupling) and isinstance(model.result_, dc.Result)
    assert model.n_features_in_ == 2


def test_data_need_not_be_scaled():
    """Offsets of hundreds of standard deviations, and units from 1e-5 to 1e5."""
    X = points(2, 120)
    size, offset = np.array([1e5, 1e-5]), np.array([3e7, 2e-3])
    y = 1e6 * cubic(X) + 1e9
    model = dc.DecouplingRegressor(**SEEDED).fit(X * size + offset, y)
    plain = dc.DecouplingRegressor(**SEEDED).fit(X, cubic(X))
    assert_allclose((model.predict(X * size + offset) - 1e9) / 1e6, plain.predict(X), atol=1e-5)
    piped = make_pipeline(StandardScaler(), dc.DecouplingRegressor(**SEEDED)).fit(X * size + offset, y)
    assert_allclose(piped.predict(X * size + offset), model.predict(X * size + offset), rtol=1e-8)


def test_the_model_in_units_of_the_data_is_the_one_that_predicts():
    X = 5 + 3 * points(2, 120)
    Y = np.stack([cubic(X / 8), 7 - 2 * cubic(X / 8) + X[:, 0]], axis=1)
    model = dc.DecouplingRegressor(ranks=3, degrees=3, **SEEDED).fit(X, Y)
    assert_allclose(model.decoupling_(X), model.predict(X), rtol=0)
    assert_allclose(model.result_.decoupling(X), model.predict(X), rtol=1e-9, atol=1e-9)
    assert model.decoupling_.offset is None
    assert model.result_.error_values == pytest.approx(dc.error_values(Y, model.predict(X)), rel=1e-3, abs=1e-12)
    assert "u1" in model.decoupling_.formula(inputs=["pressure", "flow"])


def test_outputs_may_have_offsets_that_the_constants_of_the_last_layer_cannot_give():
    X = points(2, 150)
    g = (X[:, 0] - X[:, 1]) ** 3
    Y = np.stack([g + 10.0, -2 * g + 100.0, 3 * g - 5.0], axis=1)
    model = dc.DecouplingRegressor(ranks=1, degrees=3, **SEEDED).fit(X, Y)
    assert model.score(X, Y) > 1 - 1e-8
    assert np.max(np.abs(model.decoupling_.offset)) > 1.0


def test_outputs_of_different_size_count_alike():
    X = points(2, 200)
    rng = np.random.default_rng(0)
    Y = np.stack([cubic(X), 1e-6 * X[:, 0] ** 2], axis=1) * (1 + 1e-3 * rng.normal(size=(200, 2)))
    model = dc.DecouplingRegressor(ranks=3, degrees=3, **SEEDED).fit(X, Y)
    assert np.all(np.mean((model.predict(X) - Y) ** 2, axis=0) < 1e-3 * Y.var(axis=0))


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_inputs_may_lie_far_from_0(offset):
    X = points(2, 120)
    model = dc.DecouplingRegressor(**SEEDED).fit(X + offset, cubic(X))
    assert model.score(X + offset, cubic(X)) > 1 - 1e-6


@pytest.mark.parametrize("shape", [(8, 2), (8, 1, 2)])
def test_jacobians_make_few_samples_enough(shape):
    """Eight values are fewer than the ten parameters that scalings leave; with gradients there are 24 numbers."""
    X, Z = points(2, 8), points(2, 50, seed=1)
    J = cubic_gradient(X).reshape(shape)
    model = dc.DecouplingRegressor(2, 3, ridge=1e-10, outside="extend", **SEEDED).fit(X, cubic(X), jacobian=J)
    assert model.score(Z, cubic(Z)) > 1 - 1e-6
    assert model.result_.error_jacobian < 1e-8
    assert_allclose(model.decoupling_.jacobian(X)[:, 0], cubic_gradient(X), atol=1e-3)


@pytest.mark.parametrize(("degrees", "basis"), [(3, dc.Monomial), (3, dc.Chebyshev(3)), (None, dc.Monomial)])
def test_ranks_can_be_chosen(degrees, basis):
    X = points(2, 60)
    y = (X[:, 0] + 2 * X[:, 1]) ** 3
    weights = np.r_[0.0, np.ones(59)]
    model = dc.DecouplingRegressor("auto", degrees, basis=basis, ridge=0.0, random_state=0)
    model.fit(X, y, sample_weight=weights)
    assert (model.decoupling_.ranks, model.decoupling_.degrees) == ((1,), (3,))
    assert model.score(X, y) > 0.999999
    assert "1 polynomial of degree 3" in model.result_.notes[0]


def test_ranks_that_are_chosen_do_not_follow_noise():
    """Of several shapes the one with the lowest error from leverages had two or three quintics here: R² below 0."""
    rng = np.random.default_rng(7)
    X, direction = rng.normal(size=(75, 8)), rng.normal(size=8)
    model = dc.DecouplingRegressor(random_state=0).fit(X, X @ direction + 1.5 * rng.normal(size=75))
    Z = rng.normal(size=(500, 8))
    assert model.decoupling_.ranks == (1,) and model.score(Z, Z @ direction) > 0.5


def test_jacobians_are_in_the_units_of_the_data():
    X, size = points(2, 60), np.array([100.0, 0.01])
    model = dc.DecouplingRegressor(**SEEDED).fit(X * size + 3, 5 * cubic(X), jacobian=5 * cubic_gradient(X) / size)
    assert model.result_.error_jacobian < 1e-9


def test_jacobians_travel_through_a_grid_search():
    X = points(2, 60)
    search = GridSearchCV(dc.DecouplingRegressor(degrees=3, n_starts=4, **SEEDED), {"ranks": [1, 2]}, cv=2)
    search.fit(X, cubic(X), jacobian=cubic_gradient(X))
    assert search.best_params_ == {"ranks": 2} and search.best_score_ > 0.9999  # an exact fit, just beyond its data too
    assert search.best_estimator_.result_.error_jacobian < 1e-8


def test_a_grid_search_over_a_pipeline_finds_the_ranks_and_degrees():
    X = points(2, 100)
    y = cubic(X) + 0.01 * np.random.default_rng(0).normal(size=100)
    pipeline = make_pipeline(StandardScaler(), dc.DecouplingRegressor(n_starts=4, **SEEDED))
    grid = {"decouplingregressor__ranks": [1, 2], "decouplingregressor__degrees": [(2,), (3,)]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert search.best_params_ == {"decouplingregressor__ranks": 2, "decouplingregressor__degrees": (3,)}
    assert search.best_score_ > 0.999


def test_cross_validation_on_real_data():
    X, y = load_diabetes(return_X_y=True)
    scores = cross_val_score(dc.DecouplingRegressor(ranks=1, degrees=2, **SEEDED), X, y, cv=5)
    assert np.mean(scores) > 0.45  # ridge regression has 0.48


def test_noise_is_not_fitted_much():
    X, y = make_friedman1(300, noise=1.0, random_state=0)
    scores = cross_val_score(dc.DecouplingRegressor(ranks=4, degrees=4, n_starts=8, **SEEDED), X, y, cv=2)
    assert np.min(scores) > 0.8


def test_weights_shift_the_fit_and_samples_of_weight_0_do_not_count():
    X = points(1, 60)
    y = np.where(np.arange(60) < 30, X[:, 0] ** 2, 5.0)
    w = np.where(np.arange(60) < 30, 1.0, 0.0)
    model = dc.DecouplingRegressor(1, 2, **SEEDED).fit(X, y, sample_weight=w)
    assert_allclose(model.predict(X), X[:, 0] ** 2, atol=1e-4)
    with pytest.raises(dc.InputError, match="at least 2 samples"):
        dc.DecouplingRegressor(1, 2).fit(X, y, sample_weight=np.eye(60)[0])
    with pytest.raises(dc.InputError, match="`sample_weight` must hold numbers of at least 0"):
        dc.DecouplingRegressor(1, 2).fit(X, y, sample_weight=-w)


@pytest.mark.slow
def test_models_are_copied_pickled_and_run_in_other_processes():
    X = points(2, 80)
    model = dc.DecouplingRegressor(2, 3, basis=dc.Chebyshev, outside="extend", **SEEDED)
    assert clone(model).basis is dc.Chebyshev
    model.fit(X, cubic(X))
    assert_allclose(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X), rtol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of joblib, about its workers
        scores = cross_val_score(clone(model), X, cubic(X), cv=2, n_jobs=2)
    assert np.min(scores) > 0.999


def test_the_same_seed_gives_the_same_model_and_none_does_not_fix_it():
    X, y = make_friedman1(60, noise=1.0, random_state=0)
    a, b = (dc.DecouplingRegressor(2, 2, n_starts=4, random_state=1).fit(X, y).predict(X) for _ in range(2))
    assert_allclose(a, b, rtol=0)
    assert dc.DecouplingRegressor(1, 2, random_state=np.random.RandomState(0)).fit(X, y).score(X, y) > 0.5


def test_targets_may_be_transformed_outside():
    X = points(2, 100)
    y = np.exp(cubic(X) / 5)
    model = TransformedTargetRegressor(dc.DecouplingRegressor(**SEEDED), func=np.log, inverse_func=np.exp).fit(X, y)
    assert model.score(X, y) > 1 - 1e-8


class Frame:
    """The part of a data frame that scikit-learn needs where no data frame library is installed: the array."""

    def __init__(self, array):
        self.array, self.shape = array, array.shape

    def __array__(self, dtype=None, copy=None):
        return self.array.astype(dtype or float)

    def __len__(self):
        return len(self.array)


@pytest.mark.parametrize("convert", [np.ndarray.tolist, Frame, lambda A: A.astype(object), np.asfortranarray])
def test_data_of_many_kinds_are_taken(convert):
    X = points(2, 40)
    model = dc.DecouplingRegressor(2, 3, n_starts=1, **SEEDED)
    expected = clone(model).fit(X, cubic(X)).predict(X)
    assert_allclose(model.fit(convert(X), cubic(X)).predict(convert(X)), expected)


def test_names_of_columns_are_kept():
    pa = pytest.importorskip("pyarrow")
    X = points(2, 40)
    table = pa.table({"flow": X[:, 0], "heat": X[:, 1]})
    model = dc.DecouplingRegressor(n_starts=4, **SEEDED).fit(table, cubic(X))
    assert model.feature_names_in_.tolist() == ["flow", "heat"]
    assert model.decoupling_.inputs == ("flow", "heat") and "heat" in model.decoupling_.formula()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table.rename_columns(["heat", "flow"]))


def test_whole_numbers_and_constants_are_taken():
    X = np.random.default_rng(0).integers(0, 10, (50, 3))
    model = dc.DecouplingRegressor(**SEEDED).fit(X, X[:, 0] ** 2)
    assert model.score(X, X[:, 0] ** 2) > 1 - 1e-8
    X[:, 1] = 7
    assert dc.DecouplingRegressor(**SEEDED).fit(X, X[:, 0] ** 2).score(X, X[:, 0] ** 2) > 1 - 1e-8
    constant = dc.DecouplingRegressor(**SEEDED).fit(X, np.full(50, 3))
    assert_allclose(constant.predict(X), 3.0)


@pytest.mark.parametrize("steep", [1.0, 0.3])  # the data go beyond the domain, or stay within it
def test_saturations_are_found_and_saturate(steep):
    X = points(2, 150)
    y = np.tanh(steep * (2 * X[:, 0] - X[:, 1]) + 0.1) + 4
    model = dc.DecouplingRegressor(1, None, basis=dc.bases.Tanh(), ridge=1e-10, outside="linear", **SEEDED).fit(
        1000 * X, y
    )
    assert model.score(1000 * X, y) > 1 - 1e-6
    far = np.array([[1e6, 0.0], [-1e6, 0.0]])
    assert_allclose(model.predict(far), [5.0, 3.0], atol=0.01)  # no tangents: its domain is no range of the data


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "degrees"), [(2, 3), ((2, 2), (3, 3))])
def test_predictions_grow_no_faster_than_inputs(ranks, degrees):
    X = points(2, 120)
    model, powers, held = (
        dc.DecouplingRegressor(ranks, degrees, n_starts=8, outside=outside, **SEEDED).fit(X, cubic(X))
        for outside in ("linear", "extend", "constant")
    )
    far = [np.max(np.abs(model.predict(k * X))) for k in (1.0, 20.0, 400.0)]
    assert far[1] < 100 * far[0] and far[2] < 25 * far[1]
    assert np.max(np.abs(powers.predict(20 * X))) > 20 * far[1]
    assert_allclose(powers.predict(X), model.predict(X), rtol=1e-9, atol=1e-9)
    assert np.max(np.abs(held.predict(400 * X))) < 3 * np.max(np.abs(cubic(X)))


def noisy(X):
    return cubic(X) + 0.3 * np.random.default_rng(0).normal(size=len(X))


@pytest.mark.parametrize("linear", [False, True])
def test_predictions_are_bounded_however_far_inputs_are(linear):
    X = 10 + points(2, 120)
    y = noisy(X - 10)
    model = dc.DecouplingRegressor(2, 3, n_starts=8, linear=linear, **SEEDED).fit(X, y)
    assert model.outside == "bounded" and model.decoupling_.g[0].outside == "linear"
    near, far, farther = (model.predict(10 + k * (X - 10)) for k in (1.0, 20.0, 1e6))
    assert np.max(np.abs(far)) < 10 * np.max(np.abs(near))
    assert np.max(np.abs(farther)) < 10 * np.max(np.abs(near))
    half = 10 + 1.9 * (X - 10)  # within half a range on either side
    low, high = y.min() - np.ptp(y) / 2, y.max() + np.ptp(y) / 2
    assert_allclose(model.predict(half), np.clip(model.decoupling_(half)[:, 0], low, high), rtol=1e-9)


def test_exact_fits_follow_their_formulas_just_beyond_the_data():
    X = points(2, 120)
    model = dc.DecouplingRegressor(2, 3, **SEEDED).fit(X, cubic(X))
    assert model.decoupling_.g[0].outside == "extend"
    assert_allclose(model.predict(1.5 * X), cubic(1.5 * X), atol=1e-3)
    constant = dc.DecouplingRegressor(2, 3, outside="constant", **SEEDED).fit(X, cubic(X))
    assert model.score(1.5 * X, cubic(1.5 * X)) > 0.999999 > 0.9 > constant.score(1.5 * X, cubic(1.5 * X))


def test_functions_that_cancel_each_other_do_so_just_beyond_the_data():
    """Friedman's formula with noise: functions that keep their last values lose everything by a few points."""
    X, y = make_friedman1(500, noise=1.0, random_state=101)
    order = np.random.default_rng([101, 1]).permutation(500)
    train, test = order[:375], order[375:]
    model = dc.DecouplingRegressor(4, 5, n_starts=8, random_state=1).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.9


def test_a_linear_part_can_be_asked_for():
    X = points(4, 150)
    y = (X[:, 0] - X[:, 1]) ** 3 + X @ [3.0, 0.0, -2.0, 1.0] + 7.0
    plain, model = (dc.DecouplingRegressor(1, 3, linear=linear, **SEEDED).fit(X, y) for linear in (False, True))
    assert model.score(X, y) > 1 - 1e-8 > 0.99 > plain.score(X, y)
    assert model.decoupling_.linear.shape == (1, 4)
    assert model.result_.settings.linear


def test_the_result_is_the_one_of_decouple_and_has_a_page_and_a_second_run(tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    X = 300 + 5 * points(2, 60)
    frame, y = pd.DataFrame(X, columns=["flow rate", "heat"]), pd.Series(cubic(X - 300), name="power")
    model = dc.DecouplingRegressor(2, 3, n_starts=4, linear=True, **SEEDED).fit(frame, y)
    result = model.result_
    assert result.samples.inputs == result.decoupling.inputs == model.decoupling_.inputs == ("flow rate", "heat")
    assert result.samples.outputs == ("power",)
    assert_allclose(result.samples.X, X, rtol=0)
    assert_allclose(result.samples.F[:, 0], y, rtol=0)
    result.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert 'class="verdict exact"' in page or 'class="verdict close"' in page
    assert "flow rate" in page and "power" in page
    monkeypatch.chdir(tmp_path)
    result.samples.save("samples.npz")
    space = {}
    exec(how_to_run_again(result).source, space)
    assert_allclose(space["result"].decoupling(X), result.decoupling(X), rtol=1e-9)


def test_names_that_cannot_be_used_are_left_out():
    pd = pytest.importorskip("pandas")
    X = points(2, 40)
    model = dc.DecouplingRegressor(n_starts=2, **SEEDED).fit(pd.DataFrame(X, columns=["x2", "x²"]), cubic(X))
    assert model.decoupling_.inputs is None and model.feature_names_in_.tolist() == ["x2", "x²"]


def test_other_solvers_and_parts_that_are_known_can_be_given():
    X = points(2, 80)
    J = cubic_gradient(X)
    model = dc.DecouplingRegressor(2, solver=dc.Proj(), n_starts=4, **SEEDED).fit(X, cubic(X), jacobian=J)
    assert model.score(X, cubic(X)) > 0.99
    W0 = np.array([[1.0, 2.0], [1.0, -1.0]])
    known = dc.VarPro(fixed={"W0": W0})
    model = dc.DecouplingRegressor(2, solver=known, **SEEDED).fit(X, cubic(X))
    assert_allclose(model.decoupling_.W[0], W0)
    again = dc.DecouplingRegressor(2, solver=dc.VarPro(start=model.decoupling_), **SEEDED).fit(X, cubic(X))
    assert again.score(X, cubic(X)) > 1 - 1e-8
    for told in (known, dc.VarPro(start=model.decoupling_)):
        with pytest.raises(dc.InputError, match="`ranks` must be given"):
            dc.DecouplingRegressor(solver=told).fit(X, cubic(X))


def test_parts_that_are_given_are_not_cut_off_within_the_data():
    X = points(2, 80)
    g = dc.Functions(dc.Monomial(3), [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, -1.0, 0.0]])  # on [-1, 1]: u goes to 3
    known = dc.VarPro(fixed={"g1": g, "W0": np.array([[1.0, 2.0], [1.0, -1.0]])})
    model = dc.DecouplingRegressor(2, solver=known, **SEEDED).fit(X, cubic(X))
    assert model.decoupling_.g[0].outside == "extend" and model.score(X, cubic(X)) > 1 - 1e-8


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ranks": 0}, r"`ranks\[0\]` must be a whole number"),
        ({"ranks": (2, 2), "degrees": 3}, "`degrees` must have one number per layer"),
        ({"n_starts": 0}, "`n_starts` must be"),
        ({"ridge": -1.0}, "`ridge` must be"),
        ({"outside": "far"}, "`outside` must be one of bounded, extend, linear, constant"),
        ({"basis": 3}, "`basis` must be"),
    ],
)
def test_wrong_parameters_are_refused_when_fitting(parameters, message):
    X = points(2, 20)
    model = dc.DecouplingRegressor(**parameters)
    with pytest.raises(dc.InputError, match=message):
        model.fit(X, cubic(X))


@pytest.mark.parametrize(
    ("X", "y", "jacobian", "message"),
    [
        (points(2, 1), [1.0], None, "1 sample"),
        (points(2, 5)[:0], [], None, "0 sample"),
        (points(2, 5), [1.0, 2.0], None, "inconsistent numbers of samples"),
        (points(2, 5) * np.nan, np.ones(5), None, "NaN"),
        (points(2, 5), np.full(5, np.inf), None, "infinity"),
        (points(2, 5), np.array(["a"] * 5), None, "could not convert"),
        (points(2, 5), np.ones((5, 1, 1)), None, "dim"),
        (
            points(2, 5),
            np.arange(5.0),
            np.ones((5, 3)),
            r"`jacobian` must have shape \(5, 1, 2\) or \(5, 2\).*Got \(5, 3\)",
        ),
        (points(2, 5), np.ones((5, 2)), np.ones((5, 2)), r"`jacobian` must have shape \(5, 2, 2\).*Got \(5, 2\)"),
        (points(2, 5), np.arange(5.0), np.full((5, 2), np.nan), "`J` must hold finite"),
        (points(2, 5) * 1e200, np.arange(5.0), None, "`X` must have a largest entry between"),
    ],
)
def test_wrong_data_are_refused_with_the_rule(X, y, jacobian, message):
    with pytest.raises(ValueError, match=message):
        dc.DecouplingRegressor().fit(X, y, jacobian=jacobian)


def test_predictions_before_fitting_are_refused():
    with pytest.raises(NotFittedError):
        dc.DecouplingRegressor().predict(points(2, 5))


def test_without_scikit_learn_the_way_out_is_named():
    code = """
import sys
sys.modules["sklearn"] = None
import decouply as dc
dc.decouple, dc.Samples
try:
    dc.DecouplingRegressor
except dc.MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "scikit-learn>=' in done.stdout


def test_partial_fit_adds_batches_to_what_was_seen():
    X = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    y = (X[:, 0] + X[:, 1]) ** 3 + X[:, 2] ** 2
    model = dc.DecouplingRegressor(ranks=2, degrees=3, n_starts=8, random_state=0)
    model.partial_fit(X[:100], y[:100])
    assert len(model.result_.samples) == 100
    model.partial_fit(X[100:200], y[100:200])
    assert len(model.result_.samples) == 200 and model.score(X[200:], y[200:]) > 0.999
    with pytest.raises(dc.InputError, match="outputs of the batches before"):
        model.partial_fit(X[:50], np.stack([y[:50], y[:50]], axis=1))
    model.fit(X[:50], y[:50])
    model.partial_fit(X[50:120], y[50:120])
    assert len(model.result_.samples) == 70


def test_by_default_ranks_are_chosen_and_predictions_are_bounded():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (150, 3))
    y = (X[:, 0] + X[:, 1]) ** 2 + np.sin(2 * X[:, 2]) + 0.05 * rng.normal(size=150)
    model = dc.DecouplingRegressor(random_state=0).fit(X, y)
    assert model.decoupling_.ranks == (2,) and model.score(X, y) > 0.98
    assert model.result_.notes[0].startswith("2 ")
    assert np.abs(model.predict(20 * X)).max() < 3 * np.abs(y).max()
    values, std = model.predict(X, return_std=True)
    assert_allclose(values, model.predict(X))
    assert std.shape == y.shape and 0.04 < std[0] < 0.07


def test_names_of_columns_are_in_pictures_pages_and_formulas(tmp_path):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(points(2, 60), columns=["lift", "load"])
    model = dc.DecouplingRegressor(1, 3, **SEEDED).fit(X, (X["lift"] + X["load"]) ** 3)
    model.report(tmp_path / "page.html")
    assert "lift" in (tmp_path / "page.html").read_text() and "lift" in model.decoupling_.formula()
    assert {"lift", "load"} <= {text.get_text() for text in model.plot().axes[0].texts}


def test_what_scikit_learn_lets_pass_is_refused_in_words():
    X, y = points(2, 10), np.arange(10.0)
    masked = np.ma.masked_equal(np.where(X[3] == X, -999.0, X), -999.0)
    model = dc.DecouplingRegressor(1, 2, **SEEDED)
    with pytest.raises(dc.InputError, match="2 masked entries"):
        model.fit(masked, y)
    with pytest.raises(dc.InputError, match="1 masked entries"):
        model.fit(X, np.ma.masked_equal(y, 3.0))
    with pytest.raises(dc.InputError, match="1 masked entries"):
        model.fit(X, y, sample_weight=np.ma.masked_equal(y, 3.0))
    with pytest.raises(dc.InputError, match="64-bit float"):
        model.fit(X, np.full(10, np.longdouble("1e4000")))
    with pytest.raises(dc.InputError, match="must hold real numbers"):
        model.fit(X, np.zeros(10, dtype=[("a", float)]))
    with pytest.raises(dc.InputError, match="fit into memory"):
        model.fit(X, y, sample_weight=np.broadcast_to(1.0, (10**6, 10**6)))
    assert model.fit(np.ma.masked_equal(X, 7.0), y).predict(X).shape == (10,)


def test_combinations_that_no_sample_has_are_not_predicted_far_beyond_y():
    rng = np.random.default_rng(0)
    t = rng.normal(size=(80, 1))
    X, y = t + 0.05 * rng.normal(size=(80, 5)), t[:, 0] ** 2 + 0.1 * rng.normal(size=80)
    new = rng.uniform(X.min(), X.max(), size=(200, 5))
    half = 0.5 * np.ptp(y)
    bounded, free = (
        dc.DecouplingRegressor(2, 3, outside=outside, **SEEDED).fit(X, y).predict(new)
        for outside in ("bounded", "linear")
    )
    assert free.min() < y.min() - 2.0 * half
    assert bounded.min() == pytest.approx(y.min() - half) and bounded.max() <= y.max() + half


def test_the_spread_of_predictions_is_unknown_where_samples_are_too_few():
    """A model with as many parameters as samples meets them whatever they are."""
    X = np.random.default_rng(0).normal(size=(5, 2))
    model = dc.DecouplingRegressor(ranks=1, degrees=3, random_state=0).fit(X, X[:, 0] ** 2 + X[:, 1])
    assert np.all(np.isnan(model.predict(X, return_std=True)[1]))


def test_copies_of_samples_do_not_make_predictions_sure():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(12, 3)), rng.normal(size=12)
    once, often = (dc.DecouplingRegressor(random_state=0).fit(np.repeat(X, k, axis=0), np.repeat(y, k)) for k in (1, 3))
    stds = [model.predict(X[:1], return_std=True)[1][0] for model in (once, often)]
    assert stds[1] > 0.7 * stds[0] > 0.3


def test_functions_that_a_ridge_made_vanish_do_not_stop_a_fit():
    """Their arguments end near 1e-157, so that squares of their slopes overflowed."""
    X = np.repeat([[1.0, 3.0], [2.0, 1.0], [3.0, 3.0], [4.0, 1.0]], 4, axis=0)
    y = np.tile(np.repeat([1.0, 2.0], 4), 2)
    for seed in range(3):
        model = dc.DecouplingRegressor((2, 1), (2, 2), n_starts=4, ridge=1e-4, random_state=seed).fit(X, y)
        assert model.score(X, y) > 0.999


def test_predictions_far_from_the_samples_are_less_sure():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (60, 2))
    y = (X[:, 0] + X[:, 1]) ** 3 + 0.1 * rng.normal(size=60)
    model = dc.DecouplingRegressor(1, 3, random_state=0).fit(X, y)
    _, (near, far) = model.predict([[0.0, 0.0], [1.4, 1.4]], return_std=True)
    assert 0.08 < near < 0.13 and far > 1.5 * near
