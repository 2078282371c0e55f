"""A reduced form of the table of functions; the whole one is `python -m experiments functions`."""

import dataclasses

import numpy as np

import decouply as dc
from experiments import functions_markdown, run_functions, write_functions
from experiments.functions.bases import CASES
from experiments.functions.other_spline_methods import _pspline


def test_splines_fit_a_saturation_that_polynomials_do_not(tmp_path):
    noisy = dataclasses.replace(CASES[1], curves=("saturation",))
    table = run_functions(n_runs=1, seed=1, n_jobs=1, store=tmp_path / "runs.jsonl", cases=(noisy,))
    errors = {method: table.of(noisy.name, "saturation", method)[0].error for method in noisy.methods}
    assert errors["spline"] < errors["degree 5"]
    text = functions_markdown(table)
    assert f"**{noisy.name.capitalize()}**" in text and "\n| saturation | " in text
    assert len(text.splitlines()[2].split("|")) == len(noisy.methods) + 4  # no column for methods that did not run
    write_functions(table, tmp_path)
    assert (tmp_path / "functions.png").stat().st_size > 1000


def test_a_function_whose_argument_does_not_vary_is_zero():
    c, (low, high) = _pspline(dc.Spline(4), np.full(5, 2.0), np.ones(5), np.ones(5))
    assert not c.any() and low < 2.0 < high


def test_psplines_meet_slopes_and_values():
    z = np.linspace(-1.0, 3.0, 60)
    c, domain = _pspline(dc.Spline(8), z, np.cos(z), np.sin(z))
    g = dc.Functions(dc.Spline(8), c[None], domain)
    assert np.abs(g(z[:, None])[:, 0] - np.sin(z)).max() < 0.01
