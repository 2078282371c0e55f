"""Results as files."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import decouply as dc
from tests.report.results import MAKERS


@pytest.mark.parametrize("name", ["one_layer", "two_stages", "jacobians_only", "linear_part"])
def test_a_result_comes_back_whole(name, tmp_path):
    result = MAKERS[name]()
    result.save(tmp_path / "r.safetensors")
    again = dc.Result.load(tmp_path / "r.safetensors")
    X = result.samples.X
    assert_array_equal(again.decoupling(X), result.decoupling(X))
    assert (again.status, again.lam, again.notes, again.found_by) == (
        *(result.status, result.lam, result.notes, result.found_by),
    )
    assert repr(again) == repr(result) and type(again.solver) is type(result.solver)
    assert len(again.starts) == len(result.starts) and len(again.history) == len(result.history)
    assert again.samples.inputs == result.samples.inputs
    assert again.quality.verdict is result.quality.verdict
    again.report(tmp_path / "page.html")
    assert_array_equal(dc.Decoupling.load(tmp_path / "r.safetensors")(X), result.decoupling(X))


def test_samples_may_stay_away_and_must_then_be_given(tmp_path):
    result = MAKERS["one_layer"]()
    file = tmp_path / "r.safetensors"
    result.save(file, samples=False)
    with pytest.raises(dc.ModelFileError, match="without samples: give those"):
        dc.Result.load(file)
    assert dc.Result.load(file, samples=result.samples).error_values == result.error_values
    result.decoupling.save(file)
    with pytest.raises(dc.ModelFileError, match="must hold a result"):
        dc.Result.load(file)


def test_parts_that_were_given_are_still_given(tmp_path):
    system = dc.systems.f2()
    X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    solver = dc.VarPro(fixed={"W0": system.W[0]}, max_steps=2, polish_steps=1)
    samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    result = dc.decouple(samples, (2, 2), (3, 3), solver=solver, n_starts=2, progress=False)
    result.save(tmp_path / "r.safetensors")
    again = dc.Result.load(tmp_path / "r.safetensors")
    assert set(again.solver.fixed) == {"W0"} and again.identifiability == result.identifiability


@pytest.mark.slow
def test_settings_come_back_whole(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (60, 2))
    F = np.tanh(2 * X[:, :1] + X[:, 1:]) + 0.01 * rng.normal(size=(60, 1))
    asked = {"ranks": 1, "basis": dc.Spline(4), "shapes": ["increasing"], "n_starts": 3, "max_seconds": 30.0}
    for seed in (5, rng, np.random.Generator(np.random.MT19937(2))):
        result = dc.decouple(dc.Samples(X, F=F), **asked, rng=seed, progress=False)
        result.save(tmp_path / "r.safetensors")
        again = dc.Result.load(tmp_path / "r.safetensors").settings
        assert again.shapes == ["increasing"] and again.wishes == result.settings.wishes == (("increasing",),)
        assert (again.n_starts, again.max_seconds, again.linear) == (3, 30.0, False)
        if isinstance(seed, np.random.Generator):
            assert again.rng.random() == result.settings.rng.random()
        else:
            assert again.rng == seed
