"""Names of signals that are made to be obeyed, given to everything that writes them: none gets out of its place.

What is written with hostile names must have the structure of what is written with plain ones: the same syntax tree,
the same tags, the same code beside the comments.
"""

from __future__ import annotations

import ast
import io
import re
import tempfile
import tokenize
import unicodedata
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

import decouply as dc
from tests.robustness.outcome import FINE, Outcome

BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
PIECES = (
    *(f"{b}open('x')" for b in BREAKS),
    *BREAKS,
    *BIDI,
    *(
        "__debug__",
        "class",
        "None",
        "True",
        "match",
        "f",
        "ｆ",
        "cos",
        "ｃｏｓ",
        "u1",
        "z1",
        "t1",
        "uu",
        "_",
        "x²",
        "৴",
    ),
    *(" ", "x y", "$x$", "<script>", "</script>", "</text>", "'><b>", "\x1b[31m", "\x9b31m", "\x07", "\x00", "\x7f"),
    *("\ud800", "\udcff", "'''", '"', "'", '"""', "\\", "\\\\ \\input{x}", "}", "{x}", "{{", "^", "~", "&", "&lt;"),
    *("#", "%", "%{", "`", "*/", "/*", "//", "??/", "-->", "<!--", "]]>", "<?", "coding: utf-7", "[/b]", "[link=x]a"),
    *(
        "$(x)",
        "=1+1",
        "@x",
        "|",
        ",",
        ";",
        "lambda",
        "import os",
        "1",
        "\N{ZERO WIDTH SPACE}",
        "\ufeff",
        "x1",
        "y1",
        "y2",
    ),
    "a" * 300,
)
MODEL = dc.Decoupling(
    [np.array([[1.0, -0.5], [0.3, 2.0]]), np.array([[1.0, 2.0], [-1.0, 0.5]])],
    [dc.Functions(dc.bases.Trigonometric(3), np.arange(8.0).reshape(2, 4))],
    linear=[[0.5, 1.0], [2.0, -1.0]],
)
X = np.random.default_rng(0).uniform(-1.0, 1.0, (12, 2))
PLAIN = ("p", "q"), ("r", "s")
C_COMMENT = r"/\*.*?\*/"

_SAME = 0.2  # share of names in which outputs are called as inputs are

Named = tuple[tuple[str, ...], tuple[str, ...]]


def hidden(text: str) -> list[str]:
    """What a terminal, an editor or a reader of Python may obey, and no person sees."""
    return [c for c in text if c != "\n" and (unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in BIDI)]


def shape(source: str) -> str:
    """The tree of a source, with identifiers numbered as they come; attributes and the like are none of these."""
    tree = ast.parse(source)
    numbers: dict[str, int] = {}
    for node in ast.walk(tree):
        for field in ("id", "arg"):
            if hasattr(node, field) and getattr(node, field) not in ("cos", "sin"):
                setattr(node, field, f"n{numbers.setdefault(getattr(node, field), len(numbers))}")
    return ast.dump(tree)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        # Short formulas are open at first, long ones are not.
        self.found.append((tag, sorted(name for name, _ in attrs if name != "open")))


def tags(text: str) -> list[Any]:
    """The tags of a page, with the names of their attributes."""
    parser = _Tags()
    parser.feed(text)
    return parser.found


def _visible(text: str) -> str:
    if hidden(text):
        raise AssertionError(f"hidden characters: {hidden(text)[:5]!r}")
    text.encode()
    return text


def _formula(kind: Any, named: Named) -> str:
    return _visible(MODEL.formula(kind, inputs=named[0], outputs=named[1]))


def _text(named: Named) -> Any:
    return len(_formula("text", named).splitlines())


def _html(named: Named) -> Any:
    return tags(_formula("html", named))


def _latex(named: Named) -> Any:
    """Braces that close, and no command but those that stand for a letter."""
    written = _formula("latex", named)
    depth = 0
    for mark in re.findall(r"\\.|[{}]", written):
        depth += (mark == "{") - (mark == "}")
        assert depth >= 0
    letters = {"\\backslash", "\\wedge", "\\sim", "\\mathrm"}
    return (
        depth,
        set(re.findall(r"\\[A-Za-z]+", written)) - letters,
        written.count("\n"),
        re.search(r"(?<!\\)%", written),
    )


def _python(named: Named) -> Any:
    """The source of a model that carries the names: its tree, its coding, and what it computes."""
    return _source(MODEL.with_names(*named).formula("python"))


def _source(source: str) -> Any:
    tree = shape(_visible(source))
    coding, _ = tokenize.detect_encoding(io.BytesIO(source.encode()).readline)
    assert shape(source.encode().decode(coding)) == tree
    return tree, coding


def _values_of_source(named: Named) -> Any:
    source = MODEL.with_names(*named).formula("python")
    assert shape(source) == shape(MODEL.with_names(*PLAIN).formula("python"))  # before it is run
    space: dict[str, Any] = {}
    exec(compile(source, "source", "exec"), space)
    return np.allclose([space["f"](*x) for x in X.tolist()], MODEL(X))


def _sympy(named: Named) -> Any:
    found = MODEL.with_names(*named).formula("sympy")
    return [(len(expression.free_symbols), expression.count_ops()) for expression in found]


def _without_comments(source: str, comment: str) -> str:
    return re.sub(comment, "", _visible(source), flags=re.DOTALL)


def _c(named: Named) -> Any:
    return _without_comments(_formula("c", named), C_COMMENT)


def _matlab(named: Named) -> Any:
    written = _formula("matlab", named)
    assert not re.search(r"^\s*%[{}]\s*$", written, re.MULTILINE)  # a block of comments
    return re.sub(r"%.*", "", written)


