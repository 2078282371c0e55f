"""What is left of the samples: noise, or something that a better model would explain."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decoupling as dc
from decoupling import Verdict
from decoupling.fit._predictable import predictable_shares
from decoupling.solvers._left_out import left_out

QUICK = {"n_starts": 2, "progress": False}
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (120, 2))
CUBIC = (X[:, :1] + X[:, 1:]) ** 3
NOISY = CUBIC + 0.3 * RNG.normal(size=CUBIC.shape)


def test_a_good_model_of_noisy_samples_is_as_good_as_the_data_allow():
    q = dc.decouple(dc.Samples(X, F=NOISY), 1, 3, **QUICK).quality
    assert q.verdict is Verdict.NOISE and 0.25 < q.noise[0] < 0.35
    assert 0.9 < q.left_out_r_squared[0] < q.r_squared[0] < 1.0
    assert "as good as the data allow" in str(q)


def test_a_model_that_is_too_simple_could_be_better_and_its_noise_is_not_its_misfit():
    result = dc.decouple(dc.Samples(X, F=NOISY), 1, 1, **QUICK)
    assert result.quality.verdict is Verdict.BETTER and result.quality.predictable[0] > 0.4
    assert result.quality.noise[0] < 0.7 * np.std(NOISY - result.decoupling(X))


def test_exact_models_are_exact_and_few_samples_tell_nothing():
    assert dc.decouple(dc.Samples(X, F=CUBIC), 1, 3, **QUICK).quality.verdict is Verdict.EXACT
    few = dc.Samples(X[:20], F=NOISY[:20])
    assert dc.decouple(few, 1, 2, **QUICK).quality.verdict is Verdict.UNKNOWN


@pytest.mark.filterwarnings("ignore::decoupling.DecouplingWarning")  # large terms may cancel without a ridge
def test_more_parameters_than_the_samples_bear_are_fitted_to_the_noise():
    rng = np.random.default_rng(5)
    samples = dc.Samples(rng.normal(size=(40, 8)), F=rng.normal(size=(40, 1)))
    result = dc.decouple(samples, 3, 3, solver=dc.VarPro(ridge=0.0), **QUICK)
    assert result.quality.verdict is Verdict.OVERFITTED


@pytest.mark.parametrize(("degree", "verdict"), [(1, Verdict.BETTER), (2, Verdict.NOISE)])
def test_repeated_samples_tell_noise_without_a_model(degree, verdict):
    grid = RNG.integers(0, 6, (120, 2)).astype(float)
    F = (grid[:, :1] - grid[:, 1:]) ** 2 + RNG.normal(size=(120, 1))
    q = dc.decouple(dc.Samples(grid, F=F), 1, degree, **QUICK).quality
    assert q.repeated and q.verdict is verdict
    assert 0.8 < q.noise[0] < 1.2


def test_chance_predicts_nothing_and_a_pattern_is_found():
    noise, pattern = RNG.normal(size=(120, 1, 1)), np.sin(4 * X[:, :1, None])
    assert predictable_shares(X, noise, noise + pattern)[0] == 0.0
    assert predictable_shares(X, pattern + 0.1 * noise, noise + pattern)[0] > 0.8


def test_jacobians_alone_are_judged_by_their_residuals():
    model = dc.Decoupling([[[1.0, 1.0]], [[1.0]]], [dc.Functions(dc.Monomial(3), [[0.0, 0.0, 0.0, 1.0]])])
    J = model.jacobian(X) + 0.2 * RNG.normal(size=(120, 1, 2))
    q = dc.decouple(dc.Samples(X, J=J), 1, 3, **QUICK).quality
    assert q.verdict is Verdict.NOISE and 0.15 < q.noise[0] < 0.25


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
    found = left_out(result.decoupling, samples)
    assert_allclose(found.rise[0], np.sqrt(np.mean(np.square(apart))) / fitted, rtol=0.1)
    assert_allclose(found.used.sum(), result.identifiability.rank, rtol=1e-6)
