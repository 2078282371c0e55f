"""The classifier: conventions of scikit-learn, likelihood, and what people do with it."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.fit import _classification
from decouply.solvers.least_squares._logistic_deviance import Deviance, log_likelihoods, probabilities
from decouply.solvers.least_squares._parameters import Parameters

sklearn = pytest.importorskip("sklearn")
from sklearn.datasets import load_iris, make_moons  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from tests.strategies import points  # noqa: E402

CHOSEN = dc.DecouplingClassifier(degrees=2, n_starts=1)
SMALL = dc.DecouplingClassifier(ranks=2, degrees=1, n_starts=1, ridge=1.0)


def copies_count_once(estimator):
    """Where ranks are chosen, copies of a sample are left out together and count once; a weight of 2 counts twice."""
    if estimator.ranks != "auto":
        return {}
    return {"check_sample_weight_equivalence_on_dense_data": "copies count once in the choice, weights do not"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::decouply.DecouplingWarning")
@parametrize_with_checks([CHOSEN, SMALL], expected_failed_checks=copies_count_once)
def test_the_conventions_of_scikit_learn_are_kept(estimator, check):
    check(estimator)


def ring(S=300, seed=0):
    """Log-odds of one parabola, in units far from 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (S, 3))
    p = 1 / (1 + np.exp(-(6 * (X[:, 0] + X[:, 1]) ** 2 - 3)))
    return 100 + 5 * X, np.where(rng.uniform(size=S) < p, "yes", "no"), p


def test_log_odds_of_one_parabola_are_found():
    X, y, _ = ring(600)
    Z, _, p = ring(400, seed=1)
    model = dc.DecouplingClassifier(random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.decoupling_.ranks == (1,) and "1 polynomial of degree 3: " in model.note_
    assert np.sqrt(np.mean((model.predict_proba(Z)[:, 1] - p) ** 2)) < 0.06
    assert model.left_out_deviance_ > model.deviance_ > 0
    assert_allclose(model.predict_proba(Z).sum(axis=1), 1.0)
    assert_allclose(np.exp(model.predict_log_proba(Z)), model.predict_proba(Z), rtol=1e-9)
    assert_allclose(model.decision_function(Z), model.decoupling_(Z)[:, 0], rtol=1e-9)
    assert np.all(model.predict(Z) == model.classes_[np.argmax(model.predict_proba(Z), axis=1)])


def test_functions_of_degree_1_are_logistic_regression():
    """Up to the ridge, which both have nearly none of."""
    X, _ = load_iris(return_X_y=True)
    y = (np.arange(150) % 50 < 25).astype(int)  # nothing to be found: no separation, and small log-odds
    ours = dc.DecouplingClassifier(1, 1, ridge=1e-7, random_state=0).fit(X, y)
    theirs = LogisticRegression(C=1e8, tol=1e-10, max_iter=10_000).fit(X, y)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("basis", [dc.Spline(4), dc.bases.Tanh()])
def test_functions_whose_span_depends_on_their_domain_are_taken(basis):
    X, y, _ = ring(200)
    model = dc.DecouplingClassifier(1, basis=basis, ridge=1.0, n_starts=2, random_state=0).fit(X, y)
    assert model.decoupling_.g[0].basis == basis
    assert model.deviance_ < -2 * np.mean(np.log(np.where(y == "yes", np.mean(y == "yes"), np.mean(y == "no"))))


def test_three_classes_with_names_of_columns_and_classes():
    pd = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    model = dc.DecouplingClassifier(2, 1, ridge=1.0, random_state=0).fit(frame, labels)
    assert model.predict_proba(frame).shape == (150, 3)
    assert model.score(frame, labels) > 0.95
    assert model.decoupling_.inputs == ("a", "b", "c", "d")
    assert model.decoupling_.outputs == ("setosa", "versicolor", "virginica")
    assert "virginica" in model.decoupling_.formula()
    assert model.plot().axes


def test_a_grid_search_chooses_by_likelihood():
    X, y = make_moons(120, noise=0.1, random_state=0)
    search = GridSearchCV(
        dc.DecouplingClassifier(degrees=3, n_starts=2, ridge=1.0, random_state=0),
        {"ranks": [1, 2]},
        cv=2,
        scoring="neg_log_loss",
    ).fit(X, y)
    assert search.best_params_ == {"ranks": 2}


def test_probabilities_stay_bounded_far_away():
    X, y, _ = ring(200)
    model = dc.DecouplingClassifier(1, 3, random_state=0).fit(X, y)
    far = model.decision_function(100 + 1e6 * (X - 100))
    assert np.max(np.abs(far)) < 10 * np.max(np.abs(model.decision_function(X)))


def test_samples_of_weight_0_do_not_count_and_weights_are_repetitions():
    X, y, _ = ring(120)
    twice = np.r_[np.full(60, 2.0), np.zeros(60)]
    weighted = dc.DecouplingClassifier(1, 2, ridge=1.0, random_state=0).fit(X, y, sample_weight=twice)
    again = np.r_[:60, :60]
    plain = dc.DecouplingClassifier(1, 2, ridge=1.0, random_state=0).fit(X[again], y[again])
    assert_allclose(weighted.predict_proba(X), plain.predict_proba(X), atol=1e-3)
    with pytest.raises(dc.InputError, match="a sample of every class"):
        dc.DecouplingClassifier().fit(X, y, sample_weight=(y == "yes").astype(float))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ranks": 0}, r"`ranks\[0\]` must be a whole number"),
        ({"ridge": -1.0}, "`ridge` must be"),
        ({"ridge": "much"}, '`ridge` must be "auto" or a number'),
        ({"outside": "far"}, "`outside` must be one of bounded, extend, linear, constant"),
    ],
)
def test_wrong_parameters_are_refused_when_fitting(parameters, message):
    X, y, _ = ring(30)
    with pytest.raises(dc.InputError, match=message):
        dc.DecouplingClassifier(**parameters).fit(X, y)


