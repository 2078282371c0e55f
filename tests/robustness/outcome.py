"""What came of one trial."""

from __future__ import annotations

from dataclasses import dataclass

FINE = "fine"


@dataclass(frozen=True)
class Outcome:
    """`verdict` is "fine", or a word for what is wrong; `trial` says how to do it again."""

    verdict: str
    trial: str
    detail: str = ""
