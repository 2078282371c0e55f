"""Experiments on functions, in reduced forms."""

import dataclasses

import numpy as np

import decouply as dc
from experiments.functions import bases, curve_names
from experiments.functions.other_spline_methods import _pspline


def test_splines_fit_a_saturation_that_polynomials_do_not(tmp_path):
    noisy = dataclasses.replace(bases.CASES[1], curves=("saturation",))
    found = bases.BASES.run(tmp_path, n_runs=1, seed=1, cases=(noisy,))
    errors = {run["method"]: run["error"] for run in found["runs"]}
    assert set(errors) == set(noisy.methods) and errors["spline"] < errors["degree 5"]
    bases.BASES.write(found, tmp_path)
    text = (tmp_path / "bases.md").read_text()
    assert f"**{noisy.name.capitalize()}**" in text and "\n| saturation | " in text
    assert len(text.splitlines()[2].split("|")) == len(noisy.methods) + 3  # no column for methods that did not run
    assert (tmp_path / "bases.png").stat().st_size > 1000


def test_a_fitted_curve_is_called_what_it_is(tmp_path):
    found = curve_names.CURVE_NAMES.run(tmp_path, n_runs=1, seed=1, kinds=("ReLU",))
    (run,) = found["runs"]
    assert run["true"] == run["given"] == ["ReLU", "exponential", "saturation"]
    assert run["error_named"] < run["error"] and run["n_named"] < run["n_parameters"]
    assert "| ReLU | 1 of 1 |" in curve_names.table(found) and found["right_functions"] == 3
    curve_names.CURVE_NAMES.write(found, tmp_path)
    assert (tmp_path / "curve-names.png").stat().st_size > 1000


def test_a_function_whose_argument_does_not_vary_is_zero():
    c, (low, high) = _pspline(dc.Spline(4), np.full(5, 2.0), np.ones(5), np.ones(5))
    assert not c.any() and low < 2.0 < high


def test_psplines_meet_slopes_and_values():
    z = np.linspace(-1.0, 3.0, 60)
    c, domain = _pspline(dc.Spline(8), z, np.cos(z), np.sin(z))
    g = dc.Functions(dc.Spline(8), c[None], domain)
    assert np.abs(g(z[:, None])[:, 0] - np.sin(z)).max() < 0.01
