"""Numbers and claims in the texts are those of the JSON files beside them.

A comment behind a number names where it comes from, and one behind a sentence what must hold for it to be true:

    0.885<!-- silverbox/silverbox.json cells algorithm=VarPro rank=4 quantity="simulation error" median -->
    <!-- silverbox/silverbox.json cells algorithm=VarPro ... median < cells algorithm=Zniyed ... median -->

First the file, relative to the page; then a list in it, what its rows must have, and a field, with dots into what lies
deeper. Of several rows that fit the median counts. A number must agree to the digits that are printed.
"""

import json
import re
import shlex
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKER = re.compile(r"(−?-?\d+(?:\.\d+)?(?:e-?\d+)?)?<!-- (\S+\.json) (.*?) -->", re.S)
WITH_MARKERS = ("README.md", "silverbox.md", "table1.md", "findings.md")


def markers():
    for page in PAGES:
        for number, file, wanted in MARKER.findall(page.read_text(encoding="utf-8")):
            yield pytest.param(page, number, file, wanted, id=f"{page.name}: {number or 'claim'}, {wanted[:80]}")


def selected(content, words):
    """The number that a list of words names."""
    name, *conditions, field = words if len(words) > 1 else ("", *words)
    rows = content[name] if name else [content]
    for condition in conditions:
        key, value = condition.split("=", 1)
        rows = [row for row in rows if str(row[key]) == value]
    assert rows, f"nothing has {' '.join(words)}"
    return float(np.median([walk(row, field) for row in rows]))


def walk(row, field):
    for step in field.split("."):
        row = row[int(step)] if step.isdigit() else row[step]
    return row


def agrees(text, value):
    """Whether `text` is `value` rounded to as many digits."""
    printed = Decimal(text.replace("−", "-"))
    unit = Decimal(1).scaleb(printed.as_tuple().exponent)
    return abs(Decimal(value) - printed) <= unit / 2 * (1 + Decimal("1e-9"))


@pytest.mark.parametrize(("page", "number", "file", "wanted"), list(markers()))
def test_a_number_in_a_text_is_that_of_its_data(page, number, file, wanted):
    content = json.loads((page.parent / file).read_text(encoding="utf-8"))
    sides = [shlex.split(side) for side in re.split(r"\s<\s", wanted)]
    values = [selected(content, side) for side in sides]
    assert all(a < b for a, b in pairwise(values)), f"{wanted}: {values}"
    if number:
        assert agrees(number, values[0]), f"{page.name} says {number}, the data {values[0]:.6g}"
    else:
        assert len(values) > 1, f"`{wanted}` in {page.name} stands behind no number and compares nothing"


def test_the_pages_that_quote_data_have_markers():
    assert {page.name for page in PAGES if MARKER.search(page.read_text(encoding="utf-8"))} >= set(WITH_MARKERS)


@pytest.mark.parametrize(
    ("text", "value", "agree"),
    [
        ("0.26", 0.2612, True),
        ("0.26", 0.266, False),
        ("−0.58", -0.5799, True),
        ("2e-5", 2.4e-5, True),
        ("1.4e-5", 1.39e-5, True),
    ],
)
def test_numbers_agree_to_the_digits_that_are_printed(text, value, agree):
    assert agrees(text, value) == agree


def test_rows_are_chosen_by_what_they_have():
    content = {"cells": [{"a": "x", "v": [1, 5]}, {"a": "y z", "v": [2, 7]}, {"a": "x", "v": [4, 9]}], "top": 3}
    assert selected(content, ["cells", "a=x", "v.0"]) == 2.5
    assert selected(content, shlex.split('cells "a=y z" v.1')) == 7
    assert selected(content, ["top"]) == 3
