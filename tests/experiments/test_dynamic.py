"""Experiments on dynamic systems, on a system of our own, and what the choice of sizes chose for the benchmarks."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click import BadParameter

from experiments.dynamic import benchmarks, order_choice
from experiments.dynamic.benchmarks import BENCHMARKS, CASES, QUICK, names_beginning
from experiments.dynamic.model_pool import POOLS, QUICK_POOLS
from experiments.dynamic.order_choice import ORDER_CHOICE, best, errors, parts

LARGE, SMALL = (QUICK_POOLS["Oscillator"].candidates[i].words for i in (1, 0))
OSCILLATOR = {"n_runs": 2, "seed": 1, "only": tuple(QUICK)}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    return BENCHMARKS.run(tmp_path_factory.mktemp("benchmarks"), **OSCILLATOR)


@pytest.fixture(scope="module")
def choice(tmp_path_factory):
    return ORDER_CHOICE.run(tmp_path_factory.mktemp("choice"), **OSCILLATOR)


def test_the_median_of_all_seeds_is_shown(measured, tmp_path):
    (case,) = measured["cases"]
    assert case["best"][0] <= case["median"][0] <= case["worst"][0]
    assert case["median"][0] < 0.0015
    BENCHMARKS.write(measured, tmp_path)
    assert (
        f"{case['runs'][0]['n_parameters']} ({case['runs'][0]['n_free']})" in (tmp_path / "benchmarks.md").read_text()
    )
    assert (tmp_path / "benchmarks.png").stat().st_size > 1000


def test_a_run_that_failed_counts_as_infinite(measured):
    case = measured["cases"][0]
    broken = measured | {"cases": [case | {"runs": [{"errors": [None]}, *case["runs"][1:]]}]}
    assert "diverged" in benchmarks.table(broken)


def test_every_case_has_names_for_its_tests_and_a_candidate_of_its_pool():
    n_tests = {"Silverbox": 3, "Cascaded tanks": 1, "Wiener-Hammerstein": 1, "EMPS": 1}
    for name, case in CASES.items():
        assert len(case.about.tests) == n_tests[name.split(",")[0]]
        assert case.candidate in case.about.candidates


def test_the_smallest_median_on_held_back_data_is_chosen(choice, tmp_path):
    medians = {row["candidate"]: row["median"] for row in choice["pools"]["Oscillator"]}
    assert medians[LARGE] < medians[SMALL]
    assert choice["chosen"] == {"Oscillator": LARGE} and QUICK["Oscillator"].candidate.words == LARGE
    ORDER_CHOICE.write(choice, tmp_path)
    text = (tmp_path / "order-choice.md").read_text()
    assert f"| {LARGE} |" in text.splitlines()[6] and "(two folds)" in text
    assert (tmp_path / "order-choice.png").stat().st_size > 1000


@pytest.mark.parametrize("limit", [{"most_free": 11}, {"most_canonical": 8}])
def test_candidates_with_too_many_numbers_are_left_out(choice, limit):
    assert best(choice["pools"]["Oscillator"], replace(QUICK["Oscillator"], **limit)) == SMALL


def test_a_candidate_that_failed_for_most_seeds_is_not_chosen(choice):
    small = next(row for row in choice["pools"]["Oscillator"] if row["candidate"] == SMALL)
    runs = [{"run": i, "error": None, "seconds": 1.0, "n_parameters": 9, "n_free": 9} for i in (0, 1)]
    failed = {"candidate": LARGE, "median": None, "runs": runs}
    assert best([failed, small], QUICK["Oscillator"]) == SMALL
    assert "diverged" in order_choice.table(choice | {"pools": {"Oscillator": [failed, small]}})


def test_nothing_that_is_held_back_is_fitted():
    pool = QUICK_POOLS["Oscillator"]
    whole, tests = pool.records()
    for fold in (0, 1):
        train, held = parts(pool, fold)
        assert np.array_equal(np.r_[train.y, held.y] if fold == 0 else np.r_[held.y, train.y], whole.y)
        assert (len(train), len(held), held.n_init) == (600, 200, tests[0].n_init)
    first, last = parts(replace(pool, n_samples=400), 0)
    assert (len(first), len(last)) == (300, 100)


def test_errors_of_two_folds_are_those_of_both_held_back_quarters():
    runs = [{"run": r, "fold": f, "error": e} for r, f, e in ((0, 0, 3.0), (0, 1, 4.0), (1, 0, 1.0), (1, 1, None))]
    np.testing.assert_allclose(errors(runs), [math.sqrt(12.5), math.inf])


def test_the_table_of_benchmarks_has_what_was_chosen():
    path = Path(__file__).parents[2] / "docs" / "dynamic" / "order-choice.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert {name: case.candidate.words for name, case in CASES.items()} == stored["chosen"]
    for name, pool in POOLS.items():
        assert [row["candidate"] for row in stored["pools"][name]] == [c.words for c in pool.candidates]


def test_names_are_chosen_whole_or_by_their_beginnings():
    names = ("ours", "ours, splines", "GELU, one", "GELU, two", "pruned")
    assert names_beginning(names, ()) == names
    assert names_beginning(names, ("ours",)) == ("ours",)  # a name, though others begin so
    assert names_beginning(names, ("GELU", "pruned")) == ("GELU, one", "GELU, two", "pruned")
    with pytest.raises(BadParameter, match="must begin the name of a model"):
        names_beginning(names, ("nobody",))
