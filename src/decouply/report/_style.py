"""One look for all figures: colours that colour-blind people distinguish, on white or on black paper."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from .._support._arguments import as_flag
from .._support._atomic_files import named

# Okabe and Ito's palette, those first that stand out from white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
STYLES = ("-", "--", ":", "-.")  # and signs, for printers without colours
MARKERS = "osD^v*"
_SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    **dict.fromkeys(("axes.labelsize", "axes.titlesize", "xtick.labelsize", "ytick.labelsize"), "medium"),
    "legend.fontsize": "medium",
    "figure.autolayout": False,
    "figure.constrained_layout.use": False,
    "lines.linestyle": "-",
    "lines.marker": "None",
    "text.usetex": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linestyle": "-",
    "grid.linewidth": 0.8,
    "svg.fonttype": "none",
    "svg.hashsalt": "decouply",
}

_EMBEDDED, _DPI = 42, 300  # fonts as journals ask for them, and dots per inch of pictures that have dots

_settings = threading.RLock()  # matplotlib's settings belong to the process: one thread draws at a time


@dataclass(frozen=True)
class Look:
    """Paper, ink and colours. `faint` is for what stands behind, and still to be seen in print."""

    paper: str
    ink: str
    faint: str
    colours: tuple[str, ...]


LIGHT = Look("#ffffff", "#1a1a1a", "#767676", COLOURS)
DARK = Look("#121212", "#e8e8e8", "#9a9a9a", ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00"))


class Picture(Figure):
    """A figure that notebooks show without pyplot."""

    def savefig(self, fname: Any, **options: Any) -> None:
        """Write a file, on the figure's own paper unless told otherwise: the user's may suit other ink."""
        fonts = mpl.rc_context({"pdf.fonttype": _EMBEDDED, "ps.fonttype": _EMBEDDED})
        with named(fname) if isinstance(fname, str | os.PathLike) else nullcontext(), _settings, fonts:
            super().savefig(fname, **{"facecolor": self.get_facecolor(), "dpi": _DPI, **options})

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png", dpi=100)
        return stream.getvalue()


@contextmanager
def house_style(*, dark: bool = False) -> Iterator[Look]:
    """Our settings for one figure, none of them left behind. Colours are all set: the user's may be for other paper."""
    look = DARK if as_flag("dark", dark) else LIGHT
    papers = ("figure.facecolor", "axes.facecolor", "figure.edgecolor", "legend.facecolor")
    inks = ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color")
    labels: dict[Any, Any] = {
        "xtick.labelcolor": "inherit",
        "ytick.labelcolor": "inherit",
        "legend.labelcolor": look.ink,
    }
    colours: dict[Any, Any] = {**dict.fromkeys(papers, look.paper), **dict.fromkeys(inks, look.ink), **labels}
    with _settings, mpl.rc_context({**_SETTINGS, **colours, "grid.color": look.faint}):
        yield look


def new_figure(width: float, height: float, *, constrained: bool = True) -> Figure:
    """A separate figure: no window, no global state."""
    return Picture(figsize=(width, height), layout="constrained" if constrained else None)
