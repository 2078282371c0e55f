"""The experiments as a person runs them, runs that are resumed, and tables that follow from stored numbers."""

import dataclasses
import json
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner

import decouply as dc
from decouply.report._style import new_figure
from experiments import code_version
from experiments.__main__ import declarations, experiments, stale_results, stored_results
from experiments.__main__ import experiment as experiment_called
from experiments.code_version import what_changed
from experiments.harness import Experiment, Option, column, markdown, matching, run_all
from experiments.paper import table1
from experiments.solver import recovery
from tests.cli import run_here


def experiment(line, cwd):
    return run_here(line.split(), cwd, experiments)


def test_the_list_of_experiments_needs_none_of_their_imports(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "experiments", "--help"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0 and all(name in done.stdout for name in declarations())
    code = "import sys; from experiments.__main__ import declarations; declarations(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("name", declarations())
def test_every_experiment_is_declared_in_one_file_and_has_help(name):
    if declarations()[name][0].split(".")[1] == "networks" or name in ("mnist", "fashion"):
        pytest.importorskip("torch")
    one = experiment_called(name)
    assert (one.name, one.about) == (name, declarations()[name][1])
    out = CliRunner().invoke(experiments, [name, "--help"])
    assert out.exit_code == 0 and f"{name}-runs.jsonl" in out.output and ("--quick" in out.output) == bool(one.quick)


@pytest.mark.parametrize("name", stored_results())
def test_tables_in_the_documentation_are_made_from_the_stored_numbers(name):
    """`python -m experiments pages` writes them again."""
    if declarations()[name][0].split(".")[1] == "networks" or name in ("mnist", "fashion"):
        pytest.importorskip("torch")
    path = stored_results()[name]
    content = json.loads(path.read_text(encoding="utf-8"))
    assert path.with_suffix(".md").read_text(encoding="utf-8") == experiment_called(name).table(content) + "\n"


# The code that made them


def test_a_result_knows_the_rooms_whose_code_has_changed(tmp_path, monkeypatch):
    for room in (*code_version._EVERY_FIT, "nn"):
        file = tmp_path / room if room.endswith(".py") else tmp_path / room / "_a.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text('def f():\n    """Two."""\n    return 2\n')
    monkeypatch.setattr(code_version, "_PACKAGE", tmp_path)
    monkeypatch.setattr(code_version, "_digest", code_version._digest.__wrapped__)
    solver, network = "experiments.solver.units", "experiments.paper.network_compression"
    made_by = {module: code_version.code_version(module) for module in (solver, network)}
    assert what_changed(None, solver) and "nn" in made_by[network] and "nn" not in made_by[solver]
    (tmp_path / "nn" / "_a.py").write_text('def f():\n\n    """Three."""\n    return 2  # so far\n')
    (tmp_path / "fit" / "_a.py").write_text('def f():\n    """Two."""\n    return 3\n')
    assert [what_changed(made_by[module], module) for module in (solver, network)] == ["fit", "fit"]
    (tmp_path / "nn" / "_b.py").write_text("")
    assert [what_changed(made_by[module], module) for module in (solver, network)] == ["fit", "fit, nn"]


def test_stored_results_are_compared_with_the_present_code(monkeypatch, tmp_path):
    content = CUBES.run(tmp_path, seed=1)
    assert content["code"] == code_version.code_version(__name__) and not what_changed(content["code"], __name__)
    first, *others = CUBES.store(tmp_path).read_text().splitlines()
    older = json.loads(first)
    older["code"]["fit"] = "other"
    CUBES.store(tmp_path).write_text("\n".join([json.dumps(older), *others]))
    assert what_changed(CUBES.run(tmp_path, seed=1)["code"], __name__) == "fit"
    changed = {name: reason for name, reason in stale_results().items() if reason}
    assert changed.keys() <= stored_results().keys()
    if changed:
        pytest.skip(
            f"stored results that other code made: {', '.join(changed)}; `python -m experiments stale` says more"
        )


# Runs


def square(number):
    return {"value": number**2}


def refuse(number):
    raise AssertionError("run again")


def test_finished_runs_are_kept_and_broken_lines_run_again(tmp_path):
    store = tmp_path / "runs.jsonl"
    tasks = [{"number": i} for i in range(4)]
    seen = []
    found = run_all(tasks, square, store=store, n_jobs=1, progress=lambda **values: seen.append(values["done"]))
    assert [outcome["value"] for outcome in found] == [0, 1, 4, 9] and seen == [0, 1, 2, 3, 4]
    assert run_all(tasks, refuse, store=store, n_jobs=1) == found
    lines = store.read_text().splitlines()
    empty = json.dumps({"task": {"number": 2, "version": dc.__version__}, "outcome": {}})
    store.write_text("\n".join([*lines[:2], "not json", empty, lines[3][:10]]))
    assert run_all(tasks, square, store=store, n_jobs=1) == found
    assert run_all(tasks, refuse, store=store, n_jobs=1) == found
    with pytest.raises(AssertionError, match="run again"):
        run_all([{"number": 9}], refuse, store=store, n_jobs=1)


def cube(number, seed, folder):
    return {"value": (seed + number) ** 3 if number else np.inf, "folder": folder}


CUBES = Experiment(
    "cubes",
    "Third powers.",
    lambda *, seed, n_runs: [{"number": i, "seed": seed} for i in range(n_runs)],
    cube,
    lambda content: markdown(["value"], [[f"{value:g}"] for value in column(content["runs"], "value")]),
    lambda content: new_figure(2.0, 2.0),
    options=(Option("n_runs", 3, "Numbers."),),
    quick={"n_runs": 1},
    begin=lambda *, folder, seed, **_: {"begun": seed},
)


def test_an_experiment_is_tasks_work_table_and_figure(tmp_path):
    content = CUBES.run(tmp_path, seed=1)
    assert {key: content[key] for key in ("n_runs", "seed", "begun")} == {"n_runs": 3, "seed": 1, "begun": 1}
    runs = content["runs"]
    assert [(run["number"], run["value"]) for run in runs] == [(0, None), (1, 8), (2, 27)]
    assert runs[0]["folder"] == str(tmp_path) and matching(runs, number=2) == runs[2:]
    CUBES.write(content, tmp_path)
    assert (tmp_path / "cubes.md").read_text() == "| value |\n|---|\n| inf |\n| 8 |\n| 27 |\n"
    assert json.loads((tmp_path / "cubes.json").read_text()) == content
    assert (tmp_path / "cubes.png").read_bytes().startswith(b"\x89PNG")
    assert len(CUBES.store(tmp_path).read_text().splitlines()) == 3


def test_quick_has_sizes_of_its_own(tmp_path):
    out = CliRunner().invoke(CUBES.command(), ["--quick", "--jobs", "1", "--directory", str(tmp_path), "--json"])
    assert json.loads(out.stdout)["n_runs"] == 1
    refused = CliRunner().invoke(CUBES.command(), ["--quick", "--runs", "2"])
    assert refused.exit_code == 2 and "leave --runs out" in refused.output


# Commands


def test_table1_in_small(tmp_path, monkeypatch):
    monkeypatch.setattr(table1, "Stopping", partial(dc.solvers.Stopping, max_steps=30))
    done = experiment("table1 --runs 2 --starts 2 --jobs 1 --directory out --json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert len(content["cells"]) == 3 * 2 * (4 + 5 + 5)
    assert all(len(cell["runs"]) == 2 for cell in content["cells"])
    assert json.loads((tmp_path / "out/table1.json").read_text())["seed"] == 0
    assert "| f3 | CONSTR | e_3 (%) | 0.979 / **1.03** / 0.48 |" in (tmp_path / "out/table1.md").read_text()
    assert (tmp_path / "out/table1.png").read_bytes().startswith(b"\x89PNG")
    stored = (tmp_path / "out/table1-runs.jsonl").read_text()
    assert len(stored.splitlines()) == 2 * 3 * 2 * 3
    again = experiment("table1 --runs 2 --starts 2 --jobs 1 --directory out --json", cwd=tmp_path)
    assert json.loads(again.stdout) == content and (tmp_path / "out/table1-runs.jsonl").read_text() == stored


def test_recovery_is_tried_in_a_small_way(tmp_path, monkeypatch):
    quick = "f1", "f2", "f2, values only"
    monkeypatch.setattr(recovery, "CASES", [case for case in recovery.CASES if case.name in quick])
    done = experiment("recovery --runs 1 --jobs 1 --no-noise --directory out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "out/recovery.json").read_text())
    assert {run["case"]: run["worst_error"] <= 1e-6 for run in content["recovery"]} == dict.fromkeys(quick, True)
    assert "| f1 | 30 | **1 of 1** |" in done.stdout
    assert (tmp_path / "out/recovery.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("table2", "No such command"),
        ("benchmarks --quick --only Silverbox", "leave --only out"),
        ("vision-transformer --quick --runs 5", "leave --runs out"),
        ("mnist --only GELU", "No such option"),
        ("table1 --runs 1 --directory a-file", "must be a directory"),
    ],
)
def test_mistakes_give_one_message_and_exit_code_2(line, message, tmp_path):
    (tmp_path / "a-file").write_text("")
    done = experiment(line, cwd=tmp_path)
    assert done.returncode == 2 and message in " ".join(done.stderr.split()) and "Traceback" not in done.stderr


def test_an_experiment_that_cannot_be_written_is_not_begun(tmp_path):
    (tmp_path / "cubes.png").mkdir()
    with pytest.raises(dc.InputError, match=r"cubes.png"):
        CUBES.command().main(["--directory", str(tmp_path)], standalone_mode=False)
    assert not CUBES.store(tmp_path).exists()


def test_experiments_say_how_many_runs_are_done_where_there_is_no_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("decouply._support._progress._QUIET_SECONDS", 0.01)
    monkeypatch.setattr("decouply._support._progress._BETWEEN_LINES", (0.01, 0.01))
    shown, patience = "", time.monotonic() + 60.0

    def run(*_, progress, **__):
        nonlocal shown
        progress(done=2, total=9)
        while "2 of 9" not in shown and time.monotonic() < patience:
            shown += capsys.readouterr().err
            time.sleep(0.01)
        raise dc.InputError("enough")

    monkeypatch.setattr("experiments.harness.run_all", run)
    with pytest.raises(dc.InputError, match="enough"):
        CUBES.command().main(["--directory", str(tmp_path)], standalone_mode=False)
    assert "cubes, 2 of 9 (" in shown


def test_the_papers_experiments_run_in_turn_and_say_what_is_left_out(tmp_path, monkeypatch):
    def missing(**_):
        raise dc.DataError("`x.mat` is missing.")

    asked = []

    def one(name):
        asked.append(name)
        return dataclasses.replace(CUBES, name=name, begin=missing) if name == "silverbox" else CUBES

    monkeypatch.setattr("experiments.__main__.experiment", one)
    out = CliRunner().invoke(experiments, ["paper", "--quick", "--jobs", "1", "--directory", str(tmp_path)])
    assert out.exit_code == 0, out.output
    assert sorted(asked) == ["fashion", "mnist", "silverbox", "table1"] and asked[0] == "table1"
    assert "silverbox is left out, since something that it needs is not there. `x.mat` is missing." in out.output
    assert out.output.count("| value |") == 3


def test_silverbox_on_the_command_line_tells_where_the_data_should_be(tmp_path, monkeypatch):
    monkeypatch.setenv("DECOUPLY_DATA", str(tmp_path))
    (tmp_path / "silverbox").mkdir()
    (tmp_path / "silverbox" / "SNLS80mV.mat").write_bytes(b"cut short")
    done = experiment("silverbox --quick", cwd=tmp_path)
    assert done.returncode == 2 and "delete it to download it again" in done.stderr and "Traceback" not in done.stderr