def test_one_class_is_refused():
    with pytest.raises(dc.InputError, match=r"at least 2 classes\. Got one class: 1"):
        dc.DecouplingClassifier().fit(points(2, 10), np.ones(10, dtype=int))


def deviance(n, seed=0):
    """A cost with two functions of degree 2, and parameters for it."""
    rng = np.random.default_rng(seed)
    layers = (dc.Functions(dc.Monomial(2), np.zeros((2, 3))).layer,)
    y = np.eye(n + (n == 1))[rng.integers(0, n + (n == 1), 12)]
    y = y[:, 1:] if n == 1 else y
    weights = rng.uniform(0.5, 1.5, 12)
    X, copies = rng.normal(size=(12, 3)), np.ones(12, dtype=int)
    cost = Deviance(X, y, weights / weights.sum(), copies, rng.normal(size=n), layers, False, 0.05)
    W, c, V = (0.5 * rng.normal(size=(1, *shape)) for shape in ((2, 4), (2, 3), (n, 2)))
    return cost, Parameters((W[..., :3], V), (W[..., 3],), (c,))


@pytest.mark.parametrize("n", [1, 3])
def test_the_step_of_the_deviance_is_its_gradient_and_fisher_information(n):
    cost, theta = deviance(n)
    flat = cost._complete.unknowns.flatten(theta)
    value, at = cost.linearise(theta)
    h = 1e-6

    def moved(direction):
        return cost.linearise(cost.after_step(theta, h * direction[None]))[0][0]

    eye = np.eye(flat.shape[1])
    slopes = np.array([(moved(e) - moved(-e)) / (2 * h) for e in eye])
    assert_allclose(at.g[0], -slopes / 2, atol=1e-7)
    # Information by definition: the expectation over classes of squared gradients of log p, sample by sample.
    f, Z = cost._at(theta)
    p = probabilities(f)
    expected = cost.ridge * eye
    for s, w in enumerate(cost.weights):
        chances = np.array([1 - p[s, 0], p[s, 0]]) if n == 1 else p[s]
        for k, chance in enumerate(chances):
            seen = np.array([k], dtype=float) if n == 1 else np.eye(n)[k]
            score = Z[s].T @ (seen - p[s])
            expected = expected + w * chance * np.outer(score, score)
    assert_allclose(at.M[0], expected, atol=1e-10)
    assert value[0] == pytest.approx(-2 * cost.weights @ log_likelihoods(f, cost.y) + cost.ridge * np.sum(flat**2))


