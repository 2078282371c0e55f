"""The code of README and docs runs, and prints what stands below it."""

import pytest

from tools.printed import ROOT, alike, missing_packages, pages, run

LONGEST = 20  # lines of a block


@pytest.mark.slow
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    """After a change that is meant: `python tools/printed.py`."""
    missing = missing_packages(page)
    monkeypatch.chdir(tmp_path)
    for code, shown, printed in run(page, without=missing):
        assert sum(bool(line.strip()) for line in code.splitlines()) <= LONGEST, code
        assert max(map(len, code.splitlines())) <= 88, code
        assert alike(printed, shown or ""), f"{code}\nprints\n{printed}\nand the page shows\n{shown}"
    if missing:
        pytest.skip(f"some of its code needs {', '.join(sorted(missing))}: install it")


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("error 2.013 %", "error  2.01 %", True),
        ("error 2.5 %", "error 2.0 %", False),
        ("a parabola", "a cubic", False),
        ("1e-29", "3e-28", True),
        ("−1.5", "1.5", False),
    ],
)
def test_numbers_are_compared_by_their_first_digits(printed, shown, same):
    assert alike(printed, shown) is same
