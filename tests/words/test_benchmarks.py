"""What the README and docs/benchmarks-dynamic.md say of dynamic systems."""

import json

from tests.words.quotes import ROOT, Page


def test_the_readme_has_the_medians_of_the_table():
    stored = json.loads((ROOT / "docs" / "dynamic" / "benchmarks.json").read_text(encoding="utf-8"))
    case = next(case for case in stored["cases"] if case["name"] == "Silverbox, at most 33")
    counts = case["runs"][0]["n_parameters"], case["runs"][0]["n_free"]
    assert Page("README.md").says(
        "{} parameters ({} free in the fit) have errors of {}, {} and {} mV on the three tests",
        *counts,
        *case["median"],
    )
