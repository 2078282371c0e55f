"""What the tests of the texts are made with."""

import pytest

from tests.words.quotes import Page, agrees, median


@pytest.mark.parametrize(
    ("printed", "value", "agree"),
    [
        ("0.26", 0.2612, True),
        ("0.26", 0.266, False),
        ("-0.58", -0.5799, True),
        ("2e-5", 2.4e-5, True),
        ("1.4e-5", 1.39e-5, True),
    ],
)
def test_numbers_agree_to_the_digits_that_are_printed(printed, value, agree):
    assert agrees(printed, value) == agree


def test_rows_are_chosen_by_what_they_have():
    rows = [{"a": "x", "v": [1, 5]}, {"a": "y z", "v": [2, 7]}, {"a": "x", "v": [4, 9]}]
    assert median(rows, "v.0", a="x") == 2.5
    assert median(rows, "v.1", a="y z") == 7
    with pytest.raises(AssertionError, match="nothing has"):
        median(rows, "v.0", a="z")


def test_a_page_says_a_sentence_with_its_numbers_and_no_other(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("It loses 0.52\n points and gains −1.0.\n", encoding="utf-8")
    assert Page(path).says("loses {} points and gains {}.", 0.5211, -0.98)
    with pytest.raises(AssertionError, match=r"says 0\.52, the data 0\.53"):
        assert Page(path).says("loses {} points", 0.53)
    with pytest.raises(AssertionError, match="does not say"):
        assert Page(path).says("wins {} points", 0.52)
