"""No public signature changes unnoticed, and every public name is explained by an example."""

import inspect
import re
from pathlib import Path

import pytest

import decouply as dc
from tests.signatures import collected, recorded

_LISTED = re.findall(
    r"^   ([A-Za-z][\w.]+)$", Path(__file__).parents[1].joinpath("docs/reference/api.rst").read_text(), re.M
)


def test_public_signatures_are_the_ones_that_were_written_down():
    changed = sorted({*recorded()} ^ {*collected()})
    assert not changed, (
        f"Public signatures have changed. Say so in CHANGELOG.md, then run `python -m tests.signatures`: {changed[:10]}"
    )


def test_no_default_is_a_class():
    assert not [line for line in collected() if "<class " in line]


@pytest.mark.parametrize("name", [name for name in _LISTED if not name.startswith("testing.")])
def test_every_listed_name_has_an_example_with_its_output_types_and_returns(name):
    found = dc
    for part in name.split("."):
        found = getattr(found, part)
    text = inspect.cleandoc(found.__doc__ or "")
    assert re.search(r"^(?:>>>|\.\.\.) .*\n(?!>>>|\.\.\. |$)", text, re.MULTILINE), "no example with output"
    entries = text.partition("Parameters\n---")[2].partition("\n\n")[0]
    assert not re.findall(r"^[\w, ]+$(?=\n {4})", entries, re.MULTILINE), "parameters without types"
    if inspect.isfunction(found) and inspect.signature(found, eval_str=False).return_annotation != "None":
        assert "Returns\n-------" in text


def test_help_of_the_entry_fits_two_screens():
    assert len(inspect.cleandoc(dc.decouple.__doc__).splitlines()) <= 80
