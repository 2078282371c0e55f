"""Seeded runs give the numbers that are recorded, where the arithmetic is the same."""

import pytest

from . import areas, golden


def test_every_case_is_recorded_and_nothing_else():
    there = {name for area in areas.AREAS for name in golden.recorded(area)}
    assert there == set(golden.CASES)
    assert sum(file.stat().st_size for file in golden.NUMBERS.iterdir()) < 400_000


@pytest.mark.parametrize("name", sorted(golden.CASES))
def test_numbers_are_those_that_are_recorded(name, tmp_path):
    if why := golden.other_arithmetic(name):
        pytest.skip(why)
    found = golden.differences(golden.made(name, tmp_path), golden.recorded(golden.CASES[name].area)[name])
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("new", "old", "same"),
    [
        (1.0, 1.0 + 1e-12, True),
        (1.0, 1.0 + 1e-8, False),
        ([1.0, 1e-14], [1.0, 3e-14], True),
        ([1.0, float("nan")], [1.0, float("nan")], True),
        ([1.0, 2.0], [1.0], False),
        ("y = 0.5 x1", "y = 0.5 x1", True),
        ("y = 0.50000000000000011 x1", "y = 0.5 x1", True),
        ("y = 0.51 x1", "y = 0.5 x1", False),
        ("y = 0.5 x2", "y = 0.5 x1", False),
        ("y = -0.5", "y = 0.5", False),
        ({"a": None}, {"a": None}, True),
        ({"a": True}, {"a": False}, False),
        ({"a": 1}, {"b": 1}, False),
    ],
)
def test_what_counts_as_the_same(new, old, same):
    assert (golden.differences(new, old) == []) is same
