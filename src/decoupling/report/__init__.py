"""Pictures and the report page. Needs matplotlib and jinja2, which are imported here and nowhere else."""

from ._diagram import draw_diagram
from ._figures import plot_fit, plot_functions, plot_history, plot_starts
from ._layout import Layout, band_errors
from ._page import write_report
from ._selection import plot_selection

__all__ = [
    "Layout",
    "band_errors",
    "draw_diagram",
    "plot_fit",
    "plot_functions",
    "plot_history",
    "plot_selection",
    "plot_starts",
    "write_report",
]
