"""`decouply fit` on tables: names in, names out."""

import json

import numpy as np
import pytest

import decouply as dc
from decouply.cli import _main
from tests.cli import run_here
from tests.strategies import points

X = points(2, 60)
Y = (X[:, 0] + 2 * X[:, 1]) ** 2 + 0.5 * X[:, 0]
ODD = ("air temp (°C)", "class")


def fit(line, cwd):
    return run_here(["fit", *line, "--ranks", "2", "--degrees", "2", "--n-starts", "4"], cwd)


@pytest.fixture
def folder(tmp_path):
    np.savetxt(tmp_path / "data.csv", np.column_stack([X, Y]), delimiter=",", header="x1,x2,y", comments="")
    np.savetxt(tmp_path / "bare.csv", np.column_stack([X, Y]), delimiter=",")
    return tmp_path


def test_a_table_is_fitted_by_the_names_of_its_columns(folder):
    done = fit(["data.csv", "--inputs", "x1,x2", "--outputs", "y", "--json", "--formula", "text"], folder)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert (content["inputs"], content["outputs"]) == (["x1", "x2"], ["y"])
    assert content["error_values"] < 1e-20 and content["error_jacobian"] is None
    assert not any("Jacobians" in note for note in content["notes"])  # varpro needs none
    assert "x2" in content["formula"] and "\ny = " in content["formula"]


def test_people_are_told_what_was_read_and_how(folder):
    done = fit(["bare.csv", "--outputs", "3", "--formula", "python"], folder)
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "columns are numbered from 1" in shown and "Inputs: 1, 2 (all columns but the outputs)" in shown
    assert "def f(c1, c2):" in done.stdout
    assert fit(["data.csv", "--outputs", "y", "--quiet", "--formula", "text"], folder).stdout == ""


@pytest.mark.parametrize("asked", [(), ("--outputs", "y")])
def test_select_chooses_columns_as_fit_does(folder, asked):
    done = run_here(["select", "data.csv", *asked, "--max-ranks", "1", "--max-degrees", "3"], folder)
    assert done.returncode == 0, done.stderr
    assert ("The output is y, the inputs are x1, x2." in " ".join(done.stderr.split())) is not bool(asked)
    assert f"Next: decouply fit data.csv {''.join(f'{word} ' for word in asked)}--ranks 1" in done.stdout


@pytest.mark.slow
def test_jacobians_are_estimated_when_asked_for(folder):
    refused = fit(["data.csv", "--outputs", "y", "--solver", "proj"], folder)
    assert refused.returncode == 2 and "estimate_jacobians" in refused.stderr
    done = fit(
        ["data.csv", "--outputs", "y", "--solver", "proj", "--estimate-jacobians", "--holdout", "0.2", "--json"], folder
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["error_jacobian"] < 0.05
    assert any("estimated from the values" in note for note in content["notes"])


def test_a_validation_file_is_read_with_the_same_columns(folder):
    done = fit(["data.csv", "--outputs", "y", "--validation", "data.csv", "--json"], folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["validation_relative_rmse_percent"][0] < 1e-6
    wrong = fit(["data.csv", "--outputs", "y", "--validation", "bare.csv"], folder)
    assert wrong.returncode == 2 and "`bare.csv`" in wrong.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["data.csv", "--inputs", "X1", "--outputs", "y"], "Did you mean `x1`?"),
        (["data.csv", "--inputs", ",", "--outputs", "y"], "a list of names"),
        (["data.csv", "--inputs", "x\n1", "--outputs", "y"], "line breaks in quotes"),
        (["data.csv", "--outputs", "y", "--jacobians"], "Missing: `dy/dx1`, `dy/dx2`"),
        (["holes.csv", "--outputs", "y"], "(line 3): repair them, or leave them out"),
        (["data.csv", "--outputs", "y", "--formula", "poem"], "is not one of"),
        (["full.npz", "--estimate-jacobians"], "--no-jacobians"),
    ],
)
def test_mistakes_give_one_message_and_exit_code_2(line, message, folder):
    (folder / "holes.csv").write_text("x1,y\n1,2\n,3\n4,5\n")
    np.savez(folder / "full.npz", X=X, F=Y, J=np.ones((60, 1, 2)))
    done = run_here(["fit", *line, "--ranks", "2", "--degrees", "2"], folder)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr


def test_rows_with_holes_are_left_out_when_asked_for(folder):
    text = (folder / "data.csv").read_text() + "NA,1,2\n"
    (folder / "data.csv").write_text(text)
    done = fit(["data.csv", "--outputs", "y", "--drop-missing", "--json"], folder)
    assert done.returncode == 0, done.stderr
    assert any("Left out: 1 of 61 rows" in note for note in json.loads(done.stdout)["notes"])


