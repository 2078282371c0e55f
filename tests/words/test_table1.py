"""What docs/table1.md, docs/findings.md and the README say of Table 1."""

import pytest

from tests.words.quotes import Page, median, read

SYSTEMS = ("f1", "f2", "f3")
CELLS = read("table1/table1.json")["cells"]


def error_j(algorithm, variant, system, field="median"):
    return median(CELLS, field, quantity="Error(J)", system=system, algorithm=algorithm, variant=variant)


def on_each(algorithm, variant, field="median"):
    return [error_j(algorithm, variant, system, field) for system in SYSTEMS]


def test_constr_as_printed_lands_on_the_medians_of_the_paper():
    assert Page("docs/table1.md").says(
        "its Error(J) is {}, {} and {} on f1 to f3, where the paper has {}, {} and {}.",
        *on_each("CONSTR", "as printed"),
        *on_each("CONSTR", "as printed", "paper.median"),
    )


def test_proj_is_the_other_way_round():
    assert Page("docs/table1.md").says(
        "the last iterate ({}, {}, {}) is far above the paper's medians ({}, {}, {}), the best one ({}, {}, {})",
        *on_each("PROJ", "as printed"),
        *on_each("PROJ", "as printed", "paper.median"),
        *on_each("PROJ", "best iterate"),
    )


@pytest.mark.parametrize("error", ["Error(J)", "Error(F)"])
@pytest.mark.parametrize("algorithm", ["PROJ", "CONSTR"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_ours_is_below_the_median_of_the_paper_in_every_row(system, algorithm, error):
    assert Page("docs/table1.md").says("is below the paper's median of Error(J) and Error(F) in every row.")
    row = {"system": system, "algorithm": algorithm, "variant": "ours", "quantity": error}
    assert median(CELLS, "median", **row) < median(CELLS, "paper.median", **row)


@pytest.mark.parametrize("system", SYSTEMS)
def test_constr_as_printed_is_better_than_proj_in_every_row(system):
    assert Page("docs/table1.md").says("*As printed* it is better in every row of the table above.")
    for quantity in {cell["quantity"] for cell in CELLS if cell["system"] == system}:
        row = {"system": system, "variant": "as printed", "quantity": quantity}
        assert median(CELLS, "median", algorithm="CONSTR", **row) < median(CELLS, "median", algorithm="PROJ", **row)


def test_the_findings_on_iterates_and_starts():
    page = Page("docs/findings.md")
    assert page.says(
        "is {} for the last iterate and {} for the best one of the same runs; of CONSTR, {} and {} (",
        *(error_j(name, variant, "f2") for name in ("PROJ", "CONSTR") for variant in ("as printed", "best iterate")),
    )
    assert page.says(
        "falls from {} to {} on f1 and from {} to {} on f2",
        *(error_j("CONSTR", variant, system) for system in ("f1", "f2") for variant in ("best iterate", "ours")),
    )


def test_the_readme():
    ours = [error_j("PROJ", "ours", "f2", field) for field in ("median", "paper.median")]
    assert Page("README.md").says("Error(J) of PROJ on f2 is {} instead of {}.", *ours)
