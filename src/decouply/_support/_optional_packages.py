"""Packages that are not installed by default: each belongs to an extra of this one.

Whatever needs one asks for it here, when it is used, so that all of them are missed in the same words.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Mapping
from typing import Any

from ._errors import MissingExtraError

_Lazy = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def needed(package: str, extra: str, what: str) -> Any:
    """A package, or one of its names, that only an extra installs.

    Parameters
    ----------
    package
        What is imported and returned, such as ``"onnx.helper"``; ``"module:name"`` is the name inside the module, for
        packages of which old versions lack it.
    extra
        The extra that installs it, in a version that will do.
    what
        What needs it, as the user wrote it: the beginning of the message.
    """
    module, _, name = package.partition(":")
    root = module.partition(".")[0]
    try:
        found = importlib.import_module(module)
        return getattr(found, name) if name else found
    except (ImportError, AttributeError) as error:
        reason = str(error).rstrip(".")
        raise MissingExtraError(
            f"{what} needs the package {root}: {_install_line(extra, root)}. It cannot be imported: {reason}.",
            name=root,
        ) from error


def _install_line(extra: str, root: str) -> str:
    """What installs the packages of an extra, from a checkout as from a release: it names them, not this package."""
    try:
        required = importlib.metadata.requires("decouply") or []
    except importlib.metadata.PackageNotFoundError:  # used from a folder, without being installed
        required = []
    parts = [line.partition(";") for line in required]
    mine = [name.strip() for name, _, marker in parts if re.search(rf"extra == .{extra}.$", marker.strip())]
    return "pip install " + " ".join(f'"{name}"' for name in mine or [root])


def guarded(lazy: _Lazy, extras: Mapping[str, tuple[str, str]]) -> _Lazy:
    """The lazy names of the package, some of which need an extra.

    Asked for by name, these give an error that names the extra. If it is missing they are not listed, so that
    whatever goes through all names, such as `help` and ``import *``, meets no error.

    Parameters
    ----------
    lazy
        ``__getattr__``, ``__dir__`` and ``__all__``, as `lazy_loader` gives them.
    extras
        (package, extra) by name.
    """
    get, _, names = lazy

    def guarded_get(name: str) -> Any:
        if name in extras:
            needed(*extras[name], f"dc.{name}")
        return get(name)

    listed = [name for name in names if name not in extras or _is_there(extras[name][0])]
    return guarded_get, listed.copy, listed


def _is_there(package: str) -> bool:
    """Whether a package is installed, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # someone put None in its place, as tests do
        return False
