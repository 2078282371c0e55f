"""Pictures and the report page. Needs matplotlib and jinja2, which are imported here and nowhere else."""

from ._figures import plot_functions, plot_history, plot_starts
from ._page import write_report
from ._selection import plot_selection

__all__ = ["plot_functions", "plot_history", "plot_selection", "plot_starts", "write_report"]
