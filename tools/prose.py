"""Check the prose of pages and docstrings against the rules of CONTRIBUTING.md: `python tools/prose.py [PATH ...]`.

A path is a page in Markdown, a module of Python (its docstrings, messages and texts between cells are read), or a
folder of both. Without
paths, all pages of the project are read. Found are

- sentences of more than 30 words, and sentences with both a colon and a semicolon (messages may have both);
- private words, if the table "Words" of docs/reference/notation.md names a textbook word for them;
- `where` in the place of `if`;
- passives without an actor, such as "it is told".

Code, formulas, tables of numbers and tables that a command writes are not read.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
WORDS = ROOT / "docs" / "reference" / "notation.md"
LONGEST = 30  # words of a sentence
_BOTH = "a colon and a semicolon"
_FEWEST = 4  # words of a message: less is a label or a key

# "Where" is right after a formula, for a place, and in an indirect question ("the message says where").
_PLACES = (
    "place|places|point|points|range|ranges|region|regions|spot|page|pages|folder|file|files|line|lines|column|row|"
    "step|area|side|end|ends|position|layer|interval|world|table|section|sample|samples|from|of|about|and|or|is|"
    "say|says|said|know|knows|show|shows|see|sees|ask|asks|find|finds|out|learn|decide|decides|tell|tells|explains"
)
_WHERE = re.compile(r"(?<!\w)(?:(?P<before>[\w’']+|[,;:—–-]) +)?where\b(?! +(?:to|do|does|Code)\b)", re.IGNORECASE)
_PASSIVES = re.compile(
    r"\b(?:is|are|was|were|be|being|been) (?:also |then |not |always |never )?(?:told|minded|spoken)\b"
    r"|\b(?:it|this|that) is (?:said|taken for|asked for)\b",
    re.IGNORECASE,
)
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|cf|vs|et al|approx|Fig|Eq|No|St)\.")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"”’')*]*\s+(?=[\"“‘(*]*[A-Z0-9])")


class Finding(NamedTuple):
    path: Path
    line: int
    rule: str
    sentence: str

    def __str__(self) -> str:
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{self.line}: {self.rule}: {self.sentence}"


def findings_of(path: Path) -> Iterator[Finding]:
    """What a page or the docstrings of a module say against the rules."""
    text = path.read_text(encoding="utf-8")
    text = text.partition("\n## Words\n")[0] if path == WORDS else text
    for line, sentence in [*_docstrings(text), *_cells(text)] if path.suffix == ".py" else _sentences(text, 1):
        for rule in rules_broken(sentence):
            yield Finding(path, line, rule, sentence)
    for line, sentence in _messages(text) if path.suffix == ".py" else ():
        for rule in rules_broken(sentence):
            if rule != _BOTH:
                yield Finding(path, line, rule, sentence)


def rules_broken(sentence: str) -> Iterator[str]:
    n_words = sum(any(c.isalnum() for c in word) for word in sentence.split())
    if n_words > LONGEST:
        yield f"{n_words} words"
    if re.search(r": ", sentence) and "; " in sentence:
        yield _BOTH
    for found in _WHERE.finditer(sentence):
        before = (found["before"] or "").lower()
        after_formula = before == "," and re.match(r",? *where (?:each|every|the|Code|\w\b)", sentence[found.start() :])
        question = sentence.endswith("?") and found.start() == 0
        if not (re.fullmatch(_PLACES, before) or after_formula or question):
            yield "`where` for `if`"
    for found in _PASSIVES.finditer(sentence):
        yield f"who acts? ({found[0]!r})"
    for old, new in private_words():
        if found := old.search(sentence):
            yield f"write {new!r} instead of {found[0]!r}"


@cache
def private_words() -> tuple[tuple[re.Pattern[str], str], ...]:
    """From the table of the notation page: patterns of private words, and the word of the field for each."""
    table = WORDS.read_text(encoding="utf-8").partition("\n## Words\n")[2]
    rows = re.findall(r"^\| *([^|]+?) *\| *([^|]+?) *\|$", table, flags=re.MULTILINE)[2:]
    if not rows:
        raise SystemExit(f"{WORDS} has no table of words.")
    return tuple(
        (re.compile(rf"(?<![\w-]){re.escape(word.strip())}(?![\w-])", re.IGNORECASE), write)
        for write, instead in rows
        for word in instead.split(",")
    )


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Sentences of a module, its classes and its functions, without private ones."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            text = None if getattr(node, "name", "").startswith("_") else ast.get_docstring(node)
            if text is not None and isinstance(first, ast.Expr):
                yield from _sentences(_without_rest_markup(text), first.lineno)


def _cells(source: str) -> Iterator[tuple[int, str]]:
    """Sentences between the cells of a page of the gallery."""
    for cell in re.finditer(r"^# %%\n((?:#.*\n)+)", source, flags=re.MULTILINE):
        text = re.sub("^# ?", "", cell[1], flags=re.MULTILINE)
        yield from _sentences(_without_rest_markup(text), source.count("\n", 0, cell.start(1)) + 1)


def _messages(source: str) -> Iterator[tuple[int, str]]:
    """Sentences in texts of a program that are no docstrings; what is filled in counts as a word."""
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    parts |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        pieces = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(one.value) if isinstance(one, ast.Constant) else "Code" for one in pieces)
        is_text = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        if is_text and id(node) not in parts and len(text.split()) >= _FEWEST and "\n" not in text:
            yield from _sentences(text, node.lineno)


def _without_rest_markup(text: str) -> str:
    """A docstring as Markdown: no doctests, no directives, no underlines, no lines with names and types."""
    text = re.sub(r"^( *)>>> .*(?:\n\1(?! *$).+)*", lambda m: "\n" * m[0].count("\n"), text, flags=re.MULTILINE)
    text = re.sub(r"^ *\.\. \w+::.*\n(?:(?: +.*)?\n)*", lambda m: "\n" * m[0].count("\n"), text, flags=re.MULTILINE)
    text = re.sub(r"^(.+)\n *-{3,}$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"^[\w*`, .\[\]]+ : .+$", "", text, flags=re.MULTILINE)  # a parameter and its type
    text = re.sub(r"^ *\w[\w, *]*$(?=\n {4})", "", text, flags=re.MULTILINE)  # a parameter without a type
    text = re.sub(r":\w+:`[^`]*`", "Code", text).replace("``", "`")
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    return re.sub(r"^ +", "", text, flags=re.MULTILINE)


def _sentences(text: str, first_line: int) -> Iterator[tuple[int, str]]:
    def blank(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n")

    text = re.sub(r"\A---\n.*?\n---\n", blank, text, flags=re.DOTALL)  # the header of a paper
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.DOTALL)
    text = re.sub(r"^(`{3,})\{(container|note|tip|warning|admonition|dropdown)\}[^\n]*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^( *`{3,})[^\n`]+\n.*?^\1 *$", blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(\$\$).*?\$\$", blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^ *(`{3,}|<.*>|\([\w-]+\)=|:\w+:.*) *$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)", r"\1", text)  # a link is its text
    text = re.sub(r"`+[^`]+`+|\$[^$\n]+\$|\{\w+\}", "Code", text)
    text = re.sub(r"https?://\S+", "Code", text)
    for line, block in _blocks(text, first_line):
        block = _ABBREVIATION.sub(lambda m: m[1].replace(".", "·") + "·", " ".join(block.split()))
        for sentence in _SENTENCE_END.split(block):
            if sentence.strip():
                yield line, sentence.strip()


def _blocks(text: str, first_line: int) -> Iterator[tuple[int, str]]:
    """Paragraphs, items of lists, headings and cells of tables, each with the line on which it begins."""
    kept: list[str] = []
    begin = first_line
    for number, line in enumerate([*text.split("\n"), ""], start=first_line):
        own = re.match(r" *(?:[-*+]|\d+\.) +|#+ ", line)
        if not line.strip() or own or line.lstrip().startswith("|"):
            if kept:
                yield begin, " ".join(kept)
            kept = []
            if line.lstrip().startswith("|"):
                yield from ((number, cell.strip()) for cell in line.strip().strip("|").split("|"))
                continue
            line = line[own.end() :] if own else line
        if line.strip():
            begin = begin if kept else number
            kept.append(line.strip())


def pages() -> Iterator[Path]:
    """All pages that people write."""
    yield from (ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))
    yield from files_in(ROOT / "docs", "*.md")
    yield from files_in(ROOT / "paper", "*.md")
    yield from files_in(ROOT / "examples", "*.py")


def files_in(folder: Path, *patterns: str) -> Iterator[Path]:
    """Without those that the build or a command writes; the latter lie beside their numbers."""
    for path in sorted(path for pattern in patterns for path in folder.rglob(pattern)):
        made = {"_build", "api", "speed"} & set(path.parts) or path.parts[-2:] == ("reference", "command-line.md")
        in_docs = path.is_relative_to(ROOT / "docs") and ("gallery" in path.parts or path.suffix == ".py")
        if not (made or in_docs or (path.suffix == ".md" and path.with_suffix(".json").exists())):
            yield path


def main() -> None:
    asked = [Path(name).resolve() for name in sys.argv[1:]]
    paths = [
        path for one in asked for path in (sorted([*one.rglob("*.md"), *one.rglob("*.py")]) if one.is_dir() else [one])
    ] or list(pages())
    found = [finding for path in paths for finding in findings_of(path)]
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(paths)} files of prose, {len(found)} findings.")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
