"""What was received, in a message: short, on one line, and whatever its own `repr` does."""

from __future__ import annotations

import re

_LONGEST = 200  # letters
_CODES = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")


def short_repr(value: object) -> str:
    """`value` as messages show it: its `repr`, cut where it is long; its type where that fails."""
    if isinstance(value, str | bytes | bytearray) and len(value) > _LONGEST:
        value = value[:_LONGEST]
    try:
        text = _CODES.sub(" ", repr(value)).strip()
    except Exception:  # of somebody's own, or of a number with more digits than Python writes
        return f"an object of type {type(value).__name__} that cannot be shown"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({type(value).__name__})"


def pluralised(count: int, noun: str) -> str:
    """A number of things in words, such as 1 state or 2 states."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