def _step(language: Any, comment: str) -> Callable[[Named], Any]:
    """A model with one state, as a function that makes a step."""

    def write(named: Named) -> Any:
        from decouply.write._step_source import step_source

        return _without_comments(step_source(MODEL.with_names(*named), 1, language, "one_step"), comment)

    return write


def _fmu(named: Named) -> Any:
    """The description is valid, and as it is with plain names but for units; sources differ in comments alone."""
    from fmpy.validation import validate_fmu

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "m.fmu"))
        MODEL.with_names(*named).save_fmu(path)
        problems = validate_fmu(path)
        with zipfile.ZipFile(path) as archive:
            about, code = (archive.read(name).decode() for name in ("modelDescription.xml", "sources/model.c"))
    elements = [node for node in ElementTree.fromstring(_visible(about)).iter() if "Unit" not in node.tag[:5]]
    shape = [(node.tag, sorted(set(node.attrib) - {"unit"})) for node in elements]
    return problems, shape, re.sub(r'"[-0-9a-f]{36}"', "", _without_comments(code, C_COMMENT))


@cache
def _result() -> dc.Result:
    samples = dc.Samples(X, F=MODEL(X), J=MODEL.jacobian(X))
    return dc.decouple(samples, 1, 2, n_starts=1, progress=False)


def _page(named: Named) -> Any:
    from decouply.report._page import page

    text = page(_result(), title=" ".join(named[0]), inputs=[f"{name}!" for name in named[0]], outputs=named[1])
    return tags(_visible(text))


def _notebook(named: Named) -> Any:
    found = MODEL.with_names(*named)._repr_html_()
    return tags(_visible(found))


def _svg(named: Named) -> Any:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # of letters that the typeface lacks
        MODEL.plot(X, inputs=named[0], outputs=named[1]).savefig(stream, format="svg")
    tree = ElementTree.fromstring(_visible(stream.getvalue().decode()))
    # Letters are drawn as paths that are used again.
    return {node.tag for node in tree.iter()}


def _onnx(named: Named) -> Any:
    """A name is written as it is, or refused."""
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.onnx")
        try:
            MODEL.save_onnx(path, input_name=named[0][0], output_name=named[1][0])
        except dc.InputError as error:
            _visible(str(error))
            return True
        graph = onnx.load(path).graph
    found = (graph.input[0].name, graph.output[0].name)
    return found == (named[0][0], named[1][0]) and not hidden("".join(found))


def _model_file(named: Named) -> Any:
    """Names are read as they were written, or refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.safetensors")
        model = MODEL.with_names(*named)
        model.save(path)
        read = dc.Decoupling.load(path)
    return (read.inputs, read.outputs) == named


def _command(named: Named) -> Any:
    """What `decouple` says of a table with these names, and the messages about names that are not there."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from click.testing import CliRunner

    from decouply.cli._main import decouply

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "t.parquet"))
        try:
            pq.write_table(pa.table(dict(zip((*named[0], *named[1]), np.hstack([X, MODEL(X)]).T, strict=True))), path)
        except UnicodeError:  # halves of surrogate pairs: no such file
            return True
        words = ["fit", path, "--ranks", "1", "--degrees", "1", "--n-starts", "1", "--formula", "text"]
        done = CliRunner().invoke(decouply, words)
        _visible(done.output)
        if isinstance(done.exception, dc.DecouplingError):  # names that are the same without blanks around them
            _visible(str(done.exception))
        elif done.exception is not None:
            raise done.exception
        try:
            dc.Samples.load(path, inputs=[named[0][0] + "!"])
        except dc.InputError as error:
            _visible(str(error))
            return len(str(error).splitlines()) == 1
    raise AssertionError("a column that is not there was found")


WRITERS: dict[str, Callable[[Named], Any]] = {
    "text": _text,
    "html": _html,
    "latex": _latex,
    "python": _python,
    "values of the source": _values_of_source,
    "sympy": _sympy,
    "c": _c,
    "matlab": _matlab,
    "step in c": _step("c", C_COMMENT),
    "step in matlab": _step("matlab", "%[^\n]*"),
    "fmu": _fmu,
    "page": _page,
    "notebook": _notebook,
    "svg": _svg,
    "onnx": _onnx,
    "model file": _model_file,
    "command line": _command,
}


def hostile_names(rng: np.random.Generator) -> Named:
    """Two inputs and two outputs, made of one to three pieces."""
    found: list[str] = []
    while len(found) < 4:
        name = "".join(str(piece) for piece in rng.choice(np.array(PIECES, dtype=object), int(rng.integers(1, 4))))
        near = {unicodedata.normalize("NFKC", other) for other in found}
        if name.strip() and unicodedata.normalize("NFKC", name) not in near:
            found.append(name)
    if rng.random() < _SAME:
        found[2:] = rng.permutation(np.array(found[:2], dtype=object)).tolist()
    return (found[0], found[1]), (found[2], found[3])


def names(count: int, seed: int) -> Iterator[Outcome]:
    """So many sets of names, each given to one writer."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        yield written(list(WRITERS)[i % len(WRITERS)], hostile_names(rng))


def written(writer: str, named: Named) -> Outcome:
    """Whether what is written has the structure that plain names give."""
    trial = f"{writer}, {named!a}"
    try:
        found = WRITERS[writer](named)
    except Exception as error:
        return Outcome("escape", trial, repr(error)[:300])
    return Outcome(FINE, trial) if found == _plain(writer) else Outcome("escape", trial, f"{found!a}"[:300])


@cache
def _plain(writer: str) -> Any:
    return WRITERS[writer](PLAIN)
