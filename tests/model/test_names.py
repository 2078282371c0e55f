"""Names of others are shown, and never obeyed: by Python, a terminal, a browser or LaTeX."""

import ast
import dataclasses
import io
import json
import re
import tokenize
import unicodedata
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

import decouply as dc
from decouply.model._names import as_html, as_latex, is_python_name, label, names, printable, python_names
from decouply.report._layout import Layout
from decouply.report._page import page
from decouply.samples.readers._by_extension import read_samples
from decouply.write._notebook import result_html
from tests.cli import run_here
from tests.robustness.names import BIDI, BREAKS, hidden, shape, tags
from tests.strategies import points, sampled

CODE = "a\nopen('x')"
LONG = "a" * 5000
HOSTILE = [
    *(f"a{b}open('x')" for b in BREAKS),
    *BREAKS,
    *BIDI,
    *("__debug__", "class", "None", "True", "match", "f", "ｆ", "cos", "ｃｏｓ", "u1", "z1", "uu", "_", "x²", "৴", "1"),
    *("", " ", "x y", "$x$", "<script>", "</script>", "'><b>", "\x1b[31m", "\x9b31m", "\x07", "\x00", "\x7f", "\ud800"),
    *("'''", '"', "\\", "\\\\ \\input{x}", "}", "{x}", "^", "~", "&", "#", "%", "`", "*/", "-->", LONG),
    *("coding: unicode_escape \\u000aopen('x')", "coding", "coding !"),
]
MODEL = dc.systems.random_system((2, 2, 1), (2,), rng=0)
WAVE = dc.Decoupling(
    [np.eye(2), [[1.0, -2.0]]], [dc.Functions(dc.bases.Trigonometric(3), np.arange(8.0).reshape(2, 4))]
)


def short(name):
    return ascii(name)[:30]


def usable(name):
    """Whether it can be given for a signal at all; others are refused."""
    return bool(name.strip())


# Labels


@pytest.mark.parametrize("name", HOSTILE, ids=short)
def test_labels_are_one_short_line_that_can_be_seen(name):
    text = label(name)
    assert text.strip() and len(text) <= 80 and not hidden(text) and len(text.splitlines()) == 1
    assert label(text) == text
    assert text.encode()


@given(st.text(st.characters()))
def test_any_label_is_harmless(name):
    assert not hidden(label(name)) and len(label(name).splitlines()) == 1
    assert not hidden(printable(name)) and printable(name).count("\n") == name.count("\n")
    assert "<" not in as_html(name)
    assert not re.search(r"[^\\][%&#$_]", as_latex(name)) and "\n" not in as_latex(name)


def test_plain_names_stay_as_they_are():
    for name in ("x1", "air temp (°C)", "Größe [m²]", "流量", "می‌خواهم", "$x$", "a" * 80):
        assert label(name) == name
    assert label("Temp\r\n(°C)") == "Temp (°C)"
    assert label("\x1b[31mred") == "\ufffd[31mred" and label("a" * 81) == "a" * 79 + "…"
    assert printable("a\nb\tc\x1b") == "a\nb c\ufffd"


def test_names_whose_labels_are_the_same_are_numbered():
    found = names("inputs", ["a" * 200 + "1", "a" * 200 + "2", "b\n", "b\r"], "x", 4)
    assert [n.text for n in found] == ["a" * 79 + "…", "a" * 79 + "… (2)", "b", "b (2)"]


def test_latex_has_no_commands_of_others():
    assert as_latex("x") == "x" and as_latex("a_b") == r"\mathrm{a\_b}"
    assert as_latex("\\input{x}") == r"\mathrm{{\backslash}input\{x\}}"


# Python names


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["x1", "flow_rate", "_a"], ("x1", "flow_rate", "_a")),
        (["a b", "a_b", "a-b"], ("a_b", "a_b_", "a_b__")),
        (["1st", "°", "", "f", "lambda"], ("v_1st", "v", "v_", "f_", "lambda_")),
        (["Größe [m²]", "x²", "৴"], ("Größe_m2", "x2", "v")),
        (["ｆ", "ｃｏｓ", "None", "__debug__", "match"], ("f_", "cos_", "None_", "debug", "match")),
        ([CODE, "a" * 5000], ("a_open_x", "a" * 80)),
    ],
)
def test_any_names_become_different_python_names(given, expected):
    assert python_names(given) == expected


