"""Executed notebooks for people to download, from the same text as the pages: `python tools/notebooks.py FROM TO`.

FROM is a page in Markdown, whose blocks of Python become cells, or a notebook without outputs, such as Sphinx-Gallery
writes. Cells run one after the other in a folder that is thrown away, as in Jupyter: what a cell prints, and what its
last line is, becomes its output. A cell that fails ends it all.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL
)  # with what it prints
_ROLE = re.compile(r"\{\w+\}`([^<`]*?) *<[^>`]*>`")  # a link that only the pages have


def cells_of(page: str) -> Iterator[tuple[str, str]]:
    """("markdown" | "code", text) of a page in Markdown."""
    page, place = _ROLE.sub(r"\1", page), 0
    for block in _BLOCK.finditer(page):
        yield "markdown", page[place : block.start()].strip()
        yield "code", block.group(1).strip()
        place = block.end()
    yield "markdown", page[place:].strip()


def run(cells: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """The cells of a notebook, executed in one namespace."""
    space: dict[str, Any] = {"__name__": "__main__"}
    found: list[dict[str, Any]] = []
    count = 0
    for kind, source in cells:
        if not source:
            continue
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{len(found)}", "metadata": {}, "source": source}
        if kind == "code":
            count += 1
            cell |= {"execution_count": count, "outputs": _outputs(source, space, count)}
        found.append(cell)
    return found


def _outputs(source: str, space: dict[str, Any], count: int) -> list[dict[str, Any]]:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, shown = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), space)
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), space)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    if shown is not None:
        outputs.append(
            {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": _data(shown)}
        )
    return outputs


def _data(shown: Any) -> dict[str, str]:
    """What Jupyter would keep of a value: text, and HTML or a picture where it has one."""
    data = {"text/plain": repr(shown)}
    if hasattr(shown, "savefig"):
        picture = io.BytesIO()
        shown.savefig(picture, format="png", dpi=100)
        data["image/png"] = base64.b64encode(picture.getvalue()).decode()
    elif hasattr(shown, "_repr_html_") and (html := shown._repr_html_()):
        data["text/html"] = html
    return data


def notebook(path: Path) -> dict[str, Any]:
    """An executed notebook from a page, or from a notebook without outputs."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = [(c["cell_type"], "".join(c["source"])) for c in json.loads(text)["cells"]]
    else:
        cells = list(cells_of(text))
    version = ".".join(str(number) for number in sys.version_info[:3])
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "version": version},
    }
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            done = run(cells)
        finally:
            os.chdir(before)
    return {"cells": done, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    source, target = (Path(name).resolve() for name in sys.argv[1:3])
    try:
        content = notebook(source)
    except Exception:
        traceback.print_exc()
        sys.exit(f"{source.name} could not be executed.")
    target.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
