"""The experiments of the paper, and our own, as functions that the command line calls."""

from ._recovery import Recovery, recovery_markdown, run_recovery, write_recovery
from ._table1 import Table1, run_table1, table1_markdown, write_table1

__all__ = [
    "Recovery",
    "Table1",
    "recovery_markdown",
    "run_recovery",
    "run_table1",
    "table1_markdown",
    "write_recovery",
    "write_table1",
]
