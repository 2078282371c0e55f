"""What is left of the samples: noise, or something that a better model would explain."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.fit import Grade
from decouply.fit.quality._noise_tests import local_shares, predictable_shares, telling_pairs
from decouply.samples._duplicates import n_originals
from decouply.solvers.inference._uncertainty import leave_one_out

QUICK = {"n_starts": 2, "progress": False}
ALONG_X = dc.VarPro(fixed={"W0": np.ones((1, 1))}, max_steps=5, polish_steps=5)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (120, 2))
CUBIC = (X[:, :1] + X[:, 1:]) ** 3
NOISY = CUBIC + 0.3 * RNG.normal(size=CUBIC.shape)


def test_a_good_model_of_noisy_samples_is_as_good_as_the_data_allow():
    q = dc.decouple(dc.Samples(X, F=NOISY), 1, 3, **QUICK).quality
    assert q.verdict.grade is Grade.NOISE and 0.25 < q.noise[0] < 0.35
    assert 0.9 < q.left_out_r_squared[0] < q.r_squared[0] < 1.0
    assert "as good as the data allow" in str(q)


def test_a_model_that_is_too_simple_could_be_better_and_its_noise_is_not_its_misfit():
    result = dc.decouple(dc.Samples(X, F=NOISY), 1, 1, **QUICK)
    assert result.verdict.grade is Grade.BETTER and result.quality.predictable[0] > 0.4
    assert result.quality.noise[0] < 0.7 * np.std(NOISY - result.decoupling(X))


def test_exact_models_are_exact_and_few_samples_bear_a_line():
    assert dc.decouple(dc.Samples(X, F=CUBIC), 1, 3, **QUICK).verdict.grade is Grade.EXACT
    few = dc.Samples(X[:20], F=NOISY[:20])
    assert dc.decouple(few, 1, 2, **QUICK).verdict.grade is Grade.LINE


@pytest.mark.filterwarnings("ignore::decouply.DecouplingWarning")  # large terms may cancel without a ridge
def test_more_parameters_than_the_samples_bear_are_fitted_to_the_noise():
    rng = np.random.default_rng(5)
    samples = dc.Samples(rng.normal(size=(40, 8)), F=rng.normal(size=(40, 1)))
    result = dc.decouple(samples, 3, 3, solver=dc.VarPro(ridge=0.0), **QUICK)
    assert result.verdict.grade is Grade.POOR


@pytest.mark.parametrize(("degree", "grade"), [(1, Grade.POOR), (2, Grade.NOISE)])
def test_repeated_samples_tell_noise_without_a_model(degree, grade):
    grid = RNG.integers(0, 6, (120, 2)).astype(float)
    F = (grid[:, :1] - grid[:, 1:]) ** 2 + RNG.normal(size=(120, 1))
    q = dc.decouple(dc.Samples(grid, F=F), 1, degree, **QUICK).quality
    assert q.repeated and q.verdict.grade is grade
    assert 0.8 < q.noise[0] < 1.2


def test_chance_predicts_nothing_and_a_pattern_is_found():
    noise, pattern = RNG.normal(size=(120, 1, 1)), np.sin(4 * X[:, :1, None])
    assert predictable_shares(X, noise, noise + pattern)[0] == 0.0
    assert predictable_shares(X, pattern + 0.1 * noise, noise + pattern)[0] > 0.8


def test_neighbours_see_what_kernels_are_too_wide_for():
    """Steps along an argument of the model, and waves along a direction that nobody knows."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.0, 1.0, (1000, 3))
    noise, u = 0.3 * rng.normal(size=(1000, 1)), X @ [[1.0], [0.5], [0.0]]
    step = np.where(np.abs(u - 0.2) < 0.05, np.sign(u - 0.2), 0.0)
    wave = np.sin(20.0 * (X @ [[0.2], [-1.0], [0.6]]))
    for misfit in (step, wave):
        true = np.sum(misfit**2) / np.sum((misfit + noise) ** 2)
        assert 0.6 * true < local_shares(X, misfit + noise, u)[0] < 1.3 * true
    assert local_shares(X, wave, u[:, :0])[0] > 0.8


