"""The experiments of the paper, and our own, as functions that the command line calls."""

from experiments.dynamic.benchmarks import Benchmarks, benchmarks_markdown, run_benchmarks, write_benchmarks
from experiments.dynamic.order_choice import Choice, choice_markdown, run_choice, write_choice
from experiments.functions.bases import FunctionsTable, functions_markdown, run_functions, write_functions
from experiments.functions.curve_names import CurvesTable, curves_markdown, run_curves, write_curves
from experiments.paper.silverbox import SilverboxFigure, run_silverbox, silverbox_markdown, write_silverbox
from experiments.paper.table1 import Table1, run_table1, table1_markdown, write_table1
from experiments.regression.table import RegressionTable, regression_markdown, run_regression, write_regression
from experiments.solver.rank_selection import SelectionTable, run_selection, selection_markdown, write_selection
from experiments.solver.recovery import Recovery, recovery_markdown, run_recovery, write_recovery
from experiments.solver.recovery_by_depth import Cliff, cliff_markdown, run_cliff, write_cliff
from experiments.solver.units import Equivariance, equivariance_markdown, run_equivariance, write_equivariance

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
