"""The command line `decouple`."""

from ._main import main

__all__ = ["main"]
