"""Write under the code of pages what it prints: `python tools/printed.py [PAGE ...]`. Without pages, all of them.

The blocks of Python of a page run one after the other in one namespace, in a folder that is thrown away. What a block
prints stands below it, in a block of text. Commands in a console block run too, if a block of text follows. Pictures
that the code saves, and the page shows from a folder `pictures` beside it, are copied there. tests/test_pages.py runs
all of this again and compares.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(
    r"^```(?P<kind>python|console)\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)
_SECONDS = re.compile(r"\d+(?:\.\d+)?(?= s\b)")
_NUMBER = re.compile(r"[-−+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
DIGITS = 0.03  # of numbers, since sums are rounded differently on other processors
NOTHING = 2e-3  # numbers below this are compared as 0


class Printed(NamedTuple):
    """A block of a page, what stands below it (None without a block of text) and what it prints."""

    code: str
    shown: str | None
    printed: str


def pages() -> list[Path]:
    """Pages with code that runs."""
    built = {"_build", "api", "gallery"}
    all_pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in all_pages if not built & set(page.parts) and "```python\n" in page.read_text("utf-8")]


def packages(code: str) -> set[str]:
    """What a block of Python imports."""
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {module.partition(".")[0] for module in modules}


def missing_packages(page: Path) -> set[str]:
    """Packages that the code of a page imports, and that are not installed."""
    blocks = [block["code"] for block in BLOCK.finditer(page.read_text("utf-8")) if block["kind"] == "python"]
    return {name for name in set().union(*map(packages, blocks)) if importlib.util.find_spec(name) is None}


def run(page: Path, without: Collection[str] = ()) -> list[Printed]:
    """All blocks of a page in the current folder, but those that import a package of `without`."""
    space: dict[str, object] = {"__name__": "__main__"}
    found = []
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["kind"] == "python" and packages(block["code"]).intersection(without):
            continue
        if block["kind"] == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block["code"], page.name, "exec"), space)
            found.append(Printed(block["code"], block["shown"], out.getvalue()))
        elif block["shown"] is not None:
            commands = re.findall(r"^\$ decouply (.+?)(?: +#.*)?$", block["code"], flags=re.MULTILINE)
            found.append(Printed(block["code"], block["shown"], "".join(map(_command, commands))))
    return found


def _command(line: str) -> str:
    """What `decouply ...` prints on a screen of 88 columns, without its progress."""
    from click.testing import CliRunner

    from decouply.cli._main import decouply

    done = CliRunner(env={"COLUMNS": "88"}).invoke(decouply, shlex.split(line), catch_exceptions=False)
    if done.exit_code:
        raise RuntimeError(f"decouply {line}\n{done.output}")
    return done.stdout


def alike(printed: str, shown: str) -> bool:
    """Whether the words are the same, and the numbers to the digits that every processor finds."""
    printed, shown = (_SECONDS.sub("", text) for text in (printed, shown))
    words = ("".join(_NUMBER.sub("#", text).split()) for text in (printed, shown))
    if len({*words}) == 2:
        return False
    pairs = zip(_NUMBER.findall(printed), _NUMBER.findall(shown), strict=True)
    numbers = [(float(a.replace("−", "-")), float(b.replace("−", "-"))) for a, b in pairs]
    return all(abs(a - b) <= max(DIGITS * abs(b), NOTHING) for a, b in numbers)


def write(page: Path) -> bool:
    """Run a page and write what it prints; whether that has changed the page."""
    import matplotlib

    before, text = Path.cwd(), page.read_text(encoding="utf-8")
    with matplotlib.rc_context({"savefig.dpi": 150}), tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            found = iter(run(page))
        finally:
            os.chdir(before)
        for picture in Path(folder).glob("*.png"):
            for target in re.findall(rf"[\w./-]*pictures/{re.escape(picture.name)}", text):
                (page.parent / target).parent.mkdir(exist_ok=True)
                shutil.copy(picture, page.parent / target)

    def renewed(block: re.Match[str]) -> str:
        if block["kind"] == "console" and block["shown"] is None:
            return block[0]
        printed = next(found).printed
        lines = "\n".join(line.rstrip() for line in printed.strip("\n").split("\n"))
        return f"```{block['kind']}\n{block['code']}```\n" + (f"\n```text\n{lines}\n```\n" if lines else "")

    new = BLOCK.sub(renewed, text)
    page.write_text(new, encoding="utf-8")
    return new != text


def main() -> None:
    for page in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        try:
            done = "changed" if write(page) else "as it was"
        except ModuleNotFoundError as error:
            done = f"not run, it needs {error.name}"
        print(f"{page.relative_to(ROOT)}: {done}", flush=True)


if __name__ == "__main__":
    main()
