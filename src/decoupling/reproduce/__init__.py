"""The experiments of the paper, and our own, as functions that the command line calls."""

from ._recovery import Recovery, recovery_markdown, run_recovery, write_recovery
from ._selection import SelectionTable, run_selection, selection_markdown, write_selection
from ._silverbox import SilverboxFigure, run_silverbox, silverbox_markdown, write_silverbox
from ._table1 import Table1, run_table1, table1_markdown, write_table1

__all__ = [
    "Recovery",
    "SelectionTable",
    "SilverboxFigure",
    "Table1",
    "recovery_markdown",
    "run_recovery",
    "run_selection",
    "run_silverbox",
    "run_table1",
    "selection_markdown",
    "silverbox_markdown",
    "table1_markdown",
    "write_recovery",
    "write_selection",
    "write_silverbox",
    "write_table1",
]
