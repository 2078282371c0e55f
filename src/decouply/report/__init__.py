"""Pictures and the report page. Needs matplotlib and jinja2, which are imported here and nowhere else."""

from ._class_page import Classes, write_class_report
from ._diagram import draw_diagram
from ._dynamic_page import Dynamics, plot_residuals, plot_response, write_dynamic_report
from ._figures import plot_fit, plot_functions, plot_history, plot_selection, plot_starts
from ._layout import Layout
from ._page import write_report

__all__ = [
    "Classes",
    "Dynamics",
    "Layout",
    "draw_diagram",
    "plot_fit",
    "plot_functions",
    "plot_history",
    "plot_residuals",
    "plot_response",
    "plot_selection",
    "plot_starts",
    "write_class_report",
    "write_dynamic_report",
    "write_report",
]
