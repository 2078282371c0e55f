"""The experiments of the paper, and our own, as functions that the command line calls."""

from ._recovery import Recovery, recovery_markdown, run_recovery, write_recovery
from ._silverbox import SilverboxFigure, run_silverbox, silverbox_markdown, write_silverbox
from ._table1 import Table1, run_table1, table1_markdown, write_table1

__all__ = [
    "Recovery",
    "SilverboxFigure",
    "Table1",
    "recovery_markdown",
    "run_recovery",
    "run_silverbox",
    "run_table1",
    "silverbox_markdown",
    "table1_markdown",
    "write_recovery",
    "write_silverbox",
    "write_table1",
]
