"""The experiments of the paper, as functions that the command line calls."""

from ._table1 import Table1, run_table1, table1_markdown, write_table1

__all__ = ["Table1", "run_table1", "table1_markdown", "write_table1"]
