r"""Names of signals, made harmless for every place where they are written.

Names come from files of others. They may hold line breaks that end a comment, codes that a terminal obeys, or marks
that turn writing around; `label` and `python_names` leave none of them. Whatever writes a name gets it from here.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain, count
from typing import Any

from .._support._errors import InputError, pluralised, short_repr

STAND_IN = "\ufffd"  # for what cannot be shown
_LONGEST = 80  # letters of a label, and of a Python name made from another
RESERVED = ("f", "cos", "sin", "tanh", "exp", "log", "abs")  # in Python source
_BREAKS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
_UNIT = re.compile(r"(?P<name>.*\S)\s+\[(?P<unit>[^\[\]]*\S[^\[\]]*)\]")
# Other control codes, marks that turn writing around or cannot be seen, and halves of surrogate pairs.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_LATEX = str.maketrans(
    {letter: f"\\{letter}" for letter in "_%&#${}"}
    | {"\\": "{\\backslash}", "^": "{\\wedge}", "~": "{\\sim}", " ": "\\ "}
)


@dataclass(frozen=True)
class Name:
    """A variable: a letter with indices, or a label and the text that the user gave for it."""

    letter: str
    indices: tuple[int, ...] = ()
    given: str = ""

    @property
    def text(self) -> str:
        return self.letter + "_".join(str(i) for i in self.indices)

    @property
    def python(self) -> str:
        """As Python reads it; only for names that `is_python_name` has passed."""
        return unicodedata.normalize("NFKC", self.given or self.text)

    @property
    def html(self) -> str:
        if self.indices:
            return f"<i>{self.letter}</i><sub>{','.join(str(i) for i in self.indices)}</sub>"
        return f"<i>{as_html(self.letter)}</i>"

    @property
    def latex(self) -> str:
        if self.indices:
            return f"{self.letter}_{{{','.join(str(i) for i in self.indices)}}}"
        return as_latex(self.letter)


def names(argument: str, given: Any, letter: str, size: int) -> tuple[Name, ...]:
    """The names that the user gave for `size` variables, or the letter with numbers."""
    if given is None:
        return tuple(Name(letter, (i + 1,)) for i in range(size))
    is_list = isinstance(given, Collection) and not isinstance(given, str) and getattr(given, "ndim", 1) == 1
    listed: list[Any] = list(given) if is_list else [None]
    if (
        not all(isinstance(name, str) for name in listed)
        or len(listed) != size
        or not all(name.strip() for name in listed)
    ):
        raise InputError(
            f"`{argument}` must be {pluralised(size, 'name')}, none of them empty. Got {short_repr(given)}."
        )
    if len({unicodedata.normalize("NFKC", name) for name in listed}) != size:
        raise InputError(f"`{argument}` must be {size} different names. Got {short_repr(given)}.")
    return tuple(Name(text, given=str(name)) for text, name in zip(labels(listed), listed, strict=True))


def as_names(argument: str, given: Any, size: int) -> tuple[str, ...] | None:
    """Check names of `size` variables that a model or samples carry; None if there are none."""
    return None if given is None else tuple(name.given for name in names(argument, given, "", size))


def column_names(table: Any) -> tuple[str, ...] | None:
    """The names of the columns of a pandas or polars frame, or that of a series; None for everything else."""
    try:
        frame = table.to_frame() if hasattr(table, "to_frame") else table
        return usable_names(getattr(frame, "columns", None))
    except Exception:  # whatever a foreign object does when it is asked; its numbers are looked at elsewhere
        return None


def usable_names(found: Iterable[Any] | None) -> tuple[str, ...] | None:
    """Names that nobody wrote by hand, if they can be used: a fit must not fail by numbers or twins among them."""
    listed = [] if found is None else list(found)
    if not listed or not all(isinstance(name, str) for name in listed):
        return None
    try:
        return as_names("names", listed, len(listed))
    except InputError:
        return None


# For people


def label(name: str) -> str:
    """A name on one line, cut if it is long, in which everything can be seen."""
    text = one_line(name).strip() or STAND_IN
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def name_and_unit(name: str) -> tuple[str, str]:
    """The two parts of a name such as "speed [rpm]"; without brackets at its end, behind a blank, there is no unit."""
    found = _UNIT.fullmatch(label(name))
    return (found["name"], found["unit"].strip()) if found else (label(name), "")


def one_line(text: str) -> str:
    """Line breaks and tabs become blanks, and what cannot be shown a sign that can."""
    return _HIDDEN.sub(STAND_IN, _BREAKS.sub(" ", text))


def printable(text: str) -> str:
    r"""Several lines, broken by "\n" alone, each as by `one_line`."""
    return "\n".join(one_line(line) for line in text.split("\n"))


def as_html(text: str) -> str:
    """Text within HTML, or within a quoted attribute."""
    return escape(printable(text))


def as_latex(name: str) -> str:
    """A name within a formula of LaTeX."""
    text = label(name)
    return text if text.isalpha() and len(text) == 1 else f"\\mathrm{{{text.translate(_LATEX)}}}"


def as_c_comment(name: str) -> str:
    """A name within a comment of C, which it neither ends nor begins."""
    whole = label(name).replace("*/", "* /").replace("/*", "/ *")
    return re.sub(r"\?(?=\?)", "? ", whole)  # no trigraphs, of which ??/ is a backslash


def labels(given: Collection[str]) -> list[str]:
    """Labels, numbered if they have become the same."""
    found: dict[str, None] = {}
    for text in map(label, given):
        numbered = (f"{text} ({i})" for i in count(2))
        found[next(t for t in chain([text], numbered) if t not in found)] = None
    return list(found)


# For Python


def is_python_name(name: str) -> bool:
    """Whether Python source can have an argument of this name, beside the function f and those that it calls."""
    read = unicodedata.normalize("NFKC", name)  # as Python reads it
    # __debug__ is an identifier that cannot be assigned.
    return read.isidentifier() and not keyword.iskeyword(read) and read not in (*RESERVED, "__debug__")


def python_names(names: Sequence[str]) -> tuple[str, ...]:
    """Different Python names, as near as possible to the given ones."""
    found: list[str] = []
    for name in names:
        near = unicodedata.normalize("NFKC", name)[:_LONGEST]
        if not is_python_name(near):
            near = re.sub("_+", "_", "".join(c if c.isalnum() and f"v{c}".isidentifier() else "_" for c in near)).strip(
                "_"
            )
            near = near if near.isidentifier() else f"v_{near}".rstrip("_")
            near = near if is_python_name(near) else f"{near}_"
        while near in found:
            near += "_"
        found.append(near)
    return tuple(found)
