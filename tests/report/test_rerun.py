"""The source on the page, run as it is printed, gives the same model."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import decouply as dc
from decouply.report._rerun_source import how_to_run_again
from tests.strategies import sampled

F2 = dc.systems.f2()
PLAIN = sampled(F2, 30)
SAMPLES = dc.Samples(PLAIN.X, F=PLAIN.F, J=PLAIN.J, inputs=["a", "b", "class"], outputs=["y1", "y2", "y3"])
QUICK = dc.Constr(stopping=dc.solvers.Stopping(max_steps=5), start=dc.solvers.Uniform(0.2, 3.0))
CALLS = {
    "seed": {"ranks": (2, 2), "degrees": (3, 3), "solver": QUICK, "rng": 3},
    "two stages": {
        "ranks": [2, 2],
        "degrees": [3, 3],
        "solver": dc.TwoStage(dc.Proj(stopping=dc.solvers.Stopping(max_steps=5)), beta=10.0, max_runs=2),
        "n_starts": 2,
        "validation": sampled(F2, 10, seed=4),
    },
    "generator": {"ranks": 2, "degrees": 2, "solver": QUICK, "rng": np.random.default_rng(7)},
    "linear part": {"ranks": 2, "degrees": 3, "linear": True, "solver": dc.VarPro(max_steps=5), "n_starts": 4},
    "last iterate": {
        "ranks": 2,
        "degrees": 3,
        "solver": dc.Zniyed(stopping=dc.solvers.Stopping(max_steps=9, iterate="last")),
        "n_starts": 1,
    },
    "as given": {"ranks": (2, 2), "degrees": (3, 3), "as_given": True, "solver": QUICK},
    "bases": {
        "ranks": (2, 1),
        "basis": (dc.Chebyshev(2), (dc.bases.Trigonometric(2),)),
        "solver": dc.VarPro(max_steps=3, polish_steps=1, lam=2.0),
        "n_starts": 4,
    },
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_source_gives_the_same_model(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = dc.decouple(SAMPLES, **call, progress=False)
    result.samples.save("samples.npz")
    if result.settings.validation is not None:
        result.settings.validation.save("validation.npz")
    again = how_to_run_again(result)
    space = {}
    exec(again.source, space)
    found, model = space["result"].decoupling, result.decoupling
    for a, b in zip(found.W, model.W, strict=True):
        assert_array_equal(a, b)
    assert_array_equal(found(SAMPLES.X), model(SAMPLES.X))
    assert (found.inputs, found.outputs) == (("a", "b", "class"), ("y1", "y2", "y3"))
    for word in ("linear", "as_given"):
        assert (f"{word}=True" in again.source) == (word in call)
        assert call.get(word) or word not in again.source
    assert any("validation.npz" in remark for remark in again.remarks) == ("validation" in call)
    assert any("generator" in remark for remark in again.remarks) == ("generator" in str(call.get("rng")).lower())


@pytest.mark.parametrize(("limit", "written"), [(50.32436315300038, "50.32"), (0.001, "0.001"), (60, "60")])
def test_a_limit_of_time_is_written_shortly(limit, written):
    result = dc.decouple(SAMPLES, (2, 2), (3, 3), solver=QUICK, progress=False)
    settings = dataclasses.replace(result.settings, max_seconds=limit)
    again = how_to_run_again(dataclasses.replace(result, settings=settings))
    assert f"    max_seconds={written},\n" in again.source


def test_what_cannot_be_written_is_named():
    given = dc.VarPro(fixed={"W0": F2.W[0]}, start=F2)
    again = how_to_run_again(dc.decouple(SAMPLES, (2, 2), (3, 3), solver=given, n_starts=2, progress=False))
    assert "dc.VarPro(start=start, fixed={'W0': W0})" in again.source
    assert "start, W0" in again.remarks[1]
    judged = dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=2)), loss=lambda model: 0.0)
    rng = np.random.Generator(np.random.MT19937(1))
    again = how_to_run_again(dc.decouple(SAMPLES, 2, 3, solver=judged, n_starts=2, rng=rng, progress=False))
    assert "loss=loss" in again.source and "MT19937" in again.remarks[-1]


def test_no_caller_is_named_where_ranks_were_chosen_for_them():
    model = dc.systems.random_system((2, 1, 2), (2,), rng=1)
    again = how_to_run_again(dc.decouple(sampled(model, 20), "auto", 2, progress=False))
    assert "no seed" in again.remarks[-1] and "caller" not in again.remarks[-1]


def test_the_settings_hold_a_generator_as_it_was():
    rng = np.random.default_rng(5)
    first = dc.decouple(SAMPLES, (2, 2), (3, 3), solver=QUICK, rng=rng, progress=False)
    second = dc.decouple(SAMPLES, (2, 2), (3, 3), solver=QUICK, rng=first.settings.rng, progress=False)
    assert_array_equal(first.decoupling.W[0], second.decoupling.W[0])
    assert first.settings.n_starts == QUICK.default_n_starts and first.settings.validation is None