@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(st.characters()))))
def test_python_names_are_identifiers_as_python_reads_them(given):
    found = python_names(given)
    assert len(set(found)) == len(given)
    for name in found:
        assert is_python_name(name) and unicodedata.normalize("NFKC", name) == name
        ast.parse(f"def f({name}): {name} = 0")


# Source


@pytest.mark.parametrize("model", [MODEL, WAVE], ids=["polynomial", "wave"])
@pytest.mark.parametrize("name", HOSTILE, ids=short)
def test_source_has_the_same_tree_whatever_the_names(model, name):
    plain = model.with_names(("p", "q"), ("r",)).formula("python")
    for inputs, outputs in ((("p", name), ("r",)), ((name, "q"), ("r",)), (("p", "q"), (name,))):
        if not name.strip():
            with pytest.raises(dc.InputError, match="none of them empty"):
                model.with_names(inputs, outputs)
            continue
        source = model.with_names(inputs, outputs).formula("python")
        assert shape(source) == shape(plain) and not hidden(source)
        kinds = [type(node) for node in ast.parse(source).body]
        assert kinds == [ast.ImportFrom] * (model is WAVE) + 2 * [ast.FunctionDef]
        # Saved to a file, too: no name declares the coding that the file is read by.
        coding, _ = tokenize.detect_encoding(io.BytesIO(source.encode()).readline)
        assert coding == "utf-8" and ast.parse(source.encode())


@pytest.mark.parametrize("name", HOSTILE, ids=short)
def test_formulas_show_labels_and_take_python_names_only(name):
    if not usable(name):
        with pytest.raises(dc.InputError, match="must be 2 names"):
            MODEL.formula(inputs=["p", name])
        return
    for kind, lines in (("text", 5), ("html", 5), ("latex", 7)):
        written = MODEL.formula(kind, inputs=["p", name], outputs=["r"])
        assert not hidden(written) and len(written.splitlines()) == lines
    for kind in ("python", "sympy"):
        if is_python_name(name):
            assert MODEL.formula(kind, inputs=["p", name], outputs=["r"])
        else:
            with pytest.raises(dc.InputError, match="must be Python names") as caught:
                MODEL.formula(kind, inputs=["p", name], outputs=["r"])
            assert not hidden(str(caught.value)) and len(str(caught.value)) < 400
    source = MODEL.formula("python", inputs=["p", name]) if is_python_name(name) else MODEL.formula("python")
    assert shape(source) == shape(MODEL.formula("python"))


# Pages and pictures


@pytest.fixture(scope="module")
def result():
    return dc.decouple(sampled(MODEL), 2, 2, n_starts=2, progress=False)


@pytest.fixture(scope="module")
def plain_tags(result):
    """Of pages with a second input of a name that is none in Python, about which it has a sentence, and of one."""
    return [tags(page(result, title="t", inputs=["p", name], outputs=["r"])) for name in ("q!", "q")]


@pytest.mark.parametrize("name", [n for n in HOSTILE if usable(n)], ids=short)
def test_the_page_has_the_same_tags_whatever_the_names(result, plain_tags, name):
    text = page(result, title=f"t {name}", inputs=["p", name], outputs=["r"])
    assert tags(text) == plain_tags[is_python_name(name)]
    assert not hidden(text) and text.encode()
    flow = re.search(r'<script type="application/json" id="flow">(.*?)</script>', text, re.DOTALL)
    assert json.loads(flow[1])["inputs"][1]["name"] == label(name)


def test_notebooks_and_commands_show_no_codes(result):
    noted = dataclasses.replace(result, notes=("\x1b[31m <b> \u202e \ud800",))
    for text in (result_html(noted), page(noted, title="t", command="decouply fit \x1b[31m\udcff")):
        assert not hidden(text) and text.encode() and "&lt;b&gt;" in text


