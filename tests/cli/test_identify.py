"""`decouply identify` and `decouply simulate`."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from decouply.cli._columns import chosen_signals
from decouply.cli._main import decouply
from decouply.cli._options import Given

from . import tell_every_report


@pytest.fixture
def record(tmp_path):
    u = np.random.default_rng(0).uniform(-1, 1, 300)
    y = np.zeros(300)
    for t in range(1, 300):
        y[t] = 0.7 * y[t - 1] - 0.1 * y[t - 1] ** 3 + u[t - 1]
    table = tmp_path / "record.csv"
    np.savetxt(table, np.c_[u, y], delimiter=",", header="u,y", comments="")
    return table


def call(*arguments):
    return CliRunner().invoke(decouply, [str(a) for a in arguments])


@pytest.mark.slow
def test_a_record_becomes_a_model_a_page_and_a_simulation(record, tmp_path):
    model, page = tmp_path / "m.safetensors", tmp_path / "page.html"
    options = ("--inputs", "u", "--outputs", "y", "--states", 1, "--functions", "cubic", "--n-starts", 1)
    out = call("identify", record, *options, "--model", model, "--report", page, "--json", "--quiet")
    assert out.exit_code == 0, out.output
    found = json.loads(out.stdout)
    assert found["rmse"][0] < 1e-6 < found["linear_rmse"][0]
    assert "Identified model" in page.read_text(encoding="utf-8")
    out = call("simulate", model, record, "--inputs", "u", "--outputs", "y", "--to", tmp_path / "out.csv")
    assert out.exit_code == 0, out.output
    simulated = np.loadtxt(tmp_path / "out.csv", skiprows=1)
    np.testing.assert_allclose(simulated, np.loadtxt(record, delimiter=",", skiprows=1)[:, 1], atol=1e-6)
    alone = tmp_path / "u.csv"
    np.savetxt(alone, np.zeros(5), header="u", comments="")
    out = call("simulate", model, alone, "--inputs", "u")
    assert out.exit_code == 0, out.output
    assert out.stdout.splitlines()[0] == "y_hat"
    assert len(out.stdout.splitlines()) == 6


def test_without_further_options_the_model_is_one_to_trust(record, tmp_path):
    out = call(
        "identify",
        record,
        "--inputs",
        "u",
        "--outputs",
        "y",
        "--states",
        1,
        "--functions",
        "cubic",
        "--json",
        "--quiet",
    )
    assert out.exit_code == 0, out.output
    found = json.loads(out.stdout)
    assert found["is_bounded"] and found["reason"].startswith("1 state and the functions monomial")
    assert [row["functions"] for row in found["tried"]] == ["", "", "monomial"]
    assert found["tried"][-1]["note"] == "chosen" and found["rmse"][0] < 1e-6


def test_a_free_run_that_diverges_is_no_gap_in_the_record(record, monkeypatch):
    from decouply.sysid import DecoupledStateSpace

    monkeypatch.setattr(DecoupledStateSpace, "simulate", lambda self, u, y_init: np.full((len(u), 1), np.nan))
    out = call("identify", record, "--inputs", "u", "--outputs", "y", *SMALL[:-1])
    assert out.exit_code == 0, out.output
    assert "diverges on the record that it was fitted to" in out.output and "gap" not in out.output
    assert "Fit (%)" not in out.output


@pytest.mark.slow
def test_what_takes_long_says_how_far_it_is_where_there_is_no_terminal(record, tmp_path, monkeypatch):
    tell_every_report(monkeypatch)
    model, columns = tmp_path / "m.safetensors", ("--inputs", "u", "--outputs", "y")
    out = call("identify", record, *columns, "--functions", "cubic", "--n-starts", 3, "--model", model)
    assert out.exit_code == 0, out.output
    assert re.search(r"Identifying, linear model with \d states", out.stderr)
    assert re.search(r"Identifying, start 2 of 3 \(best so far: \S+ %\), objective", out.stderr)
    assert "Identifying" not in out.stdout
    out = call("identify", record, *columns, *SMALL, "--quiet")
    assert (out.exit_code, out.stdout) == (0, "")
    out = call("identify", record, *columns, "--narx")
    assert re.search(r"Identifying, \d+ of \d+, objective", out.stderr)
    assert "Running the model" in call("simulate", model, record, *columns).stderr


def test_wrong_options_are_named(record):
    out = call("identify", record, "--inputs", "u", "--outputs", "y", "--functions", "cubic,magic")
    assert out.exit_code == 2
    assert "'magic' is not one of" in out.output
    out = call("identify", record, "--inputs", "u", "--outputs", "y", "--narx", "--states", 2)
    assert out.exit_code == 2
    assert "leave --states out" in out.output


@pytest.mark.slow
def test_columns_keep_their_names_and_are_found_by_them(record, tmp_path):
    table, model = tmp_path / "named.csv", tmp_path / "m.safetensors"
    table.write_text(record.read_text().replace("u,y", "valve,level"))
    options = ("--inputs", "valve", "--outputs", "level", "--states", 1, "--functions", "spline", "--n-starts", 1)
    out = call("identify", table, *options, "--model", model)
    assert out.exit_code == 0, out.output
    assert "The simulation error is" in out.output
    assert "level =" in out.output
    page = tmp_path / "run.html"
    out = call("simulate", model, table, "--outputs", "level", "--to", tmp_path / "out.csv", "--report", page)
    assert out.exit_code == 0, out.output
    assert "error of level (RMSE)" in page.read_text(encoding="utf-8")
    out = call("simulate", model, table)
    assert out.exit_code == 0, out.output
    assert out.stdout.splitlines()[0] == "level_hat"
    out = call("simulate", model, table, "--report", page)
    assert out.exit_code == 2
    assert "name them by --outputs" in out.output


@pytest.mark.slow
def test_a_narx_model_is_identified_simulated_and_shown(record, tmp_path):
    model, page, run = (tmp_path / name for name in ("n.safetensors", "page.html", "run.html"))
    out = call("identify", record, "--inputs", "u", "--outputs", "y", "--narx", "--model", model, "--report", page)
    assert out.exit_code == 0, out.output
    text = page.read_text(encoding="utf-8")
    assert "a linear model with 1 past input and 2 past outputs" in text
    assert "Poles of the linear part" in text
    columns = ("--inputs", "u", "--outputs", "y")
    out = call("simulate", model, record, *columns, "--to", tmp_path / "out.csv", "--report", run)
    assert out.exit_code == 0, out.output
    simulated = np.loadtxt(tmp_path / "out.csv", skiprows=1)
    np.testing.assert_allclose(simulated, np.loadtxt(record, delimiter=",", skiprows=1)[:, 1], atol=0.05)
    assert run.exists()
    out = call("simulate", model, record, "--inputs", "u")
    assert out.exit_code == 2
    assert "begins with measured outputs" in out.output
    out = call("simulate", model, record, "--outputs", "y")  # another column might be called u by chance
    assert out.exit_code == 2
    assert "does not keep the names" in out.output


def test_held_back_data_choose_the_functions_that_nobody_names(record):
    rows = np.loadtxt(record, delimiter=",", skiprows=1)
    rows[:, 1] += 0.01 * np.random.default_rng(1).standard_normal(len(rows))
    np.savetxt(record, rows, delimiter=",", header="u,y", comments="")
    out = call(
        "identify", record, "--inputs", "u", "--outputs", "y", "--states", 1, "--n-starts", 1, "--json", "--quiet"
    )
    assert out.exit_code == 0, out.output
    reason = json.loads(out.stdout)["reason"]
    assert reason.startswith("Functions: cubic; ") and "% with cubic,state-tanh" in reason


def test_columns_are_asked_for_on_a_terminal_and_chosen_with_a_note_elsewhere(record, monkeypatch, capsys):
    given = Given(inputs=None, outputs=None, quiet=False, as_json=False)
    assert chosen_signals(str(record), given) == (("u",), ("y",))
    assert "The output is y, the inputs are u." in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("decouply.cli._columns._asked", lambda question, *_: ("u",) if "Output" in question else ("y",))
    assert chosen_signals(str(record), given) == (("y",), ("u",))


SMALL = ("--states", 1, "--functions", "cubic", "--n-starts", 1, "--quiet")


def test_a_file_without_names_is_found_again_by_the_numbers_of_its_columns(record, tmp_path):
    table, model = tmp_path / "bare.csv", tmp_path / "m.safetensors"
    table.write_text("".join(record.read_text().splitlines(keepends=True)[1:]))
    out = call("identify", table, "--inputs", 1, "--outputs", 2, *SMALL, "--model", model)
    assert out.exit_code == 0, out.output
    for columns in ((), ("--outputs", "c2"), ("--inputs", "1", "--outputs", "2")):
        out = call("simulate", model, table, *columns, "--to", tmp_path / "out.csv")
        assert out.exit_code == 0, out.output
    out = call("simulate", model, table, "--outputs", "c3")
    assert out.exit_code != 0
    assert "must name columns" in str(out.exception)


def test_times_of_a_record_are_a_column_or_a_number(record, tmp_path, capsys):
    table, model = tmp_path / "timed.csv", tmp_path / "m.safetensors"
    rows = np.loadtxt(record, delimiter=",", skiprows=1)
    times = 0.02 * np.arange(300)
    np.savetxt(table, np.c_[times, times**2, rows], delimiter=",", header="t,late,u,y", comments="")
    columns = ("--inputs", "u", "--outputs", "y", *SMALL, "--model", model)
    for given in ("t", 0.02):
        assert call("identify", table, *columns, "--sampling-time", given).exit_code == 0
        out = call("export", model, "--format", "fmu")
        assert out.exit_code == 0 and "every second" not in out.output
    for seconds, narx, told in ((None, False, True), ("t", False, False), (None, True, False)):
        given = Given(inputs=None, outputs=("y",), quiet=False, as_json=False, sampling_time=seconds, narx=narx)
        chosen_signals(str(table), given)
        assert ("add: --sampling-time t\n" in capsys.readouterr().err) is told
    out = call("identify", table, *columns, "--sampling-time", "late")
    assert out.exit_code == 1 and "must hold times in equal steps" in str(out.exception)


@pytest.mark.parametrize("ending", ["npz", "mat"])
def test_inputs_alone_are_read_from_files_of_arrays(record, ending, tmp_path):
    from scipy.io import savemat

    u, y = np.loadtxt(record, delimiter=",", skiprows=1).T
    table, model = tmp_path / f"record.{ending}", tmp_path / "m.safetensors"
    np.savez(table, u=u, y=y) if ending == "npz" else savemat(table, {"u": u, "y": y})
    out = call("identify", table, "--inputs", "u", "--outputs", "y", *SMALL, "--model", model)
    assert out.exit_code == 0, out.output
    out = call("simulate", model, table)
    assert out.exit_code == 0, out.output
    assert len(out.stdout.splitlines()) == 301


def test_inputs_alone_are_the_columns_of_stored_samples(record, tmp_path):
    u, y = np.loadtxt(record, delimiter=",", skiprows=1).T
    table, model = tmp_path / "samples.npz", tmp_path / "m.safetensors"
    np.savez(table, X=u[:, None], F=y[:, None])
    assert call("identify", table, "--inputs", "1", "--outputs", "1", *SMALL, "--model", model).exit_code == 0
    assert call("simulate", model, table).stdout == call("simulate", model, record, "--inputs", "u").stdout
    (tmp_path / "notes.pdf").write_text("no table")
    assert "It is none" in str(call("simulate", model, tmp_path / "notes.pdf").exception)


def test_a_record_is_cut_at_its_gaps_and_a_simulation_needs_all_inputs(record, tmp_path):
    model, lines = tmp_path / "m.safetensors", record.read_text().splitlines()
    lines[101] = "," + lines[101].split(",")[1]
    lines[202] = lines[202].split(",")[0] + ",NaN"
    record.write_text("\n".join(lines))
    for options in (("--narx",), SMALL[:4], SMALL[:-1]):
        out = call("identify", record, "--inputs", "u", "--outputs", "y", *options, "--model", model)
        assert out.exit_code == 0, out.output
        told = "Gaps: 2 of 300 samples have NaN or infinity. The fit uses 3 pieces without gaps, 298 samples in all."
        assert out.output.count(told) == 1 and re.search(r"fit (100|99\.\d+) % on this record", out.output)
    out = call("simulate", model, record, "--inputs", "u")
    assert out.exit_code != 0
    assert "line 102" in str(out.exception) and "fill the gap, or cut the record there" in str(out.exception)


def test_the_page_of_a_run_begins_with_as_many_outputs_as_asked(record, tmp_path):
    model, page = tmp_path / "m.safetensors", tmp_path / "page.html"
    columns = ("--inputs", "u", "--outputs", "y")
    assert call("identify", record, *columns, *SMALL, "--model", model).exit_code == 0
    out = call("simulate", model, record, *columns, "--n-init", 20, "--report", page)
    assert out.exit_code == 0, out.output
    assert "found from the first 20 outputs" in page.read_text(encoding="utf-8")
    out = call("simulate", model, record, *columns, "--n-init", 299, "--report", page)
    assert out.exit_code == 2 and "must leave at least two outputs for the page to score. Got 299, and" in out.output
    assert "y_hat" not in out.output
    out = call("simulate", model, record, *columns, "--n-init", 1, "--report", page)
    assert "found from the first output, which does not count" in page.read_text(encoding="utf-8")


def test_a_matlab_function_has_the_name_of_its_file(record, tmp_path):
    model = tmp_path / "my-model.safetensors"
    assert call("identify", record, "--inputs", "u", "--outputs", "y", *SMALL, "--model", model).exit_code == 0
    assert call("export", model, "--format", "matlab").exit_code == 0
    assert "function [state, y] = my_model(state, u)" in (tmp_path / "my_model.m").read_text()
    out = call("export", model, "--format", "matlab", "--to", tmp_path / "my-pump.m")
    assert out.exit_code == 2
    assert "must have the name of a function" in out.output


def test_outputs_that_a_model_is_given_are_not_scored(record, tmp_path):
    model, first = tmp_path / "n.safetensors", tmp_path / "first.csv"
    assert call("identify", record, "--inputs", "u", "--outputs", "y", "--narx", "--model", model).exit_code == 0
    first.write_text("".join(record.read_text().splitlines(keepends=True)[:51]))
    run = ("simulate", model, first, "--inputs", "u", "--outputs", "y", "--to", tmp_path / "out.csv")
    assert "Fit (%)" in call(*run).output  # a quarter is given
    for n_init, told in ((49, "49 of 50 outputs"), (50, "50 of 50 outputs"), (99, "50 of 50 outputs")):
        out = call(*run, "--n-init", n_init)
        assert out.exit_code == 0 and f"No fit: the model begins with {told}" in out.output
        assert len((tmp_path / "out.csv").read_text().splitlines()) == 51


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--oversample", "2"), "leave --oversample out"),
        (("--states", "2"), "leave --states out"),
        (("--functions", "tanh"), "cubics only"),
    ],
)
def test_options_of_state_space_models_are_not_ignored_by_narx(record, option, told):
    out = call("identify", record, "--inputs", "u", "--outputs", "y", "--narx", *option)
    assert out.exit_code == 2
    assert told in out.output


def test_outputs_are_taken_in_the_order_of_the_model(tmp_path):
    rng = np.random.default_rng(0)
    u, y = rng.uniform(-1, 1, 200), np.zeros((200, 2))
    for t in range(1, 200):
        y[t] = [0.5 * y[t - 1, 0] + u[t - 1], 0.8 * y[t - 1, 1] - u[t - 1] ** 3]
    file, model = tmp_path / "two.csv", tmp_path / "m.safetensors"
    np.savetxt(file, np.column_stack([u, y]), delimiter=",", header="u,a,b", comments="")
    asked = ("--inputs", "u", "--outputs", "a,b", "--states", "2", "--functions", "cubic", "--n-starts", "1")
    assert call("identify", file, *asked, "--model", model).exit_code == 0
    texts = [call("simulate", model, file, "--outputs", order).stdout for order in ("a,b", "b,a")]
    assert texts[0] == texts[1] and texts[0].startswith("a_hat,b_hat")


def test_a_map_without_memory_is_not_simulated(record, tmp_path):
    import decouply as dc

    dc.systems.f1().save(tmp_path / "map.safetensors")
    out = call("simulate", tmp_path / "map.safetensors", record)
    assert out.exit_code == 1
    assert "decouply predict" in str(out.exception)
