"""Notebooks of the docs have the text of their pages and the outputs of their cells."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "notebooks.py"
PAGE = """# Title

Some words, {download}`as a notebook <page.ipynb>`.

```python
import decouply as dc
from pathlib import Path

Path("left-behind.txt").write_text("x")
print("so many:", 3)
```

```text
so many: 3
```

```console
$ stays text
```

```python
dc.systems.f1()
```

```python
dc.systems.f1().plot([[0.0, 0.0], [1.0, 1.0]])
```
"""


def executed(source, target):
    return subprocess.run([sys.executable, TOOL, source, target], capture_output=True, text=True, check=False)


def test_a_page_becomes_a_notebook_with_outputs(tmp_path):
    (tmp_path / "page.md").write_text(PAGE)
    assert executed(tmp_path / "page.md", tmp_path / "page.ipynb").returncode == 0
    book = json.loads((tmp_path / "page.ipynb").read_text())
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert [cell["cell_type"] for cell in book["cells"]] == ["markdown", "code", "markdown", "code", "code"]
    words, first, console, model, picture = book["cells"]
    assert (
        "Some words, as a notebook." in words["source"]
        and "so many" not in console["source"]
        and "$ stays text" in console["source"]
    )
    assert first["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "so many: 3\n"}]
    assert model["outputs"][0]["data"]["text/plain"].startswith("Decoupling(") and model["execution_count"] == 2
    assert picture["outputs"][0]["data"]["image/png"].startswith("iVBOR")
    assert {path.name for path in tmp_path.iterdir()} == {"page.md", "page.ipynb"}  # cells ran elsewhere
    assert executed(tmp_path / "page.ipynb", tmp_path / "again.ipynb").returncode == 0
    again = json.loads((tmp_path / "again.ipynb").read_text())
    assert [cell["source"] for cell in again["cells"]] == [cell["source"] for cell in book["cells"]]


def test_a_cell_that_fails_is_told(tmp_path):
    (tmp_path / "page.md").write_text("```python\n1 / 0\n```\n")
    done = executed(tmp_path / "page.md", tmp_path / "page.ipynb")
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr and not (tmp_path / "page.ipynb").exists()


def test_the_tutorial_is_all_there():
    spec = importlib.util.spec_from_file_location("notebooks", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = (ROOT / "docs" / "start" / "function.md").read_text()
    cells = list(tool.cells_of(page))
    assert [source for kind, source in cells if kind == "code"] == [
        block.strip() for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    ]
    assert sum(kind == "code" for kind, _ in cells) >= 4
