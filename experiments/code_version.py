"""Which code made a result: a digest for every room of the package that an experiment runs through.

Comments, docstrings and empty lines do not count. Nor do the files of experiments: a task names all that its outcome
depends on.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import decouply

_HERE = Path(__file__).parent
_PACKAGE = Path(decouply.__file__).parent
_EVERY_FIT = ("bases", "fit", "model", "samples", "solvers", "systems.py")
_OTHER_ROOM = re.compile(r"\bdecouply\.(estimators|nn|sysid)\b")
_OTHER_FILE = re.compile(r"^\s*from experiments\.([\w.]+) import", re.MULTILINE)


def code_version(module: str) -> dict[str, str]:
    """The digests of all rooms that an experiment of this module runs through."""
    return {room: _digest(_PACKAGE / room) for room in (*_EVERY_FIT, *sorted(_rooms_named_in(module)))}


def what_changed(stored: Mapping[str, str] | None, module: str) -> str:
    """What is different since a result was stored: names of rooms, or nothing."""
    if not stored:
        return "made by code of unknown version"
    present = code_version(module)
    return ", ".join(room for room in sorted({*stored, *present}) if stored.get(room) != present.get(room))


def _rooms_named_in(module: str) -> set[str]:
    """Rooms besides those of every fit that a module of experiments, or one that it imports, imports from."""
    waiting, seen, found = [module.removeprefix("experiments.")], set[str](), set[str]()
    while waiting:
        name = waiting.pop()
        path = _HERE.joinpath(*name.split(".")).with_suffix(".py")
        if name in seen or not path.is_file():
            continue
        seen.add(name)
        text = path.read_text(encoding="utf-8")
        found |= set(_OTHER_ROOM.findall(text))
        waiting += _OTHER_FILE.findall(text)
    return found


@cache
def _digest(room: Path) -> str:
    """Of the code in a folder, or of a file."""
    total = hashlib.sha256()
    for path in sorted(room.rglob("*.py")) if room.is_dir() else [room]:
        total.update(f"{path.relative_to(room.parent).as_posix()}\n".encode())
        total.update(code_alone(path.read_text(encoding="utf-8")).encode())
    return total.hexdigest()[:12]


def code_alone(text: str) -> str:
    """The lines of a program without comments, docstrings and empty lines."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        match getattr(node, "body", None):
            case [ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)), *_]:
                lines[first - 1 : last] = [""] * (last - first + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())
