"""A page, and the data it speaks of."""

import json
import re
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
NUMBER = r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)"


class Page:
    """A Markdown page, with its lines joined."""

    def __init__(self, path):
        self.path = path
        self.text = " ".join((ROOT / path).read_text(encoding="utf-8").replace("−", "-").split())

    def says(self, sentence, *values):
        """Whether the page has a sentence, with these values in the place of its braces, to the digits printed.

        It has, or an assertion fails that tells the difference.
        """
        pattern = NUMBER.join(re.escape(part) for part in sentence.split("{}"))
        found = re.search(pattern, self.text)
        assert found, f"{self.path} does not say: {sentence}"
        assert len(found.groups()) == len(values), f"{sentence}: {len(values)} values"
        for printed, value in zip(found.groups(), values, strict=True):
            assert agrees(printed, value), f"{self.path} says {printed}, the data {value:.6g}: {sentence}"
        return True


@cache
def read(path):
    """The content of a JSON file below `docs/`."""
    return json.loads((ROOT / "docs" / path).read_text(encoding="utf-8"))


def median(rows, field, **wanted):
    """The median of a field, with dots into what lies deeper, over the rows that have all that is wanted."""
    chosen = [walk(row, field) for row in rows if all(row[key] == value for key, value in wanted.items())]
    assert chosen, f"nothing has {wanted}"
    return float(np.median(chosen))


def walk(row, field):
    for step in field.split("."):
        row = row[int(step)] if step.isdigit() else row[step]
    return row


def agrees(printed, value):
    """Whether a printed number is `value` rounded to as many digits."""
    number = Decimal(printed)
    unit = Decimal(1).scaleb(number.as_tuple().exponent)
    return abs(Decimal(value) - number) <= unit / 2 * (1 + Decimal("1e-9"))
