"""What every experiment leaves behind: its numbers as JSON, its table as Markdown, its picture as PNG."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from .._support._json import plain
from .._support._whole_files import replace_file, write_text
from ..report._style import house_style


def write_experiment(directory: Path, name: str, content: dict[str, Any], markdown: str, figure: Figure) -> None:
    """NAME.json, NAME.md and NAME.png."""
    write_text(directory / f"{name}.json", json.dumps(plain(content), indent=1) + "\n")
    write_text(directory / f"{name}.md", markdown + "\n")
    write_figure(directory / f"{name}.png", figure)


def write_figure(path: Path, figure: Figure) -> None:
    """One picture as PNG."""
    with replace_file(path) as stream, house_style():
        figure.savefig(stream, format="png", dpi=150)