def test_the_deviance_of_left_out_samples_is_near_that_of_real_refits():
    """Of straight lines, where a refit cannot end elsewhere."""
    X, S = points(2, 16), 16
    y = (X[:, 0] + np.random.default_rng(0).normal(size=S) > 0).astype(int)
    model = dc.DecouplingClassifier(1, 1, ridge=1.0, n_starts=1, random_state=0)
    refits = []
    for s in range(S):
        rest = np.arange(S) != s
        refits.append(-2 * np.log(model.fit(X[rest], y[rest]).predict_proba(X[s : s + 1])[0, y[s]]))
    model.fit(X, y)
    rise = np.mean(refits) - model.deviance_
    assert model.left_out_deviance_ - model.deviance_ == pytest.approx(rise, rel=0.3)


def test_time_is_limited_and_told():
    X, y, _ = ring(600)
    with pytest.warns(dc.DecouplingWarning, match="`max_seconds` was reached"):
        model = dc.DecouplingClassifier(max_seconds=1e-3, random_state=0).fit(X, y)
    assert model.decoupling_.ranks == (1,) and "`max_seconds` was reached" in model.note_
    with pytest.warns(dc.DecouplingWarning, match="`max_seconds` was reached"):
        model = dc.DecouplingRegressor(max_seconds=1e-3, random_state=0).fit(X, np.exp(X[:, 0]) - X[:, 1])
    assert model.decoupling_.ranks == (1,) and "was reached" in model.result_.notes[1]


