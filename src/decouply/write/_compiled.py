"""Python source of our own as a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compiled(source: str) -> Callable[..., Any]:
    """The function f of a Python source of ours."""
    # What is compiled here is made of numbers and of identifiers alone (see model/_names.py): whatever names of users
    # and files hold, none of it is code.
    space: dict[str, Any] = {}
    exec(compile(source, "<formula>", "exec"), space)
    function: Callable[..., Any] = space["f"]
    return function
