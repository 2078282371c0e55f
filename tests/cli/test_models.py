"""From a file to a model and from a model file to everything else, on the command line."""

import re
import shutil
import zipfile

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import decouply as dc
from decouply.cli._columns import _asked, chosen_columns
from decouply.cli._main import decouply
from decouply.cli._options import NameList, by_options
from decouply.cli._output import csv_text
from decouply.model._names import printable
from decouply.samples.readers._table import look
from decouply.samples.readers._table_files import CsvTable
from tests.cli import run_here

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 2))
Y = (X[:, 0] + X[:, 1]) ** 3


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{a},{b},north,7,{y}" for (a, b), y in zip(X, Y, strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(["lift,load,site,rig,flow", *lines]))
    samples = dc.Samples(X, F=Y[:, None], inputs=["lift", "load"], outputs=["flow"])
    dc.decouple(samples, 1, 3, progress=False).save(tmp_path / "model.safetensors")
    return tmp_path


def run(*arguments):
    done = CliRunner().invoke(decouply, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_look_tells_numbers_texts_constants_and_times(tmp_path):
    file = tmp_path / "a.csv"
    rows = [f"2024-05-{d + 1:02d},{d},x,1,{RNG.normal()}" for d in range(25)]
    file.write_text("\n".join(["when,time [s],kind,rig,y", *rows]))
    found = look(CsvTable(file))
    assert [c.kind for c in found.columns] == ["time", "time", "text", "constant", "number"]
    assert [c.words for c in found.columns[:4]] == ["dates", "time, 0 to 24", "text", "always 1"]
    assert found.usable == ("y",) and "`when` holds times" in found.series and found.n_rows == 25


def test_dates_that_jump_back_are_no_time_series(tmp_path):
    file = tmp_path / "a.csv"
    rows = [f"2024-05-{d:02d},{RNG.normal()},{RNG.normal()}" for d in (3, 17, 9, 21, 2)]
    file.write_text("\n".join(["when,x,y", *rows]))
    found = look(CsvTable(file))
    assert found.columns[0].kind == "time" and found.series == ""


def test_rows_that_hardly_change_are_a_time_series(tmp_path):
    t = np.arange(200) / 10
    np.savetxt(tmp_path / "a.csv", np.stack([np.sin(t), np.cos(t)], axis=1), delimiter=",", header="u,y", comments="")
    assert "`u`, `y` hardly change from row to row" in look(CsvTable(tmp_path / "a.csv")).series
    _, _, notes = chosen_columns(str(tmp_path / "a.csv"), silent=True)
    assert "decouply identify" in notes[1] and "--inputs u --outputs y" in notes[1]


def test_fit_with_a_table_alone_says_what_it_found_and_chooses(folder):
    out = run("fit", "data.csv", "--ranks", "1", "--degrees", "3", "--model", "new.safetensors")
    assert "60 rows, 5 columns" in out and "always 7" in out and "text" in out
    assert "The output is flow, the inputs are lift, load" in out and "Exact" in out
    assert dc.Result.load(folder / "new.safetensors").decoupling.inputs == ("lift", "load")


def test_a_choice_of_columns_is_told_with_its_reasons_whatever_is_printed(folder):
    lines = [f"{a},{b},{y},7,," for (a, b), y in zip(X, Y, strict=True)]
    (folder / "const.csv").write_text("\n".join(["lift,load,flow,rig,gone,", *lines]))
    for options in (("--json",), ()):
        done = CliRunner().invoke(decouply, ["fit", "const.csv", "--ranks", "1", "--degrees", "3", *options])
        assert done.exit_code == 0, done.output
        assert (
            "The output is flow, the inputs are lift, load; left out: rig (always 7), gone (no numbers)." in done.stderr
        )
    done = CliRunner().invoke(decouply, ["fit", "const.csv", "--ranks", "1", "--degrees", "3", "--quiet"])
    assert done.output == ""
    (folder / "one.csv").write_text("lift,rig\n1,7\n2,7\n")
    done = CliRunner().invoke(decouply, ["fit", "one.csv"])
    assert "It has lift; left out: rig (always 7)." in str(done.exception)


def test_columns_of_derivatives_are_not_taken_for_signals(folder):
    slope = 3 * (X[:, 0] + X[:, 1]) ** 2
    table = np.column_stack([X, Y, slope, slope])
    np.savetxt("slopes.csv", table, delimiter=",", header="a,b,y,dy/da,dy/db", comments="")
    assert chosen_columns("slopes.csv", silent=True)[:2] == (("a", "b"), ("y",))


def test_fit_asks_on_a_terminal(folder, monkeypatch):
    answers = iter([("lift",), ("load", "flow")])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("decouply.cli._columns._asked", lambda *_: next(answers))
    assert chosen_columns("data.csv", silent=False)[:2] == (("load", "flow"), ("lift",))


def test_predictions_are_the_models_and_rows_beyond_are_told(folder):
    (folder / "new.csv").write_text("load,lift\n0.1,0.2\n9,9\n,1\n")
    done = run_here(["predict", "model.safetensors", "new.csv"], folder)
    assert done.stdout.splitlines() == [
        "lift,load,flow_predicted",
        "0.2,0.1,0.027",
        *done.stdout.splitlines()[2:3],
        "1,,",
    ]
    assert "1 row of 3" in done.stderr and "1 row with missing" in done.stderr


@pytest.mark.parametrize(
    ("kind", "ending", "piece"),
    [
        ("c", "c", "void f("),
        ("python", "py", "def f("),
        ("matlab", "m", "function [y, J] = model(x)"),
        ("latex", "tex", "\\"),
    ],
)
def test_models_are_exported_beside_their_files(folder, kind, ending, piece):
    assert f"model.{ending}" in run("export", "model.safetensors", "--format", kind)
    assert piece in (folder / f"model.{ending}").read_text()


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for the binary of an FMU: install one")
def test_models_are_exported_as_fmus(folder):
    assert "model.fmu" in run("export", "model.safetensors", "--format", "fmu")
    with zipfile.ZipFile(folder / "model.fmu") as archive:
        assert b'name="load"' in archive.read("modelDescription.xml")
    done = CliRunner().invoke(decouply, ["export", "model.safetensors", "--format", "fmu", "--sampling-time", "0.1"])
    assert done.exit_code == 2 and "no memory" in done.output


@pytest.mark.parametrize(
    ("stem", "near"),
    [
        ("while", "model_while"),
        ("1abc", "model_1abc"),
        ("my-model", "my_model"),
        ("tanh", "model_tanh"),
        ("a" * 70, "a" * 63),
        ("_x", "model__x"),
    ],
)
def test_matlab_functions_have_legal_names(stem, near, folder):
    (folder / "model.safetensors").rename(folder / f"{stem}.safetensors")
    export = ("export", f"{stem}.safetensors", "--format", "matlab")
    done = CliRunner().invoke(decouply, [*export, "--to", f"{stem}.m"], terminal_width=1000)
    assert done.exit_code == 2 and "must have the name of a function" in done.output, done.output
    assert f"take {near}.m" in done.output and not list(folder.glob("*.m"))
    run(*export)
    assert f"function [y, J] = {near}(x)\n" in (folder / f"{near}.m").read_text()
    run(*export, "--to", "f.m")
    assert "function [y, J] = f(x)\n" in (folder / "f.m").read_text()
    run("export", f"{stem}.safetensors", "--format", "c", "--to", "int.c")  # C does not look at names of files
    assert "void f(" in (folder / "int.c").read_text()


def test_pictures_and_pages_come_from_the_file_and_wrong_endings_are_refused(folder):
    run("plot", "model.safetensors", "--what", "functions", "--to", "g.svg")
    run("report", "model.safetensors")
    assert "<svg" in (folder / "g.svg").read_text() and "flow" in (folder / "model.html").read_text()
    for words in (
        ["plot", "model.safetensors", "--to", "a.onnx"],
        ["report", "model.safetensors", "--to", "a.png"],
        ["export", "model.safetensors", "--format", "c", "--to", "a.onnx"],
        ["fit", "data.csv", "--model", "model.onnx"],
    ):
        done = CliRunner().invoke(decouply, words)
        assert done.exit_code == 2 and "must end in" in done.output


def test_every_picture_has_a_file_of_its_name(folder):
    for what in ("network", "functions"):
        assert f"Picture: model-{what}.png\n" in run("plot", "model.safetensors", "--what", what)
    assert {path.name for path in folder.glob("*.png")} == {"model-network.png", "model-functions.png"}


def test_inputs_can_be_left_out_of_predictions(folder):
    (folder / "new.csv").write_text("load,lift\n0.1,0.2\n")
    assert run("predict", "model.safetensors", "new.csv", "--only") == "flow_predicted\n0.027\n"


def test_help_begins_with_what_it_is_for_and_lists_commands_by_purpose():
    text = run("--help")
    assert text.splitlines()[2].strip() == "Find the curves inside a table, a record or a network."
    heads = [line[:-1] for line in text.splitlines() if re.fullmatch(r"[A-Z][a-z ]+:", line)]
    assert heads == ["Options", "Fit", "Use a model", "Look at a model", "Networks", "Try"]


@pytest.mark.parametrize("command", sorted(decouply.commands))
def test_help_fits_eighty_columns(command):
    text = CliRunner().invoke(decouply, [command, "--help"], terminal_width=80).output
    examples = [line for line in text.splitlines() if line.startswith("  decouply ")]
    assert examples or command in ("demo", "show")
    assert max(len(line) for line in text.splitlines() if line not in examples) <= 80


def test_notes_call_arguments_by_the_options_that_exist():
    context = click.Context(decouply.commands["fit"], parent=click.Context(decouply, info_name="decouply"))
    with context:
        told = by_options("Raise `max_seconds` or `max_ranks`; `nothing` is no option.")
    assert told == "Raise --max-seconds or --max-ranks of `decouply select`; `nothing` is no option."


def test_a_model_alone_has_no_page(folder):
    dc.systems.f2().save(folder / "alone.safetensors")
    with pytest.raises(dc.InputError, match="without its samples"):
        run("report", "alone.safetensors")


def test_names_of_columns_are_completed(folder):
    command = decouply.commands["fit"]
    context = click.Context(command)
    context.params["file"] = str(folder / "data.csv")
    found = NameList().shell_complete(context, command.params[0], "lift,l")
    assert [item.value for item in found] == ["lift,load"]


def test_no_name_that_a_shell_would_obey_is_completed(folder):
    names = ["$(touch x)", "`touch x`", "a;b", "a b", "a\nb", "-x", "a'b", "\x1b[31m", "~", "*", "Größe", "dy/dx"]
    pq.write_table(pa.table({name: [0.0] for name in names}), folder / "names.parquet")
    context = click.Context(decouply.commands["fit"])
    context.params["file"] = str(folder / "names.parquet")
    found = NameList().shell_complete(context, context.command.params[0], "")
    assert [item.value for item in found] == ["Größe", "dy/dx"]


def test_questions_show_labels_and_understand_them(monkeypatch):
    hostile = ("\x1b]0;x\x07a", "a\nb", "y,z\x9b")
    shown = []

    def prompt(question, *, default, value_proc):
        shown.append(question + default)
        with pytest.raises(click.BadParameter) as caught:
            value_proc("c")
        shown.append(caught.value.message)
        return value_proc(default)

    monkeypatch.setattr("click.prompt", prompt)
    assert _asked("Inputs", hostile[1:], hostile) == hostile[1:]
    assert all(text == printable(text) and "\n" not in text for text in shown)


def test_tables_of_predictions_have_labels():
    assert csv_text(["a\nb", "\x1b[31m", "c,d"], [[1.0, float("nan"), 2.0]]) == 'a b,\ufffd[31m,"c,d"\n1.0,,2.0\n'
