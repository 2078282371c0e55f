"""Files that new users have, and what they are told."""

import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import decouply as dc
from decouply.cli._main import decouply

X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
ROWS = np.column_stack([X, X.sum(axis=1) ** 2])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    samples = dc.Samples(X, F=ROWS[:, 2:], inputs=["a", "b"], outputs=["y"])
    dc.decouple(samples, 1, 2, progress=False).save("map.safetensors")
    (tmp_path / "folder").mkdir()
    (tmp_path / "table.xlsx").write_text("no text")
    write("good.csv", "a,b,y\n")
    return tmp_path


def write(path, head, delimiter=","):
    Path(path).write_text(head + "".join(delimiter.join(map(repr, row)) + "\n" for row in ROWS.tolist()))


def told(*arguments):
    """The message of a command that must fail, as the command line prints it."""
    done = CliRunner().invoke(decouply, [str(a) for a in arguments], terminal_width=1000)
    assert done.exit_code != 0, done.output
    return done.output if done.exit_code == 2 else str(done.exception)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,y\n", r"It has none; left out: a (no numbers), b (no numbers), y (no numbers)."),
        ("a;b\n1,5;2\n2,5;3\n", "Line 2 has '1,5', with a decimal comma"),
        (
            "a,b\nm,s\n1,2\n3,5\n",
            "Line 2 has 'm'. Leave this column out (inputs=, or --inputs, with the others), or write",
        ),
        ("a b\n1 2\n3 4\n", "Columns must be separated by commas, semicolons or tabs."),
        ("a,b\n1,2\n3\n", "Line 3 has 1: the file may have been cut off"),
        ("sep=;\n", "one line, about the delimiter"),
    ],
)
def test_a_table_without_numbers_is_told_why(text, message, folder):
    (folder / "odd.csv").write_text(text)
    assert message in told("fit", "odd.csv")


def test_a_line_of_units_can_be_a_remark(folder):
    write("units.csv", "a,b,y\n#m,s,kg\n")
    assert dc.Samples.load("units.csv", outputs="y").inputs == ("a", "b")


@pytest.mark.parametrize(("head", "delimiter"), [("sep=;\na;b;y\n", ";"), ('"sep=|"\na|b|y\n', "|")])
def test_spreadsheets_may_say_what_separates_their_columns(head, delimiter, folder):
    write("sheet.csv", head, delimiter)
    assert np.array_equal(dc.Samples.load("sheet.csv", inputs=["a", "b"], outputs="y").X, X)
    with Path("sheet.csv").open("a") as stream:
        stream.write(delimiter.join(["1", "2", "three"]))
    with pytest.raises(dc.SampleFileError, match="Line 43 has 'three'"):
        dc.Samples.load("sheet.csv", outputs="y")


def test_columns_without_names_are_called_columns(folder):
    write("bare.csv", "")
    done = CliRunner().invoke(decouply, ["fit", "bare.csv", "--ranks", "1", "--degrees", "2", "--json"])
    assert "The output is column 3, the inputs are column 1, column 2." in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "-"), "Standard input is not read"),
        (("predict", "map.safetensors", "-"), "Standard input is not read"),
        (("predict", "map.safetensors", "folder"), "is a directory"),
        (("predict", "map.safetensors", "nowhere.csv"), "File not found: nowhere.csv"),
        (("predict", "map.safetensors", "table.xlsx"), "It is none."),
        (("show", "folder"), "is a directory"),
        (("report", "-"), "Standard input is not read"),
        (("fit", "table.xlsx"), "save a table as .csv"),
    ],
)
def test_what_is_no_file_is_called_what_it_is(arguments, message, folder):
    assert message in told(*arguments)


def test_huge_numbers_are_refused_without_warnings(folder):
    with pytest.raises(dc.InputError, match=r"`X` must have a largest entry between .* Got .*e\+300"):
        dc.select(dc.Samples(X * 1e301, F=ROWS[:, 2:]), progress=False)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a directory in which nothing can be made")
def test_errors_name_the_file_that_was_asked_for(folder, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: True)
    with pytest.raises(OSError) as caught:
        dc.Decoupling.load("map.safetensors").save("/proc/map.safetensors")
    assert caught.value.filename == "/proc/map.safetensors"


@pytest.mark.slow
def test_dynamic_models_are_sent_to_the_commands_that_run_them(folder):
    u = np.random.default_rng(0).uniform(-1, 1, 200)
    y = np.zeros(200)
    for t in range(1, 200):
        y[t] = 0.7 * y[t - 1] - 0.1 * y[t - 1] ** 3 + u[t - 1]
    np.savetxt("record.csv", np.c_[u, y], delimiter=",", header="u,y", comments="")
    model = dc.sysid.DecoupledStateSpace(1, [dc.Monomial(3)]).fit(u, y, n_starts=1, progress=False)
    model.with_names(("u",), ("y",)).save("run.safetensors")
    assert "Use `decouply simulate run.safetensors record.csv`" in told("predict", "run.safetensors", "record.csv")
    assert "`--what` must be network" in told("plot", "run.safetensors", "--what", "fit")
    page = "decouply simulate run.safetensors record.csv --outputs y --report page.html"
    assert page in told("report", "run.safetensors")
    assert "must name 1 column, as in training (u)" in told(
        "simulate", "run.safetensors", "good.csv", "--inputs", "a,b"
    )
    assert CliRunner().invoke(decouply, page.split()[1:]).exit_code == 0
