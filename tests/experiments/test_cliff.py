"""A reduced form of the cliff; the whole one is `python -m experiments cliff`."""

from experiments import cliff_markdown, run_cliff, write_cliff
from experiments.solver.recovery_by_depth import Cliff, CliffRun


def test_two_easy_corners_of_the_cliff(tmp_path):
    options = {"n_runs": 1, "seed": 1, "max_seconds": 5.0, "ranks": (2, 3), "layers": (1, 2)}
    cliff = run_cliff(n_jobs=1, store=tmp_path / "runs.jsonl", **options)
    assert [cliff.cell(r, L)[:2] for r in (2, 3) for L in (1, 2)] == [(1, 1)] * 4
    assert "| 3 | 1 of 1, " in cliff_markdown(cliff)
    write_cliff(cliff, tmp_path)
    assert (tmp_path / "cliff.png").stat().st_size > 1000


def test_cells_that_were_not_measured_say_so():
    runs = tuple(CliffRun(r, L, 0, 1e-12, 0.5, "CPD") for r, L in ((2, 1), (3, 2)))
    assert "| 2 | 1 of 1, 0.5 s | – |" in cliff_markdown(Cliff(runs, 1, 5.0))
