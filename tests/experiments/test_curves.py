"""A reduced form of the table of names; the whole one is `python -m experiments curves`."""

from experiments import curves_markdown, run_curves, write_curves


def test_a_fitted_curve_is_called_what_it_is(tmp_path):
    table = run_curves(n_runs=1, seed=1, n_jobs=1, store=tmp_path / "runs.jsonl", kinds=("ReLU",))
    (run,) = table.runs
    assert run.right and run.given == ("ReLU", "exponential", "saturation")
    assert run.error_named < run.error and run.n_named < run.n_parameters
    assert "| ReLU | 1 of 1 |" in curves_markdown(table) and table.content()["right_functions"] == 3
    write_curves(table, tmp_path)
    assert (tmp_path / "curves.png").stat().st_size > 1000