@pytest.mark.parametrize("deviation", [lambda x: 1.0 + 0.0 * x, lambda x: np.where(x > 0.8, 10.0, 1.0), np.exp])
def test_noise_that_changes_its_size_is_noise(deviation):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1.0, 1.0, (300, 2))
        assert local_shares(X, deviation(X[:, :1]) * rng.normal(size=(300, 1)), X)[0] == 0.0


def test_what_is_left_in_one_place_is_not_called_noise():
    """Ten of four hundred residuals hold nearly all of the squares: nobody can tell by their signs."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (400, 1))
    F = np.sign(x - 0.3) + np.sign(x + 0.4) + 0.03 * rng.normal(size=x.shape)
    result = dc.decouple(dc.Samples(x, F=F), 1, basis=dc.Spline(40), solver=ALONG_X, **QUICK)
    assert telling_pairs(F - result.decoupling(x), x)[0] < 20.0 < telling_pairs(rng.normal(size=x.shape), x)[0]
    assert result.verdict.grade is not Grade.NOISE


def test_a_spline_that_smooths_a_step_could_be_better():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (1000, 1))
    result = dc.decouple(dc.Samples(x, F=np.sign(x) + 0.1 * rng.normal(size=x.shape)), 1, basis=dc.Spline(16), **QUICK)
    assert result.verdict.grade is Grade.BETTER and result.quality.noise[0] < 0.15


def test_jacobians_alone_are_judged_by_their_residuals():
    model = dc.Decoupling([[[1.0, 1.0]], [[1.0]]], [dc.Functions(dc.Monomial(3), [[0.0, 0.0, 0.0, 1.0]])])
    J = model.jacobian(X) + 0.2 * RNG.normal(size=(120, 1, 2))
    q = dc.decouple(dc.Samples(X, J=J), 1, 3, **QUICK).quality
    assert q.verdict.grade is Grade.NOISE and 0.15 < q.noise[0] < 0.25


def test_leaving_out_agrees_with_fits_to_the_others():
    samples = dc.Samples(X[:30], F=NOISY[:30])
    solver = dc.VarPro(ridge=0.0)
    result = dc.decouple(samples, 1, 3, solver=solver, n_starts=4, progress=False)
    apart = []
    for s in range(30):
        others = samples.take(np.delete(np.arange(30), s))
        start = dc.VarPro(ridge=0.0, start=result.decoupling)
        model = dc.decouple(others, 1, 3, solver=start, n_starts=1, progress=False).decoupling
        apart.append(float((NOISY[s] - model(X[s : s + 1])[0])[0]))
    fitted = np.sqrt(np.mean((NOISY[:30] - result.decoupling(X[:30])) ** 2))
    found = leave_one_out(result.linearisation)
    assert_allclose(found.rise[0], np.sqrt(np.mean(np.square(apart))) / fitted, rtol=0.1)
    assert_allclose(found.used.sum(), result.identifiability.rank, rtol=1e-6)


RANDOM = np.random.default_rng(5)
FEW_X, FEW_F = RANDOM.normal(size=(12, 3)), RANDOM.normal(size=(12, 1))


def often(X, F, k):
    return dc.Samples(np.repeat(X, k, axis=0), F=np.repeat(F, k, axis=0))


@pytest.mark.parametrize("k", [1, 3])
def test_a_model_with_as_many_parameters_as_places_is_not_judged(k):
    with pytest.warns(dc.DecouplingWarning, match="numbers: the answer is one of many"):
        q = dc.decouple(often(FEW_X, FEW_F, k), 3, 3, solver=dc.VarPro(ridge=1e-9), **QUICK).quality
    assert q.verdict.grade is Grade.UNTESTED and np.isnan(q.left_out_r_squared[0]) and not q.repeated


def test_copies_do_not_change_what_is_known():
    """Noise, verdict and errors on left-out samples are those of samples that are there once."""
    X = RANDOM.uniform(-1.0, 1.0, (60, 2))
    F = (X[:, :1] + X[:, 1:]) ** 3 + 0.1 * RANDOM.normal(size=(60, 1))
    once, three = (dc.decouple(often(X, F, k), 1, 3, **QUICK).quality for k in (1, 3))
    assert three.verdict.grade is once.verdict.grade is Grade.NOISE
    assert_allclose(three.noise, once.noise, rtol=0.01)
    assert_allclose(three.left_out_r_squared, once.left_out_r_squared, rtol=0.01)


def test_left_out_errors_are_those_of_fits_without_a_sample_and_its_copies():
    """With directions that are held the model is linear, so that the first order is all there is."""
    X = RANDOM.uniform(-1.0, 1.0, (15, 1))
    F = X**2 + 0.2 * RANDOM.normal(size=X.shape)
    which = np.repeat(np.arange(15), RANDOM.integers(1, 7, 15))
    X, F = X[which], F[which]
    result = dc.decouple(dc.Samples(X, F=F), 1, 4, solver=dc.VarPro(fixed={"W0": np.ones((1, 1))}, ridge=0.0), **QUICK)
    told = leave_one_out(result.linearisation)
    powers = X ** np.arange(5)
    apart = np.concatenate(
        [F[which == p] - powers[which == p] @ np.linalg.lstsq(powers[which != p], F[which != p])[0] for p in range(15)]
    )
    fitted = F - result.decoupling(X)
    assert_allclose(told.rise, np.sqrt(np.sum(apart**2) / np.sum(fitted**2)), rtol=1e-6)


def test_one_measurement_that_was_repeated_does_not_make_copies_count():
    X = RANDOM.uniform(-1.0, 1.0, (200, 2))
    F = (X[:, :1] + X[:, 1:]) ** 3 + 0.2 * RANDOM.normal(size=(200, 1))
    more = np.concatenate([np.arange(60), [100]])
    X, F = np.concatenate([X, X[more]]), np.concatenate([F, F[more]])
    F[-1] += 0.3
    q = dc.decouple(dc.Samples(X, F=F), 1, 3, **QUICK).quality
    assert q.verdict.grade is Grade.NOISE and 0.15 < q.noise[0] < 0.25


def test_a_verdict_is_a_word_and_a_sentence():
    with pytest.warns(dc.DecouplingWarning):
        result = dc.decouple(often(FEW_X, FEW_F, 3), 3, 3, solver=dc.VarPro(ridge=1e-9), **QUICK)
    assert str(result.verdict).startswith("Too few samples to tell. Parameters are about as many as samples")


def test_rounded_measurements_are_no_levels():
    """Four inputs that were written with one digit: copies are copies all the same."""
    X = np.round(RANDOM.uniform(0.0, 4.0, (150, 4)), 1)
    samples = dc.Samples(np.repeat(X, 3, axis=0), F=np.repeat(RANDOM.normal(size=(150, 1)), 3, axis=0))
    assert n_originals(samples) == len(np.unique(X, axis=0))
    grid = np.stack(np.meshgrid(*3 * [[0.0, 1.0, 2.0]]), axis=-1).reshape(-1, 3)
    assert n_originals(dc.Samples(np.repeat(grid, 3, axis=0), F=np.ones((81, 1)))) == 81


@pytest.mark.parametrize("offset", [0.0, 1e9, 1e12])
@pytest.mark.parametrize("solver", [None, dc.Constr()])
def test_a_status_of_exact_and_a_verdict_of_exact_are_one(offset, solver):
    """Values far from 0 are known to few digits of their spread, Jacobians to all of theirs."""
    model = dc.systems.random_system((2, 2, 2), (3,), rng=0)
    samples = dc.Samples(X, F=model(X) + offset, J=model.jacobian(X))
    result = dc.decouple(samples, 2, 3, solver=solver, **QUICK)
    assert (result.status.name == "EXACT") == (result.verdict.grade is Grade.EXACT)
    assert result.verdict.grade in (Grade.EXACT, Grade.CLOSE)
