"""A reduced form of the table of surrogates; the whole one is `python -m experiments surrogates`."""

import shutil

import numpy as np
import pytest

import decouply as dc

pytest.importorskip("sklearn")
from experiments.regression import surrogates


def test_a_small_table_has_errors_times_and_code(tmp_path, monkeypatch):
    monkeypatch.setattr(surrogates, "_ours", lambda train, split: dc.decouple(train, 1, 3, progress=False).decoupling)
    options = {"n_splits": 1, "problems": ["Branin"], "methods": ["decouply", "polynomial ridge"], "sizes": (100,)}
    found = surrogates.SURROGATES.run(tmp_path, **options)
    tried = [(run["method"], run["jacobians"]) for run in found["runs"]]
    assert sorted(tried) == [("decouply", False), ("decouply", True), ("polynomial ridge", False)]
    assert all(0.0 < run["errors"][0] < 2.0 and run["seconds"] > 0.0 for run in found["runs"])
    ours = found["runs"][tried.index(("decouply", True))]
    assert ours["n_parameters"] > 3 and ours["c_bytes"] > 100
    assert (ours["c_ns"] is None) == (shutil.which("cc") is None)
    text = surrogates.table(found)
    assert "| Branin, 100 |" in text and "**Values alone**" in text and "scikit-learn" in text


def test_a_package_that_is_missing_is_said(monkeypatch):
    monkeypatch.setitem(surrogates.OTHERS, "JENN", (*surrogates.OTHERS["JENN"][:3], "no_such_package"))
    assert (
        surrogates.work(split=0, problem="Branin", size=40, method="JENN", jacobians=True, seed=0)["why"]
        == "not installed"
    )


def test_options_are_chosen_on_held_out_samples_in_standard_units():
    X = np.random.default_rng(0).uniform([0.0, 100.0], [1.0, 300.0], (60, 2))
    samples = dc.Samples(X, F=1e6 * X[:, :1] ** 3 + X[:, 1:], J=np.ones((60, 1, 2)))
    predict = surrogates._other(samples, "polynomial ridge", 0)
    assert np.allclose(predict(X), samples.F, rtol=1e-3, atol=1e3)
