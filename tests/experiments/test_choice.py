"""The choice of sizes by held-back training data, on a system of our own, and what it chose for the benchmarks."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from experiments import choice_markdown, run_choice, write_choice
from experiments.__main__ import experiments
from experiments.dynamic.benchmarks import CASES, QUICK
from experiments.dynamic.model_pool import POOLS, QUICK_POOLS
from experiments.dynamic.order_choice import parts
from tests.words.quotes import ROOT

LARGE, SMALL = (QUICK_POOLS["Oscillator"].candidates[i] for i in (1, 0))


@pytest.fixture(scope="module")
def found():
    return run_choice(n_runs=2, seed=1, n_jobs=1, cases=QUICK)


def test_the_smallest_median_on_held_back_data_is_chosen(found):
    assert found.median("Oscillator", LARGE) < found.median("Oscillator", SMALL)
    assert found.chosen("Oscillator") == LARGE == QUICK["Oscillator"].candidate
    assert f"| {LARGE.words} |" in choice_markdown(found).splitlines()[6]


@pytest.mark.parametrize("limit", [{"most_free": 11}, {"most_canonical": 8}])
def test_candidates_with_too_many_numbers_are_left_out(found, limit):
    bounded = replace(found, cases={"Oscillator": replace(QUICK["Oscillator"], **limit)})
    assert bounded.chosen("Oscillator") == SMALL


def test_a_candidate_that_failed_for_most_seeds_is_not_chosen(found):
    runs = {
        "Oscillator": found.runs["Oscillator"] | {LARGE: [{"run": i, "error": None, "seconds": 1.0} for i in (0, 1)]}
    }
    failed = replace(found, runs=runs)
    assert failed.median("Oscillator", LARGE) == math.inf
    assert failed.chosen("Oscillator") == SMALL
    assert "diverged" in choice_markdown(failed)


def test_nothing_that_is_held_back_is_fitted():
    pool = QUICK_POOLS["Oscillator"]
    whole, tests = pool.records()
    for fold in (0, 1):
        train, held = parts(pool, fold)
        assert np.array_equal(np.r_[train.y, held.y] if fold == 0 else np.r_[held.y, train.y], whole.y)
        assert (len(train), len(held), held.n_init) == (600, 200, tests[0].n_init)
    first, last = parts(replace(pool, n_samples=400), 0)
    assert (len(first), len(last)) == (300, 100)


def test_errors_of_two_folds_are_those_of_both_held_back_quarters(found):
    runs = [{"run": r, "fold": f, "error": e} for r, f, e in ((0, 0, 3.0), (0, 1, 4.0), (1, 0, 1.0), (1, 1, None))]
    folded = replace(found, runs={"Oscillator": {LARGE: runs}})
    np.testing.assert_allclose(folded.errors("Oscillator", LARGE), [math.sqrt(12.5), math.inf])


def test_files_are_written(found, tmp_path):
    write_choice(found, tmp_path)
    assert json.loads((tmp_path / "choice.json").read_text())["chosen"] == {"Oscillator": LARGE.words}
    assert (tmp_path / "choice.png").stat().st_size > 1000


def test_the_command_chooses(tmp_path):
    options = ["--choose", "--quick", "--jobs", "1", "--directory", str(tmp_path)]
    out = CliRunner().invoke(experiments, ["benchmarks", *options])
    assert out.exit_code == 0, out.output
    assert f"| {LARGE.words} |" in out.output and "(two folds)" in out.output
    assert (tmp_path / "choice.md").exists() and not (tmp_path / "benchmarks.md").exists()


def test_the_table_of_benchmarks_has_what_was_chosen():
    stored = json.loads((ROOT / "docs" / "dynamic" / "choice.json").read_text(encoding="utf-8"))
    assert {name: case.candidate.words for name, case in CASES.items()} == stored["chosen"]
    for name, pool in POOLS.items():
        assert [row["candidate"] for row in stored["pools"][name]] == [c.words for c in pool.candidates]
