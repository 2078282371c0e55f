"""What docs/scale.md says of time and bytes."""

import pytest

from .quotes import Page, read


@pytest.fixture(scope="module")
def found():
    return read("scale/scale.json")


def test_the_model_of_time_is_that_of_the_data(found):
    gradient, normal = (found["models"][name] for name in ("gradient", "normal matrix"))
    page = Page("docs/scale.md")
    assert page.says(
        "b is {} s for cost and gradient and {} s with the normal matrix; a is {} s, partly waiting",
        gradient["per_sample"],
        normal["per_sample"],
        gradient["per_message"],
    )
    assert page.says("reading takes {} s per sample", gradient["reading"])
    assert page.says(
        "about {} s for cost and gradient, and {} s with the normal matrix",
        gradient["billion_on_hundred"],
        normal["billion_on_hundred"],
    )


def test_messages_do_not_grow_with_samples_or_workers(found):
    for name, back in (("gradient", 728), ("normal matrix", 65528)):
        rows = [row for row in found["rows"] if row["pass"] == name]
        assert {(row["bytes_out"], row["bytes_back"]) for row in rows} == {(3238, back)}
        assert {row["workers"] for row in rows} == {1, 2, 4, 8}


def test_killed_workers_cost_no_digit(found):
    assert Page("docs/scale.md").says("All {} of {} fits gave the model", found["same"], found["kills"])