def test_inputs_far_from_0_are_fitted_without_a_word(folder):
    table = np.column_stack([X[:, 0] + 300.0, 1e-3 * X[:, 1], Y])
    np.savetxt(folder / "far.csv", table, delimiter=",", header="x1,x2,y", comments="", fmt="%.17g")
    done = fit(["far.csv", "--outputs", "y", "--json"], folder)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["error_values"] < 1e-20
    assert len(content["notes"]) == 2 and not any("hard to fit" in note for note in content["notes"])


def test_a_linear_part_is_fitted_counted_written_and_shown(folder):
    words = ["--linear", "--json", "--formula", "text", "--model", "m.safetensors", "--report", "r.html"]
    done = fit(["data.csv", "--outputs", "y", *words], folder)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["linear"] is True and content["error_values"] < 1e-20
    model = dc.Decoupling.load(folder / "m.safetensors")
    assert model.linear.shape == (1, 2) and (model.inputs, model.outputs) == (("x1", "x2"), ("y",))
    page = (folder / "r.html").read_text()
    assert "linear=True" in page and "plus a linear part" in page and "--linear" in page
    assert np.allclose(model(X)[:, 0], Y)
    line = ["show", "m.safetensors"]
    shown = " ".join(run_here(line, folder).stdout.split())
    assert "A, 1 x 2: the linear part" in shown and "Inputs: x1, x2" in shown
    told = json.loads(run_here([*line, "--json"], folder).stdout)
    assert np.allclose(told["linear"], model.linear) and np.allclose(told["g"][0]["domain"], model.g[0].domain)
    table = fit(["data.csv", "--outputs", "y", "--linear"], folder)
    assert "linear part" in table.stdout


def test_data_can_be_taken_as_given(folder):
    words = ["--as-given", "--json", "--report", "r.html"]
    done = fit(["data.csv", "--outputs", "y", *words], folder)
    assert done.returncode == 0, done.stderr
    assert "as_given=True" in (folder / "r.html").read_text()
    assert json.loads(done.stdout)["error_values"] < 1e-4


def test_names_of_signals_reach_the_page_with_what_was_read(folder):
    done = fit(["bare.csv", "--outputs", "3", "--report", "r.html"], folder)
    assert done.returncode == 0, done.stderr
    page = (folder / "r.html").read_text()
    assert ">c1<" in page and ">c3<" in page and "columns are numbered from 1" in page


def test_a_scan_tells_machines_how_the_file_was_read(folder):
    words = ["select", "bare.csv", "--outputs", "3", "--max-ranks", "1", "--max-degrees", "2", "--json"]
    done = run_here(words, folder)
    assert any("numbered from 1" in note for note in json.loads(done.stdout)["notes"]), done.stderr


def test_names_that_cannot_be_told_apart_are_refused_before_any_work(folder, monkeypatch):
    (folder / "twins.csv").write_text("x2,x²,y\n1,2,3\n2,3,4\n")
    monkeypatch.chdir(folder)
    begun = []
    monkeypatch.setattr(dc, "decouple", lambda *_, **__: begun.append(1))
    words = ["fit", "twins.csv", "--outputs", "y", "--ranks", "1", "--degrees", "1", "--formula", "text"]
    with pytest.raises(dc.InputError, match="2 different names"):
        _main.decouply.main(words, standalone_mode=False)
    assert not begun


def test_names_may_hold_commas_and_blanks(folder):
    table = np.column_stack([X, Y])
    np.savetxt(folder / "odd.csv", table, delimiter=";", header="in; x, first ;y out", comments="")
    done = fit(["odd.csv", "--inputs", 'in,"x, first"', "--outputs", "y out", "--json"], folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["inputs"] == ["in", "x, first"]


def test_names_that_python_does_not_take_are_changed_in_source_only():
    model = dc.systems.random_system((2, 2, 1), (2,), rng=0)
    named = model.with_names(ODD, ("y/x",))
    source = named.formula("python")
    comments = "# coding: utf-8\n# air_temp_C: air temp (°C)\n# class_: class\n# y_x: y/x\n"
    assert source.startswith(f"{comments}def f(air_temp_C, class_):\n")
    space = {}
    exec(source, space)
    assert np.allclose(space["f"](*X.T)[0], model(X)[:, 0])
    assert "air temp (°C)" in named.formula()
    assert "\\mathrm{class}" in named.formula("latex")
    half = model.with_names(None, ("y/x",)).formula("python")
    assert "# y_x: y/x" in half and "def f(x1, x2):" in half
