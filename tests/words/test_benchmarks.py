"""What the README and docs/benchmarks-dynamic.md say of dynamic systems."""

import re

from tests.words.quotes import ROOT, Page


def test_the_readme_has_the_medians_of_the_table():
    table = (ROOT / "docs" / "dynamic" / "benchmarks.md").read_text(encoding="utf-8")
    rows = table[table.index("| Silverbox, 4 states") : table.index("| Silverbox, oversampled")]
    medians = [float(text) for text in re.findall(r"\*\*([\d.]+) \(", rows)]
    assert len(medians) == 3 and "| 28 (46) |" in rows
    assert Page("README.md").says(
        "28 parameters (46 free in the fit) have errors of {}, {} and {} mV on the three tests", *medians
    )
