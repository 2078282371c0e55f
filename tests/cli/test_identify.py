"""`decouple identify` and `decouple simulate`."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from decoupling.cli._main import decouple


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
    return CliRunner().invoke(decouple, [str(a) for a in arguments])


def test_a_record_becomes_a_model_a_page_and_a_simulation(record, tmp_path):
    model, page = tmp_path / "m.safetensors", tmp_path / "page.html"
    options = ("--input", "u", "--output", "y", "--states", 1, "--functions", "cubic", "--n-starts", 1)
    out = call("identify", record, *options, "--model", model, "--report", page, "--json", "--quiet")
    assert out.exit_code == 0, out.output
    found = json.loads(out.output)
    assert found["rmse"][0] < 1e-6 < found["linear_rmse"][0]
    assert "Identified model" in page.read_text(encoding="utf-8")
    out = call("simulate", model, record, "--input", "u", "--output", "y", "--to", tmp_path / "out.csv")
    assert out.exit_code == 0, out.output
    simulated = np.loadtxt(tmp_path / "out.csv", skiprows=1)
    np.testing.assert_allclose(simulated, np.loadtxt(record, delimiter=",", skiprows=1)[:, 1], atol=1e-6)
    alone = tmp_path / "u.csv"
    np.savetxt(alone, np.zeros(5), header="u", comments="")
    out = call("simulate", model, alone, "--input", "u")
    assert out.exit_code == 0, out.output
    assert out.output.splitlines()[0] == "y_hat"
    assert len(out.output.splitlines()) == 6


def test_wrong_options_are_named(record):
    out = call("identify", record, "--input", "u", "--output", "y", "--functions", "cubic,magic")
    assert out.exit_code == 2
    assert "'magic' is not one of" in out.output
    out = call("identify", record, "--input", "u", "--output", "y", "--narx", "--states", 2)
    assert out.exit_code == 2
    assert "leave --states out" in out.output


def test_columns_keep_their_names_and_are_found_by_them(record, tmp_path):
    table, model = tmp_path / "named.csv", tmp_path / "m.safetensors"
    table.write_text(record.read_text().replace("u,y", "valve,level"))
    options = ("--input", "valve", "--output", "level", "--states", 1, "--functions", "spline", "--n-starts", 1)
    out = call("identify", table, *options, "--model", model)
    assert out.exit_code == 0, out.output
    assert "The error of the free run is" in out.output
    assert "level =" in out.output
    page = tmp_path / "run.html"
    out = call("simulate", model, table, "--output", "level", "--to", tmp_path / "out.csv", "--report", page)
    assert out.exit_code == 0, out.output
    assert "error of level (RMSE)" in page.read_text(encoding="utf-8")
    out = call("simulate", model, table)
    assert out.exit_code == 0, out.output
    assert out.output.splitlines()[0] == "level_hat"
    out = call("simulate", model, table, "--report", page)
    assert out.exit_code == 2
    assert "name them by --output" in out.output


def test_a_narx_model_is_identified_simulated_and_shown(record, tmp_path):
    model, page, run = (tmp_path / name for name in ("n.safetensors", "page.html", "run.html"))
    out = call("identify", record, "--input", "u", "--output", "y", "--narx", "--model", model, "--report", page)
    assert out.exit_code == 0, out.output
    text = page.read_text(encoding="utf-8")
    assert "a linear model with 1 past inputs and 2 past outputs" in text
    assert "Poles of the linear part" in text
    out = call("simulate", model, record, "--output", "y", "--to", tmp_path / "out.csv", "--report", run)
    assert out.exit_code == 0, out.output
    simulated = np.loadtxt(tmp_path / "out.csv", skiprows=1)
    np.testing.assert_allclose(simulated, np.loadtxt(record, delimiter=",", skiprows=1)[:, 1], atol=0.05)
    assert run.exists()
    out = call("simulate", model, record)
    assert out.exit_code == 2
    assert "begins with measured outputs" in out.output


def test_a_map_without_memory_is_not_simulated(record, tmp_path):
    import decoupling as dc

    dc.systems.f1().save(tmp_path / "map.safetensors")
    out = call("simulate", tmp_path / "map.safetensors", record)
    assert out.exit_code == 1
    assert "decouple predict" in str(out.exception)