@pytest.mark.parametrize("name", [CODE, "$x$", "$", "\\", "{x}", "\x1b[31m", "\u202e", "ｆ", "\ud800", LONG], ids=short)
def test_figures_draw_labels_without_mathtext(result, name):
    for node in Layout.of_result(result, inputs=["p", name], outputs=[name]).nodes:
        assert not hidden(node.label + node.name) and "\n" not in node.label + node.name

    def figures(called):
        return result.plot(inputs=["p", called], outputs=[called]), result.plot_fit(outputs=[called])

    for figure, plain in zip(figures(name), figures("q"), strict=True):
        assert mathtext(figure) == mathtext(plain)
        shown = [text.get_text() for text in figure.findobj(Text)]
        assert not any(hidden(text) for text in shown) and any(label(name)[:20] in text for text in shown)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph", UserWarning)  # of letters that the typeface lacks
            figure.savefig(io.BytesIO(), format="png")


def mathtext(figure):
    return [t.get_text() for t in figure.findobj(Text) if "$" in t.get_text() and t.get_parse_math()]


@pytest.mark.parametrize("name", [*BREAKS, *BIDI, CODE, "\x1b[31m", "\ud800"], ids=short)
def test_onnx_takes_no_codes(name, tmp_path):
    with pytest.raises(dc.InputError, match=r"`input_name` must .* without line breaks"):
        MODEL.save_onnx(tmp_path / "m.onnx", input_name=f"a{name}b")


# The command line

X = points(2, 60)
Y = (X[:, 0] + 2 * X[:, 1]) ** 2 + 0.5 * X[:, 0]
COLUMNS = {CODE: 1.0 + X[:, 0], "\x1b[31m\u202eb\r\u2028open('x')": X[:, 1], "y": Y}


def write(path):
    if path.suffix == ".parquet":
        pq.write_table(pa.table(COLUMNS), path)
    elif path.suffix == ".npz":
        np.savez(path, **COLUMNS)
    else:
        np.save(path, np.array(list(zip(*COLUMNS.values(), strict=True)), dtype=[(name, float) for name in COLUMNS]))
    return path


def run(line, cwd):
    done = run_here(line, cwd)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("ending", [".npz", ".parquet", ".npy"])
def test_columns_of_a_file_never_become_code_nor_codes(ending, tmp_path):
    file = write(tmp_path / f"data{ending}")
    assert read_samples(file, outputs=["y"]).samples.inputs == tuple(COLUMNS)[:2]
    options = ["--outputs", "y", "--ranks", "2", "--degrees", "2", "--n-starts", "2", "--formula"]
    code, out, err = run(["fit", file.name, *options, "python", "--report", "r.html"], tmp_path)
    assert code == 0, err
    assert not hidden(out + err) and not hidden((tmp_path / "r.html").read_text())
    source = out[out.index("# coding") : out.index("Report: ")]
    assert [type(node) for node in ast.parse(source).body] == 2 * [ast.FunctionDef]
    code, out, err = run(["fit", file.name, *options, "python", "--json"], tmp_path)
    content = json.loads(out)
    model = ast.parse(content["formula"])
    assert [(type(node), node.name) for node in model.body] == [(ast.FunctionDef, "f"), (ast.FunctionDef, "f_jacobian")]
    assert content["inputs"] == list(COLUMNS)[:2]
    assert ast.parse(source).body[0].args.args[0].arg == model.body[0].args.args[0].arg == "a_open_x"


@pytest.mark.slow
def test_messages_and_tables_show_no_codes(tmp_path):
    file = write(tmp_path / "data.npz")
    for line in (
        ["fit", file.name, "--inputs", "x", "--ranks", "1", "--degrees", "1"],
        ["fit", file.name, "--inputs", "\x1b[31m", "--ranks", "1", "--degrees", "1"],
        ["fit", "\x1b[31m.npz", "--inputs", "x", "--ranks", "1", "--degrees", "1"],
        ["select", file.name, "--outputs", "y", "--max-ranks", "1", "--max-degrees", "2"],
        ["fit", file.name, "--outputs", "y", "--ranks", "1", "--degrees", "2", "--formula", "text"],
    ):
        code, out, err = run(line, tmp_path)
        assert code == (0 if "y" in line else 2), err
        assert "\ufffd" in out + err and not hidden(out + err)