def drawn(S, seed, odds):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (S, 3))
    return X, rng.uniform(size=S) < 1 / (1 + np.exp(-odds(X)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "odds, options, grade",
    [
        (lambda X: 2 * X[:, 0] - X[:, 1], {}, "NOISE"),
        (lambda X: 3 * np.sin(5 * X[:, 0]) + 2 * X[:, 1], {}, "NOISE"),
        (lambda X: 3 * np.sin(5 * X[:, 0]) + 2 * X[:, 1], {"ranks": 1, "degrees": 1}, "BETTER"),
        (lambda X: 6 * (X[:, 0] + X[:, 1]) ** 2 - 3, {"ranks": 1, "degrees": 1}, "POOR"),
        (lambda X: 0 * X[:, 0], {}, "POOR"),
        (lambda X: 500 * X[:, 0], {"ranks": 1, "degrees": 1, "ridge": 1e-3}, "EXACT"),
        (lambda X: X[:, 0], {"ranks": 3, "degrees": 5, "ridge": 1e-4, "n_starts": 1}, "UNTESTED"),
    ],
)
def test_the_verdict_suits_classes(odds, options, grade):
    X, y = drawn(100 if grade == "UNTESTED" else 400, 3, odds)
    quality = dc.DecouplingClassifier(random_state=0, **options).fit(X, y).quality_
    assert quality.verdict.grade is dc.fit.Grade[grade], quality
    assert quality.confusion.sum() == len(X) and quality.left_out_accuracy <= quality.accuracy + 0.02
    assert quality.verdict.word in str(quality)


def test_a_page_tells_of_classes(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = make_moons(200, noise=0.25, random_state=0)
    X = pandas.DataFrame(X, columns=["length", "<width>"])
    model = dc.DecouplingClassifier(2, 3, random_state=0).fit(X, np.where(y, "ripe & sweet", "green"))
    model.report(tmp_path / "page.html", title="Moons")
    text = (tmp_path / "page.html").read_text()
    for word in (
        "log-odds of ripe &amp; sweet",
        "&lt;width&gt;",
        "as good as the data allow",
        "Confusion matrix",
    ):
        assert word in text, word
    assert "DecouplingClassifier(degrees=3, random_state=0, ranks=2)" in text and "<width>" not in text
    assert '"classes":["green","ripe' in text and "the deviance per sample rises from" in text
    flowers = load_iris()
    three = dc.DecouplingClassifier(2, 2, n_starts=2, random_state=0).fit(flowers.data, flowers.target)
    three.report(tmp_path / "three.html")
    assert "There is one output for each class" in (tmp_path / "three.html").read_text()


def test_what_a_function_is_worth_is_measured_by_fitting_the_rest_again():
    from decouply.fit._classification import deviance_without, null_deviance

    X, y = drawn(500, 1, lambda X: 6 * (X[:, 0] + X[:, 1]) ** 2 - 3)
    one = dc.DecouplingClassifier(1, 2, random_state=0).fit(X, y)
    assert_allclose(
        deviance_without(one._samples, one._found.decoupling, one.ridge_, 0, 0), null_deviance(one._samples)
    )
    X, y = drawn(500, 1, lambda X: 8 * X[:, 0] ** 2 - 8 * X[:, 1] ** 2)
    two = dc.DecouplingClassifier(2, 2, ridge=1.0, random_state=0).fit(X, y)
    lost = [deviance_without(two._samples, two._found.decoupling, 1.0, 0, j) for j in range(2)]
    alone = dc.DecouplingClassifier(1, 2, ridge=1.0, random_state=0).fit(X, y).deviance_
    assert two.deviance_ + 0.1 < alone <= min(lost) + 1e-9  # both matter, and what is left was fitted again
    assert max(lost) < null_deviance(two._samples)


def test_a_function_that_matters_more_is_worth_more():
    from decouply.fit._classification import deviance_without

    X, y = drawn(500, 1, lambda X: 12 * X[:, 0] ** 2 - 3 * X[:, 1] ** 2 - 2)
    model = dc.DecouplingClassifier(2, 2, ridge=1.0, random_state=0).fit(X, y)
    lost = [deviance_without(model._samples, model._found.decoupling, 1.0, 0, j) for j in range(2)]
    strong = int(np.argmax(np.abs(model._found.decoupling.W[0][:, 0]) > np.abs(model._found.decoupling.W[0][:, 1])))
    assert lost[strong] > lost[1 - strong] + 0.1 > model.deviance_ + 0.1  # directions stay: not the same fit twice


def test_functions_that_the_ridge_made_zero_are_dropped(monkeypatch):
    """One direction leaves nothing for a second function to do; that two of them are chosen is prepared."""
    X = points(3, 300)
    y = np.random.default_rng(0).uniform(size=300) < 1 / (1 + np.exp(-4 * X[:, 0]))
    shape, found = ((2,), (3,)), {}
    likely = _classification._most_likely

    def prepared(samples, start, *args):
        one = likely(samples, start, *args)
        found[start.ranks, start.degrees] = one.decoupling
        return dataclasses.replace(one, left_out_deviance=0.5 if (start.ranks, start.degrees) == shape else 1.0)

    monkeypatch.setattr(_classification, "_most_likely", prepared)
    model = dc.DecouplingClassifier(ridge=10.0, random_state=0).fit(X, y)
    assert found[shape].ranks == (2,) and model.decoupling_.ranks == (1,)
    assert "The ridge made 1 of 2 functions zero; dropped." in model.note_
    assert_allclose(model.decision_function(X), found[shape](X)[:, 0], atol=1e-6)


def test_copies_of_samples_do_not_change_the_verdict():
    X, y = drawn(60, 4, lambda X: 0.0 * X[:, 0])
    once, often = (
        dc.DecouplingClassifier(random_state=0).fit(np.repeat(X, k, axis=0), np.repeat(y, k)) for k in (1, 3)
    )
    assert (
        often.quality_.verdict.grade is once.quality_.verdict.grade
        and often.decoupling_.ranks == once.decoupling_.ranks
    )
    np.testing.assert_allclose(often.left_out_deviance_, once.left_out_deviance_, rtol=0.02)


@pytest.mark.slow
def test_chance_is_not_called_better_than_guessing():
    """The best of several shapes is a little better than guessing on its own left-out samples, by chance."""
    found = set()
    for seed in range(5000, 5003):
        rng = np.random.default_rng([seed, 60])
        X, y = rng.uniform(-1.0, 1.0, (60, 3)), rng.uniform(size=60) < 0.5
        found.add(dc.DecouplingClassifier(random_state=0).fit(X, y).quality_.verdict.grade)
    assert found <= {dc.fit.Grade.POOR, dc.fit.Grade.UNTESTED} and dc.fit.Grade.UNTESTED in found


def test_equal_labels_at_levels_are_no_copies():
    X = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 50, axis=0)
    model = dc.DecouplingClassifier(random_state=0).fit(X, X[:, 0] != X[:, 1])
    assert model.score(X, X[:, 0] != X[:, 1]) == 1.0 and model.quality_.verdict.grade is dc.fit.Grade.EXACT
