"""The benchmarks of dynamic models, on a system of our own."""

import json

import pytest

from experiments import benchmarks_markdown, run_benchmarks, write_benchmarks
from experiments.dynamic.benchmarks import CASES, QUICK


@pytest.fixture(scope="module")
def found():
    return run_benchmarks(n_runs=2, seed=1, n_jobs=1, cases=QUICK)


def test_the_median_of_all_seeds_is_compared_with_the_target(found):
    (case,) = found.content()["cases"]
    assert case["median"][0] <= case["targets"][0]
    assert case["reached"] == [True]
    assert case["best"][0] <= case["median"][0] <= case["worst"][0]
    text = benchmarks_markdown(found)
    assert "✓" in text
    assert f"{case['runs'][0]['n_parameters']} ({case['runs'][0]['n_free']})" in text


def test_files_are_written(found, tmp_path):
    write_benchmarks(found, tmp_path)
    assert json.loads((tmp_path / "benchmarks.json").read_text())["n_runs"] == 2
    assert (tmp_path / "benchmarks.png").stat().st_size > 1000


def test_a_run_that_failed_counts_as_infinite(found):
    broken = type(found)(found.cases, 2, 1, {"Oscillator": [{"errors": [None]}, *found.runs["Oscillator"][1:]]})
    assert "diverged" in benchmarks_markdown(broken)


def test_every_case_has_a_target_for_each_test_and_a_candidate_of_its_pool():
    n_tests = {"Silverbox": 3, "Cascaded tanks": 1, "Wiener-Hammerstein": 1, "EMPS": 1}
    for name, case in CASES.items():
        assert len(case.targets) == n_tests[name.split(",")[0]]
        assert case.candidate in case.about.candidates
