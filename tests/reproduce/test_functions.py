"""A reduced form of the table of functions; the whole one is `decouple reproduce functions`."""

import dataclasses

from decoupling.reproduce import functions_markdown, run_functions, write_functions
from decoupling.reproduce._functions import CASES


def test_splines_fit_a_saturation_that_polynomials_do_not(tmp_path):
    noisy = dataclasses.replace(CASES[1], curves=("saturation",))
    table = run_functions(n_runs=1, seed=1, n_jobs=1, store=tmp_path / "runs.jsonl", cases=(noisy,))
    errors = {method: table.of(noisy.name, "saturation", method)[0].error for method in noisy.methods}
    assert errors["spline"] < errors["degree 5"]
    assert f"| {noisy.name} | saturation | " in functions_markdown(table)
    write_functions(table, tmp_path)
    assert (tmp_path / "functions.png").stat().st_size > 1000
