"""The experiments of the paper, and our own, as functions that the command line calls."""

from ._benchmarks import Benchmarks, benchmarks_markdown, run_benchmarks, write_benchmarks
from ._choice import Choice, choice_markdown, run_choice, write_choice
from ._cliff import Cliff, cliff_markdown, run_cliff, write_cliff
from ._curves import CurvesTable, curves_markdown, run_curves, write_curves
from ._equivariance import Equivariance, equivariance_markdown, run_equivariance, write_equivariance
from ._functions import FunctionsTable, functions_markdown, run_functions, write_functions
from ._recovery import Recovery, recovery_markdown, run_recovery, write_recovery
from ._regression import RegressionTable, regression_markdown, run_regression, write_regression
from ._selection import SelectionTable, run_selection, selection_markdown, write_selection
from ._silverbox import SilverboxFigure, run_silverbox, silverbox_markdown, write_silverbox
from ._table1 import Table1, run_table1, table1_markdown, write_table1

__all__ = [
    "Benchmarks",
    "Choice",
    "Cliff",
    "CurvesTable",
    "Equivariance",
    "FunctionsTable",
    "Recovery",
    "RegressionTable",
    "SelectionTable",
    "SilverboxFigure",
    "Table1",
    "benchmarks_markdown",
    "choice_markdown",
    "cliff_markdown",
    "curves_markdown",
    "equivariance_markdown",
    "functions_markdown",
    "recovery_markdown",
    "regression_markdown",
    "run_benchmarks",
    "run_choice",
    "run_cliff",
    "run_curves",
    "run_equivariance",
    "run_functions",
    "run_recovery",
    "run_regression",
    "run_selection",
    "run_silverbox",
    "run_table1",
    "selection_markdown",
    "silverbox_markdown",
    "table1_markdown",
    "write_benchmarks",
    "write_choice",
    "write_cliff",
    "write_curves",
    "write_equivariance",
    "write_functions",
    "write_recovery",
    "write_regression",
    "write_selection",
    "write_silverbox",
    "write_table1",
]
