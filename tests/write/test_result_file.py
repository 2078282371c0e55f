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
