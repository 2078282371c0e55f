"""The public door, collected: every public name with its signature, so that no change of it goes unnoticed.

`python -m tests.signatures` writes them down again; say in CHANGELOG.md what has changed.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import decouply as dc

RECORD = Path(__file__).with_name("public_signatures.txt")
MODULES = ("", "bases", "data", "fit", "nn", "solvers", "sysid", "systems", "testing")


def recorded() -> list[str]:
    """The signatures that were written down."""
    return RECORD.read_text(encoding="utf-8").splitlines()


def collected() -> list[str]:
    """One line per public function, class, method and property."""
    lines = []
    for module in MODULES:
        space = dc if not module else __import__(f"decouply.{module}", fromlist=["_"])
        names = sorted(getattr(space, "__all__", None) or [n for n in dir(space) if not n.startswith("_")])
        for name in names:
            item = getattr(space, name)
            path = f"{module}.{name}" if module else name
            if inspect.ismodule(item):
                continue
            lines.append(f"{path}{_signature(item)}")
            if inspect.isclass(item):
                lines += [f"{path}.{line}" for line in _members(item)]
    return lines


def _members(cls: type) -> list[str]:
    """Those that the class defines or has from classes of ours that are not public themselves."""
    found = []
    private = [c for c in cls.__mro__[1:] if c.__module__.startswith("decouply") and not _is_public(c)]
    members = {name: member for c in (*reversed(private), cls) for name, member in vars(c).items()}
    for name in sorted(members):
        member = members[name]
        if name.startswith("_") and name != "__call__":
            continue
        if isinstance(member, property) or type(member).__name__ == "cached_property":
            found.append(f"{name}: property")
        elif callable(member) or isinstance(member, classmethod | staticmethod):
            found.append(f"{name}{_signature(getattr(cls, name))}")
    return found


def _is_public(cls: type) -> bool:
    return any(cls.__name__ in space.__all__ for space in (dc, dc.bases, dc.fit, dc.solvers))


def _signature(item: object) -> str:
    """Names, kinds and defaults of arguments; annotations are left out, since they say the same in many ways."""
    if not callable(item):
        return f": {type(item).__name__}"
    try:
        signature = inspect.signature(item)
    except (TypeError, ValueError):
        return "(...)"
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


if __name__ == "__main__":
    RECORD.write_text("\n".join(collected()) + "\n", encoding="utf-8")
