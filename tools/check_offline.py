"""Check that built pages load nothing from a network address: scripts, styles, pictures, fonts, frames.

    python tools/check_offline.py docs/_build/html

Links that a reader may follow are none of its business.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

_ADDRESS = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
_IN_CSS = re.compile(r"""(?:url\(\s*|@import\s+)["']?\s*((?:https?:)?//[^"')\s;]+)""", re.IGNORECASE)
_FOLLOWED_LINKS = {"canonical", "author", "license", "next", "prev", "index", "search", "alternate", "help"}
_SOURCES = {"src", "srcset", "poster", "data"}  # attributes that are loaded, whatever their element


class _Loads(HTMLParser):
    """Addresses on a network that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        loaded = [value for name, value in given.items() if name in _SOURCES]
        if tag == "link" and not set(given.get("rel", "").lower().split()) & _FOLLOWED_LINKS:
            loaded.append(given.get("href", ""))
        if tag in ("image", "use"):  # of SVG
            loaded += [given.get("href", ""), given.get("xlink:href", "")]
        self.found += [f"<{tag}> {value}" for value in loaded if _ADDRESS.match(value)]
        self.found += [f"style of <{tag}> {address}" for address in _IN_CSS.findall(given.get("style", ""))]
        self._in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.found += [f"<style> {address}" for address in _IN_CSS.findall(data)]

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 (HTMLParser gives it)
        self._in_style = False


def network_loads(folder: Path) -> list[str]:
    """One line for each thing that a page or style sheet below a folder loads from a network."""
    complaints = []
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".html":
            page = _Loads()
            page.feed(path.read_text(errors="replace"))
            complaints += [f"{path.relative_to(folder)}: {found}" for found in page.found]
        elif path.suffix == ".css":
            found = _IN_CSS.findall(path.read_text(errors="replace"))
            complaints += [f"{path.relative_to(folder)}: {address}" for address in found]
    return complaints


if __name__ == "__main__":
    root = Path(sys.argv[1])
    if not any(root.rglob("*.html")):
        sys.exit(f"{root} must hold built pages. There is no HTML file in it.")
    if found := network_loads(root):
        sys.exit("These load something from a network, so they are incomplete without one:\n" + "\n".join(found))
