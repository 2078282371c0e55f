"""The ridge that VarPro chooses from the misfit."""

from functools import cache

import numpy as np
import pytest

import decouply as dc
from decouply.solvers.varpro._penalty_choice import RidgeChoice
from tests.strategies import points, sampled

F2 = dc.systems.f2()


def noisy(system, level, seed=0, S=30):
    clean, rng = sampled(system, S, seed=seed), np.random.default_rng(seed)
    F, J = (a + level * np.sqrt(np.mean(a**2)) * rng.normal(size=a.shape) for a in (clean.F, clean.J))
    return dc.Samples(clean.X, F=F, J=J)


def fitted(samples, **options):
    return dc.decouple(samples, (2, 2), (3, 3), solver=dc.VarPro(**options), n_starts=32, progress=False)


@cache
def noisy_fit(seed, ridge):
    """Of f2; the tests below look at the same fits."""
    return fitted(noisy(F2, 5e-2, seed), ridge=ridge)


def fresh_error(result):
    X = points(3, 500, seed=77)
    return np.max(dc.relative_rmse(F2(X), result.decoupling(X)))


def test_ridges_fall_with_the_misfit_and_with_the_numbers_and_none_is_tried_without_effect():
    few, many = (list(RidgeChoice(1e-2, count, 10, 9.0).candidates()) for count in (100, 10_000))
    assert few == sorted(few, reverse=True) and few[0] == pytest.approx(100 * many[0])
    assert list(RidgeChoice(1e-20, 100, 10, 9.0).candidates()) == []
    assert RidgeChoice(1.0, 1000, 10, 9.0).max_misfit < RidgeChoice(1.0, 100, 10, 9.0).max_misfit < 9.0
    assert RidgeChoice(1.0, 11, 10, 2.0).max_misfit == 1.5


@pytest.mark.slow
def test_noisy_data_get_a_ridge_that_the_result_tells_and_that_can_be_switched_off():
    auto, off = noisy_fit(0, "auto"), noisy_fit(0, 0.0)
    assert auto.ridge > 0.0 == off.ridge
    assert any(f"{auto.ridge:.1e}" in note for note in auto.notes) and not any("ridge" in note for note in off.notes)
    assert off.error_jacobian <= auto.error_jacobian < 0.1
    given = fitted(auto.samples, ridge=1e-3)
    assert given.ridge == 0.0 and given.error_jacobian > off.error_jacobian  # chosen by the user, not by us


@pytest.mark.slow
def test_the_ridge_brings_models_nearer_to_the_truth():
    seeds = range(5)  # single ones are luck
    ratios = [fresh_error(noisy_fit(seed, "auto")) / fresh_error(noisy_fit(seed, 0.0)) for seed in seeds]
    assert np.median(ratios) < 1.0, ratios


def test_exact_data_get_none():
    assert fitted(sampled(F2, 30)).ridge == 0.0
    assert dc.decouple(noisy(F2, 5e-2), (2, 2), (3, 3), n_starts=4, as_given=True, progress=False).ridge == 0.0


def test_a_model_that_is_too_small_does_not_collapse():
    samples = sampled(F2, 40)
    small, off = (
        dc.decouple(samples, (1, 1), (3, 3), solver=dc.VarPro(ridge=ridge), n_starts=16, progress=False)
        for ridge in ("auto", 0.0)
    )
    assert small.error_jacobian <= 2.0 * off.error_jacobian and np.any(small.decoupling(samples.X) != 0.0)


@pytest.mark.slow
def test_pure_noise_gives_a_finite_model():
    rng = np.random.default_rng(0)
    samples = dc.Samples(points(3, 30), F=rng.normal(size=(30, 3)), J=rng.normal(size=(30, 3, 3)))
    result = fitted(samples)
    assert np.all(np.isfinite(result.decoupling(samples.X))) and result.error_jacobian < 1.0


def test_a_wrong_ridge_is_refused():
    with pytest.raises(dc.InputError, match="ridge"):
        dc.VarPro(ridge=-1.0)
