"""Experiments on the solver, in reduced forms."""

import json
from functools import partial

import numpy as np
from numpy.testing import assert_allclose

import decouply as dc
from experiments.solver import (
    coverage,
    estimated_jacobians,
    rank_selection,
    recovery,
    recovery_by_depth,
    uniqueness,
    units,
)

QUICK = dc.VarPro(max_steps=60, polish_steps=40)


def test_noisy_data_cost_little_more_than_a_fit_from_the_truth():
    run = recovery.work("f1", 0, 5, level=recovery.NOISE[0])
    assert run["error"] <= 3 * run["error_from_truth"] and run["ridge"] > 0.0


def test_a_small_system_is_recovered_by_algebra_and_the_table_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(recovery, "CASES", recovery.CASES[:2])
    found = recovery.RECOVERY.run(tmp_path, n_runs=1, seed=1, max_seconds=5.0, noise=False)
    again = recovery.RECOVERY.run(tmp_path, n_runs=1, seed=1, max_seconds=5.0, noise=False)
    assert again == found  # the times of the runs are those of the first time
    assert all(run["worst_error"] <= 1e-6 for run in found["recovery"])
    noise = {"case": "f1", "run": 0, "error": 2.0, "error_from_truth": 1.0, "ridge": 1e-3, "seconds": 0.5}
    text = recovery.table(found | {"noise": [noise | {"level": level} for level in recovery.NOISE]})
    assert "| f1 | 30 | **1 of 1** |" in text and "algebraic ParaTuck-2 1 |" in text and "| f1 | 1e-02 |" in text


def test_two_easy_corners_of_ranks_and_layers(tmp_path):
    experiment = recovery_by_depth.RECOVERY_BY_DEPTH
    found = experiment.run(tmp_path, n_runs=1, seed=1, max_seconds=5.0, ranks=(2, 3), layers=(1, 2))
    assert [run["worst_error"] <= recovery.RECOVERED for run in found["runs"]] == [True] * 4
    assert "| 3 | 1 of 1, " in recovery_by_depth.table(found)
    experiment.write(found, tmp_path)
    assert (tmp_path / "recovery-by-depth.png").stat().st_size > 1000


def test_cells_that_were_not_measured_say_so():
    runs = [{"rank": r, "n_layers": L, "worst_error": 1e-12, "seconds": 0.5} for r, L in ((2, 1), (3, 2))]
    text = recovery_by_depth.table({"runs": runs, "seed": 1, "max_seconds": 5.0})
    assert "| 2 | 1 of 1, 0.5 s | – |" in text


def test_other_units_do_not_change_what_is_found():
    for change in ("as they are", "scaled by 1e-6 to 1e6", "outputs scaled and moved"):
        run = units.work("one layer, 3-2-3", change, 0, 1)
        assert run["worst_error"] <= run["allowed"]


def test_ranks_are_selected_in_small(tmp_path, monkeypatch):
    monkeypatch.setattr(rank_selection, "GROUPS", ("random",))
    monkeypatch.setattr(rank_selection, "PAPER", ())
    limits = {"max_ranks": 2, "max_degrees": 3, "n_folds": 2, "solver": QUICK}
    monkeypatch.setattr(rank_selection, "select", partial(dc.select, **limits))
    found = rank_selection.RANK_SELECTION.run(tmp_path, n_runs=1, seed=36)
    assert [(run["group"], run["noise"]) for run in found["runs"]] == [("random", 0.0), ("random", 1e-3)]
    assert all(run["ranks_found"] for run in found["runs"])
    assert found["runs"][0]["degrees"] == found["runs"][0]["true_degrees"]
    monkeypatch.setattr(rank_selection, "select", None)
    assert rank_selection.RANK_SELECTION.run(tmp_path, n_runs=1, seed=36) == found  # read, not run again
    missed = found["runs"][0] | {"run": 1, "ranks": [4], "ranks_found": False}
    found["runs"].append(missed)
    rank_selection.RANK_SELECTION.write(found, tmp_path)
    text = (tmp_path / "rank-selection.md").read_text()
    assert "| random | 0 | **1 of 2** |" in text and "The misses" in text
    assert json.loads((tmp_path / "rank-selection.json").read_text()) == found
    assert (tmp_path / "rank-selection.png").read_bytes().startswith(b"\x89PNG")


def test_noise_is_all_that_noisy_data_sets_add():
    clean, noisy = (rank_selection.data_set("random", 3, noise, 7) for noise in (0.0, 1e-3))
    assert_allclose(clean[0].W[0], noisy[0].W[0])
    assert_allclose(clean[1].X, noisy[1].X)
    relative = np.sqrt(np.mean((clean[1].J - noisy[1].J) ** 2) / np.mean(clean[1].J ** 2))
    assert 0.8e-3 < relative < 1.2e-3


def test_estimated_jacobians_cost_accuracy():
    exact, estimated = (
        estimated_jacobians.work("f1", 200, 1e-2, way, 0)
        for way in ("values only, VarPro", "estimated J, TwoStage(Proj)")
    )
    assert exact["error"] < 2.0 < estimated["error"] and estimated["error_of_jacobians"] > 5.0


def test_coverage_compares_with_the_truth():
    run = coverage.work(coverage.CASES[0].name, 0, 1)
    assert run["banded"] == 1.0 and 0.5 < run["functions"] <= 1.0 and 0.8 < run["predictions"] <= 1.0
    text = coverage.table(coverage.content([{"case": coverage.CASES[0].name, "run": 0, **run}], seed=1))
    assert f"| {coverage.CASES[0].name} | 1 | {run['functions']:.3f} | 100 % |" in text


def test_the_table_of_shapes_says_where_uniqueness_ends():
    shapes = [{"m": 2, "n": 2, "ranks": [r], "degrees": [2]} for r in (2, 3)]
    runs = [shape | uniqueness.work(**shape, seed=0) for shape in shapes]
    assert [run["unique"] for run in runs] == [True, False]
    assert "| 2 | 2 | 2 | 0 |" in uniqueness.table({"runs": runs})
